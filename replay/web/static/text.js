// Texts that others wrote: always text, never markup. Control characters and what turns the direction of writing are shown as chips.
// Markdown becomes elements of our own making; there is no HTML in it, no picture, and nothing is fetched.
import { html, useState } from "./vendor/preact.js";
import { size } from "./format.js";
import { isAlone } from "./source.js";

const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]/u;
const ODDS = new RegExp(`(${ODD.source})`, "u");

/** With what cannot be seen made visible. @param {string} text @returns {any} */
export function plain(text) {
  if (!ODD.test(text)) return text;
  return text.split(ODDS).map((piece) =>
    piece && ODD.test(piece)
      ? html`<span class="control-character">${piece.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}</span>`
      : piece,
  );
}

/** On one line, cut by the browser. @param {string} text */
export const oneLine = (text) => plain(text.replace(/\s+/g, " "));

// Everything is bounded: a text of one opening after the other takes no more time than its length.
const INLINE = /(?<!`)(`{1,9})(?!`)([^`]|[^`][\s\S]{0,2000}?[^`])\1(?!`)|\*\*(?=\S)([\s\S]{0,2000}?\S)\*\*|(?<![\w*])\*(?=[^\s*])([^*]{0,2000}?[^\s*])\*(?![\w*])|(?<!\w)_(?=[^\s_])([^_]{0,2000}?[^\s_])_(?!\w)|~~(?=\S)([\s\S]{0,2000}?\S)~~|\[([^\]\n]{1,500})\]\((https?:\/\/[^\s)]{1,2000})\)|(https?:\/\/[^\s<>()"'`]{1,2000}[^\s<>()"'`.,;:!?])/;

/** @param {string} text @returns {any[]} */
function inline(text) {
  const found = [];
  let rest = text;
  for (let many = 0; rest && many < 2000; many++) {
    const match = INLINE.exec(rest);
    if (!match) break;
    if (match.index) found.push(plain(rest.slice(0, match.index)));
    const [all, , code, strong, star, under, struck, label, href, bare] = match;
    if (code !== undefined) found.push(html`<code>${plain(code)}</code>`);
    else if (strong !== undefined) found.push(html`<strong>${inline(strong)}</strong>`);
    else if (star !== undefined || under !== undefined) found.push(html`<em>${inline(star ?? under)}</em>`);
    else if (struck !== undefined) found.push(html`<s>${inline(struck)}</s>`);
    else found.push(html`<a href=${href ?? bare} target="_blank" rel="noopener noreferrer">${plain(label ?? bare)}</a>`);
    rest = rest.slice(match.index + all.length);
  }
  if (rest) found.push(plain(rest));
  return found;
}

/** @param {{text: string}} props */
export function Markdown({ text }) {
  return html`<div class="markdown said" dir="auto">${blocks(text.split("\n"))}</div>`;
}

const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([\w+-]*)\s*$/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

const DEEPEST = 6; // quotes in quotes

/** @param {string[]} lines @param {number} [depth] @returns {any[]} */
function blocks(lines, depth = 0) {
  const found = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (!line.trim()) at++;
    else if (fence) {
      const ends = lines.findIndex((one, i) => i > at && one.trim().startsWith(fence[1]) && !one.trim().slice(fence[1].length).trim());
      const end = ends < 0 ? lines.length : ends;
      found.push(html`<${Code} text=${lines.slice(at + 1, end).join("\n")} language=${fence[2]} />`);
      at = end + 1;
    } else if (heading) {
      found.push(html`<p class=${`heading h${heading[1].length}`}>${inline(heading[2])}</p>`);
      at++;
    } else if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) {
      found.push(html`<hr />`);
      at++;
    } else {
      const taken = depth < DEEPEST && /^\s{0,3}>/.test(line) ? quote(lines, at, depth) : ITEM.test(line) ? list(lines, at) : isTable(lines, at) ? table(lines, at) : paragraph(lines, at);
      found.push(taken.made);
      at = taken.next;
    }
  }
  return found;
}

