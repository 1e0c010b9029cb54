// The overview: the whole chat, and the part of it that is brushed.
import { html, useEffect, useRef } from "./vendor/preact.js";
import { drawChart } from "./chart.js";
import { box, cursor, end } from "./chat.js";
import { axis, brush } from "./screen.js";
import { scaleOf } from "./scale.js";
import { theme } from "./theme.js";

/** @param {{columns: import("./columns.js").Columns, width: number, most: number}} props */
export function Overview({ columns, width, most }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const area = useRef(/** @type {HTMLDivElement | null} */ (null));
  const scale = scaleOf(columns, axis.value, null);
  useEffect(() => {
    if (canvas.current && width) drawChart(canvas.current, columns, scale, { most, gap: false });
  }, [box.value, width, axis.value, theme.value, most]);
  useBrush(area, columns);
  const [from, to] = brush.value ?? [0, Math.max(1, columns.count)];
  const left = scale.x(from, width), right = scale.x(to, width);
  return html`<div class="overview" ref=${area}>
    <canvas ref=${canvas} aria-hidden="true"></canvas>
    <div class="outside" style=${{ width: `${left}px` }}></div>
    <div class="outside right" style=${{ transform: `translateX(${right}px)`, width: `${Math.max(0, width - right)}px` }}></div>
    <${Cursor} scale=${scale} width=${width} />
    <div class="brush" style=${{ transform: `translateX(${left}px)`, width: `${Math.max(8, right - left)}px` }} tabindex="0" role="slider"
      aria-label="Part in sight" aria-valuemin="0" aria-valuemax=${columns.count} aria-valuenow=${Math.round(from)}
      aria-valuetext=${`events ${Math.round(from)} to ${Math.round(to)} of ${columns.count}`}><i></i><i></i></div>
  </div>`;
}

/** @param {{scale: import("./scale.js").Scale, width: number}} props */
function Cursor({ scale, width }) {
  return html`<div class="overview-cursor" style=${{ transform: `translateX(${scale.x(cursor.value, width)}px)` }}></div>`;
}

/** @param {{current: HTMLElement | null}} area @param {import("./columns.js").Columns} columns */
function useBrush(area, columns) {
  const now = useRef(columns);
  now.current = columns;
  useEffect(() => {
    const node = area.current;
    if (!node) return undefined;
    /** @type {{side: string, start: number, from: number, to: number} | null} */
    let held = null;
    const at = (/** @type {PointerEvent} */ event) => {
      const bounds = node.getBoundingClientRect();
      const share = Math.min(Math.max((event.clientX - bounds.left) / bounds.width, 0), 1);
      return scaleOf(now.current, axis.value, null).seq(share, 1);
    };
    const down = (/** @type {PointerEvent} */ event) => {
      const [from, to] = brush.value ?? [0, end.value];
      const bounds = node.getBoundingClientRect();
      const scale = scaleOf(now.current, axis.value, null);
      const x = event.clientX - bounds.left;
      const near = (/** @type {number} */ seq) => Math.abs(scale.x(seq, bounds.width) - x) <= 12;
      const seq = at(event);
      const side = near(from) ? "from" : near(to) ? "to" : seq > from && seq < to && brush.value ? "all" : "new";
      held = { side, start: seq, from, to };
      node.setPointerCapture(event.pointerId);
      event.preventDefault();
    };
    const drag = (/** @type {PointerEvent} */ event) => {
      if (!held) return;
      const seq = at(event), least = Math.min(10, end.value);
      if (held.side === "from") brush.value = [Math.min(seq, held.to - least), held.to];
      else if (held.side === "to") brush.value = [held.from, Math.max(seq, held.from + least)];
      else if (held.side === "all") {
        const start = Math.min(Math.max(0, held.from + seq - held.start), end.value - (held.to - held.from));
        brush.value = [start, start + held.to - held.from];
      } else if (Math.abs(seq - held.start) >= least) brush.value = [Math.min(seq, held.start), Math.max(seq, held.start)];
      if (brush.value && brush.value[0] <= 0 && brush.value[1] >= end.value) brush.value = null;
    };
    const up = () => (held = null);
    const whole = () => (brush.value = null);
    node.addEventListener("pointerdown", down);
    node.addEventListener("pointermove", drag);
    node.addEventListener("pointerup", up);
    node.addEventListener("dblclick", whole);
    return () => {
      node.removeEventListener("pointerdown", down);
      node.removeEventListener("pointermove", drag);
      node.removeEventListener("pointerup", up);
      node.removeEventListener("dblclick", whole);
    };
  }, []);
}
