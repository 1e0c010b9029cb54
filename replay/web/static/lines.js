// The texts of the list, by pages. A page is asked for when one of its lines is shown and the cursor has rested; the last ones are kept.
import { signal } from "./vendor/preact.js";
import { PAGE, ask, blockValue, hasBlock, isAlone, pageOf } from "./source.js";

/** @typedef {{seq: number, ts: number, what: string, kind: string, text?: string, head?: string, run?: string, is_failed?: boolean, tokens?: [number, number]}} Line */

const KEPT = 200;
const REST = 40; // milliseconds

/** @type {Map<number, Line>} */
const known = new Map();
/** @type {Map<number, boolean>} the pages that are here, or asked for */
const pages = new Map();
/** @type {Set<number>} */
let wanted = new Set();
let timer = 0;
let chat = "";

/** Changes whenever lines have come. */
export const arrived = signal(0);

export function forgetLines() {
  known.clear();
  pages.clear();
  wanted = new Set();
  chat = "";
}

/** @param {string} key @param {number} seq @returns {Line | undefined} */
export function lineOf(key, seq) {
  if (key !== chat) {
    forgetLines();
    chat = key;
  }
  const found = known.get(seq);
  const page = pageOf(seq);
  if (!found && !pages.has(page) && !wanted.has(page)) {
    wanted.add(page);
    clearTimeout(timer); // while the cursor is dragged nothing is asked for
    timer = setTimeout(fetchWanted, pages.size ? REST : 0);
  }
  return found;
}

/** The lines around an entry, before anybody shows them: what is read first is there first. @param {string} key @param {number} seq */
export async function fetchAhead(key, seq) {
  lineOf(key, Math.max(1, seq));
  lineOf(key, Math.max(1, seq - 30));
  clearTimeout(timer);
  await fetchWanted();
}

async function fetchWanted() {
  timer = 0;
  const mine = chat;
  const asked = [...wanted].slice(-6);
  wanted = new Set();
  await Promise.all(asked.map(async (page) => {
    pages.set(page, true);
    try {
      const lines = await linesOf(mine, page);
      if (mine !== chat) return;
      for (const line of lines) known.set(line.seq, line);
    } catch {
      pages.delete(page); // asked for again when it is looked at again
    }
  }));
  while (pages.size > KEPT) {
    const [oldest] = pages.keys();
    pages.delete(oldest);
    for (let seq = oldest * PAGE + 1; seq <= (oldest + 1) * PAGE; seq++) known.delete(seq);
  }
  arrived.value++;
}

/** @param {string} key @param {number} page @returns {Promise<Line[]>} */
async function linesOf(key, page) {
  if (isAlone()) return fromBlock(page);
  return (await ask("lines", { chat: key, first: page * PAGE + 1, last: (page + 1) * PAGE })).lines;
}

/** In a page of its own: what was left out of it says so. @param {number} page @returns {Promise<Line[]>} */
async function fromBlock(page) {
  /** @type {Line[]} */
  const found = hasBlock(`entries/${page}`) ? Object.values(await blockValue(`entries/${page}`)).flatMap((one) => one.line ?? []) : [];
  const there = new Set(found.map((line) => line.seq));
  for (let seq = page * PAGE + 1; seq <= (page + 1) * PAGE; seq++) {
    if (!there.has(seq)) found.push({ seq, ts: 0, what: "", kind: "", text: "not in this page" });
  }
  return found;
}

/** Those that came by the live tail. @param {Line[]} lines */
export function addLines(lines) {
  for (const line of lines) known.set(line.seq, line);
  arrived.value++;
}

/** After an erasure nothing that was known may stay. */
export function dropTexts() {
  known.clear();
  pages.clear();
  arrived.value++;
}
