// Where values come from: the server, or the blocks of a page that was sent as one file. Nothing else asks for anything.

/** What went wrong, in words of the server. */
export class Problem extends Error {
  /** @param {any} value */
  constructor(value) {
    super(value.error);
    this.kind = value.kind;
    this.value = value;
  }
}

/** @type {Map<string, string> | null} the blocks by name, in a page that stands alone */
let blocks = null;

export function isAlone() {
  return blocks !== null;
}

/** Finds the blocks there are, if this is a page of its own. */
export function findBlocks() {
  const found = document.querySelectorAll('script[type="application/gzip"]');
  if (found.length) blocks = new Map([...found].map((one) => [one.getAttribute("data-name") ?? "", one.textContent ?? ""]));
}

/** @param {string} name @returns {Promise<Uint8Array>} */
async function block(name) {
  const text = blocks?.get(name);
  if (text === undefined) throw new Problem({ kind: "alone", error: "This is not in the page." });
  const packed = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @type {Map<string, Promise<any>>} */
const unpacked = new Map();

/** @param {string} name */
export function blockValue(name) {
  let value = unpacked.get(name);
  if (!value) {
    value = block(name).then((bytes) => JSON.parse(new TextDecoder().decode(bytes)));
    unpacked.set(name, value);
  }
  return value;
}

/** Lines and events are in blocks of as many entries as a page of lines has. */
export const PAGE = 128;
export const pageOf = (/** @type {number} */ seq) => Math.floor((seq - 1) / PAGE);
/** Where an entry is: in which block, and what in it. @param {number} seq */
export const entryBlock = (seq) => `entries/${pageOf(seq)}#${seq}`;

export const hasBlock = (/** @type {string} */ name) => blocks?.has(name) ?? false;
export const blockBytes = block;

/** @param {string} name @param {Record<string, string | number | undefined>} [query] @param {AbortSignal} [signal] */
export async function ask(name, query = {}, signal) {
  const response = await fetchAnswer(name, query, signal);
  return (await response.json());
}

/** @param {string} name @param {Record<string, string | number | undefined>} query @param {AbortSignal} [signal] */
export async function fetchAnswer(name, query, signal) {
  const response = await fetch(address(name, query), { signal, headers: { accept: "application/json" } });
  if (!response.ok) {
    const value = await response.json().catch(() => ({ error: `The server said ${response.status}.`, kind: "failed" }));
    throw new Problem(value);
  }
  return response;
}

/** @param {string} name @param {Record<string, string | number | undefined>} query */
export function address(name, query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return `/api/v1/${name}${text ? `?${text}` : ""}`;
}

/** @param {string} name @param {any} value */
export async function tell(name, value) {
  const response = await fetch(`/api/v1/${name}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-chatfold": "1" },
    body: JSON.stringify(value),
  });
  const answer = await response.json();
  if (!response.ok) throw new Problem(answer);
  return answer;
}

/** Lines of JSON as they come. @param {string} name @param {Record<string, string | number | undefined>} query @param {AbortSignal} signal */
export async function* streamed(name, query, signal) {
  const response = await fetchAnswer(name, query, signal);
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    rest += value ?? "";
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line) yield JSON.parse(line);
    if (done) return;
  }
}
