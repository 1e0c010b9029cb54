// Replay: folded again, offline: is everything as it was recorded? The first divergence, with both values, and the line that keeps it as a test.
import { html, signal, useEffect, useState } from "./vendor/preact.js";
import { asProblem, box, end, get, info, moveTo, verdict } from "./chat.js";
import { grouped } from "./format.js";
import { Trouble } from "./note.js";
import { copy } from "./screen.js";
import { Sign } from "./signs.js";
import { isAlone } from "./source.js";
import { oneLine, plain } from "./text.js";
import { Words } from "./words.js";

const BY_ITSELF = 5_000; // entries up to which it is run when a chat is opened

/** @type {import("./vendor/preact.js").Signal<any>} */
const problem = signal(null);
const isRunning = signal(false);
const seconds = signal(0);

export async function judge() {
  const chat = info.value;
  if (!chat || isRunning.value) return;
  const began = performance.now();
  isRunning.value = true;
  problem.value = null;
  try {
    const found = await get("verdict", { chat: chat.key });
    if (info.value?.key === chat.key) verdict.value = found.verdict;
  } catch (error) {
    problem.value = asProblem(error);
  }
  seconds.value = (performance.now() - began) / 1000;
  isRunning.value = false;
}

/** Runs it once a chat is there, if that takes no time worth speaking of. */
export function useVerdict() {
  const key = info.value?.key;
  useEffect(() => {
    if (key && !isAlone() && end.value <= BY_ITSELF) setTimeout(judge, 300);
  }, [key]);
}

export function ReplayPane() {
  useEffect(() => {
    if (!verdict.value) void judge();
  }, [info.value?.key]);
  const found = verdict.value;
  if (problem.value) return html`<${Trouble} problem=${problem.value} />`;
  if (!found) return html`<p class="pad quiet">Folding ${grouped(end.value)} events again …</p>`;
  return html`<${Found} found=${found} />`;
}

/** @param {{found: any}} props */
function Found({ found }) {
  const [form, setForm] = useState("words");
  const one = found.divergence;
  const test = `assert_chat_replays("${(info.value?.key ?? "").replaceAll('"', '\\"')}.jsonl")`;
  return html`<div class="replay">
    <div class=${`proof ${one ? "red" : "green"}`} role="status"><${Sign} name=${one ? "failed" : "check"} />
      <div class="grow"><b>${one ? `Diverged at e${one.seq}: ${whatDiffers(one)}` : "Everything is as it was recorded"}</b><p class="quiet">The recording was folded again, offline. Nothing was asked, called or sent.${seconds.value ? ` ${seconds.value.toFixed(1)} s.` : ""}</p></div>
      ${one && html`<button class="button primary" onClick=${() => moveTo(one.seq, { judge: false, tab: "event" })}>Open e${one.seq}</button>`}
      ${!isAlone() && html`<button class="button" disabled=${isRunning.value} onClick=${judge}>Replay again</button>`}</div>
    <div class="card four"><div><b>${grouped(one ? Math.max(0, one.seq - 1) : found.entries)} of ${grouped(end.value)}</b><span class="quiet">entries the same</span></div>
      <div><b>${grouped(found.proved)} of ${grouped(Math.max(found.model_calls, box.value?.columns.asked.length ?? 0))}</b><span class="quiet">requests proved${found.unprovable ? `, ${found.unprovable} cannot be` : ""}</span></div>
      <div><b>${grouped(found.tool_calls)}</b><span class="quiet">tool calls read from the log</span></div><div><b>0</b><span class="quiet">live calls</span></div></div>
    ${one && html`<div class="pane-head"><h2 class="minor">The first difference</h2><span class="mono quiet said">${oneLine(one.field)}</span><span class="grow"></span>
      <div class="segments" role="radiogroup" aria-label="Shown as"><button role="radio" aria-checked=${form === "words"} onClick=${() => setForm("words")}>Words</button><button role="radio" aria-checked=${form === "whole"} onClick=${() => setForm("whole")}>Whole</button></div></div>
      <div class="card values"><div><p class="quiet">Recorded</p><pre class="said"><${Side} one=${one} side="out" form=${form} /></pre></div><div><p class="quiet">New</p><pre class="said"><${Side} one=${one} side="in" form=${form} /></pre></div></div>
      ${one.cause && html`<p class="cause"><span class="quiet">First cause</span> <span class="said">${oneLine(one.cause)}</span> ${one.cause_seq > 0 && html`<button class="button ghost" onClick=${() => moveTo(one.cause_seq, { judge: false, tab: "event" })}>Show e${one.cause_seq}</button>`}</p>`}`}
    <h2 class="minor">Keep it as a test</h2>
    <div class="card row"><code class="grow said">${oneLine(test)}<span class="faint">  # from chatfold.replay</span></code><button class="button" onClick=${() => copy(test, "the pytest line")}><${Sign} name="copy" /> Copy pytest line</button></div>
    ${one && html`<p class="quiet prose">What comes after the first difference answers a question that nobody asked, so it is not judged. Fix the cause and replay again.</p>`}
  </div>`;
}

/** @param {any} one */
function whatDiffers(one) {
  if (one.kind === "model_called") return `request m${one.call} is not the one that was recorded`;
  return one.kind === "snapshot" ? "a snapshot is not what the log adds up to" : `${one.kind.replaceAll("_", " ")} is not what was recorded`;
}

const text = (/** @type {any} */ value) => (value === null || value === undefined ? "(not there)" : typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** @param {{one: any, side: "out" | "in", form: string}} props */
function Side({ one, side, form }) {
  if (form === "whole") return plain(text(side === "out" ? one.recorded : one.new));
  return html`<${Words} before=${text(one.recorded)} after=${text(one.new)} side=${side} />`;
}
