// The address of what is on the screen: /c/CHAT?at=e225&a=e197&tab=diff&… Points are those of the command. Back and forward work.
import { isAlone } from "./source.js";
import { batch, signal } from "./vendor/preact.js";

export const TABS = ["context", "messages", "diff", "event", "tree"];

/**
 * @typedef {{
 *   chat: string, at: string, a: string, tab: string, kinds: string, errors: boolean, why: string, other: string,
 *   find: string, q: string, mode: string, judge: boolean
 * }} Place
 */

/** @returns {Place} */
export const nowhere = () => ({
  chat: "", at: "", a: "", tab: "context", kinds: "", errors: false, why: "", other: "", find: "", q: "", mode: "", judge: false,
});

/** @type {import("./vendor/preact.js").Signal<Place>} */
export const place = signal(nowhere());

/** @param {Location | URL} location @returns {Place} */
export function read(location) {
  const query = new URLSearchParams(location.search);
  const text = (/** @type {string} */ name) => query.get(name) ?? "";
  const key = location.pathname.startsWith("/c/") ? decodeURIComponent(location.pathname.slice(3)) : "";
  const tab = TABS.includes(text("tab")) ? text("tab") : "context";
  return {
    chat: key || text("chat"), at: text("at"), a: text("a"), tab, kinds: text("kinds"), errors: text("errors") === "1", why: text("why"),
    other: text("other"), find: text("find"), q: text("q"), mode: text("mode"), judge: text("judge") === "1",
  };
}

/** @param {Place} to */
export function urlOf(to) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(to)) {
    if (name === "chat" || !value || (name === "tab" && value === "context")) continue;
    query.set(name, value === true ? "1" : String(value));
  }
  const text = query.toString().replaceAll("%40", "@").replaceAll("%5E", "^");
  const path = to.chat ? `/c/${encodeURIComponent(to.chat)}` : "/";
  return path + (text ? `?${text}` : "");
}

let waiting = 0;

/** Goes there. A step replaces where it was, anything further can be gone back from. @param {Partial<Place>} change @param {{step?: boolean}} [how] */
export function go(change, { step = false } = {}) {
  const to = { ...place.value, ...change };
  place.value = to;
  if (isAlone()) return;
  clearTimeout(waiting);
  if (step) waiting = setTimeout(() => history.replaceState(null, "", urlOf(place.value)), 120);
  else history.pushState(null, "", urlOf(to));
}

export function goHome(q = "") {
  go({ ...nowhere(), q });
}

/** @param {string} chat @param {Partial<Place>} [change] */
export function goToChat(chat, change = {}) {
  go({ ...nowhere(), chat, ...change });
}

export function follow() {
  batch(() => (place.value = read(location)));
  addEventListener("popstate", () => (place.value = read(location)));
}
