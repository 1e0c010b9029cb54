// Why: when a text came into the model's sight, what took it out, what its summary kept, and which requests carried it. It speaks of the
// whole chat, wherever the cursor is.
import { html, signal, useEffect } from "./vendor/preact.js";
import { go, place } from "./address.js";
import { useAnswer } from "./answer.js";
import { box, info, moveTo } from "./chat.js";
import { clock, counted, percent } from "./format.js";
import { arrived, lineOf } from "./lines.js";
import { Note, Trouble } from "./note.js";
import { copy } from "./screen.js";
import { KindSign, Sign } from "./signs.js";
import { isAlone } from "./source.js";
import { oneLine } from "./text.js";
import { Marked } from "./words.js";

/** Which of the entries that say this. */
export const chosen = signal(0);
/** @type {import("./vendor/preact.js").Signal<Story | null>} for the lane in the timeline */
export const story = signal(null);

/** @typedef {{from: number, to: number}} Piece */
/** @typedef {{category: string, itself: Piece[], summary: Piece[], cuts: number[], seq: number}} Story */

export function Why() {
  void arrived.value;
  const text = place.value.why;
  const { value, problem } = useAnswer("why", text ? { chat: info.value?.key, q: text, end: info.value?.link } : null, /^e\d+$/.test(text) ? `why#${text.slice(1)}` : "none");
  const found = value?.why ?? (isAlone() ? localWhy(text) : null);
  const traces = found?.traces.traces ?? [];
  const trace = traces[Math.min(chosen.value, traces.length - 1)];
  useEffect(() => {
    chosen.value = 0;
  }, [text]);
  useEffect(() => {
    story.value = trace ? storyOf(trace, found.summaries) : null;
    return () => (story.value = null);
  }, [trace]);
  if (problem) return html`<${Trouble} problem=${problem} />`;
  if (!found) return html`<p class="pad"><span class="loading" style=${{ width: "240px" }}></span></p>`;
  if (!trace) return html`<${Note} sign="search" title=${`Nothing says “${text}”`}><p>The whole chat was searched, results of tools included.</p><//>`;
  return html`<${Found} trace=${trace} why=${found} text=${text} count=${traces.length} />`;
}

/** In a page of its own: what the columns know of an entry. @param {string} text */
function localWhy(text) {
  const columns = box.value?.columns;
  const seq = /^e\d+$/.test(text) ? Number(text.slice(1)) : 0;
  if (!columns || !seq || seq > columns.count) return { traces: { query: text, exact: true, total: 0, traces: [] }, summaries: {} };
  const line = lineOf(info.value?.key ?? "", seq);
  const visits = columns.lifeOf(seq).map((life) => {
    const mark = columns.sight?.controls.find((one) => one.seq === life.left);
    const left = life.left ? { seq: life.left, turn: columns.turnOf(life.left), cause: mark?.kind ?? "", number: Number(mark?.name.slice(1) ?? 0), trigger: "", title: mark?.title ?? "", to: mark?.id ?? "", summary: "", survived: null } : null;
    return { entered: life.from, turn: columns.turnOf(life.from), left };
  });
  const last = visits.at(-1)?.left;
  const where = !visits.length ? "recorded" : !last ? "active" : last.cause === "compacted" ? "compacted" : "away";
  const now = { where, address: `@${last ? `e${last.seq - 1}` : `e${columns.count}`}`, context: "", title: "", number: last?.number ?? 0, seq: last?.seq ?? 0 };
  return { traces: { query: text, exact: true, total: 1, traces: [{ seq, ts: columns.ts[seq - 1], turn: columns.turnOf(seq), text: line?.text ?? "", visits, now }] }, summaries: {} };
}

/** @param {{trace: any, why: any, text: string, count: number}} props */
function Found({ trace, why, text, count }) {
  const columns = box.value?.columns;
  const isEntry = /^e\d+$/.test(text);
  const name = categoryOf(trace);
  const now = { active: "The model sees it now.", compacted: "The model does not see it now.", archived: "It is on the shelf.", rewound: "It was rewound.", erased: "It was erased.", recorded: "No model is ever shown it.", away: "The model does not see it now." }[/** @type {string} */ (trace.now.where)];
  return html`<div class="why">
    <div class="pane-head"><h2 class="said grow">“${oneLine(isEntry ? trace.text : text)}”</h2>
      ${count > 1 && html`<span class="steps"><span class="quiet">${chosen.value + 1} of ${why.traces.total} entries that say this</span><button class="icon" aria-label="Entry before" disabled=${chosen.value === 0} onClick=${() => chosen.value--}><${Sign} name="left" /></button><button class="icon" aria-label="Next entry" disabled=${chosen.value >= count - 1} onClick=${() => chosen.value++}><${Sign} name="right" /></button></span>`}
      <button class="button" onClick=${() => copy(location.href, "the link")}><${Sign} name="copy" /> Copy link</button></div>
    <p class="quiet">From <button class="link" onClick=${() => moveTo(trace.seq)}>e${trace.seq}</button>, ${name}, turn ${trace.turn}. ${now}${why.traces.exact ? "" : " These entries have its words, not the very text."}</p>
    ${columns && columns.asked.length > 0 && html`<${Requests} trace=${trace} summaries=${why.summaries} columns=${columns} name=${name} />`}
    <${Steps} trace=${trace} summaries=${why.summaries} text=${isEntry ? trace.text : text} name=${name} />
  </div>`;
}

