// The difference of two texts, word by word: what was taken out is red and struck, what came is green.
import { html } from "./vendor/preact.js";
import { plain } from "./text.js";

const MOST = 1500; // words of each: beyond, only the beginning and the end that both have are found

/** @param {string} before @param {string} after @returns {[string, string][]} "same", "out" or "in", and the text */
export function difference(before, after) {
  const one = before.split(/(\s+)/), other = after.split(/(\s+)/);
  let start = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start++;
  let end = 0;
  while (end < one.length - start && end < other.length - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  const middle = between(one.slice(start, one.length - end), other.slice(start, other.length - end));
  /** @type {[string, string][]} */
  const found = [["same", one.slice(0, start).join("")], ...middle, ["same", end ? one.slice(-end).join("") : ""]];
  return found.filter(([, text]) => text);
}

/** @param {string[]} one @param {string[]} other @returns {[string, string][]} */
function between(one, other) {
  if (one.length > MOST || other.length > MOST) return [["out", one.join("")], ["in", other.join("")]];
  const width = other.length + 1;
  const table = new Uint16Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      const at = i * width + j;
      table[at] = one[i] === other[j] ? table[at + width + 1] + 1 : Math.max(table[at + width], table[at + 1]);
    }
  }
  /** @type {[string, string][]} */
  const found = [];
  const put = (/** @type {string} */ kind, /** @type {string} */ text) => {
    const last = found.at(-1);
    if (last && last[0] === kind) last[1] += text;
    else found.push([kind, text]);
  };
  let i = 0, j = 0;
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) {
      put("same", one[i++]);
      j++;
    } else if (j >= other.length || (i < one.length && table[(i + 1) * width + j] >= table[i * width + j + 1])) put("out", one[i++]);
    else put("in", other[j++]);
  }
  return found;
}

/** @param {{before: string, after: string, side?: "both" | "out" | "in"}} props */
export function Words({ before, after, side = "both" }) {
  const shown = difference(before, after).filter(([kind]) => side === "both" || kind === "same" || kind === side);
  return html`<span class="words said">${shown.map(([kind, text]) =>
    kind === "out" ? html`<del>${plain(text)}</del>` : kind === "in" ? html`<ins>${plain(text)}</ins>` : plain(text))}</span>`;
}

/** The words of one text that are in another, marked. @param {{text: string, words: string}} props */
export function Marked({ text, words }) {
  const wanted = new Set(words.toLowerCase().match(/[\p{L}\p{N}_]{4,}/gu) ?? []);
  const pieces = text.split(/([\p{L}\p{N}_]{4,})/u);
  return html`<span class="said">${pieces.map((piece) => (wanted.has(piece.toLowerCase()) ? html`<mark>${piece}</mark>` : plain(piece)))}</span>`;
}
