// Event: one entry: what it says, what it belongs to, what it changed, and its envelope.
import { html, signal, useEffect, useState } from "./vendor/preact.js";
import { go } from "./address.js";
import { useAnswer } from "./answer.js";
import { box, info, moveTo, settled } from "./chat.js";
import { CATEGORIES, ERASED } from "./columns.js";
import { short, size, whole } from "./format.js";
import { Json } from "./json_tree.js";
import { arrived, lineOf } from "./lines.js";
import { Note, Trouble } from "./note.js";
import { copy } from "./screen.js";
import { EventSign, Sign } from "./signs.js";
import { ask, entryBlock, isAlone } from "./source.js";
import { Folded, oneLine, plain } from "./text.js";

const form = signal("text");
const CODE = new Set(["call", "result", "noted", "unknown"]);

export function EventPane() {
  const seq = settled.value;
  const { value, problem, isOld } = useAnswer("event", seq ? { chat: info.value?.key, at: `e${seq}` } : null, entryBlock(seq));
  if (!seq) return html`<${Note} title="Nothing happened yet"><p>This is before the first event.</p><//>`;
  if (problem) return html`<${Trouble} problem=${problem} />`;
  const event = value?.event;
  if (!event) return html`<p class="pad"><span class="loading" style=${{ width: "240px" }}></span></p>`;
  return html`<div class=${`event ${isOld ? "old" : ""}`} aria-busy=${isOld}><${Shown} key=${event.seq} event=${event} /></div>`;
}

/** @param {{event: any}} props */
function Shown({ event }) {
  const columns = box.value?.columns;
  const [said, setSaid] = useState(event);
  useEffect(() => setSaid(event), [event]);
  const load = async () => setSaid((await ask("event", { chat: info.value?.key, at: `e${event.seq}`, whole: 1 })).event);
  const tokens = columns && event.seq <= columns.count ? columns.tokens[event.seq - 1] : 0;
  const isErased = columns && (columns.flags[event.seq - 1] ?? 0) & ERASED;
  const body = form.value === "json" ? said.json : form.value === "line" ? said.line : said.said.text ? said.said : said.json;
  return html`<div class="pane-head"><${EventSign} what=${event.what} failed=${event.is_failed} /><h2 class="said">${titleOf(event)}</h2>
      ${event.is_failed && html`<span class="chip red">failed</span>`}<span class="quiet">${took(event)}${tokens ? `${short(tokens)} tokens` : ""}</span><span class="grow"></span>
      <button class="button" onClick=${() => go({ why: `e${event.seq}` })}>Why <kbd aria-hidden="true">b</kbd></button>
      <button class="button" onClick=${() => copy(body.text, form.value === "text" ? "the text" : "the JSON")}><${Sign} name="copy" /> Copy</button></div>
    <div class="two-columns wide"><div>
      <div class="row"><div class="segments" role="radiogroup" aria-label="Shown as">${[["text", "Text"], ["json", "JSON"], ["line", "Line on disk"]].filter(([name]) => name === "text" || !isAlone()).map(([name, label]) => html`<button role="radio" aria-checked=${form.value === name} onClick=${() => (form.value = name)}>${label}</button>`)}</div>
        <span class="grow"></span><span class="faint">${size(body.size)}</span></div>
      ${isErased ? html`<p class="erased">Erased: what stood here is gone for good. Its place, its number and the chain stay.</p>` : null}
      <div class="card body-card">${form.value === "json" ? html`<${Json} text=${body.text} />` : form.value === "line" ? html`<pre class="code said">${plain(body.text)}</pre>`
        : html`<${Folded} key=${`${said.seq}${body.text.length}`} body=${body} isCode=${CODE.has(event.what) || !said.said.text} isOpen=${body.text.length > 65536} onWhole=${isAlone() ? undefined : load} />`}
        ${form.value !== "text" && body.size > body.text.length && !isAlone() && html`<button class="button" onClick=${load}>Load all, ${size(body.size)}</button>`}</div>
      <${Belongs} event=${event} />
    </div><aside>
      <h3>What it changed</h3><${Changed} seq=${event.seq} />
      <h3>Envelope</h3><dl class="facts">
        <dt>time</dt><dd>${whole(event.ts)}</dd>
        ${columns && html`<dt>turn</dt><dd>t${columns.turnOf(event.seq)}</dd><dt>context</dt><dd class="said">${oneLine(columns.contextAt(event.seq).title || columns.contextAt(event.seq).id)}</dd>`}
        <dt>kind</dt><dd class="mono">${event.kind}</dd>
        ${Object.entries(event.facts).map(([name, value]) => html`<dt>${name}</dt><dd class="mono said">${oneLine(String(value))}</dd>`)}</dl>
    </aside></div>`;
}