/** @param {any} trace */
function categoryOf(trace) {
  const columns = box.value?.columns;
  const found = columns ? columns.category(trace.seq) : 6;
  return ["system", "summary", "recalled", "injected", "user", "assistant", "tool"][found];
}

/** @param {any} trace @param {Record<string, any>} summaries @returns {Story} */
export function storyOf(trace, summaries) {
  const end = info.value?.end ?? 0;
  /** @type {Story} */
  const found = { category: categoryOf(trace), itself: [], summary: [], cuts: [], seq: trace.seq };
  const seen = new Set();
  const follow = (/** @type {any} */ visit) => {
    const seq = visit.left?.cause === "compacted" ? visit.left.seq : 0;
    if (!seq || seen.has(seq) || !summaries[seq]) return;
    seen.add(seq);
    found.cuts.push(seq);
    if (visit.left.survived === 0) return;
    for (const one of summaries[seq].visits) {
      found.summary.push({ from: one.entered, to: one.left?.seq ?? end });
      follow(one);
    }
  };
  for (const visit of trace.visits) {
    found.itself.push({ from: visit.entered, to: visit.left?.seq ?? end });
    follow(visit);
  }
  return found;
}

/** @param {Piece[]} pieces @param {number} seq */
const has = (pieces, seq) => pieces.some((one) => one.from <= seq && seq <= one.to);

/** @param {{trace: any, summaries: any, columns: import("./columns.js").Columns, name: string}} props */
function Requests({ trace, summaries, columns, name }) {
  const told = storyOf(trace, summaries);
  const state = columns.asked.map((seq) => (has(told.itself, seq - 1) ? 2 : has(told.summary, seq - 1) ? 1 : 0));
  const count = (/** @type {number} */ which) => state.filter((one) => one === which).length;
  const size = Math.max(1, Math.ceil(state.length / 120));
  const cells = Array.from({ length: Math.ceil(state.length / size) }, (_, i) => ({ at: i * size, most: Math.max(...state.slice(i * size, (i + 1) * size)) }));
  return html`<div class="card requests"><p class="row"><b>${counted(state.length, "request")} to the model</b>
      <span class="quiet"><i class=${`cell full f-${name}`}></i> ${count(2)} ${count(2) === 1 ? "was" : "were"} sent the text</span><span class="quiet"><i class="cell half"></i> ${count(1)} only its summary</span><span class="quiet"><i class="cell"></i> ${count(0)} no trace of it</span></p>
    <div class="cells">${cells.map(({ at, most }) => html`<button class=${`cell ${most === 2 ? `full f-${name}` : most === 1 ? "half" : ""}`} title=${`m${at + 1}${size > 1 ? ` to m${Math.min(state.length, at + size)}` : ""}`} aria-label=${`m${at + 1}: ${["no trace", "only its summary", "the text"][most]}`} onClick=${() => moveTo(columns.asked[at], { tab: "messages", why: "" })}></button>`)}</div>
    <p class="row mono faint"><span>m1</span><span class="grow"></span><span>m${state.length}</span></p></div>`;
}

