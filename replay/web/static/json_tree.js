// JSON as a tree that opens and closes.
import { html, useState } from "./vendor/preact.js";
import { plain } from "./text.js";

const MANY = 100;

/** @param {{text: string}} props */
export function Json({ text }) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return html`<pre class="code said">${plain(text)}</pre>`; // the beginning of a large one
  }
  return html`<div class="json mono said" role="tree" aria-label="JSON"><${Value} name="" value=${value} depth=${0} /></div>`;
}

/** @param {{name: string, value: any, depth: number}} props */
function Value({ name, value, depth }) {
  const isBranch = value !== null && typeof value === "object";
  const [open, setOpen] = useState(depth < 3);
  const [most, setMost] = useState(MANY);
  const label = name !== "" && html`<span class="json-name">${plain(name)}</span>`;
  if (!isBranch) return html`<div role="treeitem" class="json-leaf">${label}<${Leaf} value=${value} /></div>`;
  const entries = Object.entries(value);
  const about = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  if (!entries.length) return html`<div role="treeitem" class="json-leaf">${label}<span class="faint">${Array.isArray(value) ? "[]" : "{}"}</span></div>`;
  return html`<div role="treeitem" aria-expanded=${open}>
    <button class="json-fold" onClick=${() => setOpen(!open)}><span class="json-arrow">${open ? "▾" : "▸"}</span>${label}<span class="faint">${about}</span></button>
    ${open && html`<div role="group" class="json-group">
      ${entries.slice(0, most).map(([key, one]) => html`<${Value} key=${key} name=${key} value=${one} depth=${depth + 1} />`)}
      ${entries.length > most && html`<button class="link" onClick=${() => setMost(most * 10)}>${entries.length - most} more</button>`}
    </div>`}
  </div>`;
}

/** @param {{value: any}} props */
function Leaf({ value }) {
  if (typeof value !== "string") return html`<span class="json-plain">${String(value)}</span>`;
  return value.includes("\n") ? html`<pre class="json-text">${plain(value)}</pre>` : html`<span class="json-string">"${plain(value)}"</span>`;
}
