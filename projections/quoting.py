"""Any text as Markdown that is text and nothing else: a quote, a fenced block, a name within a line.

Whatever it says, it can neither end what it stands in nor begin anything else. What cannot be seen, or turns the
direction of writing, is U+FFFD; every kind of line break is a plain one. What is returned does not end in a line break
and wants an empty line after it: a quote goes on to the next one.
"""

import re

from chatfold.projections.text import one_line
from chatfold.projections.wire import clean

_ESCAPES = (
    (re.compile(r"<(?=[a-zA-Z/!?])"), "&lt;"),
    (re.compile(r"!\["), r"!\\["),
    # What links and footnotes lead to can be defined anywhere, by what opens a line, a list item or a quote. Last: an
    # escaped bracket may be part of its name.
    (re.compile(r"^([^a-zA-Z\n\[\\]*\[(?:[^\[\]\\]|\\.)++\]):", re.MULTILINE | re.DOTALL), r"\1\\:"),
)


def quote(text: str) -> str:
    """Each line behind a mark. Markdown in it is shown as such, but for HTML, images and definitions."""
    text = _safe(text).strip("\n")
    for pattern, escaped in _ESCAPES:
        text = pattern.sub(escaped, text)
    return "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))


def fence(text: str, language: str = "") -> str:
    """A block of code between marks that are longer than any within."""
    text = _safe(text).removesuffix("\n")
    marks = "`" * max(3, _ticks(text) + 1)
    return f"{marks}{language}\n{text}\n{marks}"


def code(name: str) -> str:
    """The beginning of a name, on one line."""
    name = one_line(_safe(name), 200)
    marks = "`" * (_ticks(name) + 1)
    pad = " " if name.startswith("`") or name.endswith("`") else ""
    return f"{marks}{pad}{name}{pad}{marks}" if name else "(empty)"


def _ticks(text: str) -> int:
    """The length of the longest run of them."""
    return max(map(len, re.findall("`+", text)), default=0)


_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_HIDDEN = re.compile("[\0-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _safe(text: str) -> str:
    return _HIDDEN.sub("\ufffd", _BREAKS.sub("\n", clean(text)))
