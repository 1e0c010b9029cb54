// Messages: what the model was sent, made again from the log, with proof; or what it would be sent next.
import { html, signal, useState } from "./vendor/preact.js";
import { go } from "./address.js";
import { useAnswer } from "./answer.js";
import { box, info, moveTo, settled } from "./chat.js";
import { counted, quote, short } from "./format.js";
import { Note, Trouble } from "./note.js";
import { copy } from "./screen.js";
import { Sign, KindSign } from "./signs.js";
import { ask, isAlone } from "./source.js";
import { Folded, oneLine } from "./text.js";
import { Json } from "./json_tree.js";

/** pretty, json or changes */
const form = signal("pretty");
const shape = signal("sent");
const SHAPES = { sent: "As sent", neutral: "Neutral", openai: "OpenAI chat", "openai-responses": "OpenAI responses", anthropic: "Anthropic" };
const AROUND = 4; // messages that are shown before the fold

export function Messages() {
  const chat = info.value?.key ?? "";
  const { value, problem, isOld } = useAnswer("request", { chat, at: `e${settled.value}`, end: info.value?.link }, `requests#${settled.value}`);
  if (problem) return html`<${Trouble} problem=${problem} />`;
  const request = value?.request;
  if (!request && isAlone() && !isOld) {
    return html`<${Note} sign="eye" title="Not in this page" command=${commandHere()}><p>This page is one file. The command shows what the model was sent, and proves it.</p><//>`;
  }
  if (!request) return html`<p class="pad"><span class="loading" style=${{ width: "240px" }}></span></p>`;
  return html`<div class=${`messages ${isOld ? "old" : ""}`} aria-busy=${isOld}>
    <${Proof} request=${request} />
    <div class="pane-head tools-row"><div class="segments" role="radiogroup" aria-label="Shown as">
      ${[["pretty", "Pretty"], ["json", "JSON"], ["changes", request.number > 1 ? `Changes since m${request.number - 1}` : "Changes"]].map(([name, label]) =>
        html`<button role="radio" aria-checked=${form.value === name} onClick=${() => (form.value = name)}>${label}</button>`)}</div>
      <span class="quiet">${counted(request.messages.length, "message")}${request.tools.length ? `, ${counted(request.tools.length, "tool")}` : ""}, ${short(request.tokens)} tokens</span><span class="grow"></span>
      ${!isAlone() && html`<label class="quiet">Shape <select value=${shape.value} onChange=${(/** @type {any} */ event) => { shape.value = event.target.value; form.value = "json"; }}>
        ${Object.entries(SHAPES).map(([name, label]) => html`<option value=${name} selected=${name === shape.value}>${label}</option>`)}</select></label>`}</div>
    ${form.value === "json" ? html`<${RequestJson} />` : html`<${Pretty} request=${request} onlyNew=${form.value === "changes"} />`}
  </div>`;
}

function commandHere() {
  const chat = quote(info.value?.key ?? "");
  const number = box.value?.columns.requestOf(settled.value) ?? 0;
  return number ? `chatfold messages ${chat} --for-call ${number}` : `chatfold messages ${chat}@${settled.value}`;
}

/** @param {{request: any}} props */
function Proof({ request }) {
  const [colour, sign, title, about] = proofOf(request);
  return html`<div class=${`proof ${colour}`} role="status"><${Sign} name=${sign} />
    <div class="grow"><b>${title}</b><p class="quiet">${about}</p></div>
    ${!isAlone() && html`<button class="button" onClick=${copyMessages}><${Sign} name="copy" /> JSON <kbd aria-hidden="true">Y</kbd></button>
    <button class="button" onClick=${() => copyCurl(request)}><${Sign} name="copy" /> curl</button>`}</div>`;
}

