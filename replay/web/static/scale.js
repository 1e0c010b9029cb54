// The x axis of the timeline: by events, by turns, or by the clock without idle gaps; and which part of the chat is in sight.
const IDLE = 60_000; // milliseconds: a longer gap is cut to that

/**
 * @typedef {{from: number, to: number, x: (seq: number, width: number) => number, seq: (x: number, width: number) => number}} Scale
 */

/** @type {{of: any, name: string, count: number, places: Float64Array | null}} */
let kept = { of: null, name: "", count: -1, places: null };

/** Where each entry stands, ascending; null: at its seq. @param {import("./columns.js").Columns} columns @param {string} name */
function placesOf(columns, name) {
  if (name === "events") return null;
  if (kept.of === columns && kept.name === name && kept.count === columns.count) return kept.places;
  const places = new Float64Array(columns.count + 1);
  if (name === "clock") {
    for (let i = 1; i <= columns.count; i++) {
      const gap = i > 1 ? columns.ts[i - 1] - columns.ts[i - 2] : 0;
      places[i] = places[i - 1] + Math.min(IDLE, Math.max(1, gap));
    }
  } else {
    const starts = [...columns.turns, columns.count + 1];
    for (let i = 1, turn = 0; i <= columns.count; i++) {
      while (starts[turn] <= i) turn++;
      const start = turn ? starts[turn - 1] : 1;
      places[i] = turn + (i - start + 1) / (starts[turn] - start + 1);
    }
  }
  kept = { of: columns, name, count: columns.count, places };
  return places;
}

/** @type {Map<string, {columns: any, scale: Scale}>} the last ones, so that the same is the same */
const scales = new Map();

/** @param {import("./columns.js").Columns} columns @param {string} name @param {[number, number] | null} brush @returns {Scale} */
export function scaleOf(columns, name, brush) {
  const key = `${name} ${columns.count} ${brush}`;
  const known = scales.get(key);
  if (known?.columns === columns) return known.scale;
  const scale = makeScale(columns, name, brush);
  if (scales.size > 8) scales.clear();
  scales.set(key, { columns, scale });
  return scale;
}

/** @param {import("./columns.js").Columns} columns @param {string} name @param {[number, number] | null} brush @returns {Scale} */
function makeScale(columns, name, brush) {
  const places = placesOf(columns, name);
  const place = (/** @type {number} */ seq) => (places ? places[Math.min(Math.max(Math.round(seq), 0), columns.count)] : seq);
  const [from, to] = brush ?? [0, Math.max(1, columns.count)];
  const low = place(from), span = Math.max(1e-9, place(to) - low);
  return {
    from,
    to,
    x: (seq, width) => ((place(seq) - low) / span) * width,
    seq: (x, width) => {
      const wanted = low + (x / width) * span;
      if (!places) return Math.min(Math.max(Math.round(wanted), 0), columns.count);
      let one = 0, other = columns.count;
      while (one < other) {
        const middle = (one + other) >> 1;
        if (places[middle] < wanted) one = middle + 1;
        else other = middle;
      }
      return one;
    },
  };
}
