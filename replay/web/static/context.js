// Context: what the model saw at the cursor, item by item, each with its life; or the lifetimes of everything.
import { html } from "./vendor/preact.js";
import { go, place } from "./address.js";
import { useAnswer } from "./answer.js";
import { Bar, LifeLine } from "./bars.js";
import { box, info, isReady, moveTo, settled } from "./chat.js";
import { CATEGORIES } from "./columns.js";
import { counted, grouped, percent, rounded, short } from "./format.js";
import { Lifetimes } from "./lifetimes.js";
import { arrived, lineOf } from "./lines.js";
import { ModeSwitch } from "./mode_switch.js";
import { Note } from "./note.js";
import { isNarrow, turn, turned } from "./screen.js";
import { KindSign, Sign } from "./signs.js";
import { entryBlock } from "./source.js";
import { Folded, oneLine } from "./text.js";

const FIRST = 100; // items of a turn that are shown at once

export function Context() {
  const columns = box.value?.columns;
  if (!columns || !isReady.value) return html`<p class="faint pad">…</p>`;
  if (place.value.mode === "lifetimes") return html`<${Lifetimes} columns=${columns} />`;
  return html`<${Items} columns=${columns} />`;
}

/** @param {{columns: import("./columns.js").Columns}} props */
function Items({ columns }) {
  void arrived.value;
  const seq = settled.value;
  const items = columns.itemsAt(seq);
  const parts = CATEGORIES.map((_, i) => columns.parts[i][seq] ?? 0);
  const total = columns.total[seq] ?? 0;
  const context = columns.contextAt(seq);
  const limit = info.value?.limit ?? 0;
  const next = leaving(columns, items, seq);
  const head = items.filter((one) => columns.category(one) <= 1);
  const rest = items.filter((one) => columns.category(one) > 1);
  const compacted = new Set(columns.compactions().map((one) => one.seq));
  return html`<div class="context">
    <div class="pane-head"><h2 class="said">${oneLine(context.title || context.id)}</h2><span class="quiet">${counted(items.length, "item")}, ${short(total)} tokens</span>
      ${limit > 0 && html`<span class="faint">${percent(total, limit)} of ${rounded(limit)}</span>`}<span class="grow"></span><${ModeSwitch} /></div>
    <${Bar} parts=${parts} whole=${limit} />
    ${next && html`<p class="leaving"><${Sign} name=${next.isCompaction ? "compacted" : "switched"} colour=${next.isCompaction ? "summary" : "ink"} /><span>${counted(next.items, "item").replace(" items", "")} of these ${next.items === 1 ? "leaves" : "leave"} at <button class="link" onClick=${() => moveTo(next.seq)}>${next.name}</button>, ${counted(next.seq - seq, "event")} from here, with ${short(next.tokens)} tokens.</span></p>`}
    ${!items.length && html`<${Note} title="Nothing is in the context yet" ><p>${columns.turns[0] > seq || !columns.turns.length ? "This is before the first message." : "The context was just opened or cleared."}</p><//>`}
    ${items.length > 0 && html`<div class="items" role="table" aria-label="Items in the context">
      ${!isNarrow.value && html`<div class="item item-head" role="row"><span role="columnheader">Kind</span><span role="columnheader">Says</span><span role="columnheader" class="life-head">Life in the chat</span><span role="columnheader" class="number">Tokens</span><span role="columnheader" class="number">From</span></div>`}
      ${head.map((one) => html`<${Item} key=${one} columns=${columns} seq=${one} compacted=${compacted} />`)}
      ${groupsOf(columns, rest).map((group) => html`<${Group} key=${`t${group.turn}-${group.items[0]}`} columns=${columns} group=${group} compacted=${compacted} />`)}
    </div>`}
    <${Archive} columns=${columns} seq=${seq} />
  </div>`;
}

/** What of these leaves next. @param {import("./columns.js").Columns} columns @param {number[]} items @param {number} seq */
function leaving(columns, items, seq) {
  const here = new Set(items);
  let first = Infinity;
  for (const stay of columns.stays()) if (stay.left > seq && stay.left < first && (stay.entered || stay.first) <= seq) first = stay.left;
  if (first === Infinity) return null;
  let count = 0, tokens = 0;
  for (const stay of columns.stays()) {
    if (stay.left !== first) continue;
    for (const one of here) {
      if (one < stay.first || one > stay.last || (columns.what(one) === "compacted") !== stay.isSummary) continue;
      count++;
      tokens += columns.tokens[one - 1];
    }
  }
  const mark = columns.sight?.controls.find((one) => one.seq === first);
  return count ? { seq: first, items: count, tokens, name: mark?.name || `e${first}`, isCompaction: mark?.kind === "compacted" } : null;
}

/** @param {import("./columns.js").Columns} columns @param {number[]} items */
function groupsOf(columns, items) {
  /** @type {{turn: number, items: number[], tokens: number}[]} */
  const found = [];
  for (const one of items) {
    const number = columns.turnOf(one);
    let last = found.at(-1);
    if (!last || last.turn !== number) found.push((last = { turn: number, items: [], tokens: 0 }));
    last.items.push(one);
    last.tokens += columns.tokens[one - 1];
  }
  const open = new Set(found.slice(-2).map((group) => group.turn));
  return found.map((group) => ({ ...group, isOpen: open.has(group.turn) || group.items.length < 3 }));
}

/** @param {{columns: import("./columns.js").Columns, group: {turn: number, items: number[], tokens: number, isOpen: boolean}, compacted: Set<number>}} props */
function Group({ columns, group, compacted }) {
  const name = `turn ${group.turn}`;
  const isOpen = group.isOpen !== turned.value.has(name);
  const wantsAll = turned.value.has(`all of ${name}`);
  const shown = wantsAll ? group.items : group.items.slice(-FIRST);
  const title = lineOf(info.value?.key ?? "", columns.turns[group.turn - 1] ?? 1)?.text ?? "";
  return html`<div class="group" role="rowgroup">
    <div role="row"><span role="rowheader"><button class="group-head" aria-expanded=${isOpen} onClick=${() => turn(name)}><${Sign} name=${isOpen ? "down" : "right"} /><b>Turn ${group.turn}</b>
      <span class="said cut">${oneLine(title)}</span><span class="quiet">${counted(group.items.length, "item")}</span><span class="quiet">${short(group.tokens)}</span><i></i></button></span></div>
    ${isOpen && shown.length < group.items.length && html`<div role="row"><span role="cell"><button class="link pad" onClick=${() => turn(`all of ${name}`)}>${grouped(group.items.length - shown.length)} earlier items of this turn</button></span></div>`}
    ${isOpen && shown.map((one) => html`<${Item} key=${one} columns=${columns} seq=${one} compacted=${compacted} />`)}</div>`;
}

/** @param {{columns: import("./columns.js").Columns, seq: number, compacted: Set<number>}} props */
function Item({ columns, seq, compacted }) {
  const line = lineOf(info.value?.key ?? "", seq);
  const category = CATEGORIES[columns.category(seq)];
  const isSummary = category === "summary";
  const isOpen = turned.value.has(`item ${seq}`) !== isSummary;
  const life = html`<${LifeLine} life=${columns.lifeOf(seq)} end=${columns.count} cursor=${settled.value} category=${category} compacted=${compacted} />`;
  return html`<div class=${`item-place ${isOpen ? "open" : ""}`} role="presentation">
    <div class="item" role="row" data-seq=${seq} onClick=${(/** @type {MouseEvent} */ event) => chooses(event) && turn(`item ${seq}`)}>
      <span role="cell" class=${`kind k-${category}`}><${KindSign} name=${category} isCall=${columns.what(seq) === "call"} /> ${category}</span>
      <span role="cell" class="says"><button class="cut said" aria-expanded=${isOpen}><${Says} line=${line} columns=${columns} seq=${seq} isSummary=${isSummary} /></button></span>
      <span role="cell" class="life-cell">${life}</span>
      <span role="cell" class="number">${short(columns.tokens[seq - 1])}</span>
      <span role="cell" class="number mono faint">e${seq}</span></div>
    ${isOpen && html`<div role="row"><div role="cell"><${Opened} columns=${columns} seq=${seq} category=${category} /></div></div>`}</div>`;
}

const chooses = (/** @type {MouseEvent} */ event) => !getSelection()?.toString() && !(/** @type {HTMLElement} */ (event.target).closest("a"));

/** @param {{line: any, columns: import("./columns.js").Columns, seq: number, isSummary: boolean}} props */
function Says({ line, columns, seq, isSummary }) {
  if (!line) return html`<span class="loading" style=${{ width: `${120 + ((seq * 31) % 200)}px` }}></span><span class="unseen">e${seq}</span>`;
  if (isSummary && !isNarrow.value) {
    const mark = columns.compactions().find((one) => one.seq === seq);
    const freed = (columns.total[seq - 1] ?? 0) - (columns.total[seq] ?? 0) + columns.tokens[seq - 1];
    return html`${mark?.name} · what ${counted(columns.leaving.get(seq) ?? 0, "item")} said, in ${short(columns.tokens[seq - 1])} tokens instead of ${short(Math.max(0, freed))}`;
  }
  if (line.what === "call") return html`<b class="strong">${oneLine(line.head ?? "")}</b> <span class="mono quiet">${oneLine(line.text ?? "")}</span>`;
  const text = [line.what === "recalled" ? line.head : "", line.text].filter(Boolean).join(": ");
  return html`<span class=${line.what === "result" ? "mono quiet" : ""}>${oneLine(text)}</span>`;
}

/** @param {{columns: import("./columns.js").Columns, seq: number, category: string}} props */
function Opened({ columns, seq, category }) {
  const { value, problem } = useAnswer("event", { chat: info.value?.key, at: `e${seq}` }, entryBlock(seq));
  const name = columns.compactions().find((one) => one.seq === seq)?.name;
  const event = value?.event;
  const isCode = event && (event.what === "call" || event.what === "result");
  return html`<div class="opened" data-category=${category}>
    ${problem && html`<p class="faint">${problem.message}</p>`}
    ${event && html`<${Folded} body=${event.said.text ? event.said : event.json} isCode=${isCode || !event.said.text} isOpen=${category === "summary"} />`}
    <div class="row">${name && html`<button class="button" onClick=${() => moveTo(seq, { tab: "diff", a: "" })}>Show the ${counted(columns.leaving.get(seq) ?? 0, "item")}</button>
      <button class="button ghost" onClick=${() => go({ tab: "diff", a: `e${seq - 1}`, at: `e${seq}` })}>Diff ${name}^..${name}</button>`}
      ${!name && html`<button class="button ghost" onClick=${() => moveTo(seq, { tab: "event" })}>Open e${seq}</button>`}
      <button class="button ghost" onClick=${() => go({ why: `e${seq}` })}>Why <kbd aria-hidden="true">b</kbd></button></div></div>`;
}

/** The contexts on the shelf. @param {{columns: import("./columns.js").Columns, seq: number}} props */
function Archive({ columns, seq }) {
  const marks = columns.switches().filter((one) => one.seq <= seq);
  if (!marks.length) return null;
  /** @type {Map<string, {title: string, left: number, name: string}>} */
  const shelf = new Map();
  let active = { id: "main", title: "" };
  for (const one of marks) {
    shelf.delete(active.id);
    if (one.id !== active.id) shelf.set(active.id, { title: active.title, left: one.seq, name: one.name });
    active = one;
    shelf.delete(one.id);
  }
  if (!shelf.size) return null;
  return html`<section class="shelf"><h3>On the shelf <span class="quiet">${counted(shelf.size, "context")}</span></h3>
    ${[...shelf].reverse().slice(0, 50).map(([id, one]) => html`<p><${Sign} name="switched" colour="ink" /> <b class="said">${oneLine(one.title || id)}</b> <span class="faint mono said">${one.title ? oneLine(id) : ""}</span>
      <span class="quiet">left at <button class="link" onClick=${() => moveTo(one.left)}>${one.name}</button></span></p>`)}</section>`;
}
