// The timeline: the whole chat above, the brushed part below, the cursor through all of it. Numbers at the cursor are the legend.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { place } from "./address.js";
import { drawChart, topOf } from "./chart.js";
import { box, cursor, divergence, end, info, isReady, mark, moveTo } from "./chat.js";
import { CATEGORIES } from "./columns.js";
import { grouped, percent, rounded, short } from "./format.js";
import { Band, Chips, Compactions, Marks } from "./timeline_marks.js";
import { Overview } from "./overview.js";
import { TimelineTable } from "./timeline_table.js";
import { Tip, pointed } from "./timeline_tip.js";
import { WhyLane } from "./why_lane.js";
import { axis, brush } from "./screen.js";
import { scaleOf } from "./scale.js";
import { theme } from "./theme.js";

export function Timeline() {
  const columns = box.value?.columns;
  if (!columns || !isReady.value) return html`<section class="timeline" aria-label="Timeline"><${Reading} /></section>`;
  return html`<section class=${`timeline ${place.value.why ? "with-why" : ""}`} aria-label="Timeline">
    <${Plot} columns=${columns} /><${Readout} columns=${columns} /><${TimelineTable} />
  </section>`;
}

function Reading() {
  const done = box.value?.columns.count ?? 0;
  if (!info.value) return null;
  return html`<div class="reading" role="status">
    <div class="reading-bars">${Array.from({ length: 60 }, (_, i) => html`<i class=${i / 60 < done / Math.max(1, end.value) ? "done" : ""}></i>`)}</div>
    <p>Reading ${grouped(end.value)} events <span class="faint">${percent(done, Math.max(1, end.value))}</span></p>
  </div>`;
}

/** @param {{columns: import("./columns.js").Columns}} props */
function Plot({ columns }) {
  const plot = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const node = plot.current;
    if (!node) return undefined;
    const watch = new ResizeObserver(() => setWidth(node.clientWidth));
    watch.observe(node);
    setWidth(node.clientWidth);
    return () => watch.disconnect();
  }, []);
  const scale = scaleOf(columns, axis.value, brush.value);
  const limit = info.value?.limit ?? 0;
  const most = topOf(columns, limit);
  return html`<div class="plot-area">
    <${Axis} most=${most} limit=${limit} count=${columns.count} />
    <div class="plot" ref=${plot}>
      <${Overview} columns=${columns} width=${width} most=${most} />
      <${Zoom} columns=${columns} width=${width} scale=${scale} most=${most} limit=${limit} />
    </div>
  </div>`;
}

/** @param {{most: number, limit: number, count: number}} props */
function Axis({ most, limit, count }) {
  const isToLimit = limit > 0 && Math.abs(most - limit * 1.075) < 1;
  const top = isToLimit ? limit : most / 1.12;
  const next = axis.value === "events" ? "turns" : axis.value === "turns" ? "clock" : "events";
  return html`<div class="gutter">
    <span class="gutter-count">${count < 100_000 ? grouped(count) : short(count)}</span>
    ${[1, 0.5, 0].map((part) => html`<span class="gutter-tick" style=${{ top: `${67 + 114 - (114 * top * part) / most}px` }}>${rounded(Math.round(top * part))}</span>`)}
    <button class="gutter-axis" title=${`x: ${axis.value}. Click for ${next}`} onClick=${() => (axis.value = next)}>${axis.value}</button>
  </div>`;
}

