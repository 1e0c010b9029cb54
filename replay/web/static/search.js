// Search in everything that was ever said: hits by chat, and whether the model still sees them.
import { html, signal, useEffect, useRef, useState } from "./vendor/preact.js";
import { go, goHome, goToChat, place } from "./address.js";
import { asProblem } from "./chat.js";
import { counted } from "./format.js";
import { Note } from "./note.js";
import { EventSign, Sign } from "./signs.js";
import { ask, streamed } from "./source.js";
import { Folded, oneLine } from "./text.js";
import { Marked } from "./words.js";

const KINDS = [["", "Anywhere"], ["user", "Said by people"], ["result", "Tool results"], ["compacted", "Summaries"]];
const FEW = 7;

/** @typedef {{chat: string, title: string, hits: any[], has_more: boolean, error: string}} Group */

/** @type {import("./vendor/preact.js").Signal<{groups: Group[], isDone: boolean, problem: string, took: number}>} */
const found = signal({ groups: [], isDone: true, problem: "", took: 0 });
const kinds = signal("");

/** @param {string} query @param {AbortSignal} stop */
async function look(query, stop) {
  const began = performance.now();
  found.value = { groups: [], isDone: false, problem: "", took: 0 };
  try {
    for await (const { hits } of streamed("search", { q: query, kinds: kinds.value }, stop)) {
      found.value = { ...found.value, groups: [...found.value.groups, hits] };
    }
  } catch (error) {
    if (stop.aborted) return;
    found.value = { ...found.value, problem: asProblem(error).message };
  }
  if (!stop.aborted) found.value = { ...found.value, isDone: true, took: performance.now() - began };
}

export function Search() {
  const query = place.value.q;
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [at, setAt] = useState(0);
  const [more, setMore] = useState(/** @type {Set<string>} */ (new Set()));
  useEffect(() => input.current?.focus(), []);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => look(query, stop.signal), 150);
    setAt(0);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [query, kinds.value]);
  const { groups, isDone, problem, took } = found.value;
  const shown = groups.flatMap((group) => (more.has(group.chat) ? group.hits : group.hits.slice(0, FEW)).map((hit) => ({ hit, group })));
  const total = groups.reduce((sum, group) => sum + group.hits.length, 0);
  const chosen = shown[Math.min(at, shown.length - 1)];
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") setAt(Math.min(shown.length - 1, Math.max(0, at + (event.key === "ArrowDown" ? 1 : -1))));
    else if (event.key === "Enter" && chosen) open(chosen.group, chosen.hit);
    else if (event.key === "Escape") goHome();
    else return;
    event.preventDefault();
  };
  const status = problem || `${counted(total, "hit")} in ${counted(groups.length, "chat")}${isDone ? `, ${Math.round(took)} ms` : " …"}`;
  return html`<div class="home-page search-page"><h1 class="unseen">Search</h1><label class="home-search wide"><${Sign} name="search" /><input ref=${input} aria-label="Search in everything that was ever said" value=${query} onKeyDown=${key}
      onInput=${(/** @type {any} */ event) => (event.target.value ? go({ q: event.target.value }, { step: true }) : goHome())} /><span class="quiet" role="status">${status}</span></label>
    <div class="row search-bar"><div class="segments" role="radiogroup" aria-label="Where">${KINDS.map(([name, label]) => html`<button role="radio" aria-checked=${kinds.value === name} onClick=${() => (kinds.value = name)}>${label}</button>`)}</div><span class="grow"></span><span class="quiet"><kbd>↑</kbd> <kbd>↓</kbd> choose <kbd>↵</kbd> open there</span></div>
    <div class="search-columns"><div>${groups.map((group) => html`<section class="search-group" key=${group.chat}><p class="row search-head"><h2 class="said cut">${oneLine(group.title || group.chat)}</h2><span class="mono quiet said cut">${oneLine(group.chat)}</span><span class="grow"></span><span class="quiet nowrap">${group.error ? "" : `${group.hits.length}${group.has_more ? "+" : ""} ${group.hits.length === 1 ? "hit" : "hits"}`}</span></p>
        ${group.error && html`<p class="k-red said">${group.error}</p>`}
        ${shown.filter((one) => one.group === group).map(({ hit }) => html`<${Hit} key=${hit.seq} hit=${hit} query=${query} isChosen=${chosen?.hit === hit} onChoose=${() => setAt(shown.findIndex((one) => one.hit === hit))} onOpen=${() => open(group, hit)} />`)}
        ${!more.has(group.chat) && group.hits.length > FEW && html`<button class="link pad" onClick=${() => setMore(new Set([...more, group.chat]))}>${group.hits.length - FEW} more</button>`}</section>`)}
      ${isDone && !total && !problem && html`<${Note} sign="search" title=${`Nothing says “${query}”`}><p>All chats were searched, results of tools included.</p><//>`}</div>
      ${chosen && html`<${Preview} key=${`${chosen.group.chat} ${chosen.hit.seq}`} group=${chosen.group} hit=${chosen.hit} query=${query} />`}</div></div>`;
}

/** @param {Group} group @param {any} hit */
const open = (group, hit) => goToChat(group.chat, { at: `e${hit.seq}`, tab: "event" });

/** @param {any} hit */
function whereNow(hit) {
  if (!hit.now) return "";
  const { where, title, context } = hit.now;
  if (where === "active") return html`<span class="k-green"><span class="dot"></span> in the context</span>`;
  if (where === "archived") return html`on the shelf, in “<span class="said">${oneLine(title || context)}</span>”`;
  if (where === "recorded") return "never shown to a model";
  if (where === "erased") return "erased";
  return hit.left ? `not seen since ${hit.left}` : "not in the context";
}

/** @param {{hit: any, query: string, isChosen: boolean, onChoose: () => void, onOpen: () => void}} props */
function Hit({ hit, query, isChosen, onChoose, onOpen }) {
  return html`<button class=${`hit ${isChosen ? "chosen" : ""}`} aria-pressed=${isChosen} onClick=${() => (isChosen ? onOpen() : onChoose())} onDblClick=${onOpen}><${EventSign} what=${hit.what} /><span class="grow cut"><${Marked} text=${hit.preview} words=${query} /></span><span class="quiet nowrap">${whereNow(hit)}</span><span class="mono faint number">t${hit.turn}</span><span class="mono faint number">e${hit.seq}</span></button>`;
}

/** @param {{group: Group, hit: any, query: string}} props */
function Preview({ group, hit, query }) {
  const [event, setEvent] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const stop = new AbortController();
    ask("event", { chat: group.chat, at: `e${hit.seq}` }, stop.signal).then((value) => setEvent(value.event), () => null);
    return () => stop.abort();
  }, []);
  return html`<aside class="card preview"><p class="row"><${EventSign} what=${hit.what} /> ${hit.what} <span class="mono quiet said cut">${oneLine(group.chat)}@e${hit.seq}</span></p>
    ${event ? html`<${Folded} body=${event.said.text ? event.said : event.json} isCode=${hit.what === "result" || hit.what === "call"} />` : html`<p><${Marked} text=${hit.preview} words=${query} /></p>`}
    <p class="quiet">${whereNow(hit)}</p>
    <div class="row"><button class="button primary" onClick=${() => open(group, hit)}>Open at e${hit.seq}</button>${hit.left && html`<button class="button" onClick=${() => goToChat(group.chat, { at: `e${hit.seq}`, why: `e${hit.seq}` })}>Why did it leave?</button>`}</div></aside>`;
}
