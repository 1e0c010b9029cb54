// The picture of the context over time, on a canvas: steps, never slopes; a kind on top of the other; at most two points a pixel, the
// largest and the smallest, so that drops survive.
import { CATEGORIES, greatest } from "./columns.js";
import { colour } from "./theme.js";

/**
 * @param {HTMLCanvasElement} canvas
 * @param {import("./columns.js").Columns} columns
 * @param {import("./scale.js").Scale} scale
 * @param {{most: number, gap?: boolean}} how ``most``: the tokens at the top
 */
export function drawChart(canvas, columns, scale, { most, gap = true }) {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width || !height) return;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const points = pointsOf(columns, scale, width);
  const isDense = scale.to - scale.from > 8 * width; // lines would stand on each other, and hide the areas
  const y = (/** @type {number} */ tokens) => height - (tokens / most) * height;
  const below = new Float64Array(points.length);
  for (let kind = 0; kind < CATEGORIES.length; kind++) {
    const part = columns.parts[kind];
    const top = Float64Array.from(points, (point, i) => below[i] + part[point.seq]);
    pen.fillStyle = colour(`--fill-${CATEGORIES[kind]}`);
    pen.beginPath();
    steps(pen, points, top, y);
    back(pen, points, below, y);
    pen.fill();
    if (gap && !isDense && kind && top.some((value, i) => value !== below[i])) {
      pen.strokeStyle = colour("--panel");
      pen.lineWidth = 0.6;
      pen.beginPath();
      steps(pen, points, below, y);
      pen.stroke();
    }
    below.set(top);
  }
  pen.strokeStyle = colour("--ink3");
  pen.lineWidth = isDense ? 0.3 : 1;
  pen.beginPath();
  steps(pen, points, below, y);
  pen.stroke();
}

/** @typedef {{x: number, to: number, seq: number}} Point from one x to the next, as it was after that entry */

/** @param {import("./columns.js").Columns} columns @param {import("./scale.js").Scale} scale @param {number} width @returns {Point[]} */
export function pointsOf(columns, scale, width) {
  const from = Math.max(0, Math.floor(scale.from)), to = Math.min(columns.count, Math.ceil(scale.to));
  /** @type {Point[]} */
  const found = [];
  if (to - from <= width * 2) {
    for (let seq = from; seq <= to; seq++) found.push({ x: scale.x(seq, width), to: seq < to ? scale.x(seq + 1, width) : width, seq });
    return found;
  }
  let seq = from;
  for (let x = 0; x < width && seq <= to; x++) {
    const last = x === width - 1 ? to : Math.min(to, Math.max(seq, scale.seq(x + 1, width) - 1));
    let high = seq, low = seq;
    for (let one = seq; one <= last; one++) {
      if (columns.total[one] > columns.total[high]) high = one;
      if (columns.total[one] < columns.total[low]) low = one;
    }
    const [first, second] = high < low ? [high, low] : [low, high];
    found.push({ x, to: x + 0.5, seq: first }, { x: x + 0.5, to: x + 1, seq: second });
    seq = last + 1;
  }
  return found;
}

/** @param {CanvasRenderingContext2D} pen @param {Point[]} points @param {Float64Array} values @param {(tokens: number) => number} y */
function steps(pen, points, values, y) {
  for (let i = 0; i < points.length; i++) {
    if (i) pen.lineTo(points[i].x, y(values[i]));
    else pen.moveTo(points[i].x, y(values[i]));
    pen.lineTo(points[i].to, y(values[i]));
  }
}

/** @param {CanvasRenderingContext2D} pen @param {Point[]} points @param {Float64Array} values @param {(tokens: number) => number} y */
function back(pen, points, values, y) {
  for (let i = points.length - 1; i >= 0; i--) {
    pen.lineTo(points[i].to, y(values[i]));
    pen.lineTo(points[i].x, y(values[i]));
  }
  pen.closePath();
}

/** The tokens at the top of the chart. @param {import("./columns.js").Columns} columns @param {number} limit */
export function topOf(columns, limit) {
  const most = Math.max(columns.peak, greatest(columns.total, 0, Math.min(columns.count, 1)), 1);
  return limit && most <= limit * 1.075 && most > limit * 0.04 ? limit * 1.075 : most * 1.12;
}
