// The timeline as a table, for those who do not see it: at most fifty rows.
import { html } from "./vendor/preact.js";
import { box } from "./chat.js";
import { short } from "./format.js";

export function TimelineTable() {
  const columns = box.value?.columns;
  if (!columns) return null;
  const step = Math.max(1, Math.ceil(columns.count / 50));
  const seqs = Array.from({ length: Math.min(50, Math.ceil(columns.count / step)) }, (_, i) => Math.min(columns.count, (i + 1) * step));
  return html`<table class="unseen"><caption>Tokens in the context over time</caption>
    <thead><tr><th>event</th><th>turn</th><th>tokens</th></tr></thead>
    <tbody>${seqs.map((seq) => html`<tr><td>${seq}</td><td>${columns.turnOf(seq)}</td><td>${short(columns.total[seq] ?? 0)}</td></tr>`)}</tbody></table>`;
}
