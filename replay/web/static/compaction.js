// The compaction card: how large before and after, what left, what the summary kept of it, and how to take it back.
import { html, useState } from "./vendor/preact.js";
import { go } from "./address.js";
import { useAnswer } from "./answer.js";
import { info, moveTo } from "./chat.js";
import { CATEGORIES, categoryOf } from "./columns.js";
import { counted, percent, short } from "./format.js";
import { arrived, lineOf } from "./lines.js";
import { Cache } from "./prompt_cache.js";
import { copy } from "./screen.js";
import { KindSign, Sign } from "./signs.js";
import { entryBlock } from "./source.js";
import { oneLine } from "./text.js";
import { Marked } from "./words.js";

const MANY = 40;
const PEOPLE = ["user", "assistant"];

/** @param {{difference: any, columns: import("./columns.js").Columns, mark: import("./columns.js").Mark}} props */
export function Compaction({ difference, columns, mark }) {
  const found = difference.comparison;
  const step = found.steps.find((/** @type {any} */ one) => one.kind === "compacted");
  const [order, setOrder] = useState("people");
  const [chosen, setChosen] = useState(-1);
  const [most, setMost] = useState(MANY);
  const left = sortLeft(found.left, difference.kept_words, order);
  const item = left.find((one) => one.seq === chosen) ?? left[0];
  const next = columns.compactions().find((one) => one.seq > mark.seq);
  const trigger = { manual: "by hand", budget: "over the budget", provider_error: "the provider refused the prompt" }[/** @type {string} */ (step?.trigger)] ?? step?.trigger ?? "";
  return html`<div class="compaction-card">
    <div class="pane-head"><${Sign} name="compacted" colour="summary" /><h2>Compaction ${mark.name}</h2><span class="quiet">${trigger}${trigger ? ", " : ""}at e${mark.seq} in turn ${columns.turnOf(mark.seq)}</span><span class="grow"></span>
      <button class="button ghost" onClick=${() => copy(`await chat.revert_compaction(${mark.seq})`, `await chat.revert_compaction(${mark.seq})`)}>Copy revert</button>
      <button class="button" onClick=${() => moveTo(mark.seq - 1, { tab: "context" })}>Open ${mark.name}^</button>
      ${next && html`<button class="button" onClick=${() => moveTo(next.seq, { tab: "diff", a: "" })}>Next, ${next.name} <kbd aria-hidden="true">c</kbd></button>`}</div>
    <${Funnel} found=${found} columns=${columns} seq=${mark.seq} />
    <${Cache} found=${found} />
    <div class="two-columns"><section class="left-list"><div class="row"><h3>What left</h3><span class="quiet">${counted(found.left.length, "item")}</span><span class="grow"></span>
        <select aria-label="Order" value=${order} onChange=${(/** @type {any} */ event) => setOrder(event.target.value)}><option value="people" selected=${order === "people"}>people first, then least kept</option><option value="least" selected=${order === "least"}>least kept first</option><option value="size" selected=${order === "size"}>largest first</option><option value="order" selected=${order === "order"}>in order</option></select></div>
      <div class="left-row left-head faint"><span></span><span></span><span>In the summary</span><span class="number">Tokens</span><span class="number">From</span></div>
      ${left.slice(0, most).map((one) => html`<${LeftRow} key=${one.seq} item=${one} kept=${difference.kept_words[one.seq]} isChosen=${one === item} onChoose=${() => setChosen(one.seq)} />`)}
      ${left.length > most && html`<button class="link pad" onClick=${() => setMost(most * 5)}>${left.length - most} more</button>`}
    </section>
    <section class="summary"><div class="row"><h3>The summary</h3><span class="quiet">${short(columns.tokens[mark.seq - 1])} tokens</span><span class="grow"></span><button class="icon" aria-label="Copy the summary" onClick=${() => copy(step?.summary ?? "", "the summary")}><${Sign} name="copy" /></button></div>
      <${Summary} text=${step?.summary ?? ""} item=${item} />
    </section></div></div>`;
}

/** @param {{text: string, item: any}} props */
function Summary({ text, item }) {
  const { value } = useAnswer("event", item ? { chat: info.value?.key, at: `e${item.seq}` } : null, item ? entryBlock(item.seq) : "");
  return html`<blockquote class="summary-text"><${Marked} text=${text} words=${value?.event?.said.text ?? item?.text ?? ""} /></blockquote>
    ${item && html`<p class="faint">Marked: words of <button class="link" onClick=${() => moveTo(item.seq, { tab: "event" })}>e${item.seq}</button> that it has. <button class="link" onClick=${() => go({ why: `e${item.seq}` })}>Why</button></p>`}`;
}

