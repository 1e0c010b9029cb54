"""A summary without a model: what can be told by looking. The default, so that the engine works alone.

It keeps sentences that say what somebody wants, decided, found out or left open, which tools were used and how that
went, and what was asked; earlier summaries are merged, not summarised again. A model does this better: pass
``summarise=`` any function from ``Material`` to text.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from projections import Message
from projections.prompt import SUMMARY
from projections.text import one_line, text_of
from projections.wire import json_text

_SECTIONS = ("Facts", "Preferences", "Decisions", "Open items", "Asked", "Tools used")
_LINES = 8  # of a section; the newest are kept
_LINE = 160
_SENTENCE = re.compile("[^.!?\u3002\uff01\uff1f\n]+[.!?\u3002\uff01\uff1f]?")
_SIGNS = {
    "Preferences": re.compile(
        r"\b(prefer|always|never|please|don't|do not|like to)\b|喜欢|偏好|总是|不要|请", re.IGNORECASE
    ),
    "Decisions": re.compile(
        r"\b(decided|decision|agreed|let's|we will|we'll|going with|chose)\b|决定|采用|改用|选择",
        re.IGNORECASE,
    ),
    "Open items": re.compile(
        r"\b(todo|still|remaining|later|next|unresolved|not yet|need to)\b|待办|未完成|下一步|还需|需要",
        re.IGNORECASE,
    ),
    "Facts": re.compile(
        r"\b(is|are|was|because|means|found|uses|fails|works|returns)\b|是|因为|发现|使用", re.IGNORECASE
    ),
}


class Material(msgspec.Struct, frozen=True):
    """What a summary is to stand for, the oldest message first; summaries of earlier compactions are among them."""

    messages: tuple[Message, ...]

    @property
    def previous(self) -> str:
        """The summaries so far, in full."""
        found = [text_of(m.parts).removeprefix(SUMMARY) for m in self.messages if m.kind == "summary"]
        return "\n".join(found)

    @property
    def text(self) -> str:
        """Everything as text, for a model: what was said in full, calls and results in a line each."""
        return "\n".join(line for message in self.messages for line in _told(message))


def _told(message: Message, most: int = 500) -> Iterator[str]:
    if text := text_of(message.parts).strip():
        yield f"{message.role}: {text}"
    for call in message.calls:
        yield f"{message.role} called {call.name}: {one_line(json_text(call.args), most)}"
    for result in message.results:
        how = "failed" if result.failed else "returned"
        yield f"{result.name} {how}: {one_line(text_of(result.parts), most)}"


def by_looking(material: Material) -> str:
    sections: dict[str, list[str]] = {name: [] for name in _SECTIONS}
    _merge(sections, material.previous)
    for message in material.messages:
        if message.kind == "said" and message.role in ("user", "assistant"):
            _look(sections, message)
    sections["Tools used"] += _tools(material.messages)
    return "\n".join(_written(sections))


def _merge(sections: dict[str, list[str]], previous: str) -> None:
    """Takes over what an earlier summary of this kind said; of any other kind, its lines are facts."""
    current = "Facts"
    for line in previous.splitlines():
        if line.rstrip(":") in sections:
            current = line.rstrip(":")
        elif line.strip():
            sections[current].append(line.removeprefix("- ").strip())


def _look(sections: dict[str, list[str]], message: Message) -> None:
    text = text_of(message.parts)
    if message.role == "user" and text.strip():
        sections["Asked"].append(one_line(text, _LINE))
    for sentence in _SENTENCE.findall(text):
        for name, sign in _SIGNS.items():
            if sign.search(sentence) and not (name == "Facts" and message.role == "user"):
                sections[name].append(one_line(sentence, _LINE))
                break


def _tools(messages: Sequence[Message]) -> list[str]:
    used: dict[str, list[int]] = {}
    for result in (result for message in messages for result in message.results):
        counts = used.setdefault(result.name, [0, 0])
        counts[0] += 1
        counts[1] += result.failed
    return [f"{name}: {total} times, {failed} failed" for name, (total, failed) in used.items()]


def _written(sections: dict[str, list[str]]) -> Iterator[str]:
    for name, lines in sections.items():
        kept = list(dict.fromkeys(line for line in lines if line))[-_LINES:]
        if kept:
            yield f"{name}:"
            yield from (f"- {line}" for line in kept)
