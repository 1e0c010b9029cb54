// Numbers, times and sizes as people read them.

const GROUPS = new Intl.NumberFormat("en-US");

/** @param {number} count of tokens: 80.8k */
export function short(count) {
  if (count < 1000) return String(count);
  if (count < 999_950) return `${(count / 1000).toFixed(1)}k`;
  return `${(count / 1_000_000).toFixed(count < 9_995_000 ? 2 : 1)}M`;
}

/** A limit, or a tick of an axis: 200k. @param {number} count */
export const rounded = (count) => short(count).replace(/\.0+(?=[kM])/, "");

/** @param {number} count */
export const grouped = (count) => GROUPS.format(count);

/** @param {number} count @param {string} word */
export const counted = (count, word) => `${grouped(count)} ${word}${count === 1 ? "" : "s"}`;

/** @param {number} milliseconds since the turn began: +33.7s, +1:06 */
export function since(milliseconds) {
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 60) return `+${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `+${Math.floor(whole / 60)}:${pad(whole % 60)}`;
  return `+${Math.floor(whole / 3600)}:${pad(Math.floor(whole / 60) % 60)}h`;
}

const pad = (/** @type {number} */ value) => String(value).padStart(2, "0");

/** @param {number} ts epoch milliseconds */
export function clock(ts) {
  const date = new Date(ts);
  return Number.isNaN(date.getTime()) ? "--:--:--" : `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** @param {number} ts */
export function whole(ts) {
  const date = new Date(ts);
  return Number.isNaN(date.getTime()) ? String(ts) : `${date.toISOString().replace("T", " ").replace("Z", "")} UTC`;
}

/** @param {number} ts */
export function ago(ts) {
  const minutes = Math.floor((Date.now() - ts) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ago`;
  const days = Math.floor(hours / 24);
  if (days === 1) return "yesterday";
  return days < 30 ? `${days} days ago` : new Date(ts).toISOString().slice(0, 10);
}

/** @param {number} characters */
export function size(characters) {
  if (characters < 1000) return `${characters} B`;
  return characters < 1_000_000 ? `${(characters / 1000).toFixed(1)} kB` : `${(characters / 1_000_000).toFixed(1)} MB`;
}

/** @param {number} part @param {number} of */
export function percent(part, of) {
  const share = (100 * part) / of;
  return share > 0 && share < 1 ? "<1%" : `${Math.round(share)}%`;
}

/** A word of a command, as a shell takes it. @param {string} text */
export const quote = (text) => (/^[\w@%+=:,./^-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
