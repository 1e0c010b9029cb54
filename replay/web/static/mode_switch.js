// Items or lifetimes: the two ways in which Context is shown.
import { html } from "./vendor/preact.js";
import { go, place } from "./address.js";

export function ModeSwitch() {
  const mode = place.value.mode;
  return html`<div class="segments" role="radiogroup" aria-label="Shown as">
    <button role="radio" aria-checked=${!mode} onClick=${() => go({ mode: "" })}>Items</button>
    <button role="radio" aria-checked=${mode === "lifetimes"} onClick=${() => go({ mode: "lifetimes" })}>Lifetimes</button></div>`;
}
