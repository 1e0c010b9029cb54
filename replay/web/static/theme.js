// The theme: the system's, unless it was chosen here.
import { signal } from "./vendor/preact.js";

const NAME = "chatfold-theme";
/** Changes with the colours, for what is drawn on a canvas. */
export const theme = signal("");

function kept() {
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    return ""; // a page from disk may have none
  }
}

export function applyTheme() {
  const chosen = kept();
  if (chosen) document.documentElement.dataset.theme = chosen;
  theme.value = chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
    if (!kept()) theme.value = event.matches ? "dark" : "light";
  });
}

export function turnTheme() {
  const next = theme.value === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  theme.value = next;
  try {
    localStorage.setItem(NAME, next);
  } catch {
    // it lasts as long as the page
  }
}

/** @type {Map<string, string>} */
const colours = new Map();
let coloursOf = "";

/** A colour of the tokens, as a canvas takes it. @param {string} name */
export function colour(name) {
  if (coloursOf !== theme.value) {
    colours.clear();
    coloursOf = theme.value;
  }
  let found = colours.get(name);
  if (!found) {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    found = getComputedStyle(probe).color;
    probe.remove();
    colours.set(name, found);
  }
  return found;
}
