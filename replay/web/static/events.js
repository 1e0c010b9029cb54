// The events: a virtual list of fixed rows, drawn by hand since it is redrawn with every step. A question is the header of its turn and
// stays in view; what lies behind the cursor's future is unlit.
import { html, useLayoutEffect, useRef } from "./vendor/preact.js";
import { go, place } from "./address.js";
import { box, coming, cursor, divergence, end, following, info, mark, moveTo, unseen } from "./chat.js";
import { FAILED, TURN, upto } from "./columns.js";
import { clock, counted, grouped, short, since } from "./format.js";
import { kindsOf, KindFilter } from "./filter.js";
import { lastSeen } from "./last_seen.js";
import { arrived, lineOf } from "./lines.js";
import { Note } from "./note.js";
import { Rows } from "./rows.js";
import { Sign, signOf } from "./signs.js";
import { oneLine } from "./text.js";
import { hits } from "./find.js";

const HEIGHT = 24;

/** @type {{key: string, rows: Uint32Array}} */
let kept = { key: "", rows: new Uint32Array(0) };

/** The seqs of the rows; until the columns are here, every entry. @returns {Uint32Array | null} */
export function rowsNow() {
  const columns = box.value?.columns;
  if (!columns || columns.count < end.value) return null;
  const key = `${info.value?.key} ${columns.count} ${place.value.kinds} ${place.value.errors}`;
  if (kept.key !== key) kept = { key, rows: columns.rows(kindsOf(place.value.kinds), place.value.errors) };
  return kept.rows;
}

/** The row on which an entry stands: its own, or that of the call it answers. @param {Uint32Array | null} rows @param {number} seq */
export function rowOf(rows, seq) {
  if (!rows) return seq - 1;
  const columns = box.value?.columns;
  const pair = columns?.pair[seq - 1] ?? 0;
  const at = upto(rows, seq) - 1;
  if (rows[at] !== seq && pair && pair < seq) {
    const other = upto(rows, pair) - 1;
    if (rows[other] === pair) return other;
  }
  return at;
}

export function Events() {
  const list = useRef(/** @type {HTMLDivElement | null} */ (null));
  const view = useRef(/** @type {Rows | null} */ (null));
  useLayoutEffect(() => {
    if (!list.current) return undefined;
    const made = new Rows(list.current, HEIGHT, drawRow, (at) => moveTo(seqAt(at)));
    view.current = made;
    return () => made.close();
  }, []);
  const rows = rowsNow();
  const count = rows ? rows.length : end.value;
  const seq = cursor.value;
  const at = rowOf(rows, seq);
  void [arrived.value, mark.value, divergence.value, hits.value, coming.value, lastSeen.value];
  useLayoutEffect(() => view.current?.show(count, at, count ? headerOf(rows) : null));
  return html`<section class="events" aria-label="Events">
    <${ListBar} rows=${rows} view=${view} />
    <div class="list" ref=${list} tabindex="0" role="grid" aria-label="Events" aria-rowcount=${count} aria-colcount="1" aria-activedescendant=${at >= 0 ? `row-${at}` : undefined}></div>
    ${!count && end.value > 0 && html`<${Empty} />`}
    ${coming.value && html`<p class="coming" aria-live="off"><span class="dot"></span><span class="said cut">${oneLine(coming.value.slice(-200))}</span></p>`}
    ${unseen.value > 0 && html`<button class="button primary new-events" onClick=${followNow}>${counted(unseen.value, "new event")} <kbd>F</kbd></button>`}
  </section>`;
}

export function followNow() {
  following.value = !following.value || unseen.value > 0;
  if (following.value) moveTo(end.value);
}

function Empty() {
  return html`<${Note} sign="filter" title=${`Nothing of this kind between e1 and e${end.value}`}>
    <div class="row"><button class="button" onClick=${() => go({ kinds: "", errors: false })}>Show all kinds</button></div><//>`;
}

