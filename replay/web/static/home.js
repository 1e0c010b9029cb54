// Home: the chats of the store, forks folded below what they grew from, and the search in everything.
import { html, signal, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { go, goToChat, place } from "./address.js";
import { asProblem, get, store, trouble } from "./chat.js";
import { ago, counted, grouped, percent, short } from "./format.js";
import { Note, Trouble } from "./note.js";
import { Search } from "./search.js";
import { sheet } from "./screen.js";
import { Sign } from "./signs.js";
import { Spark, sparkOf } from "./spark.js";
import { oneLine } from "./text.js";
import { turnTheme } from "./theme.js";
import { Brand } from "./top.js";

/** @typedef {{key: string, title?: string, preview?: string, turns?: number, active?: number, parent?: {parent: string, at: number} | null, is_open?: boolean, error?: string}} Chat */
/** @typedef {{chat: Chat, depth: number, forks: number, isFork: boolean}} Row */

/** @type {import("./vendor/preact.js").Signal<Chat[] | null>} */
const chats = signal(null);
const unfolded = signal(/** @type {Set<string>} */ (new Set()));
const only = signal("all");
const TALL = 66, LOW = 32;

async function load() {
  try {
    chats.value = (await get("chats", {})).chats;
    trouble.value = null;
  } catch (error) {
    trouble.value = asProblem(error);
  }
}

export function Home() {
  useEffect(() => void (document.title = `${store.value?.name ?? ""} · chatfold`), [store.value?.name]);
  useLayoutEffect(() => {
    void load();
    const again = () => document.visibilityState === "visible" && void load();
    const timer = setInterval(again, 5000);
    document.addEventListener("visibilitychange", again);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", again);
    };
  }, []);
  const query = place.value.q;
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  return html`<div class="home"><header class="top"><${Brand} /><span class="slash">/</span><b class="said cut">${oneLine(store.value?.name ?? "")}</b><span class="chip">${store.value?.writes ? "may fork" : "read-only"}</span><span class="grow"></span>
      <button class="plain" onClick=${() => (sheet.value = "commands")}>Commands <kbd aria-hidden="true">⌘K</kbd></button><button class="icon" aria-label="Dark or light" onClick=${turnTheme}><${Sign} name="theme" /></button><button class="icon help" aria-label="Keys" onClick=${() => (sheet.value = "keys")}>?</button></header>
    <main class="home-scroll" ref=${scroller}>${query ? html`<${Search} />` : trouble.value ? html`<${Trouble} problem=${trouble.value} />` : chats.value === null ? html`<div class="home-page"><span class="loading" style=${{ width: "240px" }}></span></div>` : html`<${List} all=${chats.value} scroller=${scroller} />`}</main></div>`;
}

export function SearchField() {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    const focus = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "/" || event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      input.current?.focus();
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);
  return html`<label class="home-search"><${Sign} name="search" /><input ref=${input} aria-label="Search in everything that was ever said" placeholder="Search in everything that was ever said" onInput=${(/** @type {any} */ event) => event.target.value && go({ q: event.target.value })} /><kbd aria-hidden="true">/</kbd></label>`;
}

