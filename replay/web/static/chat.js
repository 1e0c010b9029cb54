// The chat that is looked at: its columns, its lines, and the one cursor from which everything on the screen follows.
import { batch, computed, effect, signal } from "./vendor/preact.js";
import { go, place } from "./address.js";
import { Columns } from "./columns.js";
import { addLines, fetchAhead, forgetLines } from "./lines.js";
import { Problem, address, ask, blockBytes, blockValue, fetchAnswer, isAlone } from "./source.js";

/** @typedef {{key: string, title: string, end: number, link: string, is_running: boolean, model: string, limit: number, parent: string, at: number}} Info */

/** @type {import("./vendor/preact.js").Signal<{name: string, only: string, writes: boolean, kinds: string[]} | null>} */
export const store = signal(null);
/** @type {import("./vendor/preact.js").Signal<Info | null>} */
export const info = signal(null);
/** @type {import("./vendor/preact.js").Signal<{columns: Columns} | null>} a new box whenever the columns grew */
export const box = signal(null);
/** @type {import("./vendor/preact.js").Signal<Problem | null>} what keeps the chat from being shown */
export const trouble = signal(null);
/** @type {import("./vendor/preact.js").Signal<number>} the entry that everything is shown after */
export const cursor = signal(0);
/** The same, for what is costly to draw: at once after a single step, else when the cursor has rested. */
export const settled = signal(0);
/** Events that came since and were not looked at. */
export const unseen = signal(0);
export const following = signal(false);
/** @type {import("./vendor/preact.js").Signal<string>} live, off, or lost */
export const link = signal("off");
/** The text of an answer that is being given. */
export const coming = signal("");

export const end = computed(() => info.value?.end ?? 0);
export const mark = computed(() => (/^e\d+$/.test(place.value.a) ? Math.min(Number(place.value.a.slice(1)), end.value) : 0));
export const isReady = computed(() => box.value !== null && box.value.columns.count >= end.value && box.value.columns.sight !== null);

/** @type {import("./vendor/preact.js").Signal<any[]>} the chats of one origin with this one, as a tree */
export const family = signal([]);
export const forks = computed(() => family.value.filter((one) => one.parent === info.value?.key && !one.is_gone));
/** @type {import("./vendor/preact.js").Signal<any>} what the replay came to; null: it was not run */
export const verdict = signal(null);
export const divergence = computed(() => verdict.value?.divergence?.seq ?? 0);

const REST = 40; // milliseconds
const SOON = 100; // until which nobody sees a difference
const APART = 90; // between two steps that are drawn whole
let moved = 0;
let resting = 0;

effect(() => {
  const to = cursor.value;
  clearTimeout(resting);
  const now = performance.now();
  if (now - moved > APART) settled.value = to;
  else resting = setTimeout(() => (settled.value = to), REST);
  moved = now;
});

const rest = (/** @type {number} */ time) => new Promise((done) => setTimeout(done, time));
let opening = 0;

/** @param {string} key */
export async function open(key) {
  const mine = ++opening;
  batch(() => {
    info.value = box.value = trouble.value = verdict.value = null;
    family.value = [];
    unseen.value = 0;
    following.value = false;
    coming.value = "";
    cursor.value = 0;
  });
  forgetLines();
  try {
    const named = /^e?(\d+)$/.exec(place.value.at);
    const ahead = named && !isAlone() ? fetchAhead(key, Number(named[1])) : null;
    const { chat } = await get("chat", { chat: key });
    const at = await seqOf(chat, place.value.at);
    await resolveMark(chat);
    const lines = ahead ?? (isAlone() ? null : fetchAhead(key, at));
    await Promise.race([lines, rest(SOON)]); // with its lines the list is drawn once
    if (mine !== opening) return;
    batch(() => {
      info.value = chat;
      cursor.value = at;
    });
    await lines;
    await new Promise(requestAnimationFrame); // the rows are seen before what takes longer is asked for
    if (mine === opening) await readColumns(key, () => mine === opening);
  } catch (error) {
    if (mine === opening) trouble.value = asProblem(error);
  }
}

export const asProblem = (/** @type {unknown} */ error) =>
  error instanceof Problem ? error : new Problem({ kind: "lost", error: String(error) });

/** @param {string} name @param {Record<string, any>} query */
export function get(name, query) {
  return isAlone() ? blockValue(name) : ask(name, query);
}

