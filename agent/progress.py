"""What is told of a run while it goes on: the model's words as they come, and in a few words what each tool did.

A person sees digests, never raw output: at most 500 characters, cut between characters as they are seen, failures and both
streams of a command included, what looks like a password or a key masked. What really was said and returned is in the log.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from chatfold.agent.masking import mask
from chatfold.agent.messages import ToolCall
from chatfold.agent.result import Result
from chatfold.agent.tools import Outcome
from chatfold.eventlog import Data, File, Json, Part, Text
from chatfold.projections.shapes.values import replace_surrogates
from chatfold.projections.text import text_of

MOST = 500
_COMMAND = 160  # characters of a digest that are the command's
_LOOKED_AT = 4 * MOST  # of any text: more cannot end up in a digest


class Step(msgspec.Struct, frozen=True):
    """Something that happens in a run.

    ``piece``: some of an answer. ``assistant``: what the model said. ``step_finish``: what a tool did, in a few words.
    ``result``: the last step of ``agent.stream``, with the ``result``.
    """

    type: Literal["piece", "assistant", "step_finish", "result"]
    text: str
    run: str = ""
    kind: Literal["text", "reasoning"] = "text"  # of a piece
    tool: str = ""
    failed: bool = False
    result: Result | None = None


def answer_step(parts: Iterable[Part], run: str, previous: str = "") -> Step | None:
    """None if there is nothing to read, or nothing but what the step before said: ``previous``."""
    text = readable(text_of(parts))
    return Step("assistant", text, run) if text and text != previous else None


def tool_step(call: ToolCall, outcome: Outcome, run: str) -> Step:
    told = _digest_shell(call, outcome) if call.name == "exec_shell" else _digest_call(call, outcome)
    return Step("step_finish", told, run, tool=call.name, failed=outcome.failed)


def readable(text: str) -> str:
    """Without superfluous white space."""
    lines = [line.rstrip() for line in replace_surrogates(text).replace("\r\n", "\n").split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


# --- digests ---------------------------------------------------------------------------------------------


def _digest_call(call: ToolCall, outcome: Outcome) -> str:
    """Of an MCP server's tool, too: its name is ``server:tool``."""
    how = "failed" if outcome.failed else "done"
    told = _describe(outcome.parts)
    return beginning(f"{call.name} {how}: {told}" if told else f"{call.name} {how}", MOST)


def _digest_shell(call: ToolCall, outcome: Outcome) -> str:
    """The command, how it ended, and the beginnings of both of its streams."""
    command = call.args.get("command", "") if isinstance(call.args, dict) else call.args
    lines = [beginning(f"$ {_digest(_string(command))}", _COMMAND)]
    said = next((part.data for part in outcome.parts if isinstance(part, Data)), None)
    if (
        not isinstance(said, dict) or "exit_code" not in said
    ):  # it did not come to an end, or not even to a beginning
        return beginning("\n".join([*lines, _describe(outcome.parts)]).strip(), MOST)
    lines.append("timed out" if said.get("timed_out") else f"exit code {said.get('exit_code')}")
    streams = {name: _digest(_string(said.get(name))) for name in ("stdout", "stderr")}
    shown = {name: text for name, text in streams.items() if text}
    room = MOST - len("\n".join(lines)) - sum(len(name) + 3 for name in shown)
    for name, size in _shares({name: len(text) for name, text in shown.items()}, room).items():
        lines.append(f"{name}: {beginning(shown[name], size)}")
    return "\n".join(lines)


def _shares(wanted: dict[str, int], room: int) -> dict[str, int]:
    """The room of each: what one does not need, the others have."""
    shares = dict.fromkeys(wanted, 0)
    for left, name in zip(range(len(wanted), 0, -1), sorted(wanted, key=wanted.__getitem__), strict=True):
        shares[name] = min(wanted[name], room // left)
        room -= shares[name]
    return shares


def _digest(text: str) -> str:
    return mask(readable(text.lstrip()[:_LOOKED_AT]))


def _describe(parts: Iterable[Part]) -> str:
    return _digest("\n".join(map(_part, parts)))


def _part(part: Part) -> str:
    match part:
        case Text(text=text):
            return text
        case File(name=name, media_type=kind):
            return f"[file {name or kind}]"
        case Data(data={"success": False, **said}) if why := said.get("error") or said.get("stderr"):
            return _string(why)
        case Data(data=value):
            return _string(value)
    return ""


def _string(value: Json) -> str:
    """A value in words: not as JSON, and no more of it than can be shown."""
    pieces: list[str] = []
    room = _LOOKED_AT
    for piece in _words(value):
        pieces.append(piece[:room])
        room -= len(piece)
        if room <= 0:
            break
    return "".join(pieces)


def _words(value: Json) -> Iterator[str]:
    match value:
        case None:
            pass
        case bool():
            yield "yes" if value else "no"
        case bytes():
            yield f"{len(value)} bytes"
        case dict():
            named = ((f"{key}: ", item) for key, item in value.items() if key != "success")
            yield from _list_items(named, ", ")
        case list() | tuple():
            yield from _list_items((("", item) for item in value), "; ")
        case _:
            yield str(value)


def _list_items(items: Iterable[tuple[str, Json]], separator: str) -> Iterator[str]:
    for number, (name, item) in enumerate(items):
        yield (separator if number else "") + name
        yield from _words(item)


# --- cutting ---------------------------------------------------------------------------------------------

_JOINER = "\u200d"
_FLAGS = "".join(map(chr, range(0x1F1E6, 0x1F200)))  # the letters of flags, which are pairs
_FURTHEST = 32  # characters: what takes more is not meant to be read


def beginning(text: str, most: int) -> str:
    """At most ``most`` characters, the last of them an ellipsis if something is missing."""
    return text if len(text) <= most else text[: whole(text, max(0, most - 1))] + "…"[:most]


def whole(text: str, end: int) -> int:
    """Where to cut at ``end`` or before, so that accents stay with their letters and an emoji stays in one piece."""
    return next((at for at in range(end, max(0, end - _FURTHEST), -1) if not _is_inside(text, at)), end)


def _is_inside(text: str, at: int) -> bool:
    """Is what is seen as one character both before and after ``at``?"""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if after in _FLAGS:
        near = text[max(0, at - 2 * _FURTHEST) : at]
        return (len(near) - len(near.rstrip(_FLAGS))) % 2 == 1
    return (
        _JOINER in (before, after)
        or unicodedata.category(after) in ("Mn", "Mc", "Me")  # accents, vowel signs, variants
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # the colours of skin
        or "\U000e0020" <= after <= "\U000e007f"  # the flags of Scotland and Wales
        or "\udc00" <= after <= "\udfff"
        or before + after == "\r\n"
    )
