// Notes: empty and error states, in sentences, with what to do next.
import { html } from "./vendor/preact.js";
import { goHome, nowhere, urlOf } from "./address.js";
import { info } from "./chat.js";
import { grouped } from "./format.js";
import { copy } from "./screen.js";
import { Sign } from "./signs.js";

/** @param {{sign?: string, title: string, children?: any, command?: string, colour?: string}} props */
export function Note({ sign = "circle", title, children, command = "", colour = "" }) {
  return html`<div class="note" role="status">
    <${Sign} name=${sign} colour=${colour} />
    <h3>${title}</h3>
    ${children}
    ${command && html`<div class="row"><${Command} text=${command} /></div>`}
  </div>`;
}

/** @param {{text: string}} props */
export function Command({ text }) {
  return html`<span class="command"><span class="cut">${text}</span>
    <button aria-label="Copy the command" onClick=${() => copy(text, "the command")}><${Sign} name="copy" /></button></span>`;
}

/** What keeps a chat, or a part of it, from being shown. @param {{problem: import("./source.js").Problem}} props */
export function Trouble({ problem }) {
  const { kind, value } = problem;
  const key = value.chat || info.value?.key || "";
  if (kind === "damage") {
    return html`<${Note} sign="failed" colour="red" title=${`This log is damaged${value.seq ? ` after e${value.seq - 1}` : ""}`} command=${`chatfold check ${key}`}>
      <p>${value.file ? `${value.file}${value.offset ? `, byte ${grouped(value.offset)}` : ""}: ` : ""}<span class="said">${problem.message}</span></p>
      <p>Nothing was changed.</p><//>`;
  }
  if (kind === "newer") {
    return html`<${Note} sign="warning" colour="summary" title="Written by a newer chatfold" command="pip install -U 'chatfold[web]'">
      <p class="said">${problem.message}</p><p>Nothing is guessed at.</p><//>`;
  }
  if (kind === "gone") {
    return html`<${Note} sign="forked" title="This chat is gone">
      <p><span class="said">${key}</span> is not in this store, or was deleted while you looked at it.</p>
      <div class="row"><button class="button primary" onClick=${() => goHome()}>All chats</button></div><//>`;
  }
  if (kind === "session") return html`<${Note} sign="eye" title="Your session ended"><p>${problem.message}</p><//>`;
  if (kind === "point") {
    return html`<${Note} sign="search" title="There is no such point"><p class="said">${problem.message}</p>
      ${key && html`<div class="row"><button class="button primary" onClick=${() => location.assign(urlOf({ ...nowhere(), chat: key }))}>Open its end</button></div>`}<//>`;
  }
  if (kind === "alone") return html`<${Note} sign="eye" title="Not in this page"><p>This page is one file. What it does not hold, the command shows.</p><//>`;
  return html`<${Note} sign="warning" colour="summary" title="That did not work"><p class="said">${problem.message}</p><//>`;
}
