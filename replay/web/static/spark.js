// Sparklines: the context of a chat over time, to the limit of its model. Asked for when a row is in sight, a few at a time.
import { html, signal } from "./vendor/preact.js";
import { ask, isAlone } from "./source.js";

const AT_ONCE = 4;
const WIDTH = 200, HEIGHT = 34;

/** @typedef {{sizes: number[], now: number, limit: number, events: number, errors: number, compactions: number[], count: number}} Told */

/** @type {Map<string, {active: number, told?: Told}>} */
const known = new Map();
/** @type {string[]} */
let waiting = [];
let running = 0;
const arrived = signal(0);

/** @param {string} key @param {number} active when the chat was last written to @returns {Told | undefined} */
export function sparkOf(key, active) {
  void arrived.value;
  const found = known.get(key);
  if ((!found || found.active !== active) && !isAlone()) {
    known.set(key, { active, told: found?.told });
    waiting.push(key);
    if (waiting.length > 60) for (const one of waiting.splice(0, waiting.length - 60)) known.delete(one);
    queueMicrotask(pump);
  }
  return found?.told;
}

function pump() {
  while (running < AT_ONCE && waiting.length) {
    const key = /** @type {string} */ (waiting.shift());
    running++;
    ask("spark", { chat: key })
      .then(({ spark }) => known.set(key, { active: known.get(key)?.active ?? 0, told: spark }), () => null)
      .finally(() => {
        running--;
        arrived.value++;
        pump();
      });
  }
}

/** @param {{told: Told | undefined}} props */
export function Spark({ told }) {
  if (!told) return html`<span class="loading" style=${{ width: "120px" }}></span>`;
  const peak = Math.max(...told.sizes, 1);
  const isSmall = !told.limit || peak < told.limit * 0.12;
  const most = isSmall ? peak * 1.1 : Math.max(peak, told.limit) * 1.075;
  const step = WIDTH / Math.max(1, told.sizes.length);
  const y = (/** @type {number} */ tokens) => (HEIGHT - 1 - ((HEIGHT - 2) * tokens) / most).toFixed(1);
  const line = told.sizes.map((tokens, i) => `${i ? "L" : "M"}${(i * step).toFixed(1)} ${y(tokens)}H${((i + 1) * step).toFixed(1)}`).join("");
  const since = told.compactions.length ? told.compactions[0] * step : -1;
  return html`<svg class=${`spark ${isSmall ? "small" : ""}`} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} width=${WIDTH} height=${HEIGHT} role="img" aria-label=${`at most ${peak} tokens, now ${told.now}`}>
    ${!isSmall && html`<line class="spark-limit" x1="0" x2=${WIDTH} y1=${y(told.limit)} y2=${y(told.limit)} />`}
    ${told.sizes.length > 0 && html`<path class="spark-area" d=${`${line}V${HEIGHT - 1}H0z`} /><path class="spark-line" d=${line} />`}
    ${since >= 0 && html`<line class="spark-summary" x1=${since} x2=${WIDTH} y1=${HEIGHT - 1.5} y2=${HEIGHT - 1.5} />`}</svg>`;
}
