// The top: where we are, the address, the verdict, live, search, theme, help.
import { html, signal, useEffect, useRef, useState } from "./vendor/preact.js";
import { go, goHome, place } from "./address.js";
import { box, cursor, divergence, following, forks, info, link, moveTo, moveToPoint, store, verdict, end } from "./chat.js";
import { clock, counted } from "./format.js";
import { isFinding } from "./find.js";
import { lineOf, arrived } from "./lines.js";
import { copy, focusList, sheet } from "./screen.js";
import { Sign } from "./signs.js";
import { isAlone } from "./source.js";
import { oneLine } from "./text.js";
import { turnTheme } from "./theme.js";

/** The address field has the focus. */
export const isGoing = signal(false);

export function Top() {
  const chat = info.value;
  return html`<header class="top">
    <${Brand} />
    ${!isAlone() && html`<span class="slash">/</span><button class="store-name said" onClick=${() => goHome()}>${oneLine(store.value?.name ?? "")}</button>`}
    ${chat && html`<span class="slash">/</span><h1 class="title said cut" title=${chat.key}>${oneLine(chat.title || chat.key)}</h1>`}
    ${forks.value.length > 0 && html`<button class="plain forks" onClick=${() => go({ tab: "tree", why: "", judge: false })}><${Sign} name="forked" /> <span>${counted(forks.value.length, "fork")}</span></button>`}
    <span class="grow"></span>
    ${chat && html`<${Address} />`}
    <span class="grow"></span>
    ${chat && html`<${VerdictChip} />`}
    ${chat && !isAlone() && html`<button class="chip live" title=${following.value ? "Follows the end. F stops that." : "F follows the end"} onClick=${() => { following.value = !following.value; if (following.value) moveTo(end.value); }}>
      <span class=${`dot ${link.value === "live" ? "" : "off"}`}></span><span>${following.value ? "Following" : "Live"}</span></button>`}
    ${chat && !isAlone() && html`<button class="search-button" aria-label="Search in this chat" onClick=${() => (isFinding.value = true)}><${Sign} name="search" /><span class="grow">Search</span><kbd>/</kbd></button>`}
    <button class="icon" aria-label="Dark or light" onClick=${turnTheme}><${Sign} name="theme" /></button>
    <button class="icon help" aria-label="Keys" onClick=${() => (sheet.value = "keys")}>?</button>
  </header>`;
}

export function Brand() {
  return html`<button class="brand" onClick=${() => !isAlone() && goHome()} aria-label="chatfold, all chats">
    <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><rect x="1" y="10" width="3" height="4" rx="1" class="fill-tool" /><rect x="5" y="5" width="3" height="9" rx="1" class="fill-system" /><rect x="9" y="2" width="3" height="12" rx="1" class="fill-user" /><rect x="13" y="9" width="2.5" height="5" rx="1" class="fill-summary" /></svg>
    <b>chatfold</b></button>`;
}

function Address() {
  const [problem, setProblem] = useState("");
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const chat = info.value;
  const seq = cursor.value;
  const columns = box.value?.columns;
  void arrived.value;
  useEffect(() => {
    if (isGoing.value) input.current?.select();
  }, [isGoing.value]);
  if (!chat) return null;
  const ts = columns?.ts[seq - 1] ?? lineOf(chat.key, Math.max(1, seq))?.ts ?? 0;
  const about = columns ? `turn ${columns.turnOf(seq)} of ${columns.turns.length}${ts ? ` · ${clock(ts)}` : ""}` : "";
  const address = `${chat.key}@e${seq}`;
  const submit = async (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") isGoing.value = false;
    if (event.key !== "Enter") return;
    const said = await moveToPoint(/** @type {HTMLInputElement} */ (event.target).value.trim());
    setProblem(said);
    if (!said) {
      isGoing.value = false;
      focusList();
    }
  };
  if (isGoing.value) {
    return html`<div class="address going"><input ref=${input} aria-label="Go to an address" aria-invalid=${Boolean(problem)} value=${address} spellcheck="false" onKeyDown=${submit}
      onBlur=${() => { isGoing.value = false; setProblem(""); }} />${problem && html`<p class="address-problem" role="alert">${problem}</p>`}</div>`;
  }
  return html`<div class="address"><button class="address-text" title="Go to an address" onClick=${() => (isGoing.value = true)}><span class="mono said cut">${oneLine(chat.key)}</span><b class="mono">@e${seq}</b> <span class="quiet about">${about}</span></button>
    <button class="icon" aria-label="Copy the address" onClick=${() => copy(address, address)}><${Sign} name="copy" /></button></div>`;
}

function VerdictChip() {
  const found = verdict.value;
  const open = () => go({ judge: !place.value.judge, why: "" });
  if (!found) return isAlone() ? null : html`<button class="chip verdict" onClick=${open}><${Sign} name="play" /><span>Replay</span></button>`;
  if (divergence.value) return html`<button class="chip red verdict" onClick=${open}><${Sign} name="failed" /><span>Diverges at e${divergence.value}</span></button>`;
  if (!found.model_calls) return html`<button class="chip verdict" onClick=${open}><${Sign} name="check" /><span>Replays</span></button>`;
  const isWhole = found.proved === found.model_calls;
  return html`<button class=${`chip verdict ${isWhole ? "green" : ""}`} onClick=${open}><${Sign} name=${isWhole ? "check" : "eye"} /><span>${found.proved} of ${found.model_calls} requests proved</span></button>`;
}