/** @param {any} event */
function titleOf(event) {
  const columns = box.value?.columns;
  const name = (/** @type {number} */ seq) => lineOf(info.value?.key ?? "", seq)?.head ?? "";
  void arrived.value;
  if (event.what === "call") return `Call of ${event.head}`;
  if (event.what === "result") return `Result of ${name(event.belongs.call ?? 0) || "a call"}`;
  if (event.what === "asked") return `Request m${columns?.requestOf(event.seq) ?? ""}`;
  if (event.what === "answered") return `Answer to m${columns?.requestOf(event.seq) ?? ""}`;
  if (event.what === "compacted") return `Compaction ${columns?.sight?.controls.find((one) => one.seq === event.seq)?.name ?? ""}`;
  return event.what.charAt(0).toUpperCase() + event.what.slice(1) + (event.head ? ` ${event.head}` : "");
}

/** @param {any} event */
function took(event) {
  const columns = box.value?.columns;
  const from = event.belongs.call ?? event.belongs.request;
  return columns && from ? `after ${((event.ts - columns.ts[from - 1]) / 1000).toFixed(1)} s${event.what === "result" ? ", " : ""}` : "";
}

/** @param {{seq: number}} props */
function Changed({ seq }) {
  const columns = box.value?.columns;
  if (!columns || seq > columns.count) return null;
  const before = columns.total[seq - 1], after = columns.total[seq];
  if (before === after) return html`<div class="card"><p class="quiet">Nothing changes for the model.</p></div>`;
  const here = new Set(columns.itemsAt(seq)), there = columns.itemsAt(seq - 1);
  const less = there.filter((one) => !here.has(one)).length;
  const more = here.size - (there.length - less);
  const limit = Math.max(info.value?.limit ?? 0, before, after, 1);
  const word = (/** @type {number} */ count, /** @type {string} */ end) => `${count === 0 ? "none" : count} ${end}`;
  return html`<div class="card"><p><b>${short(before)} to ${short(after)}</b> <span class="quiet">in the context</span></p>
    <div class="bar change-bar"><i class=${`f-${CATEGORIES[columns.category(seq)]}`} style=${{ width: `${(100 * Math.min(before, after)) / limit}%` }}></i><i class=${after > before ? "came" : "went"} style=${{ width: `${(100 * Math.abs(after - before)) / limit}%` }}></i></div>
    <p class="quiet">${more === 1 ? "1 item more" : `${word(more, "items more").replace("none items", "no item")}`}, ${word(less, "less")}.</p></div>`;
}

/** @param {{event: any}} props */
function Belongs({ event }) {
  const columns = box.value?.columns;
  if (!columns) return null;
  const turn = columns.turns[columns.turnOf(event.seq) - 1];
  const request = columns.asked[columns.requestOf(event.seq) - 1];
  const after = columns.asked[columns.requestOf(event.seq)];
  /** @type {Map<number, string>} */
  const found = new Map();
  if (turn) found.set(turn, `turn ${columns.turnOf(event.seq)}`);
  if (request && request >= (turn ?? 0)) found.set(request, "request");
  for (const [name, seq] of Object.entries(event.belongs)) found.set(/** @type {number} */ (seq), name);
  found.set(event.seq, "this event");
  if (after && columns.tokens[event.seq - 1]) found.set(after, "sent first with this");
  const list = [...found].sort(([one], [other]) => one - other);
  return html`<h3>What it belongs to</h3><div class="belongs">${list.map(([seq, word]) => {
    const line = lineOf(info.value?.key ?? "", seq);
    const what = columns.what(seq);
    const text = what === "asked" ? `m${columns.requestOf(seq)}, ${short(columns.total[seq])} tokens in` : [line?.head, line?.text].filter(Boolean).join(" ");
    return html`<button class=${`belongs-row ${seq === event.seq ? "chosen" : ""}`} onClick=${() => moveTo(seq)}><${EventSign} what=${what} failed=${Boolean(line?.is_failed)} /><span class="link">e${seq}</span><span class="grow cut said">${oneLine(text || "…")}</span><span class="quiet">${word}</span></button>`;
  })}</div>`;
}
