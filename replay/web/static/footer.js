// The footer: A and B, the steps, and the command that prints what is on the screen. On a phone: the bar of steps.
import { html, useEffect } from "./vendor/preact.js";
import { go, place } from "./address.js";
import { commandNow } from "./command.js";
import { cursor, end, info, mark, moveTo, store } from "./chat.js";
import { copy, isPlaying, sheet } from "./screen.js";
import { Sign } from "./signs.js";
import { isAlone } from "./source.js";
import { oneLine } from "./text.js";
import { nextTurn, nextRow } from "./moves.js";

const APART = 350; // milliseconds between two events that are played

export function markHere() {
  go({ a: place.value.a === `e${cursor.value}` ? "" : `e${cursor.value}` });
}

export function diffToHere() {
  go({ tab: "diff", why: "", judge: false });
}

export function fork() {
  if (store.value?.writes) sheet.value = "fork";
  else {
    const command = `chatfold fork ${info.value?.key}@${cursor.value}`;
    void copy(command, command);
  }
}

export function Footer() {
  usePlaying();
  if (!info.value) return html`<footer class="footer"></footer>`;
  const command = commandNow();
  return html`<footer class="footer">
    ${mark.value > 0 ? html`<button class="plain" title="Open A" onClick=${() => moveTo(mark.value)}><span class="badge">A</span> <span class="mono">e${mark.value}</span></button>
      <button class="plain" onClick=${diffToHere}>Diff to here <kbd aria-hidden="true">d</kbd></button><button class="icon" aria-label="Forget A" onClick=${() => go({ a: "" })}><${Sign} name="close" /></button>`
      : html`<button class="plain" onClick=${markHere}>Mark A here <kbd aria-hidden="true">m</kbd></button>`}
    <span class="faint">·</span><${Steps} />
    <span class="grow"></span>
    <span class="footer-command"><span class="faint mono">$</span> <code class="cut said">${oneLine(command)}</code></span>
    <button class="icon" aria-label="Copy the command" title=${command} onClick=${() => copy(command, "the command")}><${Sign} name="copy" /></button>
    ${!isAlone() && html`<button class="button" onClick=${fork}><${Sign} name="forked" /> Fork here</button>`}
  </footer>`;
}

function Steps() {
  return html`<span class="footer-steps"><button class="icon" aria-label="Previous turn" onClick=${() => nextTurn(-1)}><${Sign} name="first" /></button>
    <button class="icon" aria-label="Previous event" onClick=${() => nextRow(-1)}><${Sign} name="left" /></button>
    <button class="icon" aria-label=${isPlaying.value ? "Pause" : "Play"} onClick=${() => (isPlaying.value = !isPlaying.value)}><${Sign} name=${isPlaying.value ? "pause" : "play"} /></button>
    <button class="icon" aria-label="Next event" onClick=${() => nextRow(1)}><${Sign} name="right" /></button>
    <button class="icon" aria-label="Next turn" onClick=${() => nextTurn(1)}><${Sign} name="last" /></button></span>`;
}

function usePlaying() {
  useEffect(() => {
    if (!isPlaying.value) return undefined;
    const timer = setInterval(() => {
      if (cursor.value >= end.value) isPlaying.value = false;
      else nextRow(1);
    }, APART);
    return () => clearInterval(timer);
  }, [isPlaying.value]);
}

export function PhoneBar() {
  usePlaying();
  return html`<footer class="phone-bar"><button aria-label="Previous turn" onClick=${() => nextTurn(-1)}><${Sign} name="first" /></button>
    <button class="step-button" aria-label="Previous event" onClick=${() => nextRow(-1)}><${Sign} name="left" /></button>
    <span class="mono phone-at">@e${cursor.value}</span>
    <button class="step-button" aria-label="Next event" onClick=${() => nextRow(1)}><${Sign} name="right" /></button>
    <button aria-label="Next turn" onClick=${() => nextTurn(1)}><${Sign} name="last" /></button></footer>`;
}
