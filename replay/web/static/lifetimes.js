// Lifetimes: a row for each item that the model saw at some time, in the order they came. Compactions look like cliffs.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { go } from "./address.js";
import { box, cursor, info, moveTo } from "./chat.js";
import { CATEGORIES, upto } from "./columns.js";
import { ModeSwitch } from "./mode_switch.js";
import { counted, grouped, short } from "./format.js";
import { arrived, lineOf } from "./lines.js";
import { KindSign, Sign } from "./signs.js";
import { oneLine } from "./text.js";
import { colour, theme } from "./theme.js";

const LEAST = 2, MOST = 6; // pixels of a row
const LABEL = 130; // pixels that the words at a cliff take

/** @param {{columns: import("./columns.js").Columns}} props */
export function Lifetimes({ columns }) {
  void arrived.value;
  const items = useMemo(() => itemsOf(columns), [box.value]);
  const came = useMemo(() => items.map((one) => one.from), [items]);
  const area = useRef(/** @type {HTMLDivElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [at, setAt] = useState(-1);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [moved, setMoved] = useState(-1); // the first row, if it is not the one that the cursor says
  useEffect(() => {
    const node = area.current;
    if (!node) return undefined;
    const watch = new ResizeObserver(() => setSize({ width: node.clientWidth, height: node.clientHeight }));
    watch.observe(node);
    return () => watch.disconnect();
  }, []);
  useEffect(() => setMoved(-1), [cursor.value]);
  const rows = Math.min(items.length, Math.max(1, Math.floor(size.height / LEAST)));
  const isPart = rows < items.length;
  const limit = (/** @type {number} */ index) => Math.min(items.length - rows, Math.max(0, index));
  const first = limit(moved < 0 ? upto(came, cursor.value) - (rows >> 1) : moved);
  const shown = items.slice(first, first + rows);
  const pitch = Math.min(MOST, size.height / Math.max(1, rows));
  const [low, high] = isPart ? spanOf(shown) : [0, columns.count];
  const isHere = (/** @type {number} */ seq) => seq >= low && seq <= high;
  const x = (/** @type {number} */ seq) => (size.width * (Math.min(high, Math.max(low, seq)) - low)) / Math.max(1, high - low);
  useEffect(() => {
    if (canvas.current && size.width) draw(canvas.current, shown, pitch, x);
  }, [items, first, size.width, size.height, theme.value]);
  const choose = (/** @type {number} */ index) => {
    const to = Math.min(items.length - 1, Math.max(-1, index));
    setAt(to);
    if (to >= 0 && (to < first || to >= first + rows)) setMoved(limit(to - (rows >> 1)));
  };
  const chosen = items[at];
  const move = (/** @type {MouseEvent} */ event) => {
    const bounds = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    const row = Math.floor((event.clientY - bounds.top) / pitch);
    setAt(row < rows ? first + row : -1);
  };
  const wheel = (/** @type {WheelEvent} */ event) => isPart && setMoved(limit(first + Math.sign(event.deltaY) * Math.ceil(rows / 8)));
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") choose(at < 0 ? first : at + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Enter" && chosen) go({ why: `e${chosen.seq}` });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const turns = columns.turns.slice(upto(columns.turns, low - 1), upto(columns.turns, high));
  const number = columns.turnOf(low - 1) + 1;
  return html`<div class="lifetimes">
    <div class="pane-head"><h2 class="nowrap">Lifetimes</h2><span class="quiet">${counted(items.length, "item")} that the model saw at some time. A row each, in the order they came.${isPart ? ` Here are ${grouped(first + 1)} to ${grouped(first + rows)}; the wheel shows others.` : ""}</span><span class="grow"></span><${ModeSwitch} /></div>
    <div class="lifetimes-turns">${turns.length <= 60 && turns.map((seq, i) => (i && x(seq) - x(turns[i - 1]) < 20 + 6 * String(number).length ? null : html`<span class="mono" style=${{ left: `${x(seq)}px` }}>t${number + i}</span>`))}</div>
    <div class="lifetimes-area" ref=${area} tabindex="0" role="application" aria-label="Items by life: up and down choose one, Enter shows why" onMouseMove=${move} onMouseLeave=${() => setAt(-1)} onWheel=${wheel} onKeyDown=${key}
      onClick=${() => chosen && go({ why: `e${chosen.seq}` })}>
      ${turns.length <= 60 && turns.map((seq) => html`<i class="turn-line" style=${{ left: `${x(seq)}px` }}></i>`)}
      <canvas ref=${canvas} aria-hidden="true"></canvas>
      <i class="shade" style=${{ left: `${x(cursor.value)}px` }}></i>
      <${Cliffs} columns=${columns} marks=${columns.compactions().filter((one) => isHere(one.seq))} x=${x} />
      ${isHere(cursor.value) && html`<i class="cursor-line" style=${{ left: `${x(cursor.value)}px` }}></i>`}
      ${chosen && html`<${Tip} columns=${columns} item=${chosen} top=${(at - first) * pitch} left=${x(chosen.to)} width=${size.width} height=${size.height} />`}
    </div></div>`;
}

/** From where to where these rows are drawn: most of their lives, and not all of one that lasts. @param {Life[]} shown @returns {[number, number]} */
function spanOf(shown) {
  const low = shown[0]?.from ?? 0;
  const came = shown.at(-1)?.from ?? low;
  const left = Math.max(...shown.map((one) => one.to));
  return [low, Math.max(low + 1, Math.min(left, low + 2 * (came - low)))];
}

/** Where many end at once. Words where they have room. @param {{columns: import("./columns.js").Columns, marks: import("./columns.js").Mark[], x: (seq: number) => number}} props */
function Cliffs({ columns, marks, x }) {
  let free = 0;
  return marks.slice(0, 200).map((one) => {
    const isSaid = x(one.seq) >= free;
    if (isSaid) free = x(one.seq) + LABEL;
    return html`<i class="cliff" key=${one.seq} style=${{ left: `${x(one.seq)}px` }}>${isSaid && html`<button onClick=${(/** @type {Event} */ event) => { event.stopPropagation(); moveTo(one.seq, { tab: "diff", a: "" }); }}>${one.name}, ${counted(columns.leaving.get(one.seq) ?? 0, "item")} end <${Sign} name="compacted" /></button>`}</i>`;
  });
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

/** @param {HTMLCanvasElement} canvas @param {Life[]} shown @param {number} pitch @param {(seq: number) => number} x */
function draw(canvas, shown, pitch, x) {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  const fills = CATEGORIES.map((name) => colour(`--fill-${name}`));
  shown.forEach((one, i) => {
    pen.fillStyle = fills[one.category];
    for (const life of one.lives) pen.fillRect(x(life.from), i * pitch, Math.max(1, x(life.to) - x(life.from)), pitch > 3 ? pitch - 1.5 : pitch - 0.5);
  });
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
