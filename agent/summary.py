"""A summary without a model: what can be told by looking. The default, so that the engine works alone.

It keeps sentences that say what was wanted, decided, found out or left open, which tools were used and how that
went, and what was asked; earlier summaries are merged, not summarised again. A model does this better: pass
``summarise=`` any function from ``Material`` to text.
"""

import re
from collections.abc import Iterator

import msgspec

from chatfold.projections import Message, estimate
from chatfold.projections.labels import SUMMARY
from chatfold.projections.shapes.values import json_text, result_text
from chatfold.projections.text import one_line, text_of
from chatfold.projections.tokens import Counter

_SECTIONS = ("Facts", "Preferences", "Decisions", "Open items", "Asked", "Tools used")
_LINES = 40  # of a section at most; the newest are kept, as many as there is room for
_LINE = 160
# Compiled when they are first needed: a program that only reads chats does not wait for it.
_USED = r"- (.*): (\d+) times, (\d+) failed"
_SENTENCE = "[^.!?\u3002\uff01\uff1f\n]+[.!?\u3002\uff01\uff1f]?"
_SIGNS = {
    "Preferences": r"(?i)\b(prefer|always|never|please|don't|do not|like to)\b|喜欢|偏好|总是|不要|请",
    "Decisions": r"(?i)\b(decided|decision|agreed|let's|we will|we'll|going with|chose)\b|决定|采用|改用|选择",
    "Open items": r"(?i)\b(todo|still|remaining|later|next|unresolved|not yet|need to)\b|待办|未完成|下一步|还需|需要",
    "Facts": r"(?i)\b(is|are|was|because|means|found|uses|fails|works|returns)\b|是|因为|发现|使用",
}


class Material(msgspec.Struct, frozen=True):
    """What a summary is to stand for, the oldest message first; summaries of earlier compactions are among them."""

    messages: tuple[Message, ...]
    limit: int = 2_000  # tokens the summary may have
    count: Counter = estimate  # what tells them

    @property
    def previous(self) -> str:
        """The summaries so far, in full."""
        found = [text_of(m.parts).removeprefix(SUMMARY) for m in self.messages if m.kind == "summary"]
        return "\n".join(found)

    @property
    def text(self) -> str:
        """Everything as text, for a model: what was said in full, calls and results in a line each."""
        return "\n".join(line for message in self.messages for line in describe_message(message))


def describe_message(message: Message, most: int = 500) -> Iterator[str]:
    """A line for what it says, and one for each call and result. What nobody said goes by what it is."""
    if text := text_of(message.parts).strip():
        who = message.role if message.kind in ("said", "internal") else message.kind
        yield f"{who}: {text}"
    for call in message.calls:
        yield f"{message.role} called {call.name}: {one_line(json_text(call.args), most)}"
    for result in message.results:
        how = "failed" if result.failed else "returned"
        yield f"{result.name} {how}: {one_line(result_text(result.parts), most)}"


def summarise_by_rules(material: Material) -> str:
    sections: dict[str, list[str]] = {name: [] for name in _SECTIONS}
    tools: dict[str, tuple[int, int]] = {}
    _merge(sections, tools, material.previous)
    for message in material.messages:
        if message.kind == "said" and message.role in ("user", "assistant"):
            _look(sections, message)
        _count(tools, message)
    sections["Tools used"] = [f"{name}: {all_} times, {bad} failed" for name, (all_, bad) in tools.items()]
    for most in range(_LINES, 0, -1):
        text = (
            "\n".join(_write_sections(sections, most)) or f"{len(material.messages)} messages without words."
        )
        if material.count(text) <= material.limit:
            return text
    return one_line(text, max(1, material.limit // 4))  # few characters are more than four tokens


def _merge(sections: dict[str, list[str]], tools: dict[str, tuple[int, int]], previous: str) -> None:
    """Takes over what an earlier summary of this kind said; of any other kind, its lines are facts."""
    current = "Facts"
    for line in previous.splitlines():
        if line.rstrip(":") in sections:
            current = line.rstrip(":")
        elif current == "Tools used" and (used := re.fullmatch(_USED, line)):
            total, failed = tools.get(used[1], (0, 0))
            tools[used[1]] = total + int(used[2]), failed + int(used[3])
        elif line.strip():
            sections[current].append(line.removeprefix("- ").strip())


def _look(sections: dict[str, list[str]], message: Message) -> None:
    text = text_of(message.parts)
    if message.role == "user" and text.strip():
        sections["Asked"].append(one_line(text, _LINE))
    for sentence in re.findall(_SENTENCE, text):
        for name, sign in _SIGNS.items():
            if re.search(sign, sentence) and not (name == "Facts" and message.role == "user"):
                sections[name].append(one_line(sentence, _LINE))
                break


def _count(tools: dict[str, tuple[int, int]], message: Message) -> None:
    for result in message.results:
        name = one_line(result.name, _LINE)
        total, failed = tools.get(name, (0, 0))
        tools[name] = total + 1, failed + result.failed


def _write_sections(sections: dict[str, list[str]], most: int) -> Iterator[str]:
    for name, lines in sections.items():
        kept = list(dict.fromkeys(line for line in lines if line))[-most:]
        if kept:
            yield f"{name}:"
            yield from (f"- {line}" for line in kept)
