// Tree: the chats of one origin, and two heads side by side.
import { html, signal } from "./vendor/preact.js";
import { go, goToChat, place } from "./address.js";
import { useAnswer } from "./answer.js";
import { box, family, info } from "./chat.js";
import { categoryOf } from "./columns.js";
import { counted, short } from "./format.js";
import { Note } from "./note.js";
import { KindSign } from "./signs.js";
import { isNarrow } from "./screen.js";
import { isAlone } from "./source.js";
import { oneLine } from "./text.js";

const LANE = 46, LEFT = 14, TOP = 34;
const WIDE = 620, MIDDLE = 440, NARROW = 350; // of the graph, with room for the names beside it

export function Tree() {
  const all = family.value;
  if (!all.length && isAlone()) return html`<${Note} sign="forked" title="Not in this page"><p>This page is one chat. The command shows what was forked from it.</p><//>`;
  if (!all.length) return html`<p class="pad"><span class="loading" style=${{ width: "240px" }}></span></p>`;
  const root = all[0];
  return html`<div class="tree"><div class="pane-head"><h2>${counted(all.length, "chat")}</h2><span class="quiet">${all.length > 1 ? html`grew from <span class="said">${oneLine(root.key)}</span>. Choose two heads to compare them.` : "No chat was forked from this one."}</span></div>
    <${Graph} all=${all} />
    ${place.value.other && !isAlone() ? html`<${Compare} other=${place.value.other} />` : all.length > 1 ? html`<p class="quiet pad">Choose another chat above: what only one of the two models sees.</p>` : null}
  </div>`;
}

/** @param {{all: any[]}} props */
function Graph({ all }) {
  const most = Math.max(...all.map((one) => one.end), 1);
  const width = isNarrow.value ? NARROW : innerWidth < 1400 ? MIDDLE : WIDE;
  const x = (/** @type {number} */ seq) => LEFT + ((width - 2 * LEFT) * seq) / most;
  const y = (/** @type {number} */ at) => TOP + LANE * at;
  const lanes = new Map(all.map((one, i) => [one.key, i]));
  const mine = info.value?.key;
  const other = place.value.other;
  const onTheWay = wayOf(all, mine, other);
  return html`<div class="graph"><svg class="graph-lines" width=${width} height=${y(all.length - 1) + 26} viewBox=${`0 0 ${width} ${y(all.length - 1) + 26}`} role="img" aria-label=${`${all.length} chats by where they were forked`}>
      ${pickLabelled(all[0].turns, x, width).map(([number, seq]) => html`<line class="graph-turn" x1=${x(seq)} x2=${x(seq)} y1="14" y2=${y(all.length - 1) + 16} /><text x=${x(seq) + 3} y="12">t${number}</text>`)}
      ${all.map((one, i) => html`<${Lane} key=${one.key} one=${one} at=${i} above=${lanes.get(one.parent)} x=${x} y=${y} isLit=${onTheWay.has(one.key)} role=${one.key === mine ? "A" : one.key === other ? "B" : ""} />`)}
    </svg>
    <div class="graph-names">${all.map((one, i) => html`<button class=${`graph-name ${one.key === mine ? "current" : ""}`} style=${{ top: `${y(i) - 20}px` }} disabled=${one.is_gone} onClick=${() => (one.key === mine ? go({ other: "" }) : go({ other: one.key }))} onDblClick=${() => goToChat(one.key, { tab: "tree" })}>
      <span class="cut said">${one.is_gone ? "gone" : oneLine(one.title || one.key)}</span><span class="cut"><span class="mono said quiet">${oneLine(one.key)}</span> <span class="faint">${one.is_gone ? "" : `e${one.end}`}</span></span></button>`)}</div></div>`;
}

/** The turns that have room for their name. @param {[number, number][]} turns numbers and seqs @param {(seq: number) => number} x @param {number} width */
function pickLabelled(turns, x, width) {
  let free = 0;
  return turns.filter(([number, seq]) => {
    const end = x(seq) + 12 + 7 * String(number).length;
    if (x(seq) < free || end > width) return false;
    free = end;
    return true;
  });
}

/** The chats between two heads and their common ancestor. @param {any[]} all @param {string | undefined} one @param {string} other */
function wayOf(all, one, other) {
  const up = new Map(all.map((chat) => [chat.key, chat.parent]));
  const found = new Set();
  for (let key of [one, other]) while (key && up.has(key) && found.size < 1000 && !(found.has(key) && key !== one)) {
    found.add(key);
    key = up.get(key);
  }
  return found;
}

