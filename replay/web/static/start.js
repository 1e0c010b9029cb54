// Start: reads where we are, asks which store this is, and draws the page.
import { html, render } from "./vendor/preact.js";
import { follow } from "./address.js";
import { store, trouble, asProblem } from "./chat.js";
import { listenToKeys } from "./keys.js";
import { Page } from "./page.js";
import { ask, blockValue, findBlocks, isAlone } from "./source.js";
import { applyTheme } from "./theme.js";

function start() {
  applyTheme();
  findBlocks();
  if (!isAlone()) follow();
  const asked = isAlone() ? blockValue("store") : ask("store");
  asked.then((value) => (store.value = value), (error) => (trouble.value = asProblem(error)));
  const root = document.getElementById("page");
  if (root) render(html`<${Page} />`, root);
  listenToKeys();
}

start();
