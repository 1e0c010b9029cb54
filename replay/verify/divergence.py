"""What is not as it was recorded: where, in which field, and both values.

Everything here is a value that can be printed as JSON. Values are cut to what a person reads, around the first
character in which they differ; they are what users, models and tools said, so what shows them makes them safe first.
"""

import json
import shlex
from typing import Any

import msgspec

_MOST = 200  # characters of a value
_BEFORE = 40  # of them before the difference


class Divergence(msgspec.Struct, frozen=True):
    """The first thing that is not as recorded. What comes after it answers another question.

    ``recorded`` or ``new`` None: it is not there. ``cause``: in words, with the entry ``cause_seq`` if that is known.
    """

    chat: str
    seq: int  # of the entry; 0 if it is about none
    kind: str  # its type: model_called, tool_returned, …; ``live`` for a call that must not be made
    field: str  # request.messages[17].content, parts[0].text, …
    recorded: Any = None
    new: Any = None
    turn: int = 0
    call: int = 0  # the model call it belongs to; 0 if it belongs to none
    cause: str = ""
    cause_seq: int = 0

    def command(self, place: str, store: str = "") -> str:
        """What to type to see more. ``place``: how the chat is named, by its key or by a path."""
        where = ("--store", store) if store else ()
        if self.call and self.kind == "model_called":
            return shlex.join(("chatfold", "messages", place, "--for-call", str(self.call), *where))
        return shlex.join(("chatfold", "show", f"{place}@e{max(1, self.seq)}", *where))

    def __str__(self) -> str:
        where = ", ".join(
            text
            for text in (f"t{self.turn}" if self.turn else "", f"model call {self.call}" if self.call else "")
            if text
        )
        lines = [
            f"DIVERGED at e{self.seq}{f' ({where})' if where else ''}: {self.kind} {self.field}".rstrip(),
            f"  recorded  {_show_value(self.recorded)}",
            f"  new       {_show_value(self.new)}",
        ]
        return "\n".join([*lines, *([f"  cause     {self.cause}"] if self.cause else [])])


class Verdict(msgspec.Struct, frozen=True):
    """What a replay came to. ``unprovable``: requests that cannot be made again from the log alone, which is no failure.

    ``other_rules``: the numbers of prompt rules that are not today's and made some of these.
    """

    chat: str
    entries: int = 0
    turns: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    proved: int = 0  # requests
    unprovable: int = 0
    other_rules: tuple[int, ...] = ()
    snapshots: int = 0  # compared
    runs: int = 0  # of the agent, rehearsed
    skipped: int = 0  # runs of other agents, which were taken as they are
    attempts: tuple[str, ...] = ()  # to reach the world, each of which was refused
    divergence: Divergence | None = None
    more: tuple[Divergence, ...] = ()  # that come after the first, if they were asked for

    @property
    def ok(self) -> bool:
        return self.divergence is None


class Change(msgspec.Struct, frozen=True):
    field: str
    recorded: Any
    new: Any


def first_change(recorded: Any, new: Any, field: str = "") -> Change | None:
    """The first place where two JSON values differ, in the order of the recorded one."""
    match recorded, new:
        case dict(), dict():
            for name in (*recorded, *(name for name in new if name not in recorded)):
                if found := _within(recorded, new, name, f"{field}.{safe(name)}" if field else safe(name)):
                    return found
            return None
        case (list() | tuple(), list() | tuple()):
            for at in range(max(len(recorded), len(new))):
                if found := _within(recorded, new, at, f"{field}[{at}]"):
                    return found
            return None
        case str(), str() if recorded != new:
            return _line(recorded, new, field)
    if recorded == new and type(recorded) is type(new):
        return None
    return Change(field, cut(recorded), cut(new))


def _within(recorded: Any, new: Any, key: Any, field: str) -> Change | None:
    one, other = (_at(value, key) for value in (recorded, new))
    if one is msgspec.UNSET or other is msgspec.UNSET:
        return Change(field, *(None if value is msgspec.UNSET else cut(value) for value in (one, other)))
    return first_change(one, other, field)


def _at(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return value.get(key, msgspec.UNSET)
    return value[key] if key < len(value) else msgspec.UNSET


def _line(recorded: str, new: str, field: str) -> Change:
    """Of a text of several lines, the first that differs."""
    ones, others = recorded.split("\n"), new.split("\n")
    if len(ones) == len(others) == 1:
        return Change(field, *_around(recorded, new))
    pairs = zip([*ones, None], [*others, None], strict=False)
    at, (one, other) = next((at, pair) for at, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    if (
        one is None or other is None
    ):  # one goes on where the other ends: with all of the rest, since a line may be empty
        rest = [
            None if end is None else "\n".join(lines[at - 1 :])
            for end, lines in ((one, ones), (other, others))
        ]
        return Change(f"{field} line {at}", *map(cut, rest))
    return Change(f"{field} line {at}", *_around(one, other))


def _around(recorded: str, new: str) -> tuple[str, str]:
    """Both, cut to the part around the first difference if they are long."""
    pairs = enumerate(zip(recorded, new, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(recorded), len(new)))
    start = max(0, at - _BEFORE) if max(len(recorded), len(new)) > _MOST else 0
    lead = "…" if start else ""
    return lead + cut(recorded[start:]), lead + cut(new[start:])


def cut(value: Any) -> Any:
    """A value of JSON, or its beginning as a text if it is long."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return safe(f"{value[:_MOST]}…" if len(value) > _MOST else value)
    text = json_of(value)
    if len(text) > _MOST:
        return f"{text[:_MOST]}…"
    return text if "\\ud" in text else value  # half a character: no JSON has it


def json_of(value: Any) -> str:
    """As JSON, whatever it holds."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half a character somewhere
        return safe(json.dumps(value, ensure_ascii=False))


def safe(text: str) -> str:
    """With half a character told as an escape: JSON has no other way to say it."""
    return text.encode("utf-8", "backslashreplace").decode()


def _show_value(value: Any) -> str:
    return "(not there)" if value is None else json_of(value)
