// What is open on the screen besides the place: sheets, a word at the bottom, the brush of the timeline. None of it is in the address.
import { signal } from "./vendor/preact.js";

/** "keys", "commands", "fork" or nothing. */
export const sheet = signal("");
export const toast = signal("");
/** The part of the chat that the timeline shows; null: all of it. @type {import("./vendor/preact.js").Signal<[number, number] | null>} */
export const brush = signal(null);
/** events, turns or clock */
export const axis = signal("events");
/** Context items that are open or closed against the default, by seq or turn. @type {import("./vendor/preact.js").Signal<Set<string>>} */
export const turned = signal(new Set());
export const isPlaying = signal(false);
/** On a phone the list is the first tab. */
export const isNarrow = signal(false);
export const showsEvents = signal(false);

/** @param {string} name */
export function turn(name) {
  const now = new Set(turned.value);
  if (!now.delete(name)) now.add(name);
  turned.value = now;
}

let clearing = 0;

/** @param {string} text */
export function say(text) {
  toast.value = text;
  clearTimeout(clearing);
  clearing = setTimeout(() => (toast.value = ""), 2200);
}

/** @param {string} text @param {string} what */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied ${what}`);
  } catch {
    say(`The browser does not let this page copy. ${what}: ${text.slice(0, 120)}`);
  }
}

const narrow = matchMedia("(max-width: 759px)");
isNarrow.value = narrow.matches;
narrow.addEventListener("change", () => (isNarrow.value = narrow.matches));

/** The list takes the keys again. */
export function focusList() {
  const list = document.querySelector(".list");
  if (list instanceof HTMLElement) list.focus();
}
