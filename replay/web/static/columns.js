// The columns of a whole chat, and what follows from them: rows, turns, sizes, and what the model saw at any point. No logic but
// filters and sums over arrays; what the numbers mean is said in columns.py.

export const CATEGORIES = ["system", "summary", "recalled", "injected", "user", "assistant", "tool"];
export const FAILED = 1;
export const TURN = 2;
export const HIDDEN = 4;
export const INNER = 8;
export const ERASED = 16;
const TOOL = 6;
/** @type {Record<string, number>} */
const CATEGORY_OF = {
  system: 0, developer: 0, compacted: 1, recalled: 2, injected: 3, "skill on": 3, user: 4, assistant: 5, call: 6, result: 6,
};

/** Of a kind of message, as the inspected values name it. @param {string} kind */
export const categoryOf = (kind) => (["calls", "result", "internal", "late"].includes(kind) ? "tool" : kind);

/** @typedef {{seq: number, kind: string, name: string, id: string, title: string, first: number, last: number}} Mark */
/** @typedef {{seq: number, stays: number[][], summaries: number[][], controls: Mark[], checkpoints: Record<string, number>}} Sight */

const BLOCK = 8; // bits of a seq: stays are found by 256 entries

/** @typedef {{first: number, last: number, entered: number, left: number, isSummary: boolean}} Stay */

export class Columns {
  /** @type {Stay[]} */
  #stays = [];
  #staysAt = -1; // the count they were made for
  /** @type {Map<number, Stay[]>} */
  #near = new Map();
  /** @type {Mark[]} */
  #compactions = [];
  /** @type {Mark[]} */
  #switches = [];
  /** @type {Map<number, number>} where the summaries stand among the items */
  #places = new Map();

  /** @param {string[]} kinds */
  constructor(kinds) {
    this.kinds = kinds;
    this.codes = new Map(kinds.map((name, code) => [name, code]));
    this.categoryOf = Uint8Array.from(kinds, (name) => CATEGORY_OF[name] ?? TOOL);
    this.count = 0;
    this.ts = new Float64Array(0);
    this.tokens = new Uint32Array(0);
    this.pair = new Uint32Array(0);
    this.kind = new Uint8Array(0);
    this.flags = new Uint8Array(0);
    this.parts = CATEGORIES.map(() => new Int32Array(1));
    this.total = new Int32Array(1);
    /** @type {Sight | null} */
    this.sight = null;
    this.peak = 0;
    /** @type {Map<number, number>} how many items left at an entry */
    this.leaving = new Map();
    /** @type {number[]} where turns begin */
    this.turns = [];
    /** @type {number[]} where models were asked */
    this.asked = [];
    /** @type {number[]} */
    this.errors = [];
  }

  /** Takes what the server packed. @param {ArrayBuffer} buffer */
  add(buffer) {
    const size = buffer.byteLength / 18;
    const from = this.count;
    const count = from + size;
    if (count > this.ts.length) this.#reserve(Math.max(count, Math.ceil(from * 1.5)));
    let at = 0;
    for (const column of [this.ts, this.tokens, this.pair, this.kind, this.flags]) {
      const Kind = /** @type {any} */ (column.constructor);
      const bytes = size * Kind.BYTES_PER_ELEMENT;
      column.set(new Kind(buffer.slice(at, at + bytes)), from);
      at += bytes;
    }
    this.count = count;
    this.#index(from, count);
    if (from && this.sight) this.#grow(from);
  }

