// Lifetimes: a row for each item that the model saw at some time, in the order they came. Compactions look like cliffs.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { go } from "./address.js";
import { box, cursor, info, moveTo } from "./chat.js";
import { CATEGORIES } from "./columns.js";
import { ModeSwitch } from "./mode_switch.js";
import { counted, short } from "./format.js";
import { arrived, lineOf } from "./lines.js";
import { KindSign, Sign } from "./signs.js";
import { oneLine } from "./text.js";
import { colour, theme } from "./theme.js";

/** @param {{columns: import("./columns.js").Columns}} props */
export function Lifetimes({ columns }) {
  void arrived.value;
  const items = useMemo(() => itemsOf(columns), [box.value]);
  const area = useRef(/** @type {HTMLDivElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [at, setAt] = useState(-1);
  const [box_, setBox] = useState({ width: 0, height: 0 });
  useEffect(() => {
    const node = area.current;
    if (!node) return undefined;
    const watch = new ResizeObserver(() => setBox({ width: node.clientWidth, height: node.clientHeight }));
    watch.observe(node);
    return () => watch.disconnect();
  }, []);
  const pitch = Math.min(6, Math.max(box_.height / Math.max(1, items.length), items.length > box_.height ? 0 : 2));
  const x = (/** @type {number} */ seq) => (seq / Math.max(1, columns.count)) * box_.width;
  useEffect(() => {
    if (canvas.current && box_.width) draw(canvas.current, columns, items, pitch, x);
  }, [items, box_.width, box_.height, theme.value]);
  const choose = (/** @type {number} */ index) => setAt(Math.min(items.length - 1, Math.max(-1, index)));
  const chosen = items[at];
  const move = (/** @type {MouseEvent} */ event) => {
    const bounds = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    choose(Math.floor((event.clientY - bounds.top) / pitch));
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") choose(at + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Enter" && chosen) go({ why: `e${chosen.seq}` });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const turns = columns.turns.length <= 60 ? columns.turns : [];
  return html`<div class="lifetimes">
    <div class="pane-head"><h2>Lifetimes</h2><span class="quiet">${counted(items.length, "item")} that the model saw at some time. A row each, in the order they came.</span><span class="grow"></span><${ModeSwitch} /></div>
    <div class="lifetimes-turns">${turns.map((seq, i) => (i && x(seq) - x(turns[i - 1]) < 20 ? null : html`<span class="mono" style=${{ left: `${x(seq)}px` }}>t${i + 1}</span>`))}</div>
    <div class="lifetimes-area" ref=${area} tabindex="0" role="application" aria-label="Items by life: up and down choose one, Enter shows why" onMouseMove=${move} onMouseLeave=${() => choose(-1)} onKeyDown=${key}
      onClick=${() => chosen && go({ why: `e${chosen.seq}` })}>
      ${turns.map((seq) => html`<i class="turn-line" style=${{ left: `${x(seq)}px` }}></i>`)}
      <canvas ref=${canvas} aria-hidden="true"></canvas>
      <i class="shade" style=${{ left: `${x(cursor.value)}px` }}></i>
      ${columns.compactions().slice(0, 60).map((one) => html`<i class="cliff" style=${{ left: `${x(one.seq)}px` }}><button onClick=${(/** @type {Event} */ event) => { event.stopPropagation(); moveTo(one.seq, { tab: "diff", a: "" }); }}>${one.name}, ${ends(items, one.seq)} end <${Sign} name="compacted" /></button></i>`)}
      <i class="cursor-line" style=${{ left: `${x(cursor.value)}px` }}></i>
      ${chosen && html`<${Tip} columns=${columns} item=${chosen} top=${at * pitch} left=${x(chosen.to)} width=${box_.width} height=${box_.height} />`}
    </div></div>`;
}

/** @typedef {{seq: number, from: number, to: number, left: number, lives: {from: number, to: number, left: number}[], category: number}} Life */

/** @param {import("./columns.js").Columns} columns @returns {Life[]} */
function itemsOf(columns) {
  /** @type {Map<number, Life>} */
  const found = new Map();
  for (const stay of columns.stays()) {
    for (let seq = stay.first; seq <= stay.last; seq++) {
      if (!columns.tokens[seq - 1] || (columns.what(seq) === "compacted") !== stay.isSummary) continue;
      const one = { from: stay.entered || seq, to: stay.left || columns.count, left: stay.left };
      const known = found.get(seq);
      if (known) {
        known.lives.push(one);
        known.from = Math.min(known.from, one.from);
        if (one.to >= known.to) [known.to, known.left] = [one.to, one.left];
      } else found.set(seq, { seq, ...one, lives: [one], category: columns.category(seq) });
    }
  }
  return [...found.values()].sort((one, other) => one.from - other.from || one.seq - other.seq);
}

/** @param {Life[]} items @param {number} seq */
const ends = (items, seq) => counted(items.filter((one) => one.lives.some((life) => life.left === seq)).length, "item");

/** @param {HTMLCanvasElement} canvas @param {import("./columns.js").Columns} columns @param {Life[]} items @param {number} pitch @param {(seq: number) => number} x */
function draw(canvas, columns, items, pitch, x) {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  const fills = CATEGORIES.map((name) => colour(`--fill-${name}`));
  const step = Math.max(1, Math.floor(0.5 / Math.max(pitch, 0.01)));
  for (let i = 0; i < items.length; i += step) {
    const one = items[i];
    pen.fillStyle = fills[one.category];
    for (const life of one.lives) pen.fillRect(x(life.from), i * pitch, Math.max(1, x(life.to) - x(life.from)), Math.max(0.6, pitch > 3 ? pitch - 1.5 : pitch - 0.5));
  }
}

/** @param {{columns: import("./columns.js").Columns, item: Life, top: number, left: number, width: number, height: number}} props */
function Tip({ columns, item, top, left, width, height }) {
  const line = lineOf(info.value?.key ?? "", item.seq);
  const mark = columns.sight?.controls.find((one) => one.seq === item.left);
  const name = CATEGORIES[item.category];
  return html`<div class="tip" role="status" style=${{ top: `${Math.min(top + 8, Math.max(0, height - 130))}px`, left: `${Math.min(left + 16, Math.max(0, width - 340))}px` }}>
    <p class="tip-head"><span class=${`k-${name}`}><${KindSign} name=${name} isCall=${columns.what(item.seq) === "call"} /> ${name}</span><span class="quiet">${short(columns.tokens[item.seq - 1])}</span></p>
    <p class="said">${oneLine([line?.head, line?.text].filter(Boolean).join(" ") || "…")}</p>
    <p class="quiet">e${item.from} to e${item.to}, ${item.left ? `left at ${mark?.name || `e${item.left}`}` : "still there"}. Enter shows why.</p></div>`;
}
