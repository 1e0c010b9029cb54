// Last seen: where a chat ended when it was looked at before, kept in this browser. Only numbers are kept: a chat is known by a sum of its name.
import { signal } from "./vendor/preact.js";
import { end, info, store, unseen } from "./chat.js";
import { isAlone } from "./source.js";

const NAME = "chatfold-seen";
const MOST = 500; // chats

/** The last event that was there then; 0: it was never looked at, or nothing came since. */
export const lastSeen = signal(0);

/** @returns {Record<string, number>} */
function kept() {
  try {
    return JSON.parse(localStorage.getItem(NAME) ?? "{}");
  } catch {
    return {}; // a page from disk may have none
  }
}

function nameNow() {
  let sum = 0x811c9dc5; // FNV-1a
  for (const one of `${store.value?.name} ${info.value?.key}`) sum = Math.imul(sum ^ (one.codePointAt(0) ?? 0), 0x01000193);
  return (sum >>> 0).toString(36);
}

export function recallSeen() {
  const seen = kept()[nameNow()] ?? 0;
  lastSeen.value = seen < end.value ? seen : 0;
}

/** Called when the chat is left. */
export function keepSeen() {
  if (!info.value || isAlone()) return;
  const { [nameNow()]: _, ...others } = kept();
  const all = [...Object.entries(others), [nameNow(), end.value - unseen.value]];
  try {
    localStorage.setItem(NAME, JSON.stringify(Object.fromEntries(all.slice(-MOST))));
  } catch {
    // then nothing is marked next time
  }
}
