// Start: reads where we are, asks for what is there, and draws the page.
import { computed, effect, html, render, untracked } from "./vendor/preact.js";
import { follow, place } from "./address.js";
import { asProblem, info, open, store, trouble } from "./chat.js";
import { listenToKeys } from "./keys.js";
import { keepSeen, recallSeen } from "./last_seen.js";
import { listen, stop } from "./live.js";
import { Page } from "./page.js";
import { ask, blockValue, findBlocks, isAlone } from "./source.js";
import { applyTheme } from "./theme.js";

function start() {
  applyTheme();
  findBlocks();
  if (!isAlone()) follow();
  const asked = isAlone() ? blockValue("store") : ask("store");
  asked.then((value) => (store.value = value), (error) => (trouble.value = asProblem(error)));
  openChats();
  addEventListener("pagehide", keepSeen);
  const root = document.getElementById("page");
  if (root) render(html`<${Page} />`, root);
  listenToKeys();
}

/** Opens the chat of the address, before anything is drawn; then the next one, whenever that is another. */
function openChats() {
  const key = computed(() => (isAlone() ? "alone" : place.value.chat));
  effect(() => {
    const chat = key.value;
    untracked(() => void show(chat));
  });
}

/** @param {string} chat */
async function show(chat) {
  stop();
  keepSeen();
  if (chat) {
    await open(chat);
    if (!info.value || trouble.value) return;
    recallSeen();
    listen(info.value.key);
  } else info.value = trouble.value = null;
}

start();