/** @param {any} request @returns {[string, string, string, any]} */
function proofOf(request) {
  const name = `m${request.number}`;
  if (request.proof === "proved") {
    return ["green", "check", `Exactly what was sent as request ${name}`, html`Made again from the log. Its fingerprint is the one recorded then: <span class="mono fingerprint">${spaceOut(request.recorded)}</span>`];
  }
  if (request.proof === "different") {
    return ["red", "failed", "Not what was sent", html`Recorded <span class="mono fingerprint">${spaceOut(request.recorded)}</span>, made again <span class="mono fingerprint">${spaceOut(request.rebuilt)}</span>`];
  }
  if (request.proof === "unprovable") return ["", "eye", `Request ${name} cannot be proved`, html`<span class="said">${request.why}</span>. This is no failure.`];
  return ["", "eye", "What the model would be sent next", `If it were asked after e${request.seq}.`];
}

const spaceOut = (/** @type {string} */ mark) => mark.replace(/(.{8})(?=.)/g, "$1 ");

/** @param {{request: any, onlyNew: boolean}} props */
function Pretty({ request, onlyNew }) {
  const [isWhole, setWhole] = useState(false);
  const { messages, same } = request;
  const folded = onlyNew ? same : isWhole ? 0 : Math.max(0, same - AROUND);
  const shownFirst = onlyNew || isWhole || folded < 6 ? 0 : 2;
  const hidden = onlyNew ? same : folded < 6 ? 0 : folded - shownFirst;
  /** @type {{message: any, i: number}[]} */
  const list = messages.map((/** @type {any} */ message, /** @type {number} */ i) => ({ message, i }));
  const tokens = (/** @type {any[]} */ some) => short(some.reduce((sum, one) => sum + one.message.tokens, 0));
  const [head, middle, tail] = [list.slice(0, shownFirst), list.slice(shownFirst, shownFirst + hidden), list.slice(shownFirst + hidden)];
  const cached = request.cached ? ` and read from its cache, ${short(request.cached)} as it says` : "";
  const border = same > 0 && html`<p class="prefix"><span>Above: ${counted(same, "message")}, ${short(request.same_tokens)} tokens, the same as in ${request.number > 1 ? `m${request.number - 1}` : "the request before"}${cached}</span></p>`;
  return html`<div class="message-list">
    ${!onlyNew && request.system.text && html`<${Row} sign=${html`<${KindSign} name="system" />`} role="system" from="" tokens=""><${Folded} body=${request.system} /><//>`}
    ${!onlyNew && request.tools.length > 0 && html`<${Row} sign=${html`<${Sign} name="dot" colour="faint" />`} role="tools" from="" tokens="">
      <p class="tool-names">${request.tools.slice(0, 12).map((/** @type {string} */ name) => html`<code class="said">${oneLine(name)}</code>`)}${request.tools.length > 12 && html` <span class="quiet">${request.tools.length - 12} more</span>`}</p><//>`}
    ${head.map(({ message, i }) => html`<${Message} key=${i} message=${message} />`)}
    ${middle.length > 0 && !onlyNew && html`<button class="middle" onClick=${() => setWhole(true)}><${Sign} name="right" /> ${counted(middle.length, "message")} <span class="quiet">${tokens(middle)} tokens</span></button>`}
    ${onlyNew && same > 0 && border}
    ${tail.map(({ message, i }) => html`${!onlyNew && i === same && border}<${Message} key=${i} message=${message} />`)}
    ${!onlyNew && same === messages.length && border}
    ${!messages.length && html`<p class="quiet pad">There are no messages yet.</p>`}
  </div>`;
}

/** @type {Record<string, string>} */
const CATEGORY = { calls: "tool", result: "tool", internal: "tool", late: "tool", developer: "system" };

/** @param {{message: any}} props */
function Message({ message }) {
  const category = CATEGORY[message.kind] ?? message.kind;
  const name = message.kind === "calls" ? "assistant" : category;
  const from = message.seqs.length ? `e${message.seqs[0]}${message.seqs.length > 1 ? ` +${message.seqs.length - 1}` : ""}` : "";
  return html`<${Row} sign=${html`<${KindSign} name=${name} />`} role=${message.role} category=${name } from=${from} seq=${message.seqs[0]} tokens=${short(message.tokens)}>
    ${message.said.text && html`<${Folded} body=${message.said} />`}
    ${message.calls.map((/** @type {any} */ call) => html`<div class="call"><${Sign} name="call" colour="tool" /> <b class="said cut tool-name">${oneLine(call.name)}</b> <span class="mono said quiet">${oneLine(call.args.text.slice(0, 400))}</span></div>`)}
    ${message.results.map((/** @type {any} */ result) => html`<div class="result"><p><b class=${result.is_failed ? "k-red" : ""}>${oneLine(result.name)}</b> <span class="quiet">${result.is_failed ? "failed, " : ""}answers e${result.call}${took(result)}</span></p><${Folded} body=${result.said} isCode=${true} /></div>`)}
  <//>`;
}

