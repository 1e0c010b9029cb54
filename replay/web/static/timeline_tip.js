// The tip of the timeline: the event under the pointer, the tokens after it, and by how much it changed them.
import { html, signal } from "./vendor/preact.js";
import { grouped, short } from "./format.js";

/** The event under the pointer; 0: none. */
export const pointed = signal(0);

const WIDE = 190; // pixels, about

/** @param {{columns: import("./columns.js").Columns, scale: import("./scale.js").Scale, width: number}} props */
export function Tip({ columns, scale, width }) {
  const seq = Math.min(pointed.value, columns.count);
  if (!seq) return null;
  const x = scale.x(seq, width);
  const change = (columns.total[seq] ?? 0) - (columns.total[seq - 1] ?? 0);
  const turn = columns.turnOf(seq);
  return html`<div class="pointed" aria-hidden="true" style=${{ transform: `translateX(${x}px)` }}>
    <div class=${`tip ${x > width - WIDE ? "aside" : ""}`}>
      <p class="tip-head"><b class="mono">e${grouped(seq)}</b><span>${columns.what(seq)}</span><span class="quiet">${turn ? `t${grouped(turn)}` : ""}</span></p>
      <p>${short(columns.total[seq] ?? 0)} tokens <span class=${change < 0 ? "k-summary" : "quiet"}>${change ? `${change < 0 ? "−" : "+"}${short(Math.abs(change))}` : "no change"}</span></p>
    </div></div>`;
}