/** @param {{item: any, kept: number | undefined, isChosen: boolean, onChoose: () => void}} props */
function LeftRow({ item, kept, isChosen, onChoose }) {
  return html`<button class=${`left-row ${isChosen ? "chosen" : ""}`} aria-pressed=${isChosen} onClick=${onChoose} onDblClick=${() => go({ why: `e${item.seq}` })}>
    <${KindSign} name=${categoryOf(item.kind)} isCall=${item.kind === "calls"} /><span class="cut said">${oneLine(item.text || textOf(item.seq))}</span>
    <span class="kept"><i class="meter"><i style=${{ width: `${100 * (kept ?? 0)}%` }}></i></i>${kept === undefined ? "" : percent(kept, 1)}</span>
    <span class="number">${short(item.tokens)}</span><span class="number mono faint">e${item.seq}</span></button>`;
}

/** In a page that stands alone a text is in its line only. @param {number} seq */
function textOf(seq) {
  void arrived.value;
  const line = lineOf(info.value?.key ?? "", seq);
  return [line?.head, line?.text].filter(Boolean).join(" ");
}

/** @param {any[]} items @param {Record<string, number>} kept @param {string} order */
function sortLeft(items, kept, order) {
  const share = (/** @type {any} */ one) => kept[one.seq] ?? 0;
  const rank = (/** @type {any} */ one) => (PEOPLE.includes(one.kind) ? PEOPLE.indexOf(one.kind) : 2);
  /** @type {Record<string, (one: any, other: any) => number>} */
  const orders = {
    people: (one, other) => rank(one) - rank(other) || share(one) - share(other) || other.tokens - one.tokens,
    least: (one, other) => share(one) - share(other) || other.tokens - one.tokens,
    size: (one, other) => other.tokens - one.tokens,
    order: (one, other) => one.seq - other.seq,
  };
  return [...items].sort(orders[order]);
}

/** Bars before and after on one scale: what leaves funnels into the summary, what stays slides. @param {{found: any, columns: import("./columns.js").Columns, seq: number}} props */
function Funnel({ found, columns, seq }) {
  const before = columns.total[seq - 1] || 1, after = columns.total[seq];
  const leaving = new Set(columns.itemsAt(seq - 1));
  const staying = new Set(columns.itemsAt(seq).filter((one) => leaving.has(one)));
  const parts = (/** @type {Iterable<number>} */ some) => {
    const sums = CATEGORIES.map(() => 0);
    for (const one of some) sums[columns.category(one)] += columns.tokens[one - 1];
    return sums;
  };
  const system = [...staying].filter((one) => columns.category(one) === 0);
  const rest = [...staying].filter((one) => columns.category(one) !== 0);
  const gone = [...leaving].filter((one) => !staying.has(one));
  const sum = (/** @type {number[]} */ some) => some.reduce((total, one) => total + columns.tokens[one - 1], 0);
  const x = (/** @type {number} */ tokens) => (1000 * tokens) / before;
  const [a, b] = [x(sum(system)), x(sum(system) + sum(gone))];
  const s = x(columns.tokens[seq - 1]);
  const bar = (/** @type {number[]} */ some, /** @type {number} */ from, /** @type {number} */ y) => {
    let at = from;
    return parts(some).map((tokens, i) => {
      if (!tokens) return null;
      const width = x(tokens);
      at += width;
      return html`<rect class=${`fill-${CATEGORIES[i]}`} x=${at - width} y=${y} width=${Math.max(1, width - 1)} height="22" rx="2" />`;
    });
  };
  return html`<div class="funnel"><div class="row"><span>Before <b>${short(before)}</b> <span class="quiet">${counted(leaving.size, "item")}</span></span><span class="grow"></span><span>${gone.length} leave <b>${short(sum(gone))}</b></span><span>${rest.length} stay <b>${short(sum(rest))}</b></span></div>
    <svg viewBox="0 0 1000 96" preserveAspectRatio="none" role="img" aria-label=${`From ${short(before)} to ${short(after)} tokens: ${gone.length} items leave, ${rest.length} stay, the summary comes.`}>
      <path class="ribbon-stay" d=${`M0 23h${a}v50H0z`} />
      <path class="ribbon-left" d=${`M${a} 23H${b}C${b} 52 ${a + s} 46 ${a + s} 73H${a}z`} />
      <path class="ribbon-stay" d=${`M${b} 23H1000C1000 52 ${x(after)} 46 ${x(after)} 73H${a + s}C${a + s} 46 ${b} 52 ${b} 23z`} />
      ${bar(system, 0, 0)}${bar(gone, a, 0)}${bar(rest, b, 0)}
      ${bar(system, 0, 74)}${bar([seq], a, 74)}${bar(rest, a + s, 74)}
      <line class="funnel-cut" x1=${b} x2=${b} y1="-2" y2="25" />
    </svg>
    <div class="row"><span>After <b>${short(after)}</b> <span class="quiet">${counted(columns.itemsAt(seq).length, "item")}</span></span><span class="grow"></span><span><b>−${short(Math.max(0, before - after))}</b> <span class="quiet">free again, ${percent(Math.max(0, before - after), before)} of what was there</span></span></div></div>`;
}