/** @param {{rows: Uint32Array | null, view: {current: Rows | null}}} props */
function ListBar({ rows, view }) {
  const errors = box.value?.columns.errors.length ?? 0;
  const [first, last] = view.current?.range.value ?? [0, 0];
  const seq = (/** @type {number} */ at) => (rows ? (rows[Math.min(at, rows.length - 1)] ?? 0) : at + 1);
  return html`<div class="list-bar">
    <${KindFilter} />
    <button class=${`plain ${place.value.errors ? "on" : ""}`} aria-pressed=${place.value.errors} disabled=${!errors && !place.value.errors} onClick=${() => go({ errors: !place.value.errors })}>
      <${Sign} name="failed" colour=${errors ? "red" : "faint"} /> ${counted(errors, "error")}</button>
    <span class="grow"></span><span class="faint shown">${last > first ? `${grouped(seq(first))}–${grouped(seq(last - 1))} of ${grouped(end.value)}` : ""}</span>
  </div>`;
}

/** @param {number} at */
function seqAt(at) {
  const rows = rowsNow();
  return rows ? rows[at] : at + 1;
}

/** The question of the turn that the first row in sight is in. @param {Uint32Array | null} rows */
function headerOf(rows) {
  const columns = box.value?.columns;
  if (!columns || !rows) return null;
  return (/** @type {number} */ first) => {
    const turn = columns.turns[columns.turnOf(rows[first]) - 1];
    const at = turn ? upto(rows, turn) - 1 : -1;
    return at >= 0 && rows[at] === turn && at < first ? at : -1;
  };
}

// --- one row ---------------------------------------------------------------------------------------------

/** @param {HTMLElement} row @param {number} at */
function drawRow(row, at) {
  const seq = seqAt(at);
  const columns = box.value?.columns;
  const line = lineOf(info.value?.key ?? "", seq);
  const what = columns && seq <= columns.count ? columns.what(seq) : (line?.what ?? "");
  const pair = columns?.pair[seq - 1] ?? 0;
  const answer = pair > seq ? pair : 0;
  const failed = Boolean(((columns?.flags[seq - 1] ?? 0) | (answer ? (columns?.flags[answer - 1] ?? 0) : 0)) & FAILED);
  const isTurn = Boolean((columns?.flags[seq - 1] ?? 0) & TURN);
  const isCursor = seq === cursor.value || (answer > 0 && answer === cursor.value);
  const isFuture = seq > cursor.value;
  const classes = ["row", `of-${what.replace(" ", "-")}`];
  if (isTurn) classes.push("of-turn");
  if (isCursor) classes.push("here");
  if (isFuture) classes.push("future");
  if (failed) classes.push("failed");
  if (divergence.value && (seq === divergence.value || answer === divergence.value)) classes.push("divergent");
  const isNew = lastSeen.value > 0 && seq > lastSeen.value && (at === 0 || seqAt(at - 1) <= lastSeen.value);
  if (isNew) classes.push("first-new");
  const asWas = `${seq} ${classes.join(" ")} ${line ? 1 : 0} ${mark.value === seq} ${answer} ${columns?.count === end.value} ${hits.value.query} ${failed && answer ? lineOf(info.value?.key ?? "", answer)?.seq : ""}`;
  row.id = `row-${at}`;
  if (row.dataset.was === asWas) return;
  row.dataset.was = asWas;
  row.className = classes.join(" ");
  row.setAttribute("aria-rowindex", String(at + 1));
  row.setAttribute("aria-selected", String(isCursor));
  row.title = isNew ? "New since you looked last" : "";
  const [mark_, number, sign, says, tokens, time] = row.children;
  mark_.textContent = mark.value === seq ? "A" : "";
  number.textContent = String(seq);
  const [name, colour] = signOf(what, failed);
  drawSign(sign, name, isFuture ? "faint" : colour, what);
  if (!line) {
    says.replaceChildren(skeleton(seq));
    tokens.textContent = time.textContent = "";
    return;
  }
  drawSays(says, line, what, seq, isTurn, failed && answer ? lineOf(info.value?.key ?? "", answer)?.text : undefined);
  tokens.textContent = columns && seq <= columns.count ? tokensOf(columns, seq, what, answer) : "";
  const start = columns?.turns[columns.turnOf(seq) - 1];
  time.textContent = isTurn || !start || !columns ? clock(line.ts) : since(line.ts - columns.ts[start - 1]);
}