/** @param {any} result */
function took(result) {
  const columns = box.value?.columns;
  if (!columns || !result.seq || !result.call) return "";
  return `, ${((columns.ts[result.seq - 1] - columns.ts[result.call - 1]) / 1000).toFixed(1)} s`;
}

/** @param {{sign: any, role: string, category?: string, from: string, seq?: number, tokens: string, children?: any}} props */
function Row({ sign, role, category = "", from, seq, tokens, children }) {
  return html`<article class="message"><div class="message-who"><span class=${`k-${category}`}>${sign} ${role}</span>${from && html`<button class="link" onClick=${() => go({ tab: "event", at: `e${seq}` })}>${from}</button>`}</div>
    <div class="grow message-says">${children}</div><span class="number quiet">${tokens}</span></article>`;
}

function RequestJson() {
  const { value, problem } = useAnswer("request", { chat: info.value?.key, at: `e${settled.value}`, as: shape.value, end: info.value?.link }, "none");
  if (problem) return html`<${Trouble} problem=${problem} />`;
  return value ? html`<${Json} text=${value.text} />` : html`<p class="pad"><span class="loading" style=${{ width: "240px" }}></span></p>`;
}

const requestText = async (/** @type {string} */ as) => (await ask("request", { chat: info.value?.key, at: `e${settled.value}`, as })).text;

export async function copyMessages() {
  if (!isAlone()) await copy(await requestText(shape.value), "the messages as JSON");
}

/** @param {any} request */
async function copyCurl(request) {
  const isAnthropic = request.provider.includes("anthropic") || shape.value === "anthropic";
  const messages = JSON.parse(await requestText(request.number ? "sent" : isAnthropic ? "anthropic" : "openai"));
  const model = request.model || info.value?.model || "MODEL";
  const body = Array.isArray(messages) ? { model, messages } : { model, ...messages };
  if (isAnthropic) body.max_tokens ??= 4096; // a request without is refused
  const data = `'${JSON.stringify(body, null, 2).replaceAll("'", "'\\''")}'`;
  const [url, ...headers] = isAnthropic
    ? ["https://api.anthropic.com/v1/messages", '-H "x-api-key: $ANTHROPIC_API_KEY"', "-H 'anthropic-version: 2023-06-01'"]
    : [`https://api.openai.com/v1/${body.input ? "responses" : "chat/completions"}`, '-H "Authorization: Bearer $OPENAI_API_KEY"'];
  await copy([`curl ${url}`, ...headers, "-H 'content-type: application/json'", `-d ${data}`].join(" \\\n  "), "a curl command");
}

/** m42 of 64, and those beside it. */
export function RequestSteps() {
  const columns = box.value?.columns;
  if (!columns || !columns.asked.length) return null;
  const number = columns.requestOf(settled.value);
  const at = (/** @type {number} */ one) => moveTo(columns.asked[one - 1]);
  return html`<span class="steps"><button class="icon" aria-label="Request before" disabled=${number <= 1} onClick=${() => at(number - 1)}><${Sign} name="left" /></button>
    <b class="mono">m${number}</b> <span class="quiet">of ${columns.asked.length}</span>
    <button class="icon" aria-label="Next request" disabled=${number >= columns.asked.length} onClick=${() => at(number + 1)}><${Sign} name="right" /></button></span>`;
}