/** @param {{columns: import("./columns.js").Columns, width: number, scale: import("./scale.js").Scale, most: number, limit: number}} props */
function Zoom({ columns, width, scale, most, limit }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const area = useRef(/** @type {HTMLDivElement | null} */ (null));
  useEffect(() => {
    if (canvas.current && width) drawChart(canvas.current, columns, scale, { most });
  }, [box.value, width, scale.from, scale.to, axis.value, theme.value, most]);
  usePointer(area, scale);
  const isToLimit = limit > 0 && Math.abs(most - limit * 1.075) < 1;
  return html`<div class="zoom" ref=${area}>
    <${Chips} columns=${columns} scale=${scale} width=${width} />
    <canvas class="chart" ref=${canvas} aria-hidden="true"></canvas>
    <div class="middle-line" style=${{ top: `${31 + 114 - (57 * (isToLimit ? limit : most / 1.12)) / most}px` }}></div>
    ${isToLimit && html`<div class="limit" style=${{ top: `${31 + 114 - (114 * limit) / most}px` }}><span>limit of <span class="said">${info.value?.model}</span></span></div>`}
    <${Compactions} columns=${columns} scale=${scale} width=${width} most=${most} />
    <${Band} columns=${columns} scale=${scale} width=${width} />
    <${Marks} columns=${columns} scale=${scale} width=${width} />
    ${place.value.why && html`<${WhyLane} scale=${scale} width=${width} />`}
    ${divergence.value > 0 && html`<${Diverged} x=${scale.x(divergence.value, width)} width=${width} />`}
    <${Moving} columns=${columns} scale=${scale} width=${width} />
    <${Tip} columns=${columns} scale=${scale} width=${width} />
  </div>`;
}

/** All that moves with the cursor. @param {{columns: import("./columns.js").Columns, scale: import("./scale.js").Scale, width: number}} props */
function Moving({ columns, scale, width }) {
  const x = Math.min(Math.max(scale.x(cursor.value, width), 0), width);
  return html`<div class="shade" style=${{ transform: `scaleX(${width ? 1 - x / width : 0})` }}></div>
    ${mark.value > 0 && html`<${MarkA} x=${scale.x(mark.value, width)} width=${width} cursorX=${x} />`}
    <${Slider} columns=${columns} x=${x} width=${width} />`;
}

/** @param {{x: number, width: number}} props */
function Diverged({ x, width }) {
  if (x > width) return null;
  const from = Math.max(0, x);
  return html`<div class="diverged" style=${{ transform: `translateX(${from}px)`, width: `${width - from}px` }}>
    <span class="diverged-text cut">First divergence at e${divergence.value}; not judged after it</span></div>`;
}

/** @param {{x: number, width: number, cursorX: number}} props */
function MarkA({ x, width, cursorX }) {
  if (x < 0 || x > width) return null;
  const aside = Math.abs(x - cursorX) < 30 ? (x <= cursorX ? -34 : 34) : 0;
  return html`<div class="mark-a" style=${{ transform: `translateX(${x}px)` }}><span class="badge hollow" style=${{ marginLeft: `${aside}px` }}>A</span></div>`;
}

/** @param {{columns: import("./columns.js").Columns, x: number, width: number}} props */
function Slider({ columns, x, width }) {
  const seq = cursor.value;
  const half = 24;
  const pill = Math.min(Math.max(x, half), Math.max(half, width - half)) - x;
  return html`<div class="cursor" style=${{ transform: `translateX(${x}px)` }} tabindex="0" role="slider" aria-label="Timeline"
      aria-valuemin="0" aria-valuemax=${columns.count} aria-valuenow=${seq} aria-valuetext=${sliderText(columns, seq)} onKeyDown=${sliderKey}>
    <span class="pill" style=${{ translate: `calc(-50% + ${pill}px) 0` }}>e${seq}</span></div>`;
}

/** @param {KeyboardEvent} event */
function sliderKey(event) {
  /** @type {Record<string, number>} */
  const to = { Home: 1, End: end.value, PageUp: cursor.value - 20, PageDown: cursor.value + 20 };
  if (!(event.key in to)) return;
  event.preventDefault();
  moveTo(to[event.key]);
}

/** @param {import("./columns.js").Columns} columns @param {number} seq */
export function sliderText(columns, seq) {
  const limit = info.value?.limit ?? 0;
  const next = columns.compactions().find((one) => one.seq > seq);
  const size = `${short(columns.total[seq] ?? 0)}${limit ? ` of ${rounded(limit)}` : ""} tokens`;
  return `event ${seq}, turn ${columns.turnOf(seq)}, ${size}${next ? `, next compaction in ${next.seq - seq} events` : ""}`;
}

