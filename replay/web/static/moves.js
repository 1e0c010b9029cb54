// Moves of the cursor: to the next event, turn, compaction, switch, error, or chat of the family.
import { goToChat } from "./address.js";
import { box, cursor, end, family, info, moveTo } from "./chat.js";
import { rowOf, rowsNow } from "./events.js";
import { say } from "./screen.js";

/** @param {number} by rows of the list, of which a call and its result are one */
export function nextRow(by) {
  const rows = rowsNow();
  if (!rows) {
    moveTo(cursor.value + by, { step: true });
    return;
  }
  if (!rows.length) return;
  const at = rowOf(rows, cursor.value) + by;
  moveTo(at < 0 ? (by < 0 ? Math.max(0, rows[0] - 1) : rows[0]) : rows[Math.min(at, rows.length - 1)], { step: true });
}

/** @param {ArrayLike<number>} list @param {number} by @param {string} what */
function nextOf(list, by, what) {
  const all = Array.from(list);
  const next = by > 0 ? all.find((seq) => seq > cursor.value) : all.findLast((seq) => seq < cursor.value);
  if (next === undefined) say(`There is no ${what} ${by > 0 ? "after" : "before"} this.`);
  else moveTo(next, what === "compaction" ? { a: "" } : {});
}

export const nextTurn = (/** @type {number} */ by) => nextOf(box.value?.columns.turns ?? [], by, "turn");
export const nextCompaction = (/** @type {number} */ by) => nextOf(box.value?.columns.compactions().map((one) => one.seq) ?? [], by, "compaction");
export const nextSwitch = (/** @type {number} */ by) => nextOf(box.value?.columns.switches().map((one) => one.seq) ?? [], by, "switch");
export const nextError = (/** @type {number} */ by) => nextOf(box.value?.columns.errors ?? [], by, "error");
export const toFirst = () => moveTo(Math.min(1, end.value));
export const toLast = () => moveTo(end.value);

/** @param {number} by */
export function nextSibling(by) {
  const all = family.value.filter((one) => !one.is_gone);
  const at = all.findIndex((one) => one.key === info.value?.key);
  const next = all[at + by];
  if (next) goToChat(next.key, { tab: "tree" });
  else say("There is no further branch.");
}
