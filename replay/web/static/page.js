// The page: Home, a chat, or what keeps it from being shown; and what floats above.
import { html, useEffect } from "./vendor/preact.js";
import { place } from "./address.js";
import { cursor, end, family, followAddress, get, info, link, trouble } from "./chat.js";
import { Context } from "./context.js";
import { Diff } from "./diff.js";
import { EventPane } from "./event.js";
import { Events } from "./events.js";
import { Footer, PhoneBar } from "./footer.js";
import { FindBar } from "./find.js";
import { Home } from "./home.js";
import { listen } from "./live.js";
import { Messages } from "./messages.js";
import { Trouble } from "./note.js";
import { ReplayPane, useVerdict } from "./replay.js";
import { isNarrow, showsEvents, toast } from "./screen.js";
import { Sheets } from "./sheets.js";
import { Sign, SIGNS } from "./signs.js";
import { isAlone } from "./source.js";
import { Tabs } from "./tabs.js";
import { Timeline } from "./timeline.js";
import { Top } from "./top.js";
import { Tree } from "./tree.js";
import { Why } from "./why.js";

export function Page() {
  const chat = isAlone() ? "alone" : place.value.chat;
  const at = place.value.at;
  useEffect(() => {
    if (info.value && at !== `e${cursor.value}` && !(at === "" && cursor.value === end.value)) void followAddress();
  }, [at]);
  return html`<${Sprite} />${chat ? html`<${Main} />` : html`<${Home} />`}<${Sheets} />
    ${toast.value && html`<div class="toast" role="status">${toast.value}</div>`}`;
}

function Main() {
  const chat = info.value;
  const key = chat?.key;
  useEffect(() => {
    document.title = chat ? `${chat.title || chat.key} · chatfold` : "chatfold";
    if (key) get("tree", { chat: key }).then((value) => (family.value = value.tree), () => null);
  }, [key, chat?.title]);
  useVerdict();
  if (trouble.value && !chat) return html`<div class="main"><${Top} /><${Trouble} problem=${trouble.value} /></div>`;
  if (!chat) return html`<div class="main"><${Top} /></div>`;
  const showsList = !isNarrow.value || showsEvents.value;
  return html`<div class="main" style=${{ "--digits": String(end.value).length }}>
    <${Top} />
    ${link.value === "lost" && html`<${Stopped} />`}
    ${trouble.value && html`<div class="strip" role="alert"><${Sign} name="warning" /> ${trouble.value.message}</div>`}
    <${Timeline} />
    <main class="body">
      ${showsList && html`<${Events} />`}
      <${Detail} />
    </main>
    <${FindBar} />
    ${isNarrow.value ? html`<${PhoneBar} />` : html`<${Footer} />`}
  </div>`;
}

function Stopped() {
  return html`<div class="strip" role="alert"><${Sign} name="warning" /> chatfold view has stopped. Trying again every second.
    <button class="button" onClick=${() => info.value && listen(info.value.key)}>Try now</button></div>`;
}

const PANES = { context: Context, messages: Messages, diff: Diff, event: EventPane, tree: Tree };

function Detail() {
  const { tab, why, judge } = place.value;
  const isList = isNarrow.value && showsEvents.value;
  const Pane = judge ? ReplayPane : why ? Why : PANES[/** @type {keyof typeof PANES} */ (tab)];
  return html`<section class=${`detail ${isList ? "list-only" : ""}`} aria-label="Detail">
    <${Tabs} />
    ${!isList && html`<div class="pane" id="pane" role="tabpanel" aria-labelledby=${`tab-${tab}`} tabindex="0">${info.value && html`<${Pane} />`}</div>`}
  </section>`;
}

/** The signs, for what is not drawn by preact. */
function Sprite() {
  return html`<svg width="0" height="0" class="unseen" aria-hidden="true">${Object.entries(SIGNS).map(([name, draw]) => html`<symbol id=${`sign-${name}`} viewBox="0 0 14 14">${draw()}</symbol>`)}</svg>`;
}

