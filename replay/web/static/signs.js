// Signs: 14 px pictures after the terminal's glyphs. They stand beside words, or their word is there for those who do not see them.
import { html } from "./vendor/preact.js";

const line = (/** @type {string} */ d) => html`<path d=${d} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />`;
const area = (/** @type {string} */ d) => html`<path d=${d} fill="currentColor" />`;
const circle = (/** @type {number} */ r, /** @type {boolean} */ full) =>
  html`<circle cx="7" cy="7" r=${r} fill=${full ? "currentColor" : "none"} stroke="currentColor" stroke-width=${full ? 0 : 1.5} />`;
const fork = () => html`${line("M4 4.6v4.8M10 4.6v.6c0 1.6-1.2 2.3-3 2.3H4")}<circle cx="4" cy="3" r="1.6" fill="none" stroke="currentColor" stroke-width="1.3" /><circle cx="10" cy="3" r="1.6" fill="none" stroke="currentColor" stroke-width="1.3" /><circle cx="4" cy="11" r="1.6" fill="none" stroke="currentColor" stroke-width="1.3" />`;

/** @type {Record<string, () => any>} */
const SIGNS = {
  system: () => line("M2.5 4h9M2.5 7h9M2.5 10h9"),
  user: () => area("M3.5 2.5l8 4.5-8 4.5z"),
  assistant: () => circle(3.6, true),
  call: () => line("M2.5 7h9M8 3.5L11.5 7 8 10.5"),
  result: () => line("M11.5 7h-9M6 3.5L2.5 7 6 10.5"),
  asked: () => circle(3.6, false),
  compacted: () => area("M7 1.8L12.2 7 7 12.2 1.8 7z"),
  reverted: () => line("M7 2.2L11.8 7 7 11.8 2.2 7z"),
  recalled: () => line("M7 9.5v-7M3.8 5.5L7 2.3l3.2 3.2M3 12h8"),
  injected: () => line("M7 2v7M3.8 6L7 9.2 10.2 6M3 12h8"),
  switched: () => line("M2.5 4.6h9M9 2l2.5 2.6L9 7.2M11.5 9.6h-9M5 7L2.5 9.6 5 12.2"),
  forked: fork,
  checkpoint: () => line("M4 12.5v-10h7L8.8 5.2 11 8H4"),
  rewound: () => line("M5.5 2.5L2.5 5.5l3 3M2.5 5.5h5.8a3.2 3.2 0 010 6.4H6"),
  failed: () => line("M3.2 3.2l7.6 7.6M10.8 3.2l-7.6 7.6"),
  run: () => line("M5 12V5.5A1.5 1.5 0 016.5 4H10"),
  finished: () => line("M5 2v6.5A1.5 1.5 0 006.5 10H10"),
  sent: () => line("M3 3.5L6.5 7 3 10.5M7.5 3.5L11 7l-3.5 3.5"),
  redacted: () => line("M2.5 11.5l9-9M2.5 7l4.5-4.5M7 11.5L11.5 7"),
  skill: () => line("M7 2l1.5 3.2 3.5.4-2.6 2.4.7 3.5L7 9.8l-3.1 1.7.7-3.5L2 5.6l3.5-.4z"),
  dot: () => circle(1.4, true),
  check: () => line("M2.8 7.4l2.9 2.9 5.6-6.4"),
  copy: () => line("M5 5h6.5v6.5H5zM3 9H2.5V2.5H9V3"),
  search: () => html`<circle cx="6" cy="6" r="3.8" fill="none" stroke="currentColor" stroke-width="1.5" />${line("M9 9l3 3")}`,
  theme: () => html`<circle cx="7" cy="7" r="4.8" fill="none" stroke="currentColor" stroke-width="1.5" />${area("M7 2.2a4.8 4.8 0 010 9.6z")}`,
  down: () => line("M3.5 5.5L7 9l3.5-3.5"),
  right: () => line("M5.5 3.5L9 7l-3.5 3.5"),
  left: () => line("M8.5 3.5L5 7l3.5 3.5"),
  first: () => line("M11 3.5L7.5 7l3.5 3.5M6.5 3.5L3 7l3.5 3.5"),
  last: () => line("M3 3.5L6.5 7 3 10.5M7.5 3.5L11 7l-3.5 3.5"),
  play: () => line("M4.5 3l6 4-6 4z"),
  pause: () => line("M5 3.2v7.6M9 3.2v7.6"),
  close: () => line("M3.5 3.5l7 7M10.5 3.5l-7 7"),
  filter: () => line("M2 4h10M4 7h6M5.8 10h2.4"),
  eye: () => html`${line("M1.5 7S3.5 3.2 7 3.2 12.5 7 12.5 7 10.500 10.800 7 10.800 1.500 7 1.500 7z")}<circle cx="7" cy="7" r="1.6" fill="none" stroke="currentColor" stroke-width="1.3" />`,
  warning: () => line("M7 2.2l5.2 9.300H1.800zM7 6v2.400M7 10v.1"),
  circle: () => circle(4.6, false),
};

/** @type {Record<string, [string, string]>} of what a list calls events: the sign, and the colour */
const OF_EVENTS = {
  system: ["system", "system"], developer: ["system", "system"], user: ["user", "user"], assistant: ["assistant", "assistant"],
  tool: ["dot", "tool"], call: ["call", "tool"], result: ["result", "tool"], asked: ["asked", "ink"], answered: ["asked", "ink"],
  injected: ["injected", "injected"], recalled: ["recalled", "recalled"], compacted: ["compacted", "summary"],
  reverted: ["reverted", "summary"], opened: ["switched", "ink"], switched: ["switched", "ink"], cleared: ["switched", "ink"],
  rewound: ["rewound", "ink"], checkpoint: ["checkpoint", "ink"], started: ["circle", "faint"], forked: ["forked", "ink"],
  "skill on": ["skill", "injected"], "skill off": ["skill", "faint"], run: ["run", "faint"], finished: ["finished", "faint"],
  sending: ["sent", "faint"], sent: ["sent", "faint"], "not sent": ["failed", "red"], redacted: ["redacted", "ink"], lost: ["redacted", "red"],
};

/** @param {{name: string, colour?: string}} props */
export function Sign({ name, colour = "" }) {
  const draw = SIGNS[name] ?? SIGNS.dot;
  return html`<svg class=${`sign ${colour ? `k-${colour}` : ""}`} viewBox="0 0 14 14" aria-hidden="true">${draw()}</svg>`;
}

/** Of an event. @param {{what: string, failed?: boolean}} props */
export function EventSign({ what, failed = false }) {
  const [name, colour] = OF_EVENTS[what] ?? ["dot", "faint"];
  return failed ? html`<${Sign} name="failed" colour="red" />` : html`<${Sign} name=${name} colour=${colour} />`;
}

/** Of a category of items. @param {{name: string, isCall?: boolean}} props */
export function KindSign({ name, isCall = false }) {
  const sign = name === "summary" ? "compacted" : name === "tool" ? (isCall ? "call" : "result") : name;
  return html`<${Sign} name=${sign} colour=${name} />`;
}

/** For lists that are not drawn by preact. @param {string} what @param {boolean} failed */
export const signOf = (what, failed) => (failed ? ["failed", "red"] : (OF_EVENTS[what] ?? ["dot", "faint"]));
export { SIGNS };
