// Sheets: the keys, all commands, and the name of a fork.
import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { TABS, goHome, goToChat } from "./address.js";
import { asProblem, cursor, info } from "./chat.js";
import { GROUPS, press } from "./keys.js";
import { say, sheet } from "./screen.js";
import { Sign } from "./signs.js";
import { tell } from "./source.js";
import { nameOf, openTab } from "./tabs.js";
import { turnTheme } from "./theme.js";

export function Sheets() {
  if (!sheet.value) return null;
  const Shown = { keys: Keys, commands: Commands, fork: Fork }[sheet.value] ?? Keys;
  return html`<div class="veil" onClick=${() => (sheet.value = "")}></div><${Shown} />`;
}

/** Keeps the focus inside, and gives it back. @param {string} [first] what takes it */
function useDialog(first = "button") {
  const node = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const before = document.activeElement;
    const inside = node.current?.querySelector(first);
    if (inside instanceof HTMLElement) inside.focus();
    const hold = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Tab" || !node.current) return;
      const all = [...node.current.querySelectorAll("button, input")];
      const next = all[(all.indexOf(/** @type {Element} */ (document.activeElement)) + (event.shiftKey ? all.length - 1 : 1)) % all.length];
      event.preventDefault();
      if (next instanceof HTMLElement) next.focus();
    };
    node.current?.addEventListener("keydown", hold);
    return () => before instanceof HTMLElement && before.focus();
  }, []);
  return node;
}

function Keys() {
  const node = useDialog();
  return html`<section class="sheet keys" role="dialog" aria-modal="true" aria-label="Keys" ref=${node}>
    <header><h2>Keys</h2><span class="grow"></span><span class="quiet">The same as in chatfold step</span><button class="icon" aria-label="Close" onClick=${() => (sheet.value = "")}><${Sign} name="close" /></button></header>
    <div class="columns">${GROUPS.map(([name, keys]) => html`<div><h3>${name}</h3><dl>${keys.map(([some, what]) => html`<dt>${some.map((key) => (key === "…" ? "…" : html`<kbd>${key}</kbd>`))}</dt><dd>${what}</dd>`)}</dl></div>`)}</div></section>`;
}

/** @returns {{name: string, key: string, run: () => void}[]} */
function commands() {
  const found = GROUPS.flatMap(([, keys]) => keys).flatMap(([some, what]) => {
    if (["…", "Tab", "⌘K", "?", "Esc"].some((one) => some.includes(one))) return [];
    const words = what.split(", ");
    const pair = some.length === 2 && words.length === 2;
    return some.map((key, i) => ({ name: pair ? (i ? `${words[1].includes(" ") ? words[1] : `${words[1]} ${words[0].split(" ").slice(1).join(" ")}`}` : `${words[0]} ${words[1].split(" ").slice(1).join(" ")}`) : what, key, run: () => press(key) }));
  });
  const tabs = TABS.map((tab, i) => ({ name: `open ${nameOf(tab)}`, key: String(i + 1), run: () => openTab(tab) }));
  return [...found, ...tabs, { name: "all chats", key: "", run: () => goHome() }, { name: "dark or light", key: "", run: turnTheme }, { name: "keys", key: "?", run: () => (sheet.value = "keys") }];
}

function Commands() {
  const node = useDialog("input");
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const found = commands().filter((one) => query.toLowerCase().split(/\s+/).every((word) => one.name.toLowerCase().includes(word)));
  const chosen = Math.min(at, found.length - 1);
  const run = (/** @type {number} */ i) => {
    sheet.value = "";
    found[i]?.run();
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") setAt((chosen + (event.key === "ArrowDown" ? 1 : found.length - 1)) % Math.max(1, found.length));
    else if (event.key === "Enter") run(chosen);
    else return;
    event.preventDefault();
  };
  return html`<section class="sheet commands" role="dialog" aria-modal="true" aria-label="Commands" ref=${node}>
    <input role="combobox" aria-expanded="true" aria-controls="command-list" aria-activedescendant=${chosen >= 0 ? `command-${chosen}` : undefined} aria-label="Command" placeholder="What do you want to do?" value=${query} onInput=${(/** @type {any} */ event) => { setQuery(event.target.value); setAt(0); }} onKeyDown=${key} />
    <ul id="command-list" role="listbox" aria-label="Commands">${found.slice(0, 12).map((one, i) => html`<li role="option" id=${`command-${i}`} aria-selected=${i === chosen} onClick=${() => run(i)}><span class="grow">${one.name}</span>${one.key && html`<kbd>${one.key}</kbd>`}</li>`)}</ul>
    ${!found.length && html`<p class="pad quiet">No command is called that.</p>`}</section>`;
}

function Fork() {
  const node = useDialog("input");
  const [name, setName] = useState(`${info.value?.key}-e${cursor.value}`);
  const [problem, setProblem] = useState("");
  const make = async () => {
    try {
      const { key } = await tell("fork", { chat: info.value?.key, at: cursor.value, name });
      sheet.value = "";
      say(`Forked ${key}`);
      goToChat(key);
    } catch (error) {
      setProblem(asProblem(error).message);
    }
  };
  return html`<section class="sheet commands fork" role="dialog" aria-modal="true" aria-label="Fork here" ref=${node}>
    <h3>Fork at e${cursor.value}</h3><p class="quiet">A chat of its own that has everything up to here. This one stays as it is.</p>
    <input aria-label="Name of the fork" value=${name} onInput=${(/** @type {any} */ event) => setName(event.target.value)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && make()} />
    ${problem && html`<p class="k-red" role="alert">${problem}</p>`}<div class="row"><button class="button primary" onClick=${make}>Fork</button><button class="button" onClick=${() => (sheet.value = "")}>Cancel</button></div></section>`;
}
