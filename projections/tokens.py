"""Tokens: what a text, a part or an event costs in a prompt, roughly, without a tokenizer.

``Tokens`` says whether its count was recorded by a provider or estimated. Wherever something is counted, any
callable from text to number takes the place of ``estimate``: a model's own tokenizer, for one.

``estimate`` goes by the kinds of characters alone. It is one pass, never raises, is 0 for nothing and at least 1
for anything, and a whole is never more than the sum of its pieces. Its error against two published tokenizers, in
percent, mean (worst … worst), of 1,452 passages of 1,250 characters on average (tiktoken 0.14.0, 2026-11-16):

                                      cl100k_base           o200k_base
    English prose, with emoji, too    +6 (-10 …  +31)      +11 (-10 …  +39)
    Markdown, tables                 +10 ( -7 …  +84)      +10 ( -9 …  +76)
    Python                            +9 (-15 …  +28)       +8 (-15 …  +26)
    JavaScript, C, minified or not    +5 (-23 …  +48)       +5 (-26 …  +43)
    logs, paths                       +2 (-25 …  +78)        0 (-26 …  +75)
    JSON                             +15 (-18 …  +68)      +11 (-19 …  +58)
    base64, hex, UUIDs                -1 (-16 …  +20)        0 (-13 …  +19)
    numbers                          +45 (+17 …  +72)      +45 (+17 …  +72)
    Chinese, also mixed with English  +5 (-23 … +163)      +26 ( -7 … +152)
    Chinese, traditional             -20 (-39 …  -10)      +14 ( -6 …  +30)
    Japanese                          +5 (-23 …  +23)      +35 (-18 …  +57)
    Korean                            -3 (-21 …   +7)      +42 ( +6 …  +67)
    Russian, Ukrainian                +1 (-25 … +130)      +46 ( -1 … +133)
    German, French, Turkish, …        -9 (-26 …  +23)       +5 (-20 …  +92)
    Greek, Hebrew, Arabic, Persian    -7 (-31 …  +14)      +87 (+24 … +155)
    Hindi, Bengali, Tamil, Thai      -12 (-31 …  +12)     +127 (+55 … +182)
    Georgian, Khmer                  -23 (-29 …   -2)     +181 (+75 … +264)
    emoji and nothing else            -6 ( -7 …   -4)      +19 (+17 …  +24)

The costs were fitted to the first on these passages; for most scripts it is the dearer one, and too much only cuts
a prompt early, while too little gets it refused. What is no language, such as random small letters, can be three
times its estimate.
"""

import re
from collections.abc import Callable
from string import ascii_lowercase, ascii_uppercase, digits
from typing import TypeAlias

import msgspec

from chatfold.eventlog import (
    Compacted,
    ContextRecalled,
    Data,
    Event,
    File,
    Injected,
    MessageAdded,
    Part,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.labels import label_injected, shorten_result
from chatfold.projections.shapes.values import json_text
from chatfold.projections.text import text_of_file

Counter: TypeAlias = Callable[[str], int]

FRAMING = 4
"""Around each message: OpenAI's cookbook on counting tokens gives 3 and one for the role."""

IMAGE = 1_600
"""Anthropic's guide to vision: a larger image is scaled down to about that. OpenAI's gives 765 for 1024 x 1024."""

PAGE = 2_400
"""Of a PDF. Anthropic's guide to PDF support: about 7,000 for three pages, each shown as text and as an image."""

LABEL = 20
"""Of the line that tells of a file."""

_BYTES_PER_PAGE = 50_000  # where the pages cannot be counted: they may be compressed, or elsewhere
_BYTES_PER_SOUND = 250  # Google's guide gives 32 tokens a second of sound: at 64 kbit/s, 8,000 bytes

_PLAIN, _OTHER = 20, 40  # hundredths of a token: a small letter or a blank; any other ASCII character
_COSTS = (  # hundredths of a token: the first bytes of a character, and what such a character costs
    ((ascii_uppercase + digits).encode(), 92),
    (bytes((0xE0, *range(0xE2, 0xF0))), 105),  # CJK, Indic scripts, Thai, symbols
    (bytes(range(0xD0, 0xD5)), 48),  # Cyrillic
    (bytes((0xCE, 0xCF, *range(0xD5, 0xE0))), 85),  # Greek, Hebrew, Arabic
    (bytes((*range(0xC0, 0xCE), 0xE1)), 150),  # Latin with accents; Georgian, Khmer
    (bytes(range(0xF0, 0x100)), 270),  # emoji, rare ideographs
)
_FREE = (ascii_lowercase + " ").encode() + bytes(range(0x80, 0xC0))  # nothing on top; not a first byte
_CLASS = bytes.maketrans(b"".join(s for s, _ in _COSTS), b"".join(s[:1] * len(s) for s, _ in _COSTS))
_EXTRA = tuple((firsts[0], cost - _OTHER) for firsts, cost in _COSTS)

_PDF_PAGE = re.compile(rb"/Type\s*/Page\b")


class Tokens(msgspec.Struct, frozen=True):
    count: int
    estimated: bool = True

    def __str__(self) -> str:
        return f"{'~' if self.estimated else ''}{self.count:,}"

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.count + other.count, self.estimated or other.estimated)


def estimate(text: str) -> int:
    firsts = text.encode("utf-8", "surrogatepass").translate(_CLASS, _FREE)
    cost = _PLAIN * len(text) + (_OTHER - _PLAIN) * len(firsts)
    for first, extra in _EXTRA[:1] if text.isascii() else _EXTRA:
        cost += extra * firsts.count(first)
    return -(-cost // 100)


def of_part(part: Part, count: Counter = estimate) -> int:
    match part:
        case Text(text=text) | Reasoning(text=text):
            return count(text)
        case Data(data=data):
            return count(json_text(data))
        case File():
            return _of_file(part, count)


def of_event(event: Event, count: Counter = estimate) -> int:
    """What the event costs in every prompt that shows it; 0 for what no model is shown."""
    match event:
        case MessageAdded(origin="audit"):
            return 0
        case MessageAdded(parts=parts):
            return FRAMING + sum(of_part(part, count) for part in parts)
        case ToolReturned():
            return FRAMING + sum(of_part(part, count) for part in shorten_result(event, 0))
        case Injected():
            return FRAMING + sum(of_part(part, count) for part in label_injected(event))
        case ToolCalled(name=name, args=args):
            return FRAMING + count(name) + count(json_text(args))
        case Compacted(summary=text) | ContextRecalled(text=text):
            return FRAMING + count(text)
    return 0


def _of_file(file: File, count: Counter) -> int:
    """What is sent as a file costs what providers say; what is not, the words that stand for it."""
    kind = file.media_type.partition(";")[0].strip().lower()
    if (text := text_of_file(file)) is not None:
        return LABEL + count(text)
    if kind.startswith("image/"):
        return IMAGE
    if kind == "application/pdf":
        return PAGE * (len(_PDF_PAGE.findall(file.data)) or 1 + len(file.data) // _BYTES_PER_PAGE)
    if kind.startswith("audio/"):
        return LABEL + len(file.data) // _BYTES_PER_SOUND
    return LABEL
