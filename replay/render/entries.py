"""Entries, turns and messages as lines. ``plain``: for a pipe, which is given whole texts and exact figures."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from chatfold.eventlog import Entry
from chatfold.projections import Message
from chatfold.replay.inspect.entries import Row
from chatfold.replay.inspect.event import EventView
from chatfold.replay.inspect.items import item_of, text_of
from chatfold.replay.inspect.selection import Turn
from chatfold.replay.inspect.serial import json_lines, json_text
from chatfold.replay.inspect.times import clock, iso
from chatfold.replay.render.line import Line, body, row, words
from chatfold.replay.terminal import Cell, Style, plural, short

STYLES: dict[str, Style] = {
    "user": "green",
    "assistant": "bold",
    "system": "yellow",
    "call": "cyan",
    "calls": "cyan",
    "result": "cyan",
    "summary": "magenta",
    "recalled": "magenta",
    "compacted": "magenta",
    "opened": "magenta",
    "switched": "magenta",
    "cleared": "magenta",
    "rewound": "magenta",
    "forked": "magenta",
    "checkpoint": "yellow",
}
"""By what a list calls an event or an item."""

_SHORT = 100  # characters of a value that stands beside its name


def style_of(one: Row) -> Style:
    return "red" if one.failed else STYLES.get(one.what, "dim")


def entry_line(one: Row, *, plain: bool = False) -> Line:
    if plain:
        failed = "failed" if one.failed else ""
        facts = (
            str(one.seq),
            iso(one.ts),
            f"t{one.turn}",
            one.kind,
            one.what,
            failed,
            one.run or "",
            one.name,
        )
        return row([*map(Cell, facts), Cell(one.text)], one, seq=one.seq)
    text = " · ".join(filter(None, (one.name, one.text)))
    cells = (
        Cell(str(one.seq), 7, "dim", right=True),
        Cell(clock(one.ts), 8, "dim"),
        Cell(f"t{one.turn}", 5, "dim"),
        Cell(f"{one.glyph} {one.what}", 12, style_of(one)),
        Cell(text, 0, "red" if one.failed else ""),
    )
    return row(cells, one, seq=one.seq)


def fork_line(seq: int, key: str, *, plain: bool = False) -> Line:
    """A chat that was forked off after this entry; in a pipe with as many fields as an entry has."""
    value = {"seq": seq, "forked": key}
    if plain:
        return row(map(Cell, (str(seq), "", "", "fork", "", "", "", "", key)), value, seq=seq, chat=key)
    return row((Cell("", 7), Cell(f"└─⑂ {key}", 0, "magenta")), value, seq=seq, chat=key)


def turn_line(turn: Turn, *, plain: bool = False) -> Line:
    tools = ", ".join(f"{name} x{count}" if count > 1 else name for name, count in turn.tools.items())
    if plain:
        facts = (turn.first, turn.last, iso(turn.ts), turn.failures, turn.size, tools, ",".join(turn.marks))
        return row([Cell(f"t{turn.turn}"), *(Cell(str(fact)) for fact in facts), Cell(turn.question)], turn)
    question = f'"{turn.question}"' if turn.question else ""
    cells = (
        Cell(f"t{turn.turn}", 5, "green"),
        Cell(clock(turn.ts), 8, "dim"),
        Cell(f"{turn.failures} ✗" if turn.failures else "", 4, "red"),
        Cell(f"ctx {short(turn.size)}" if turn.size else "", 10, "dim"),
        Cell(" · ".join(word for word in (" ".join(turn.marks), tools, question) if word)),
    )
    return row(cells, turn, seq=turn.first)


# --- one event -------------------------------------------------------------------------------------------


def event_lines(view: EventView) -> Iterator[Line]:
    entry, one = view.entry, view.row
    where = f"{view.chat}@{entry.seq}" + (f" = {view.name}" if view.name else "")
    head: Style = "red" if one.failed else "bold"
    yield words((f"{one.glyph} {view.kind}", head), f"   {where}", (f"   t{view.turn}", "dim"))
    facts: dict[str, Any] = {
        "time": iso(entry.time),
        "recorded": iso(entry.ts) if entry.said_at is not None else None,
        "run": entry.run,
        "id": entry.id,
        "batch": entry.batch,
        "context": view.context,
        "sum": entry.sum,
        "erased": f"was {entry.was}" if entry.was else None,
    }
    for name, value in facts.items():
        if value is not None:
            yield words((f"{name:<8} ", "dim"), str(value))
    for name, seq in view.belongs.items():
        yield words((f"{name:<8} ", "dim"), f"e{seq}", seq=seq)
    yield words()
    yield from _payload(entry)
    yield words()
    if view.left or view.added or view.tokens_before != view.tokens_after:
        tokens = f"{short(view.tokens_before)} → {short(view.tokens_after)} tokens"
        change = f"{plural(len(view.left), 'item')} less, {len(view.added)} more, about {tokens}"
        yield words(("the model sees ", "dim"), change)
    else:
        yield words(("nothing changes for the model", "dim"))


def _payload(entry: Entry) -> Iterator[Line]:
    """Every field of the event: short ones beside their name, texts below it."""
    event = entry.event
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if value in ("", None, (), {}, 0):
            continue
        for label, text in _texts(name, value):
            if "\n" not in text and len(text) < _SHORT:
                yield words((f"{label:<8} ", "dim"), text)
            else:
                yield words((label, "dim"))
                yield body(text, "  ")


def _texts(name: str, value: Any) -> list[tuple[str, str]]:
    match value:
        case str():
            return [(name, value)]
        case bytes():
            return [(name, value.decode(errors="backslashreplace"))]
        case int() | float():
            return [(name, str(value))]
        case tuple() if name == "parts":
            return [(str(part.__struct_config__.tag), _part(part)) for part in value]
    plain = msgspec.to_builtins(value)
    on_one_line = json_text(plain)
    return [(name, on_one_line if len(on_one_line) < _SHORT else json_lines(plain))]


def _part(part: Any) -> str:
    text = getattr(part, "text", None)
    if isinstance(text, str):
        return text
    return json_text({key: value for key, value in msgspec.to_builtins(part).items() if key != "type"})


# --- messages --------------------------------------------------------------------------------------------


def message_lines(messages: Sequence[Message], *, plain: bool = False) -> Iterator[Line]:
    for index, message in enumerate(messages):
        item = item_of(message)
        if plain:
            seqs = ",".join(f"e{seq}" for seq in message.seqs)
            facts = (str(index), message.role, item.kind, str(item.tokens), seqs, text_of(message))
            yield row(map(Cell, facts), item, seq=item.seq)
            continue
        kind = f" ({item.kind})" if item.kind != message.role else ""
        seqs = " ".join(f"e{seq}" for seq in message.seqs[:8]) + (" …" if len(message.seqs) > 8 else "")
        tokens = (f"   {short(item.tokens)} tokens · {seqs}", "dim")
        yield words((f"{message.role}{kind}", STYLES.get(item.kind, "bold")), tokens, seq=item.seq)  # type: ignore[arg-type]
        yield body(text_of(message), "  ", seq=item.seq)
        yield words()


def spent_lines(lines: Iterable[Line], most: int) -> Iterator[Line]:
    """Lines until so many characters are spent; then how to have the rest."""
    for line in lines:
        if most <= 0:
            yield words(("… and more; ! says how to print all", "dim"))
            return
        most -= len(line.text)
        yield line