/** @param {Element} place_ @param {string} name @param {string} colour @param {string} what */
function drawSign(place_, name, colour, what) {
  const wanted = `${name} ${colour} ${what}`;
  if (place_.getAttribute("data-sign") === wanted) return;
  place_.setAttribute("data-sign", wanted);
  const word = document.createElement("span");
  word.className = "unseen";
  word.textContent = what;
  place_.replaceChildren(signNode(name, colour), word);
}

/** @type {Map<string, SVGElement>} */
const drawn = new Map();

/** @param {string} name @param {string} colour */
function signNode(name, colour) {
  const kept_ = drawn.get(name);
  const node = /** @type {SVGElement} */ ((kept_ ?? signTemplate(name)).cloneNode(true));
  node.setAttribute("class", `sign k-${colour}`);
  return node;
}

/** @param {string} name */
function signTemplate(name) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  made.setAttribute("viewBox", "0 0 14 14");
  made.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#sign-${name}`);
  made.append(use);
  drawn.set(name, made);
  return made;
}

/** @param {number} seq */
function skeleton(seq) {
  const bar = document.createElement("span");
  bar.className = "loading";
  bar.style.width = `${80 + ((seq * 37) % 160)}px`;
  return bar;
}

/** @param {Element} says @param {import("./lines.js").Line} line @param {string} what @param {number} seq @param {boolean} isTurn @param {string} [failure] */
function drawSays(says, line, what, seq, isTurn, failure) {
  const columns = box.value?.columns;
  const pieces = [];
  if (isTurn && columns) pieces.push(piece("faint mono", `t${columns.turnOf(seq)} `));
  if (what === "asked") pieces.push(piece("", "asked "), piece("mono faint", columns ? `m${columns.requestOf(seq)}` : ""));
  else if (what === "compacted") {
    const name = columns?.sight?.controls.find((one) => one.seq === seq)?.name ?? "";
    pieces.push(piece("k-summary strong", `compacted ${name} `), piece("quiet", `${counted(columns?.leaving.get(seq) ?? 0, "item")} behind a summary`));
  } else if (what === "call") pieces.push(piece("strong", `${line.head ?? ""} `), piece("mono", line.text ?? ""));
  else if (what === "user" || what === "assistant" || what === "result" || what === "injected") pieces.push(piece(isTurn ? "strong" : "", line.text ?? ""));
  else pieces.push(piece("quiet", `${what} `), piece("", [line.head, line.text].filter(Boolean).join(" ")));
  if (failure) pieces.push(piece("k-red", ` ${failure}`));
  says.replaceChildren(...pieces);
}

const ODD = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** @param {string} classes @param {string} text */
function piece(classes, text) {
  const made = document.createElement("bdi");
  made.className = classes;
  const shown = text.replace(ODD, (one) => `\u{FFFD}${one.charCodeAt(0).toString(16)} `);
  if (hits.value.words.length) made.append(...markWords(shown));
  else made.textContent = shown;
  return made;
}

/** @param {string} text */
function markWords(text) {
  const pattern = new RegExp(`(${hits.value.words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
  return text.split(pattern).map((one, i) => {
    if (i % 2 === 0) return document.createTextNode(one);
    const made = document.createElement("mark");
    made.textContent = one;
    return made;
  });
}

/** @param {import("./columns.js").Columns} columns @param {number} seq @param {string} what @param {number} answer */
function tokensOf(columns, seq, what, answer) {
  if (what === "asked") {
    const told = answer ? lineOf(info.value?.key ?? "", answer)?.tokens : undefined;
    const sent = short(told ? told[0] : (columns.total[seq] ?? 0));
    return told ? `${sent} → ${told[1]}` : sent;
  }
  if (what === "compacted") return `−${short(Math.max(0, (columns.total[seq - 1] ?? 0) - (columns.total[seq] ?? 0)))}`;
  const cost = columns.tokens[seq - 1] + (answer ? columns.tokens[answer - 1] : 0);
  return cost && (columns.flags[seq - 1] & TURN) === 0 ? short(cost) : "";
}