/** @param {string[]} lines @param {number} at @param {(line: string, i: number) => boolean} belongs */
function run(lines, at, belongs) {
  let next = at;
  while (next < lines.length && belongs(lines[next], next)) next++;
  return next;
}

/** @param {string[]} lines @param {number} at @param {number} depth */
function quote(lines, at, depth) {
  const next = run(lines, at, (line) => /^\s{0,3}>/.test(line));
  return { made: html`<blockquote>${blocks(lines.slice(at, next).map((line) => line.replace(/^\s{0,3}>\s?/, "")), depth + 1)}</blockquote>`, next };
}

/** @param {string[]} lines @param {number} at */
function list(lines, at) {
  const next = run(lines, at, (line, i) => ITEM.test(line) || (i > at && /^\s{2,}\S/.test(line)));
  const items = lines.slice(at, next).map((line) => ITEM.exec(line) ?? [line, "  ", "", line.trim()]);
  const made = items.map(([, indent, sign, said]) =>
    html`<li class=${`indent${Math.min(3, Math.floor((indent ?? "").length / 2))}`}><span class="bullet">${/\d/.test(sign) ? sign : sign ? "•" : ""}</span><span>${inline(said)}</span></li>`);
  return { made: html`<ul>${made}</ul>`, next };
}

/** @param {string[]} lines @param {number} at */
const isTable = (lines, at) => lines[at].includes("|") && /^\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$/.test(lines[at + 1] ?? "");

/** @param {string[]} lines @param {number} at */
function table(lines, at) {
  const next = run(lines, at, (line) => line.includes("|"));
  const cells = (/** @type {string} */ line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const [head, , ...rows] = lines.slice(at, next);
  return {
    made: html`<div class="scroll"><table><thead><tr>${cells(head).map((cell) => html`<th>${inline(cell)}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr>${cells(row).map((cell) => html`<td>${inline(cell)}</td>`)}</tr>`)}</tbody></table></div>`,
    next,
  };
}

/** @param {string[]} lines @param {number} at */
function paragraph(lines, at) {
  const next = Math.max(at + 1, run(lines, at, (line, i) => line.trim() !== "" && (i === at || !(FENCE.test(line) || HEADING.test(line) || ITEM.test(line)))));
  const said = lines.slice(at, next).flatMap((line, i) => (i ? [html`<br />`, ...inline(line)] : inline(line)));
  return { made: html`<p>${said}</p>`, next };
}

/** @param {{text: string, language?: string}} props */
export function Code({ text, language = "" }) {
  return html`<pre class="code said" dir="ltr" data-language=${language}>${plain(text)}</pre>`;
}

const FOLDED = 5; // lines

/**
 * A body: folded with its size; all of it on demand.
 * @param {{body: {text: string, size: number}, isCode?: boolean, isOpen?: boolean, onWhole?: () => void}} props
 */
export function Folded({ body, isCode = false, isOpen = false, onWhole = undefined }) {
  const [open, setOpen] = useState(isOpen);
  const lines = body.text.split("\n");
  const isLong = lines.length > 12 || body.text.length > 900;
  const text = open || !isLong ? body.text : cut(lines);
  return html`<div class="folded">
    ${isCode ? html`<${Code} text=${text} />` : html`<${Markdown} text=${text} />`}
    ${isLong && html`<button class="button" aria-expanded=${open} onClick=${() => {
      setOpen(!open);
      if (!open && body.size > body.text.length) onWhole?.();
    }}>${open ? "Fold" : `Show all, ${size(body.size)}`}</button>`}
    ${open && !onWhole && body.size > body.text.length && html`<p class="faint">The first ${size(body.text.length)} of ${size(body.size)}${isAlone() ? " are in this page." : ". The event has all of it."}</p>`}
  </div>`;
}

/** @param {string[]} lines */
const cut = (lines) => {
  const text = lines.slice(0, FOLDED).join("\n");
  return text.length > 700 ? `${text.slice(0, 700)}…` : text;
};
