// A virtual list of rows of one height. It makes as many nodes as are in sight and uses them again. From 500,000 rows on the height is
// scaled, since browsers limit how tall an element may be.
import { signal } from "./vendor/preact.js";

const TALLEST = 12_000_000; // pixels: 500,000 rows of 24

export class Rows {
  /**
   * @param {HTMLElement} node that scrolls
   * @param {number} height of a row
   * @param {(row: HTMLElement, at: number) => void} draw
   * @param {(at: number) => void} choose
   */
  constructor(node, height, draw, choose) {
    this.node = node;
    this.height = height;
    this.draw = draw;
    this.count = 0;
    this.at = -1;
    this.range = signal([0, 0]);
    /** @type {((first: number) => number) | null} */
    this.header = null;
    this.space = document.createElement("div");
    this.space.className = "list-space";
    this.space.setAttribute("role", "presentation");
    this.pane = document.createElement("div");
    this.pane.className = "list-pane";
    this.pane.setAttribute("role", "presentation");
    this.sticky = makeRow();
    this.sticky.hidden = true;
    /** @type {HTMLElement[]} */
    this.nodes = [];
    node.append(this.space, this.pane);
    this.pane.append(this.sticky);
    // Both are kept: to ask the browser after something was drawn makes it lay out the page at once.
    this.page = node.clientHeight;
    this.scrolled = node.scrollTop;
    this.stop = new AbortController();
    const { signal: ended } = this.stop;
    node.addEventListener("scroll", () => this.#soon(), { passive: true, signal: ended });
    node.addEventListener("click", (event) => {
      const row = /** @type {HTMLElement} */ (event.target).closest(".row");
      if (row instanceof HTMLElement && row.dataset.at) choose(Number(row.dataset.at));
    }, { signal: ended });
    this.watch = new ResizeObserver(() => this.#soon());
    this.watch.observe(node);
    this.waiting = 0;
  }

  close() {
    this.stop.abort();
    this.watch.disconnect();
    this.node.replaceChildren();
  }

  /** @param {number} count @param {number} at the row that must be in sight when it has changed @param {((first: number) => number) | null} header */
  show(count, at, header) {
    const hasMoved = at !== this.at || this.count === 0;
    if (count !== this.count) {
      this.count = count;
      this.space.style.height = `${Math.min(TALLEST, count * this.height)}px`;
    }
    this.header = header;
    this.at = at;
    if (hasMoved && at >= 0) this.#reveal(at);
    this.#draw();
  }

  get #scale() {
    const whole = this.count * this.height;
    if (whole <= TALLEST) return 1;
    return (whole - this.page) / (TALLEST - this.page);
  }

  /** @param {number} at */
  #reveal(at) {
    const page = this.page;
    const top = this.scrolled * this.#scale;
    const y = at * this.height;
    const lead = this.header ? this.height : 0;
    if (y >= top + lead && y + this.height <= top + page) return;
    const isNear = y >= top - page && y <= top + 2 * page;
    const to = !isNear ? y - page / 2 : y < top + lead ? y - lead - 2 * this.height : y + 3 * this.height - page;
    const most = Math.max(0, Math.min(TALLEST, this.count * this.height) - page);
    this.scrolled = Math.min(most, Math.max(0, Math.round(to / this.#scale)));
    this.node.scrollTop = this.scrolled;
  }

  #soon() {
    if (!this.waiting) this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      const { clientHeight, scrollTop } = this.node;
      if (clientHeight === this.page && Math.abs(scrollTop - this.scrolled) < 1) return; // it was us
      this.page = clientHeight;
      this.scrolled = scrollTop;
      this.#draw();
    });
  }

  #draw() {
    const { page, scrolled } = this;
    const top = scrolled * this.#scale;
    const first = Math.max(0, Math.floor(top / this.height));
    const size = Math.max(0, Math.min(this.count - first, Math.ceil(page / this.height) + 1));
    while (this.nodes.length < size) {
      const made = makeRow();
      this.nodes.push(made);
      this.pane.append(made);
    }
    this.pane.style.transform = `translateY(${scrolled - (top - first * this.height)}px)`;
    for (let i = 0; i < this.nodes.length; i++) {
      const node = this.nodes[i];
      node.hidden = i >= size;
      if (i >= size) continue;
      node.dataset.at = String(first + i);
      node.style.transform = `translateY(${i * this.height}px)`;
      this.draw(node, first + i);
    }
    this.#drawHeader(first, top);
    const seen = Math.min(this.count, first + Math.max(1, Math.floor(page / this.height)));
    const [from, to] = this.range.peek();
    if (from !== first || to !== seen) this.range.value = [first, seen];
  }

  /** @param {number} first @param {number} top */
  #drawHeader(first, top) {
    const at = this.header && size(this.nodes) ? this.header(first + 1) : -1;
    const isShown = at >= 0 && at <= first && !(at === first && top === first * this.height);
    this.sticky.hidden = !isShown;
    if (!isShown) return;
    this.sticky.dataset.at = String(at);
    this.draw(this.sticky, at);
    this.sticky.id = "";
    this.sticky.classList.add("stuck");
    this.sticky.setAttribute("aria-hidden", "true");
    this.sticky.style.transform = `translateY(${top - first * this.height}px)`;
  }
}

const size = (/** @type {HTMLElement[]} */ list) => list.length;

function makeRow() {
  const row = document.createElement("div");
  row.className = "row";
  row.setAttribute("role", "row");
  for (const name of ["mark", "seq", "sign-place", "says", "tokens", "time"]) {
    const cell = document.createElement("span");
    cell.className = name;
    cell.setAttribute("role", "gridcell");
    row.append(cell);
  }
  return row;
}
