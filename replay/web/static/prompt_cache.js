// The prompt cache: how much of the prompt before is the beginning of the one after.
import { html } from "./vendor/preact.js";
import { counted, short } from "./format.js";

/** @param {{found: any}} props */
export function Cache({ found }) {
  const rest = Math.max(0, found.before.tokens.count - found.prefix_tokens);
  const isWhole = found.prefix === found.before.items;
  return html`<div class="card cache"><span class="cache-bar" aria-hidden="true"><i style=${{ width: `${Math.max(4, (100 * found.prefix_tokens) / Math.max(1, found.before.tokens.count))}%` }}></i></span>
    <p><b>Prompt cache:</b> <span class="quiet">${isWhole
      ? `all ${counted(found.before.items, "message")} of before are the beginning of after. The cache serves ${short(found.prefix_tokens)} tokens.`
      : `the first ${found.prefix} of ${counted(found.before.items, "message")} ${found.prefix === 1 ? "is" : "are"} the same, ${short(found.prefix_tokens)} tokens. The cache of the other ${short(rest)} is lost.`}</span></p></div>`;
}