/** @param {{all: Chat[], scroller: {current: HTMLElement | null}}} props */
function List({ all, scroller }) {
  const [at, setAt] = useState(0);
  const rows = useMemo(() => rowsOf(all, unfolded.value, only.value), [all, unfolded.value, only.value]);
  const tops = useMemo(() => {
    let y = 0;
    return rows.map((row) => (y += row.isFork ? LOW : TALL) - (row.isFork ? LOW : TALL));
  }, [rows]);
  const [first, last] = useSight(scroller, tops);
  const isTop = new Set(all.map((one) => one.key));
  const forks = all.filter((one) => one.parent && isTop.has(one.parent.parent)).length;
  const running = all.filter((one) => one.is_open).length;
  const height = rows.length ? tops[rows.length - 1] + (rows[rows.length - 1].isFork ? LOW : TALL) : 0;
  const key = (/** @type {KeyboardEvent} */ event) => {
    const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (by) {
      const next = Math.min(rows.length - 1, Math.max(0, at + by));
      setAt(next);
      reveal(scroller.current, tops[next]);
    } else if (event.key === "Enter") goToChat(rows[at].chat.key);
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") fold(rows[at].chat.key, event.key === "ArrowRight");
    else return;
    event.preventDefault();
  };
  if (!all.length) return html`<div class="home-page"><${Note} title="No chats here yet" command=${`chatfold demo ${store.value?.name ?? ""}`}><p>The store “${oneLine(store.value?.name ?? "")}” is empty. Record a small chat to look at, or point an agent at this folder.</p><//></div>`;
  return html`<div class="home-page">
    <div class="home-head"><div class="grow"><h1>${counted(all.length - forks, "chat")}</h1><p class="quiet">${counted(forks, "fork")}.${running ? ` ${running === 1 ? "One is" : `${grouped(running)} are`} being written or waited for.` : ""}</p></div>
      <div class="segments" role="radiogroup" aria-label="Which chats">${[["all", "All"], ["open", "Running"], ["errors", "Unreadable"]].map(([name, label]) => html`<button role="radio" aria-checked=${only.value === name} onClick=${() => (only.value = name)}>${label}</button>`)}</div><${SearchField} /></div>
    <div class="home-columns faint"><span>Chat</span><span>Context over time, to the limit</span><span class="number">Now</span><span class="number">Turns</span><span class="number">Events</span><span class="number">Errors</span><span class="number">Active</span></div>
    <div class="home-list" role="grid" tabindex="0" aria-label="Chats" aria-rowcount=${rows.length} aria-activedescendant=${`chat-${at}`} style=${{ height: `${height}px` }} onKeyDown=${key}>
      ${rows.slice(first, last).map((row, i) => html`<${ChatRow} key=${row.chat.key} row=${row} top=${tops[first + i]} at=${first + i} isChosen=${first + i === at} />`)}
      ${!rows.length && html`<p class="quiet pad">None of the chats is of this kind.</p>`}</div></div>`;
}

/** Which rows are in sight. @param {{current: HTMLElement | null}} scroller @param {number[]} tops */
function useSight(scroller, tops) {
  const [top, setTop] = useState(0);
  useEffect(() => {
    const node = scroller.current;
    if (!node) return undefined;
    const scrolled = () => setTop(Math.floor(node.scrollTop / 200) * 200);
    node.addEventListener("scroll", scrolled, { passive: true });
    return () => node.removeEventListener("scroll", scrolled);
  }, []);
  const page = scroller.current?.clientHeight ?? 1200;
  const first = Math.max(0, tops.findIndex((one) => one > top - 500));
  const beyond = tops.findIndex((one) => one > top + page + 400);
  return [tops.length && top > (tops.at(-1) ?? 0) ? Math.max(0, tops.length - 40) : first, beyond < 0 ? tops.length : beyond];
}

/** @param {HTMLElement | null} node @param {number} y */
function reveal(node, y) {
  if (!node) return;
  const top = y + 150;
  if (top < node.scrollTop + 60) node.scrollTop = Math.max(0, top - 160);
  else if (top + TALL > node.scrollTop + node.clientHeight) node.scrollTop = top + TALL * 2 - node.clientHeight;
}

/** @param {string} key @param {boolean} [open] */
function fold(key, open) {
  const now = new Set(unfolded.value);
  if (open ?? !now.has(key)) now.add(key);
  else now.delete(key);
  unfolded.value = now;
}

