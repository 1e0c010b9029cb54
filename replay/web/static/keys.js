// The keys: as in `chatfold step`. No chords, so a single key never waits.
import { TABS, go, place } from "./address.js";
import { cursor, info, moveTo } from "./chat.js";
import { commandNow } from "./command.js";
import { followNow } from "./events.js";
import { isFiltering } from "./filter.js";
import { endFinding, hits, isFinding, nextHit } from "./find.js";
import { diffToHere, markHere } from "./footer.js";
import { copyMessages } from "./messages.js";
import { nextCompaction, nextError, nextRow, nextSibling, nextSwitch, nextTurn, toFirst, toLast } from "./moves.js";
import { brush, copy, focusList, isPlaying, say, sheet, showsEvents } from "./screen.js";
import { closePane, openTab } from "./tabs.js";
import { zoom } from "./timeline.js";
import { isGoing } from "./top.js";
import { isAlone } from "./source.js";

/** What was selected in a text, or the entry under the cursor. */
export function askWhy() {
  const selected = getSelection()?.toString().trim() ?? "";
  const item = document.activeElement?.closest("[data-seq]")?.getAttribute("data-seq");
  go({ why: selected ? selected.slice(0, 500) : `e${item ?? cursor.value}`, judge: false });
}

/** @type {Record<string, () => void>} */
const KEYS = {
  j: () => nextRow(1), k: () => nextRow(-1), ArrowRight: () => nextRow(1), ArrowLeft: () => nextRow(-1), ArrowDown: () => nextRow(1),
  ArrowUp: () => nextRow(-1), ".": () => nextRow(1), J: () => nextTurn(1), K: () => nextTurn(-1), c: () => nextCompaction(1),
  C: () => nextCompaction(-1), s: () => nextSwitch(1), S: () => nextSwitch(-1), x: () => nextError(1), X: () => nextError(-1),
  g: toFirst, G: toLast, ":": () => (isGoing.value = true), "/": () => (isFinding.value = !isAlone()), n: () => nextHit(1), N: () => nextHit(-1),
  f: () => (isFiltering.value = !isFiltering.value), e: () => go({ errors: !place.value.errors }), m: markHere, d: diffToHere, b: askWhy,
  t: () => openTab("tree"), "[": () => nextSibling(-1), "]": () => nextSibling(1), " ": () => (isPlaying.value = !isPlaying.value), F: followNow,
  y: () => void copy(`${info.value?.key}@e${cursor.value}`, "the address"), Y: () => void copyMessages(), "!": () => void copy(commandNow(), commandNow()),
  "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), 0: () => (brush.value = null),
  PageDown: () => moveTo(cursor.value + 30, { step: true }), PageUp: () => moveTo(cursor.value - 30, { step: true }), Home: toFirst, End: toLast,
};
TABS.forEach((tab, i) => (KEYS[String(i + 1)] = () => {
  showsEvents.value = false;
  openTab(tab);
}));

/** @param {KeyboardEvent} event */
function answerKey(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    sheet.value = sheet.value === "commands" ? "" : "commands";
    return;
  }
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "f" && info.value && !isAlone()) {
    event.preventDefault();
    isFinding.value = true;
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = event.target instanceof HTMLElement ? event.target : document.body;
  if (event.key === "Escape") goBack(target);
  else if (target.closest("input:not([type=checkbox]), select, textarea")) return;
  else if (event.key === "?") sheet.value = sheet.value === "keys" ? "" : "keys";
  else if (sheet.value || !info.value) return;
  else if (event.key === "Tab" && target === document.body) focusList();
  else if ((event.key === " " || event.key === "Enter") && target.closest("button, [role=tab], a")) return;
  else if (target.closest("[role=tree], .pane") && ["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", " "].includes(event.key)) return;
  else if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key]();
  }
}

/** Closes what is open, then goes back. @param {HTMLElement} target */
function goBack(target) {
  if (sheet.value) sheet.value = "";
  else if (isFiltering.value) isFiltering.value = false;
  else if (isFinding.value || hits.value.query) endFinding();
  else if (place.value.why || place.value.judge) closePane();
  else if (target !== document.body) target.blur();
}

export function listenToKeys() {
  addEventListener("keydown", answerKey);
}

/** For the sheet and the palette: the key, what it does, and the group. @type {[string, [string[], string][]][]} */
export const GROUPS = [
  ["Move", [[["j", "k"], "next, previous event"], [["J", "K"], "next, previous turn"], [["c", "C"], "next, previous compaction"], [["s", "S"], "next, previous switch"], [["x", "X"], "next, previous error"], [["g", "G"], "first, last"], [[":"], "go to an address"]]],
  ["Ask", [[["b"], "why it came and left"], [["m"], "mark A here"], [["d"], "diff A to here"], [["/"], "search"], [["n", "N"], "next, previous hit"], [["f"], "filter kinds"], [["e"], "errors only"]]],
  ["Look", [[["1", "…", "5"], "Context … Tree"], [["t"], "tree"], [["[", "]"], "sibling branch"], [["Space"], "play, pause"], [["F"], "follow live"], [["+", "-"], "zoom the timeline"], [["0"], "whole chat"]]],
  ["Take", [[["y"], "copy the address"], [["Y"], "copy the messages, JSON"], [["!"], "copy the command"], [["Tab"], "next pane"], [["⌘K"], "all commands"], [["?"], "this sheet"], [["Esc"], "close, then back"]]],
];

/** @param {string} key */
export function press(key) {
  const name = key === "Space" ? " " : key;
  if (KEYS[name] && info.value) KEYS[name]();
  else say("Open a chat first.");
}