/** @param {string} key @param {() => boolean} isWanted */
async function readColumns(key, isWanted) {
  const sight = get("sight", { chat: key });
  sight.catch(() => null); // it is waited for below
  const columns = new Columns(await kinds());
  if (isAlone()) columns.add((await blockBytes("columns")).slice().buffer);
  else while (columns.count < end.value) {
    const buffer = await (await fetchAnswer("columns", { chat: key, first: columns.count + 1 })).arrayBuffer();
    if (!isWanted()) return;
    columns.add(buffer);
    if (columns.count < end.value) box.value = { columns };
  }
  const told = (await sight).sight;
  if (!isWanted()) return;
  columns.see(told);
  box.value = { columns };
}

/** What the columns call kinds: said by the store. @returns {Promise<string[]>} */
function kinds() {
  return new Promise((resolve) => {
    const stop = effect(() => {
      if (store.value) queueMicrotask(() => { stop(); resolve(store.value?.kinds ?? []); });
    });
  });
}

/** @param {Info} chat @param {string} at */
async function seqOf(chat, at) {
  if (!at || at === "head") return chat.end;
  const found = /^e?(\d+)$/.exec(at);
  if (found && Number(found[1]) <= chat.end) return Number(found[1]);
  return (await ask("point", { chat: chat.key, at: found ? found[1] : at })).seq;
}

/** A of the address may be any point of the grammar; from then on it is an event. @param {Info} chat */
async function resolveMark(chat) {
  const { a } = place.value;
  if (a && !isAlone() && !/^e\d+$/.test(a)) go({ a: `e${await seqOf(chat, a)}` }, { step: true });
}

/** Moves the cursor. @param {number} seq @param {{step?: boolean} & Partial<import("./address.js").Place>} [how] */
export function moveTo(seq, { step = false, ...change } = {}) {
  const to = Math.min(Math.max(seq, 0), end.value);
  batch(() => {
    cursor.value = to;
    if (to >= end.value) unseen.value = 0;
    go({ at: `e${to}`, ...change }, { step });
  });
}

/** To any point of the grammar; says what is wrong with it. @param {string} text */
export async function moveToPoint(text) {
  if (!info.value) return "";
  const [chat, at] = text.includes("@") ? [text.slice(0, text.lastIndexOf("@")), text.slice(text.lastIndexOf("@") + 1)] : ["", text];
  if (chat && chat !== info.value.key) {
    go({ chat, at, a: "", why: "" });
    return "";
  }
  const number = /^e?(\d+)$/.exec(at);
  if (number && Number(number[1]) > end.value) return `There is no e${number[1]}: the chat ends at e${end.value}.`;
  try {
    moveTo(await seqOf(info.value, at));
    return "";
  } catch (error) {
    return asProblem(error).message;
  }
}

/** The place of the address bar, after back or forward. */
export async function followAddress() {
  const chat = info.value;
  if (!chat) return;
  try {
    cursor.value = await seqOf(chat, place.value.at);
    await resolveMark(chat);
  } catch (error) {
    trouble.value = asProblem(error);
  }
}

// --- what comes while we look ----------------------------------------------------------------------------

/** @param {{chat: Info, first: number, lines: any[], columns: string, again: boolean}} news */
export function append(news) {
  const columns = box.value?.columns;
  const wasAtHead = cursor.value >= end.value;
  batch(() => {
    const before = end.value;
    info.value = news.chat;
    coming.value = "";
    addLines(news.lines);
    if (news.again || !columns) void readColumns(news.chat.key, () => info.value?.key === news.chat.key);
    else if (news.columns && columns.count >= news.first - 1) {
      const skip = columns.count - (news.first - 1);
      const packed = Uint8Array.from(atob(news.columns), (one) => one.charCodeAt(0));
      if (skip === 0) columns.add(packed.buffer);
      box.value = { columns };
    }
    if (wasAtHead || following.value) {
      cursor.value = news.chat.end;
      if (place.value.at) go({ at: "" }, { step: true });
    } else unseen.value += news.chat.end - before;
  });
}

/** @param {import("./columns.js").Sight} sight */
export function seeAgain(sight) {
  const columns = box.value?.columns;
  if (!columns) return;
  columns.see(sight);
  box.value = { columns };
}

export { address };