/** @param {Chat[]} all @param {Set<string>} open @param {string} kind @returns {Row[]} */
function rowsOf(all, open, kind) {
  if (kind !== "all") return all.filter((one) => (kind === "open" ? one.is_open : one.error)).map((chat) => ({ chat, depth: 0, forks: 0, isFork: false }));
  const keys = new Set(all.map((one) => one.key));
  /** @type {Map<string, Chat[]>} */
  const below = new Map();
  /** @type {Chat[]} */
  const tops = [];
  for (const one of all) {
    const parent = one.parent?.parent;
    if (parent && keys.has(parent) && parent !== one.key) below.set(parent, [...(below.get(parent) ?? []), one]);
    else tops.push(one);
  }
  /** @type {Row[]} */
  const found = [];
  const put = (/** @type {Chat} */ chat, /** @type {number} */ depth, /** @type {Set<string>} */ met) => {
    const forks = below.get(chat.key) ?? [];
    if (met.has(chat.key)) return;
    met.add(chat.key);
    found.push({ chat, depth, forks: forks.length, isFork: depth > 0 });
    if (depth > 0 ? depth < 40 : open.has(chat.key)) for (const fork of forks) put(fork, depth + 1, met);
  };
  const met = new Set();
  for (const chat of tops) put(chat, 0, met);
  return found;
}

/** @param {{row: Row, top: number, at: number, isChosen: boolean}} props */
function ChatRow({ row, top, at, isChosen }) {
  const { chat, depth, forks, isFork } = row;
  const told = isFork || chat.error ? undefined : sparkOf(chat.key, chat.active ?? 0);
  const common = { id: `chat-${at}`, role: "row", "aria-selected": isChosen, "aria-rowindex": at + 1, style: { transform: `translateY(${top}px)` }, onClick: () => goToChat(chat.key) };
  if (isFork) {
    return html`<div class=${`home-fork ${isChosen ? "chosen" : ""}`} ...${common}><span role="gridcell" class="row grow"><span style=${{ width: `${18 + 22 * Math.min(depth - 1, 6)}px` }}></span><${Sign} name="forked" colour="ink" /><span class="mono said">${oneLine(chat.key)}</span><span class="quiet">from e${chat.parent?.at}</span><span class="grow cut said quiet">${oneLine(chat.preview ?? "")}</span><span class="quiet">${chat.active ? ago(chat.active) : ""}</span></span></div>`;
  }
  return html`<div class=${`home-row ${isChosen ? "chosen" : ""}`} ...${common}>
    <div class="home-title" role="gridcell"><p class="row"><b class="said cut">${oneLine(chat.title || chat.key)}</b>${chat.is_open && html`<span class="chip small"><span class="dot off"></span>running</span>`}${chat.error && html`<span class="chip red small">unreadable</span>`}
      ${forks > 0 && html`<button class="plain" aria-expanded=${unfolded.value.has(chat.key)} onClick=${(/** @type {Event} */ event) => { event.stopPropagation(); fold(chat.key); }}><${Sign} name="forked" /> ${counted(forks, "fork")} <${Sign} name=${unfolded.value.has(chat.key) ? "down" : "right"} /></button>`}</p>
      <p class="row"><span class="mono quiet said">${oneLine(chat.key)}</span><span class="quiet cut said">${oneLine(chat.error || chat.preview || "")}</span></p></div>
    <div class="home-spark" role="gridcell"><${Spark} told=${told} /></div>
    <div class="number" role="gridcell"><p>${told ? short(told.now) : ""}</p><p class="small quiet">${told && told.count > 0 && html`<span class="k-summary">◆ ${told.count}</span> `}${told && told.limit ? percent(told.now, told.limit) : ""}</p></div>
    <div class="number quiet" role="gridcell">${chat.turns ? grouped(chat.turns) : "–"}</div><div class="number quiet" role="gridcell">${told ? grouped(told.events) : ""}</div><div role="gridcell" class=${`number ${told?.errors ? "k-red" : "quiet"}`}>${told ? (told.errors ? grouped(told.errors) : "–") : ""}</div><div class="number quiet" role="gridcell">${chat.active ? ago(chat.active) : ""}</div></div>`;
}
