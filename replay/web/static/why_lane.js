// The lane of `why` in the timeline: thick is the text itself, thin amber only its summary, dotted no trace.
import { html } from "./vendor/preact.js";
import { story } from "./why.js";

/** @param {{scale: import("./scale.js").Scale, width: number}} props */
export function WhyLane({ scale, width }) {
  const told = story.value;
  if (!told) return html`<div class="why-lane"></div>`;
  const place = (/** @type {{from: number, to: number}} */ piece) => {
    const left = Math.max(0, scale.x(piece.from, width)), right = Math.min(width, scale.x(piece.to, width));
    return right < left ? null : { left: `${left}px`, width: `${Math.max(2, right - left)}px` };
  };
  return html`<div class="why-lane" aria-hidden="true"><span class="why-name">why</span><i class="why-none"></i>
    ${told.summary.map((one) => place(one) && html`<i class="why-summary" style=${place(one)}></i>`)}
    ${told.itself.map((one) => place(one) && html`<i class=${`why-itself f-${told.category}`} style=${place(one)}></i>`)}
    ${told.cuts.map((seq) => html`<i class="why-cut" style=${{ left: `${scale.x(seq, width)}px` }}></i>`)}
    <i class=${`why-start f-${told.category}`} style=${{ left: `${scale.x(told.seq, width)}px` }}></i></div>`;
}
