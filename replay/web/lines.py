"""Lines: entries as the event list shows them, a page at a time."""

from typing import Any

import msgspec

from chatfold.agent import Moment
from chatfold.eventlog import (
    Compacted,
    ContextOpened,
    ContextRecalled,
    Entry,
    Event,
    Injected,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.shapes.values import json_text
from chatfold.projections.text import one_line
from chatfold.projections.usage import read_counts
from chatfold.replay.inspect.entries import describe_parts, is_failure, kind_name, row

MOST = 500  # lines at once
_CHARACTERS = 240


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """``head``: what stands out, such as the name of a tool. ``text``: its beginning, on one line. ``tokens``: of a call to a model, what
    it reported as sent and as answered."""

    seq: int
    ts: int
    what: str
    kind: str
    text: str = ""
    head: str = ""
    run: str = ""
    is_failed: bool = False
    tokens: tuple[int, int] | None = None


async def lines(moment: Moment, first: int, last: int) -> list[Line]:
    """Of these entries, at most ``MOST``."""
    last = min(last, first + MOST - 1, moment.seq)
    return [line(entry) async for entry in moment.entries(max(1, first), last)]


def line(entry: Entry) -> Line:
    one = row(entry, most=_CHARACTERS)
    head, text = _describe(entry.event, one.text)
    cost = _cost(entry.event)
    return Line(
        entry.seq, entry.time, one.what, kind_name(entry.event), text, head, entry.run or "", one.failed, cost
    )


def _describe(event: Event, text: str) -> tuple[str, str]:
    match event:
        case ToolCalled(name=name, args=args):
            return name, one_line(_arguments(args), _CHARACTERS)
        case ToolReturned(parts=parts):
            return "", one_line(describe_parts(parts, _CHARACTERS), _CHARACTERS)
        case MessageAdded(parts=parts) | Injected(parts=parts):
            return "", one_line(describe_parts(parts, _CHARACTERS), _CHARACTERS)
        case Compacted(count=count, summary=summary):
            return f"{count} {'item' if count == 1 else 'items'} behind a summary", one_line(
                summary, _CHARACTERS
            )
        case ContextRecalled(id=id, mode=mode):
            return id, f"{mode}, reference only"
        case ContextOpened(title=title, id=id):
            return title or id, ""
        case ModelCalled(model=model):
            return "", model
        case ModelReturned(error=error, stop=stop):
            return "", one_line(error or stop, _CHARACTERS)
    return "", text


def _arguments(args: Any) -> str:
    """What a person would type: the values alone, if they are short and plain."""
    if isinstance(args, dict) and all(isinstance(one, str | int | float | bool) for one in args.values()):
        return " ".join(one if isinstance(one, str) else json_text(one) for one in args.values())
    return "" if args is None else json_text(args)


def _cost(event: Event) -> tuple[int, int] | None:
    if not isinstance(event, ModelReturned) or is_failure(event):
        return None
    cost = read_counts(event.usage, failed=False)
    return (cost.input, cost.output) if cost.tokens else None