/** @param {{trace: any, summaries: any, text: string, name: string}} props */
function Steps({ trace, summaries, text, name }) {
  const columns = box.value?.columns;
  /** @type {any[]} */
  const steps = [];
  const at = (/** @type {number} */ seq) => `e${seq} · turn ${columns?.turnOf(seq) ?? ""}`;
  trace.visits.forEach((/** @type {any} */ visit, /** @type {number} */ i) => {
    const end = visit.left?.seq ?? info.value?.end ?? 0;
    const first = columns ? columns.requestOf(visit.entered) + 1 : 0, last = columns ? columns.requestOf(end - (visit.left ? 1 : 0)) : 0;
    const sent = last >= first ? (last === first ? `Sent in full with m${first}.` : `Sent in full with m${first} to m${last}.`) : "No model was asked meanwhile.";
    steps.push(html`<${Step} sign=${html`<${KindSign} name=${name} />`} colour=${name} title=${i ? "Back in sight" : "Entered"} about=${`${at(visit.entered)}${i === 0 ? ` · ${clock(trace.ts)}` : ""}`}>${sent}<//>`);
    if (visit.left) steps.push(leaves(visit.left, summaries, text, new Set(), "Left"));
  });
  if (!trace.visits.length) steps.push(html`<${Step} sign=${html`<${Sign} name="eye" colour="faint" />`} colour="faint" title="Never in sight" about=${at(trace.seq)}>It was recorded, and no model was shown it.<//>`);
  const now = trace.now;
  const where = { active: "in sight", compacted: `behind the summary of c${now.number}`, archived: now.number ? `behind the summary of c${now.number}, on the shelf` : "on the shelf", rewound: `rewound at e${now.seq}`, erased: "erased", recorded: "recorded only", away: "not shown" }[/** @type {string} */ (now.where)];
  const point = now.address.slice(now.address.lastIndexOf("@") + 1);
  const cuts = storyOf(trace, summaries).cuts;
  return html`<div class="why-steps">${steps}
    <${Step} sign=${html`<${Sign} name="eye" colour="ink" />`} colour="none" title="Now" about=${`${where}${now.context ? `, in ${now.title || now.context}` : ""}`}>
      <div class="row">${now.where !== "active" && now.where !== "recorded" && html`<button class="button primary" onClick=${() => go({ at: point, why: "", tab: "context" })}>Open ${point}, where it was last whole</button>`}
      ${cuts.map((seq) => html`<button class="button" onClick=${() => moveTo(seq, { tab: "diff", a: "", why: "" })}>Diff ${columns?.sight?.controls.find((one) => one.seq === seq)?.name ?? `e${seq}`}</button>`)}</div><//></div>`;
}

/** @param {any} left @param {Record<string, any>} summaries @param {string} text @param {Set<number>} met @param {string} verb @returns {any} */
function leaves(left, summaries, text, met, verb) {
  const letter = /** @type {Record<string, string>} */ ({ compacted: "c", opened: "s", switched: "s", cleared: "s" })[left.cause];
  const name = letter ? `${letter}${left.number}` : `e${left.seq}`;
  const about = `e${left.seq} · turn ${left.turn}${left.trigger ? ` · ${left.trigger === "manual" ? "compacted by hand" : left.trigger === "budget" ? "over the budget" : left.trigger}` : ""}`;
  if (left.cause !== "compacted") {
    return html`<${Step} sign=${html`<${Sign} name="switched" colour="ink" />`} colour="dotted" title="Out of sight" about=${`${name} · ${about}`}>${left.cause === "rewound" ? "The chat went back to before it." : html`The chat was in “<span class="said">${oneLine(left.title || left.to || "another context")}</span>”, where it is not.`}<//>`;
  }
  const share = left.survived ?? 0;
  const next = met.has(left.seq) ? undefined : summaries[left.seq]?.visits.findLast((/** @type {any} */ one) => one.left)?.left;
  met.add(left.seq);
  return html`<${Step} sign=${html`<${Sign} name="compacted" colour="summary" />`} colour=${share ? "summary" : "dotted"} title=${`${verb} at ${name}`} about=${about}>
      ${left.survived === null ? html`<span>What the summary kept of it: see ${name}.</span>` : share ? html`The summary has ${percent(share, 1)} of its words: <span class="quoted">“<${Marked} text=${sentence(left.summary, text)} words=${text} />”</span>` : "The summary has none of its words."}<//>
    ${share > 0 && next && leaves(next, summaries, text, met, next.cause === "compacted" ? "Its summary left" : "Its summary left")}`;
}

/** The sentence of a summary with the most of the words. @param {string} summary @param {string} text */
function sentence(summary, text) {
  const words = new Set(text.toLowerCase().match(/[\p{L}\p{N}_]{3,}/gu) ?? []);
  const sentences = summary.match(/[^.!?。\n]+[.!?。]?/g) ?? [summary];
  const score = (/** @type {string} */ one) => (one.toLowerCase().match(/[\p{L}\p{N}_]{3,}/gu) ?? []).filter((word) => words.has(word)).length;
  const best = sentences.reduce((one, other) => (score(other) > score(one) ? other : one), sentences[0] ?? "");
  const cut = best.trim().slice(0, 240);
  return `${best === sentences[0] ? "" : "… "}${cut}`;
}

/** @param {{sign: any, colour: string, title: string, about: string, children?: any}} props */
function Step({ sign, colour, title, about, children }) {
  return html`<div class="step"><div class=${`step-line line-${colour}`}>${sign}<i></i></div><div class="grow"><p><b>${title}</b> <span class="quiet">${about}</span></p><div class="step-says quiet">${children}</div></div></div>`;
}
