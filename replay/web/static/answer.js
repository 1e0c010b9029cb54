// An answer of the server as a value that follows what it depends on: asked when that has rested, the latest wins, the last ones are kept.
import { useEffect, useRef, useState } from "./vendor/preact.js";
import { asProblem } from "./chat.js";
import { ask, blockValue, hasBlock, isAlone } from "./source.js";

const REST = 40; // milliseconds
const KEPT = 60;

/** @type {Map<string, any>} */
const known = new Map();

export function forgetAnswers() {
  known.clear();
}

/**
 * @param {string} name of the question
 * @param {Record<string, any> | null} query null: nothing is asked
 * @param {string} [blockName] in a page that stands alone
 * @returns {{value: any, problem: import("./source.js").Problem | null, isOld: boolean}} the last answer stays until the next is here
 */
export function useAnswer(name, query, blockName = "") {
  const key = query && `${name} ${JSON.stringify(query)}`;
  const [state, setState] = useState(/** @type {{key: string | null, value: any, problem: any}} */ ({ key: null, value: null, problem: null }));
  const last = useRef(0);
  useEffect(() => {
    if (!query || !key) return undefined;
    const found = known.get(key);
    if (found) {
      setState({ key, value: found, problem: null });
      return undefined;
    }
    const stop = new AbortController();
    const rest = performance.now() - last.current < 300 ? REST : 0;
    last.current = performance.now();
    const timer = setTimeout(async () => {
      try {
        const value = isAlone() ? await fromBlock(blockName) : await ask(name, query, stop.signal);
        known.set(key, value);
        if (known.size > KEPT) known.delete(known.keys().next().value ?? "");
        if (!stop.signal.aborted) setState({ key, value, problem: null });
      } catch (error) {
        if (!stop.signal.aborted) setState({ key, value: null, problem: asProblem(error) });
      }
    }, rest);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [key]);
  return { value: query ? state.value : null, problem: query && state.key === key ? state.problem : null, isOld: state.key !== key };
}

/** @param {string} name */
async function fromBlock(name) {
  const [block, part] = name.split("#");
  if (!hasBlock(block)) return null;
  const value = await blockValue(block);
  return part === undefined ? value : (value[part] ?? null);
}
