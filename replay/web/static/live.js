// The live tail: one stream while a chat is looked at. It goes on where it was broken off, and never moves the cursor by itself.
import { append, coming, end, info, link, seeAgain, trouble } from "./chat.js";
import { dropTexts } from "./lines.js";
import { Problem, address, isAlone } from "./source.js";

/** @type {EventSource | null} */
let stream = null;
let retry = 0;

/** @param {string} key */
export function listen(key) {
  stop();
  if (isAlone()) return;
  const mine = new EventSource(address("tail", { chat: key, after: end.value }));
  stream = mine;
  mine.onopen = () => {
    link.value = "live";
    coming.value = ""; // an answer that is being given comes from its beginning again
  };
  mine.addEventListener("append", (event) => {
    const news = JSON.parse(event.data);
    if (news.again) dropTexts();
    append(news);
  });
  mine.addEventListener("sight", (event) => seeAgain(JSON.parse(event.data).sight));
  mine.addEventListener("delta", (event) => (coming.value += JSON.parse(event.data).text));
  mine.addEventListener("error", (event) => {
    if (event instanceof MessageEvent && event.data) {
      stop();
      trouble.value = new Problem(JSON.parse(event.data));
      return;
    }
    link.value = "lost";
    if (mine.readyState === EventSource.CLOSED) retry = setTimeout(() => info.value?.key === key && listen(key), 1000);
  });
}

export function stop() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
  link.value = "off";
}
