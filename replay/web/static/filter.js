// The filter: which kinds of events are listed.
import { html, useState } from "./vendor/preact.js";
import { go, place } from "./address.js";
import { box } from "./chat.js";
import { grouped } from "./format.js";
import { EventSign, Sign } from "./signs.js";
import { signal } from "./vendor/preact.js";

/** The menu of kinds is open. */
export const isFiltering = signal(false);

/** @param {string} text by commas @returns {Set<string> | null} null: all */
export const kindsOf = (text) => (text ? new Set(text.split(",")) : null);

export function KindFilter() {
  const chosen = kindsOf(place.value.kinds);
  const name = !chosen ? "All kinds" : chosen.size === 1 ? [...chosen][0] : `${chosen.size} kinds`;
  return html`<div class="filter">
    <button class=${`plain ${chosen ? "on" : ""}`} aria-expanded=${isFiltering.value} onClick=${() => (isFiltering.value = !isFiltering.value)}><${Sign} name="filter" /> ${name}</button>
    ${isFiltering.value && html`<${Menu} chosen=${chosen} />`}
  </div>`;
}

/** @param {{chosen: Set<string> | null}} props */
function Menu({ chosen }) {
  const [counts] = useState(() => countKinds());
  const turn = (/** @type {string} */ kind) => {
    const now = new Set(chosen ?? []);
    if (!now.delete(kind)) now.add(kind);
    go({ kinds: [...now].join(",") });
  };
  return html`<div class="menu" role="group" aria-label="Kinds">
    ${counts.map(([kind, count]) => html`<label><input type="checkbox" checked=${chosen?.has(kind) ?? false} onChange=${() => turn(kind)} />
      <${EventSign} what=${kind} /><span class="grow">${kind}</span><span class="faint">${grouped(count)}</span></label>`)}
    <button class="button" onClick=${() => go({ kinds: "" })}>All kinds</button>
  </div>`;
}

/** @returns {[string, number][]} */
function countKinds() {
  const columns = box.value?.columns;
  if (!columns) return [];
  const counts = new Uint32Array(columns.kinds.length);
  for (let i = 0; i < columns.count; i++) counts[columns.kind[i]]++;
  /** @type {[string, number][]} */
  const found = columns.kinds.map((kind, code) => [kind, counts[code]]);
  return found.filter(([, count]) => count).sort((one, other) => other[1] - one[1]);
}
