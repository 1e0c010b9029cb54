// Bars of tokens by kind, and the life line: when an item came, when it left, and by what.
import { html } from "./vendor/preact.js";
import { CATEGORIES } from "./columns.js";
import { short } from "./format.js";

/** @param {{parts: number[], whole: number, height?: number, label?: string}} props parts by category */
export function Bar({ parts, whole, height = 10, label = "" }) {
  const total = Math.max(whole, parts.reduce((sum, one) => sum + one, 0), 1);
  const said = label || CATEGORIES.map((name, i) => (parts[i] ? `${name} ${short(parts[i])}` : "")).filter(Boolean).join(", ");
  return html`<div class="bar" role="img" aria-label=${said} style=${{ height: `${height}px` }}>
    ${parts.map((tokens, i) => tokens > 0 && html`<i class=${`f-${CATEGORIES[i]}`} style=${{ width: `${(100 * tokens) / total}%` }} title=${`${CATEGORIES[i]} ${short(tokens)}`}></i>`)}
  </div>`;
}

/** @param {{life: {from: number, to: number, left: number}[], end: number, cursor: number, category: string, compacted: Set<number>}} props */
export function LifeLine({ life, end, cursor, category, compacted }) {
  const at = (/** @type {number} */ seq) => (100 * seq) / Math.max(1, end);
  const last = life.at(-1);
  const said = life.length
    ? `came at e${life[0].from}, ${last?.left ? `left at e${last.left}` : "still there"}`
    : "never in sight";
  return html`<svg class="life" viewBox="0 0 132 16" preserveAspectRatio="none" role="img" aria-label=${said}>
    <line class="life-whole" x1="0" x2="132" y1="8" y2="8" />
    ${life.map((one) => {
      const from = 1.32 * at(one.from), to = Math.max(from + 2, 1.32 * at(one.to));
      return html`<rect class=${`life-stay fill-${category}`} x=${from} y="6" width=${to - from} height="4" rx="1.5" />`;
    })}
    ${life.map((one) => compacted.has(one.left) && html`<path class="life-left" d=${`M${1.32 * at(one.left)} 4.6l3.4 3.4-3.4 3.4-3.4-3.4z`} />`)}
    <line class="life-now" x1=${1.32 * at(cursor)} x2=${1.32 * at(cursor)} y1="2" y2="14" />
  </svg>`;
}
