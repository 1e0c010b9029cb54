// Find in this chat: the browser's own search does not see a list of which only a part is there.
import { html, signal, useEffect, useRef } from "./vendor/preact.js";
import { go, place } from "./address.js";
import { asProblem, cursor, info, moveTo } from "./chat.js";
import { grouped } from "./format.js";
import { streamed } from "./source.js";
import { focusList } from "./screen.js";
import { Sign } from "./signs.js";

/** @type {import("./vendor/preact.js").Signal<{query: string, words: string[], seqs: number[], hasMore: boolean, problem: string, isLooking: boolean}>} */
export const hits = signal({ query: "", words: [], seqs: [], hasMore: false, problem: "", isLooking: false });
export const isFinding = signal(false);

let stop = new AbortController();

/** @param {string} query */
export async function find(query) {
  stop.abort();
  stop = new AbortController();
  const words = (query.match(/"[^"]+"|\S+/g) ?? []).map((word) => word.replaceAll('"', "")).filter(Boolean);
  hits.value = { query, words, seqs: [], hasMore: false, problem: "", isLooking: Boolean(words.length) };
  if (!words.length || !info.value) return;
  const mine = stop.signal;
  try {
    for await (const { hits: found } of streamed("search", { q: query, only: info.value.key }, mine)) {
      const seqs = found.hits.map((/** @type {any} */ one) => one.seq).sort((/** @type {number} */ a, /** @type {number} */ b) => a - b);
      hits.value = { ...hits.value, seqs, hasMore: found.has_more, problem: found.error };
    }
  } catch (error) {
    if (!mine.aborted) hits.value = { ...hits.value, problem: asProblem(error).message };
  }
  if (!mine.aborted) hits.value = { ...hits.value, isLooking: false };
}

/** The next hit, or the one before; around at the ends. @param {number} by */
export function nextHit(by) {
  const { seqs } = hits.value;
  if (!seqs.length) return;
  const next = by > 0 ? seqs.find((seq) => seq > cursor.value) ?? seqs[0] : seqs.findLast((seq) => seq < cursor.value) ?? seqs[seqs.length - 1];
  moveTo(next);
}

export function FindBar() {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    if (isFinding.value) input.current?.focus();
  }, [isFinding.value]);
  useEffect(() => {
    if (place.value.find && place.value.find !== hits.value.query) void find(place.value.find);
  }, [place.value.find, info.value?.key]);
  if (!isFinding.value && !hits.value.query) return null;
  const { seqs, query, problem, isLooking, hasMore } = hits.value;
  const at = seqs.indexOf(cursor.value);
  const said = problem || (isLooking ? "…" : query ? (seqs.length ? `${at + 1 || "–"} of ${grouped(seqs.length)}${hasMore ? "+" : ""}` : "nothing says this") : "");
  return html`<div class="find" role="search">
    <${Sign} name="search" /><input ref=${input} aria-label="Search in this chat" placeholder="Search in this chat" value=${query}
      onInput=${(/** @type {any} */ event) => { go({ find: event.target.value }, { step: true }); void find(event.target.value); }}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => findKey(event)} />
    <span class="faint">${said}</span>
    <button aria-label="Previous hit" onClick=${() => nextHit(-1)}><${Sign} name="left" /></button>
    <button aria-label="Next hit" onClick=${() => nextHit(1)}><${Sign} name="right" /></button>
    <button aria-label="Close" onClick=${endFinding}><${Sign} name="close" /></button>
  </div>`;
}

/** @param {KeyboardEvent} event */
function findKey(event) {
  if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape") endFinding();
  else return;
  event.preventDefault();
}

export function endFinding() {
  isFinding.value = false;
  hits.value = { query: "", words: [], seqs: [], hasMore: false, problem: "", isLooking: false };
  if (place.value.find) go({ find: "" }, { step: true });
  focusList();
}
