// What stands on the timeline besides the picture: turns, compactions, the band of contexts, forks, errors and checkpoints.
import { computed, html } from "./vendor/preact.js";
import { box, cursor, forks, info, moveTo } from "./chat.js";
import { upto } from "./columns.js";
import { counted, grouped, short } from "./format.js";
import { arrived, lineOf } from "./lines.js";
import { Sign } from "./signs.js";
import { oneLine } from "./text.js";

/** @typedef {{columns: import("./columns.js").Columns, scale: import("./scale.js").Scale, width: number}} Props */

/** The turn that the cursor is in, and the last compaction before it: these change seldom. */
const current = computed(() => box.value?.columns.turnOf(cursor.value) ?? 0);
const passed = computed(() => box.value?.columns.compactions().findLast((one) => one.seq <= cursor.value)?.seq ?? 0);

const CHIP = 22; // pixels below which a turn has none

/** @param {Props} props */
export function Chips({ columns, scale, width }) {
  void arrived.value;
  const found = [];
  const turns = columns.turns;
  const first = Math.max(0, upto(turns, scale.from) - 1), last = upto(turns, scale.to);
  if (last - first > width / CHIP * 4) return html`<div class="chips"></div>`;
  for (let i = first; i < last; i++) {
    const left = Math.max(0, scale.x(turns[i], width)), right = Math.min(width, scale.x(turns[i + 1] ?? columns.count + 1, width) - 3);
    if (right - left < CHIP) continue;
    const text = right - left > 70 ? lineOf(info.value?.key ?? "", turns[i])?.text : "";
    found.push(html`<button class=${`turn-chip ${i + 1 === current.value ? "current" : ""}`} key=${turns[i]} style=${{ left: `${left}px`, width: `${right - left}px` }}
      onClick=${() => moveTo(turns[i])} title=${`Turn ${i + 1}`}><b class="mono">t${i + 1}</b>${text ? html` <span class="said">${oneLine(text)}</span>` : ""}</button>`);
  }
  return html`<div class="chips">${found}</div>`;
}

/** @param {Props & {most: number}} props */
export function Compactions({ columns, scale, width, most }) {
  const seen = passed.value;
  const all = columns.compactions().filter((one) => one.seq >= scale.from && one.seq <= scale.to);
  const isDense = all.length > width / 40;
  let free = -1, last = -9;
  return html`<div class=${`compactions ${isDense ? "dense" : ""}`}>${all.map((one, i) => {
    const x = scale.x(one.seq, width);
    if (x - last < 3) return null; // a tick has its place already
    last = x;
    const next = i + 1 < all.length ? scale.x(all[i + 1].seq, width) : width;
    const freed = (columns.total[one.seq - 1] ?? 0) - (columns.total[one.seq] ?? 0);
    const room = Math.min(next, width) - x;
    const text = isDense || x < free || room < 26 ? "" : room < 84 ? one.name : `${one.name} −${short(Math.max(0, freed))}`;
    if (text) free = x + 12 + text.length * 7;
    const top = 31 + 114 - (114 * (columns.total[one.seq - 1] ?? 0)) / most + 12;
    return html`<div class=${`compaction ${one.seq > seen ? "future" : ""}`} key=${one.seq} style=${{ transform: `translateX(${x}px)` }}>
      ${text && html`<button style=${{ top: `${Math.max(36, Math.min(top, 124))}px` }} onClick=${() => moveTo(one.seq, { tab: "diff", a: "" })}><${Sign} name="compacted" colour="summary" />${text}</button>`}</div>`;
  })}</div>`;
}

/** @param {Props} props */
export function Band({ columns, scale, width }) {
  void box.value;
  const changes = [{ seq: 0, id: "main", title: "" }, ...columns.switches()];
  const seqs = changes.map((one) => one.seq);
  const found = [];
  for (let i = Math.max(0, upto(seqs, scale.from) - 1); i < upto(seqs, scale.to); i++) {
    const left = Math.max(0, scale.x(changes[i].seq, width)), right = Math.min(width, scale.x(changes[i + 1]?.seq ?? columns.count, width));
    if (right - left < 2) continue;
    const name = changes[i].title || changes[i].id;
    found.push(html`<div class=${changes[i].id === "main" ? "first" : ""} key=${i} style=${{ left: `${left}px`, width: `${Math.max(1, right - left - 1)}px` }}>
      ${right - left > 26 && html`${i > 0 && html`<${Sign} name="switched" />`}<span class="said cut">${oneLine(name)}</span>`}</div>`);
  }
  if (!found.length) found.push(html`<div class="first" style=${{ left: 0, width: `${width}px` }}>${counted(new Set(changes.map((one) => one.id)).size, "context")}, too close to be told apart</div>`);
  return html`<div class="band" aria-hidden="true">${found}</div>`;
}

/** @param {Props} props */
export function Marks({ columns, scale, width }) {
  void box.value;
  /** @type {{x: number, seq: number, sign: string, name: string, count: number}[]} */
  const all = [];
  const inSight = (/** @type {number} */ seq) => seq >= scale.from && seq <= scale.to;
  for (const seq of columns.errors) if (inSight(seq)) all.push({ x: scale.x(seq, width), seq, sign: "failed", name: "", count: 1 });
  for (const [name, seq] of Object.entries(columns.sight?.checkpoints ?? {})) if (inSight(seq)) all.push({ x: scale.x(seq, width), seq, sign: "checkpoint", name, count: 1 });
  for (const fork of forks.value) if (inSight(fork.at)) all.push({ x: scale.x(fork.at, width), seq: fork.at, sign: "forked", name: fork.key, count: 1 });
  all.sort((one, other) => one.x - other.x);
  /** @type {typeof all} */
  const shown = [];
  for (const one of all) {
    const last = shown.at(-1);
    if (last && one.x - last.x < 8) {
      last.count++;
      if (one.sign === "failed") last.sign = "failed";
    } else shown.push({ ...one });
  }
  return html`<div class="marks">${shown.slice(0, 400).map((one, i) => {
    const before = i ? shown[i - 1].x + 12 : 0;
    const isLabelled = one.name && one.count === 1 && one.x - before > one.name.length * 6.2 + 14;
    const what = one.sign === "failed" ? "error" : one.sign === "forked" ? "fork" : "checkpoint";
    return html`<button class=${one.sign} key=${`${one.seq}${one.sign}`} style=${{ left: `${one.x}px` }} onClick=${() => moveTo(one.seq)}
      title=${`${one.count > 1 ? `${grouped(one.count)} marks` : what} ${one.name} at e${one.seq}`} aria-label=${`${one.count > 1 ? `${one.count} marks, ` : ""}${what} ${one.name} at e${one.seq}`}>
      ${isLabelled && html`<span class="said">${oneLine(one.name)}</span>`}<${Sign} name=${one.sign} colour=${one.sign === "failed" ? "red" : "ink"} />${one.count > 1 && html`<small>${one.count}</small>`}</button>`;
  })}</div>`;
}
