"""Any text as HTML that is text and nothing else: what ``quoting`` is for Markdown.

Whatever it says, it can neither end what it stands in nor begin anything else. What cannot be seen, or turns the
direction of writing, is shown as the escape of its code point, as a terminal shows it; lone surrogates, too. Of a text
of any size no more than ``MOST`` characters are shown, and how many are left out is said.
"""

import re
from html import escape

from chatfold.projections.text import one_line
from chatfold.projections.wire import is_web

MOST = 1 << 16
"""Characters of one text that are shown."""
_FOLDED = 4000  # characters, or lines, from which a text is folded
_LINES = 60

# Control characters but tabs and line breaks; soft hyphens, zero-width spaces, what steers the direction of writing,
# fillers that look like nothing, tags, surrogates and what is no character. Joiners stay: emoji and Persian need them.
_HIDDEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]+"
)


def visible(text: str) -> str:
    """The text with escapes for what cannot be seen. Not HTML yet."""
    return _HIDDEN.sub(lambda found: _escapes(found[0]), text.replace("\r\n", "\n"))


def _escapes(hidden: str) -> str:
    return hidden.encode("unicode_escape").decode()


def plain(text: str) -> str:
    """All of it, escaped; what cannot be seen is set apart from what only looks like its escape."""
    pieces: list[str] = []
    at = 0
    text = text.replace("\r\n", "\n")
    for found in _HIDDEN.finditer(text):
        pieces += escape(text[at : found.start()]), f"<i>{_escapes(found[0])}</i>"
        at = found.end()
    return "".join((*pieces, escape(text[at:])))


def name(text: str) -> str:
    """The beginning of a name, on one line."""
    return f"<bdi>{plain(one_line(text[:MOST], 200)) or '(empty)'}</bdi>"


def words(text: str, kind: str = "words") -> str:
    """A block; one that is long is folded, behind its beginning."""
    shown = text[:MOST].strip("\n")
    block = f'<div class="{kind}" dir="auto">{plain(shown)}</div>{_rest(len(text) - MOST)}'
    if len(shown) <= _FOLDED and shown.count("\n") <= _LINES:
        return block
    label = f"{plain(one_line(shown, 120))} · {len(text):,} characters"
    return f"<details><summary><bdi>{label}</bdi></summary>{block}</details>"


def _rest(left: int) -> str:
    if left <= 0:
        return ""
    return f'<p class="rest">{left:,} more characters are not shown here. The JSONL export has them.</p>'


def link(url: str) -> str:
    """To what is on the web; anything else is only named."""
    if not is_web(url) or len(url) > 2000:
        return name(url)
    return f'<a href="{escape(url)}" rel="noopener noreferrer nofollow">{name(url)}</a>'