/** Drags move the cursor; the wheel zooms at the pointer, or pans with Shift. @param {{current: HTMLElement | null}} area @param {import("./scale.js").Scale} scale */
function usePointer(area, scale) {
  const now = useRef(scale);
  now.current = scale;
  useEffect(() => {
    const node = area.current;
    if (!node) return undefined;
    let isDown = false, wanted = -1;
    let bounds = new DOMRect(); // asked for once a drag: it lays out the page
    const at = (/** @type {MouseEvent} */ event) => {
      return now.current.seq(Math.min(Math.max(event.clientX - bounds.left, 0), bounds.width), bounds.width);
    };
    const move = () => {
      if (wanted >= 0 && wanted !== cursor.value) moveTo(wanted, { step: true });
      wanted = -1;
    };
    const down = (/** @type {PointerEvent} */ event) => {
      if (event.button || /** @type {HTMLElement} */ (event.target).closest("button")) return;
      isDown = true;
      pointed.value = 0;
      bounds = node.getBoundingClientRect();
      node.setPointerCapture(event.pointerId);
      moveTo(at(event), { step: false });
      event.preventDefault();
    };
    const drag = (/** @type {PointerEvent} */ event) => {
      if (!isDown) {
        if (event.pointerType !== "touch") pointed.value = at(event);
        return;
      }
      if (wanted < 0) requestAnimationFrame(move);
      wanted = at(event);
    };
    const up = () => (isDown = false);
    const enter = () => (bounds = node.getBoundingClientRect());
    const leave = () => (pointed.value = 0);
    const wheel = (/** @type {WheelEvent} */ event) => {
      event.preventDefault();
      bounds = node.getBoundingClientRect();
      const by = Math.abs(event.deltaY) > Math.abs(event.deltaX) ? event.deltaY : event.deltaX;
      if (event.shiftKey) pan(Math.sign(by) * 0.12);
      else zoom(by > 0 ? 1.25 : 0.8, at(event));
    };
    const whole = () => (brush.value = null);
    node.addEventListener("pointerdown", down);
    node.addEventListener("pointermove", drag);
    node.addEventListener("pointerup", up);
    node.addEventListener("pointercancel", up);
    node.addEventListener("pointerenter", enter);
    node.addEventListener("pointerleave", leave);
    node.addEventListener("wheel", wheel, { passive: false });
    node.addEventListener("dblclick", whole);
    return () => {
      node.removeEventListener("pointerdown", down);
      node.removeEventListener("pointermove", drag);
      node.removeEventListener("pointerup", up);
      node.removeEventListener("pointercancel", up);
      node.removeEventListener("pointerenter", enter);
      node.removeEventListener("pointerleave", leave);
      node.removeEventListener("wheel", wheel);
      node.removeEventListener("dblclick", whole);
    };
  }, []);
}

/** @param {number} factor @param {number} [around] the entry that stays where it is */
export function zoom(factor, around = cursor.value) {
  const [from, to] = brush.value ?? [0, end.value];
  const span = Math.max(Math.min(10, end.value), (to - from) * factor);
  if (span >= end.value) {
    brush.value = null;
    return;
  }
  const share = (around - from) / Math.max(1, to - from);
  const start = Math.min(Math.max(0, around - share * span), end.value - span);
  brush.value = [start, start + span];
}

/** @param {number} share of what is in sight */
export function pan(share) {
  if (!brush.value) return;
  const [from, to] = brush.value;
  const start = Math.min(Math.max(0, from + share * (to - from)), end.value - (to - from));
  brush.value = [start, start + (to - from)];
}

/** @param {{columns: import("./columns.js").Columns}} props */
function Readout({ columns }) {
  const seq = cursor.value;
  const limit = info.value?.limit ?? 0;
  const total = columns.total[seq] ?? 0;
  return html`<div class="readout">
    <p class="readout-total"><b>${short(total)}</b> <span class="quiet">${limit ? `of ${rounded(limit)} · ${percent(total, limit)}` : "tokens"}</span></p>
    <dl>${[...CATEGORIES].reverse().map((name) => {
      const tokens = columns.parts[CATEGORIES.indexOf(name)][seq] ?? 0;
      return html`<div class=${tokens ? "" : "none"}><dt><i class=${`f-${name}`}></i>${name}</dt><dd>${tokens ? short(tokens) : "–"}</dd></div>`;
    })}</dl>
  </div>`;
}
