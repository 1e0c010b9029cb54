// The command that prints what is on the screen: the page teaches it.
import { place } from "./address.js";
import { box, cursor, info } from "./chat.js";
import { compactionAt, pointsNow } from "./diff.js";
import { quote } from "./format.js";

export function commandNow() {
  const chat = quote(info.value?.key ?? "");
  const { tab, why, judge, mode, other } = place.value;
  const here = `${chat}@${cursor.value}`;
  const columns = box.value?.columns;
  if (judge) return `chatfold replay ${chat}`;
  if (why) return `chatfold why ${chat} ${quote(why)}`;
  if (tab === "context") return mode === "lifetimes" ? `chatfold context ${chat} --lifetimes` : `chatfold context ${here}`;
  if (tab === "messages") {
    const number = columns?.requestOf(cursor.value) ?? 0;
    return columns && columns.asked[number - 1] === cursor.value ? `chatfold messages ${chat} --for-call ${number}` : `chatfold messages ${here}`;
  }
  if (tab === "diff") {
    const { a, b } = pointsNow();
    const mark = compactionAt(a, b);
    return mark ? `chatfold diff ${chat}@${mark.name}^..${mark.name}` : `chatfold diff ${chat}@${a}..${b}`;
  }
  if (tab === "event") return `chatfold show ${here}`;
  return other ? `chatfold diff ${chat} ${quote(other)}` : `chatfold tree ${chat}`;
}
