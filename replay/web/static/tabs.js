// The tabs: five, or the name of what took the place of the pane.
import { html } from "./vendor/preact.js";
import { TABS, go, place } from "./address.js";
import { box, cursor } from "./chat.js";
import { isNarrow, showsEvents } from "./screen.js";
import { Points } from "./diff.js";
import { RequestSteps } from "./messages.js";
import { Sign } from "./signs.js";

const NAMES = { context: "Context", messages: "Messages", diff: "Diff", event: "Event", tree: "Tree" };
export const nameOf = (/** @type {string} */ tab) => NAMES[/** @type {keyof typeof NAMES} */ (tab)];

/** @param {string} tab */
export function openTab(tab) {
  showsEvents.value = false;
  go({ tab, why: "", judge: false });
}

/** Back from Why or Replay to the tab. */
export function closePane() {
  go({ why: "", judge: false });
}

export function Tabs() {
  const { tab, why, judge } = place.value;
  if (why || judge) {
    return html`<div class="tab-bar"><button class="plain back" onClick=${closePane}><${Sign} name="left" /> ${nameOf(tab)}</button>
      <span class="tab current" id=${`tab-${tab}`}>${judge ? "Replay" : "Why"}</span><span class="grow"></span>
      <button class="icon" aria-label="Close" onClick=${closePane}><${Sign} name="close" /></button></div>`;
  }
  const all = isNarrow.value ? ["events", ...TABS] : TABS;
  const current = isNarrow.value && showsEvents.value ? "events" : tab;
  return html`<div class="tab-bar"><div class="tabs" role="tablist" aria-label="Detail">${all.map((name) => html`<button class=${`tab ${name === current ? "current" : ""}`} role="tab" id=${`tab-${name}`}
      aria-selected=${name === current} aria-controls="pane" tabindex=${name === current ? 0 : -1} onKeyDown=${tabKey}
      onClick=${() => (name === "events" ? (showsEvents.value = true) : openTab(name))}>${name === "events" ? "Events" : nameOf(name)}${!isNarrow.value && html`<kbd aria-hidden="true">${TABS.indexOf(name) + 1}</kbd>`}</button>`)}</div>
    <span class="grow"></span><${About} /></div>`;
}

/** @param {KeyboardEvent} event */
function tabKey(event) {
  const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  const next = TABS[(TABS.indexOf(place.value.tab) + by + TABS.length) % TABS.length];
  openTab(next);
  requestAnimationFrame(() => document.getElementById(`tab-${next}`)?.focus());
}

function About() {
  const columns = box.value?.columns;
  if (!columns || isNarrow.value) return null;
  const { tab, mode } = place.value;
  if (tab === "context" && mode === "lifetimes") return html`<span class="faint cut">The whole chat</span>`;
  const number = columns.requestOf(cursor.value);
  const isAsked = columns.asked[number - 1] === cursor.value;
  if (tab === "messages") return html`<${RequestSteps} />`;
  if (tab === "diff") return html`<${Points} />`;
  if (tab === "context") return html`<span class="faint cut">${isAsked ? html`What <span class="mono">m${number}</span> was sent` : "What the model would see"}</span>`;
  return null;
}