  /** @param {number} count */
  #reserve(count) {
    const grown = (/** @type {any} */ old) => {
      const made = new old.constructor(count);
      made.set(old);
      return made;
    };
    this.ts = grown(this.ts);
    this.tokens = grown(this.tokens);
    this.pair = grown(this.pair);
    this.kind = grown(this.kind);
    this.flags = grown(this.flags);
  }

  /** @param {number} from @param {number} to */
  #index(from, to) {
    const asked = this.codes.get("asked");
    const result = this.codes.get("result"), answer = this.codes.get("answered");
    for (let i = from; i < to; i++) {
      if (this.flags[i] & TURN) this.turns.push(i + 1);
      if (this.kind[i] === asked) this.asked.push(i + 1);
      if (this.flags[i] & FAILED) this.errors.push(i + 1);
      const pair = this.pair[i];
      if (pair && pair <= i && (this.kind[i] === result || this.kind[i] === answer)) this.pair[pair - 1] = i + 1;
    }
  }

  /** @param {Sight} sight */
  see(sight) {
    this.sight = sight;
    this.#staysAt = -1;
    this.#compactions = sight.controls.filter((mark) => mark.kind === "compacted");
    this.#switches = sight.controls.filter((mark) => mark.name.startsWith("s"));
    this.#places = new Map(this.#compactions.map((mark) => [mark.seq, mark.last + 0.5]));
    this.#measure();
  }

  #measure() {
    const length = this.count + 1;
    this.parts = CATEGORIES.map(() => new Int32Array(length));
    this.total = new Int32Array(length);
    this.leaving = new Map();
    if (!this.sight) return;
    for (const stay of this.sight.stays) this.#put(stay, false);
    for (const stay of this.sight.summaries) this.#put(stay, true);
    for (const part of this.parts) {
      let sum = 0;
      for (let i = 1; i < length; i++) {
        sum += part[i];
        part[i] = sum;
        this.total[i] += sum;
      }
    }
    this.peak = greatest(this.total, 0, this.count);
  }

  /** @param {number[]} stay @param {boolean} isSummary */
  #put([first, last, entered, left], isSummary) {
    const compacted = this.codes.get("compacted");
    const end = Math.min(!left && this.#isOpen(last) ? this.count : last, this.count);
    let items = 0;
    for (let seq = first; seq <= end; seq++) {
      const i = seq - 1;
      if ((this.kind[i] === compacted) !== isSummary || !this.tokens[i]) continue;
      const part = this.parts[this.category(seq)];
      const came = entered || seq;
      items++;
      if (came <= this.count) part[came] += this.tokens[i];
      if (left && left <= this.count) part[left] -= this.tokens[i];
    }
    if (left) this.leaving.set(left, (this.leaving.get(left) ?? 0) + items);
  }

  /** Does a stay that ends here go on with what came since? @param {number} last */
  #isOpen(last) {
    return this.sight !== null && last === this.sight.seq;
  }

  /** What came since the sight was told: a window only grows. @param {number} from */
  #grow(from) {
    const parts = this.parts.map((part) => longer(part, this.count + 1));
    const total = longer(this.total, this.count + 1);
    const compacted = this.codes.get("compacted");
    for (let seq = from + 1; seq <= this.count; seq++) {
      for (const part of parts) part[seq] = part[seq - 1];
      const cost = this.kind[seq - 1] === compacted ? 0 : this.tokens[seq - 1];
      parts[this.category(seq)][seq] += cost;
      total[seq] = total[seq - 1] + cost;
      if (total[seq] > this.peak) this.peak = total[seq];
    }
    this.parts = parts;
    this.total = total;
  }

  /** @param {number} seq */
  category(seq) {
    return this.flags[seq - 1] & INNER ? TOOL : this.categoryOf[this.kind[seq - 1]];
  }

  /** @param {number} seq */
  what(seq) {
    return this.kinds[this.kind[seq - 1]] ?? "unknown";
  }

  /** The number of the turn an entry is in. @param {number} seq */
  turnOf(seq) {
    return upto(this.turns, seq);
  }

  /** m42: the number of the request at, or last before, an entry. @param {number} seq */
  requestOf(seq) {
    return upto(this.asked, seq);
  }

  /** The stays of everything, those that go on with what came since included. @returns {Stay[]} */
  stays() {
    if (this.#staysAt !== this.count && this.sight) {
      const isOpen = (/** @type {number} */ last, /** @type {number} */ left) => !left && this.#isOpen(last);
      this.#stays = [
        ...this.sight.stays.map(([first, last, entered, left]) => ({ first, last: isOpen(last, left) ? this.count : last, entered, left, isSummary: false })),
        ...this.sight.summaries.map(([first, last, entered, left]) => ({ first, last, entered, left, isSummary: true })),
      ];
      this.#staysAt = this.count;
      this.#near = new Map();
      for (const stay of this.#stays) {
        for (let block = stay.first >> BLOCK; block <= stay.last >> BLOCK; block++) {
          const here = this.#near.get(block);
          if (here) here.push(stay);
          else this.#near.set(block, [stay]);
        }
      }
    }
    return this.#stays;
  }

  /** Those that an entry may be in. @param {number} seq */
  #staysNear(seq) {
    this.stays();
    return this.#near.get(seq >> BLOCK) ?? [];
  }

  /** What the model saw after an entry, in its order. @param {number} seq @returns {number[]} */
  itemsAt(seq) {
    const compacted = this.codes.get("compacted");
    const found = [];
    for (const stay of this.stays()) {
      if (stay.left && stay.left <= seq) continue;
      if ((stay.entered || stay.first) > seq) continue;
      const last = Math.min(stay.last, seq);
      for (let one = stay.first; one <= last; one++) {
        if (this.tokens[one - 1] && (this.kind[one - 1] === compacted) === stay.isSummary) found.push(one);
      }
    }
    const place = (/** @type {number} */ one) => (this.kind[one - 1] === compacted ? (this.#places.get(one) ?? one) : one);
    return found.sort((one, other) => place(one) - place(other));
  }

  /** When an item was in sight. @param {number} seq @returns {{from: number, to: number, left: number}[]} */
  lifeOf(seq) {
    const isSummary = this.kind[seq - 1] === this.codes.get("compacted");
    const found = [];
    for (const stay of this.#staysNear(seq)) {
      if (stay.isSummary === isSummary && stay.first <= seq && seq <= stay.last) {
        found.push({ from: stay.entered || seq, to: stay.left || this.count, left: stay.left });
      }
    }
    return found.sort((one, other) => one.from - other.from);
  }

  compactions() {
    return this.#compactions;
  }

  switches() {
    return this.#switches;
  }

  /** The context that is active after an entry. @param {number} seq */
  contextAt(seq) {
    let found = { id: "main", title: "" };
    for (const mark of this.sight?.controls ?? []) {
      if (mark.seq > seq) break;
      if (mark.id) found = mark;
    }
    return found;
  }

  /** The rows of the list: one for a call and its result, for a request and its answer. @param {Set<string> | null} kinds @param {boolean} failed */
  rows(kinds, failed) {
    const second = new Set([this.codes.get("result"), this.codes.get("answered")]);
    const wanted = kinds ? new Set([...kinds].map((name) => this.codes.get(name))) : null;
    const found = new Uint32Array(this.count);
    let size = 0;
    for (let i = 0; i < this.count; i++) {
      const pair = this.pair[i];
      if (this.flags[i] & HIDDEN || (pair && pair <= i && second.has(this.kind[i]))) continue;
      if (wanted && !wanted.has(this.kind[i]) && !(pair && wanted.has(this.kind[pair - 1]))) continue;
      if (failed && !((this.flags[i] | (pair ? this.flags[pair - 1] : 0)) & FAILED)) continue;
      found[size++] = i + 1;
    }
    return found.subarray(0, size);
  }
}

/** @param {Int32Array<ArrayBuffer>} old @param {number} length */
function longer(old, length) {
  if (old.length >= length) return old;
  const made = new Int32Array(Math.max(length, Math.ceil(old.length * 1.5)));
  made.set(old);
  return made;
}

/** @param {Int32Array} values @param {number} from @param {number} to */
export function greatest(values, from, to) {
  let most = 0;
  for (let i = from; i <= to; i++) if (values[i] > most) most = values[i];
  return most;
}

/** How many of these ascending numbers are at most ``value``. @param {ArrayLike<number>} list @param {number} value */
export function upto(list, value) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