/** @param {{one: any, at: number, above: number | undefined, x: (seq: number) => number, y: (at: number) => number, isLit: boolean, role: string}} props */
function Lane({ one, at, above, x, y, isLit, role }) {
  const from = above === undefined ? 0 : one.at;
  const bend = above === undefined ? "" : `M${x(from)} ${y(above)}C${x(from)} ${y(at)} ${x(from) + 4} ${y(at)} ${x(from) + 18} ${y(at)}`;
  const start = above === undefined ? x(0) : Math.min(x(from) + 18, x(one.end));
  return html`<g class=${`lane ${isLit ? "lit" : ""} ${one.is_gone ? "gone" : ""}`}>
    ${bend && html`<path d=${bend} />`}<path d=${`M${start} ${y(at)}H${Math.max(start, x(one.end))}`} />
    ${above !== undefined && html`<circle class="fork-dot" cx=${x(from)} cy=${y(above)} r="3.5" />`}
    ${one.turns.map((/** @type {[number, number]} */ [, seq]) => html`<circle class="turn-dot" cx=${x(seq)} cy=${y(at)} r="3.5" />`)}
    ${one.compactions.map((/** @type {number} */ seq) => html`<path class="cut-dot" d=${`M${x(seq)} ${y(at) - 5}l5 5-5 5-5-5z`} />`)}
    ${!one.is_gone && html`<circle class=${`head-dot ${role === "A" ? "a" : role === "B" ? "b" : ""}`} cx=${Math.max(start, x(one.end)) + 4} cy=${y(at)} r="7" />${role && html`<text class=${`head-text ${role === "A" ? "a" : ""}`} x=${Math.max(start, x(one.end)) + 4} y=${y(at) + 3.5}>${role}</text>`}`}
  </g>`;
}

/** @param {{other: string}} props */
function Compare({ other }) {
  const mine = info.value?.key ?? "";
  const { value, problem } = useAnswer("difference", { chat: mine, a: "head", other, b: "head", end: info.value?.link });
  if (problem) return html`<${Note} title="These cannot be compared"><p class="said">${problem.message}</p><//>`;
  if (!value) return html`<p class="pad"><span class="loading" style=${{ width: "240px" }}></span></p>`;
  const found = value.difference.comparison;
  const { left, added, kept } = found.tokens;
  const whole = Math.max(1, left + added + kept);
  const turn = box.value?.columns.turnOf(found.shared);
  return html`<section class="compare"><div class="pane-head"><h3>Compare</h3><span class="badge">A</span><span class="mono said">${oneLine(mine)}@head</span><span class="quiet">with</span><span class="badge hollow">B</span><span class="mono said">${oneLine(other)}@head</span><span class="grow"></span><span class="quiet">The same up to <span class="mono">e${found.shared}</span>${turn ? `, in turn ${turn}` : ""}.</span></div>
    <div class="venn" role="img" aria-label=${`only A sees ${found.left.length} items, both ${found.kept.length}, only B ${found.added.length}`}><i class="a" style=${{ width: `${(100 * left) / whole}%` }}></i><i class="both" style=${{ width: `${(100 * kept) / whole}%` }}></i><i class="b" style=${{ width: `${(100 * added) / whole}%` }}></i></div>
    <p class="row venn-words"><span class="quiet">only A sees <b>${counted(found.left.length, "item")}, ${short(left)}</b></span><span class="grow"></span><span class="quiet">both <b>${found.kept.length}, ${short(kept)}</b></span><span class="grow"></span><span class="quiet">only B sees <b>${counted(found.added.length, "item")}, ${short(added)}</b></span></p>
    <div class="two-columns even"><${Side} name="A" hollow=${false} side=${found.before} items=${found.left} shared=${found.shared} /><${Side} name="B" hollow=${true} side=${found.after} items=${found.added} shared=${found.shared} /></div></section>`;
}

const most = signal(40);

/** @param {{name: string, hollow: boolean, side: any, items: any[], shared: number}} props */
function Side({ name, hollow, side, items, shared }) {
  return html`<div><p class="side-head"><span class=${`badge ${hollow ? "hollow" : ""}`}>${name}</span> <span class="quiet">${counted(side.seq - shared, "event")} more, ${short(side.tokens.count)} tokens in ${counted(side.items, "message")}</span></p>
    ${items.slice(0, most.value).map((item) => html`<p class="difference-row"><${KindSign} name=${categoryOf(item.kind)} isCall=${item.kind === "calls"} /><span class="grow cut said">${oneLine(item.text)}</span><span class="number quiet">${short(item.tokens)}</span></p>`)}
    ${items.length > most.value && html`<button class="link pad" onClick=${() => (most.value *= 5)}>${items.length - most.value} more</button>`}
    <button class="button ghost" onClick=${() => goToChat(side.chat)}>Open ${oneLine(side.chat)}</button></div>`;
}
