// Diff: what changed between two points. Between the two sides of a compaction it is the compaction card.
import { html, useState } from "./vendor/preact.js";
import { go } from "./address.js";
import { useAnswer } from "./answer.js";
import { Bar } from "./bars.js";
import { box, info, mark, moveTo, settled } from "./chat.js";
import { CATEGORIES, categoryOf } from "./columns.js";
import { Compaction } from "./compaction.js";
import { counted, short } from "./format.js";
import { Note, Trouble } from "./note.js";
import { Cache } from "./prompt_cache.js";
import { KindSign, Sign } from "./signs.js";
import { isAlone } from "./source.js";
import { oneLine } from "./text.js";
import { Words } from "./words.js";

/** From where to where: A to the cursor, or back; without A the step to the cursor, or the compaction it stands on. */
export function pointsNow() {
  const at = settled.value;
  const a = mark.value;
  if (a) return { a: Math.min(a, at), b: Math.max(a, at) };
  return { a: Math.max(0, at - 1), b: at };
}

/** @param {number} a @param {number} b */
export function compactionAt(a, b) {
  return a === b - 1 ? box.value?.columns.compactions().find((one) => one.seq === b) : undefined;
}

export function Points() {
  const { a, b } = pointsNow();
  const mark_ = compactionAt(a, b);
  return html`<span class="points"><span class="badge">A</span> <span class="mono">${mark_ ? `${mark_.name}^` : `e${a}`}</span> <span class="quiet">to</span> <span class="badge">B</span> <span class="mono">${mark_ ? mark_.name : `e${b}`}</span></span>`;
}

export function Diff() {
  const { a, b } = pointsNow();
  const columns = box.value?.columns;
  const name = compactionAt(a, b);
  const { value, problem, isOld } = useAnswer("difference", a === b ? null : { chat: info.value?.key, a: `e${a}`, b: `e${b}`, end: info.value?.link }, name ? `compactions#${b}` : "none");
  if (a === b) return html`<${Note} title="These two points are the same"><p>Step on, or mark A elsewhere with m.</p><//>`;
  if (problem) return html`<${Trouble} problem=${problem} />`;
  if (value === null && isAlone() && !isOld) return html`<${Note} sign="eye" title="Not in this page" command=${`chatfold diff ${info.value?.key}@${a}..${b}`}><p>This page is one file. The command shows this difference.</p><//>`;
  if (!value || !columns) return html`<p class="pad"><span class="loading" style=${{ width: "240px" }}></span></p>`;
  const found = value.difference;
  return html`<div class=${isOld ? "old" : ""} aria-busy=${isOld}>${name
    ? html`<${Compaction} key=${b} difference=${found} columns=${columns} mark=${name} />`
    : html`<${Any} difference=${found} columns=${columns} a=${a} b=${b} />`}</div>`;
}

/** @param {{difference: any, columns: import("./columns.js").Columns, a: number, b: number}} props */
function Any({ difference, columns, a, b }) {
  const found = difference.comparison;
  const parts = (/** @type {number} */ seq) => CATEGORIES.map((_, i) => columns.parts[i][seq] ?? 0);
  const whole = Math.max(columns.total[a], columns.total[b], 1);
  const change = columns.total[b] - columns.total[a];
  return html`<div class="diff">
    <div class="pane-head"><h2>e${a} to e${b}</h2><span class="quiet">${counted(b - a, "event")}${found.steps.length ? `, ${counted(found.steps.length, "context event")}` : ""}</span><span class="grow"></span>
      ${!mark.value && html`<span class="quiet">Mark A with <kbd>m</kbd> to compare with another point</span>`}</div>
    <p class="bar-label">Before <b>${short(columns.total[a])}</b> <span class="quiet">${counted(found.before.items, "message")}</span></p>
    <${Bar} parts=${parts(a)} whole=${whole} height=${22} />
    <p class="bar-label">After <b>${short(columns.total[b])}</b> <span class="quiet">${counted(found.after.items, "message")}</span> <span class="quiet">${change >= 0 ? "+" : "−"}${short(Math.abs(change))}</span></p>
    <${Bar} parts=${parts(b)} whole=${whole} height=${22} />
    <${Cache} found=${found} />
    ${found.steps.map((/** @type {any} */ step) => html`<p class="leaving"><${Sign} name=${step.kind === "compacted" ? "compacted" : "switched"} colour=${step.kind === "compacted" ? "summary" : "ink"} /><span><button class="link" onClick=${() => moveTo(step.seq)}>e${step.seq}</button> ${step.kind} ${step.title && html`<span class="said">${oneLine(step.title)}</span>`} ${step.kind === "compacted" && html`<button class="link" onClick=${() => moveTo(step.seq, { tab: "diff", a: "" })}>c${step.number}</button>`}</span></p>`)}
    <${List} title="Left" items=${found.left} tokens=${found.tokens.left} />
    <${List} title="Came" items=${found.added} tokens=${found.tokens.added} />
    <${Changed} changes=${found.changed} />
    ${!found.left.length && !found.added.length && !found.changed.length && html`<p class="quiet pad">Nothing changed for the model.</p>`}
  </div>`;
}

/** @param {{title: string, items: any[], tokens: number}} props */
function List({ title, items, tokens }) {
  const [most, setMost] = useState(60);
  if (!items.length) return null;
  return html`<section class="difference-list"><h3>${title} <span class="quiet">${counted(items.length, "item")}, ${short(tokens)} tokens</span></h3>
    ${items.slice(0, most).map((item) => html`<button class="difference-row" onClick=${() => item.seq && go({ why: `e${item.seq}` })}><${KindSign} name=${categoryOf(item.kind)} isCall=${item.kind === "calls"} /><span class="grow cut said">${oneLine(item.text)}</span><span class="number">${short(item.tokens)}</span><span class="mono faint number">${item.seq ? `e${item.seq}` : ""}</span></button>`)}
    ${items.length > most && html`<button class="link pad" onClick=${() => setMost(most * 5)}>${items.length - most} more</button>`}</section>`;
}

/** @param {{changes: any[]}} props */
function Changed({ changes }) {
  if (!changes.length) return null;
  return html`<section class="difference-list"><h3>Changed <span class="quiet">${counted(changes.length, "item")}</span></h3>
    ${changes.slice(0, 60).map(({ before, after }) => html`<div class="difference-row"><${KindSign} name=${categoryOf(after.kind)} /><span class="grow"><${Words} before=${before.text} after=${after.text} /></span><span class="number">${short(after.tokens)}</span><span class="mono faint number">e${after.seq}</span></div>`)}</section>`;
}

