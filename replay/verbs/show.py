"""show: one event, with what belongs to it and what it changed."""

from typing import Any

import click
import msgspec

from chatfold.agent import Chat
from chatfold.eventlog import Entry, NoSuchPoint
from chatfold.projections import contexts
from chatfold.replay.command import chat_of, complete_chat, verb
from chatfold.replay.inspect.address import HEAD
from chatfold.replay.inspect.diff import Comparison, compare
from chatfold.replay.inspect.entries import kind_name, row
from chatfold.replay.inspect.pairs import pair_of
from chatfold.replay.inspect.points import names, seq_of
from chatfold.replay.inspect.serial import json_lines, json_text
from chatfold.replay.inspect.times import iso
from chatfold.replay.output import Out
from chatfold.replay.terminal import counted, short


class Shown(msgspec.Struct, frozen=True):
    """What ``show --json`` prints. ``belongs``: the seqs of what answers it, or of what it answers."""

    chat: str
    turn: int
    name: str  # in addresses: c2, s3
    kind: str
    entry: Entry
    belongs: dict[str, int]
    left: tuple[int, ...]  # the items that the model no longer sees after it
    added: tuple[int, ...]
    tokens_before: int
    tokens_after: int
    context: str


@verb(
    "chatfold show last@12",
    "chatfold show last@c1",
    "chatfold show last@t3.0 --json | jq .entry.event",
    "chatfold show last@12 --raw",
)
@click.argument("address", shell_complete=complete_chat)
async def show(out: Out, store: str | None, *, address: str) -> None:
    """One event: when, by which run, what it says, what belongs to it, and what it changed in the model's sight.

    --raw is the line as it is in the log.
    """
    async with chat_of(store, address) as (chat, meant):
        seq = await seq_of(chat, meant.last or HEAD)
        if not seq:
            raise NoSuchPoint("before the first entry there is nothing to show", chat=chat.key)
        if out.raw:
            async for page in chat.log.storage.read(chat.key, seq, seq):
                for line in page.lines():
                    out.text(line.decode("utf-8", "surrogateescape"))
            return
        [entry] = await chat.log.last(chat.key, 1, seq)
        change = await compare(await chat.at(seq - 1), await chat.at(seq))
        shown = await _shown(chat, entry, change)
        if out.json:
            out.value(shown)
            return
        with out.paged():
            _print(out, shown)


async def _shown(chat: Chat, entry: Entry, change: Comparison) -> Shown:
    state = chat[contexts]
    return Shown(
        chat.key,
        state.turn_at(entry.seq),
        names(state).get(entry.seq, ""),
        kind_name(entry.event),
        entry,
        await pair_of(chat, entry),
        tuple(item.seq for item in change.left),
        tuple(item.seq for item in change.added),
        change.before.tokens.count,
        change.after.tokens.count,
        change.after.context,
    )


def _print(out: Out, shown: Shown) -> None:
    entry = shown.entry
    one = row(entry, most=1)
    where = f"{shown.chat}@{entry.seq}" + (f" = {shown.name}" if shown.name else "")
    out.words(
        (f"{one.glyph} {shown.kind}", "red" if one.failed else "bold"),
        f"   {where}",
        (f"   t{shown.turn}", "dim"),
    )
    facts: dict[str, Any] = {
        "time": iso(entry.time),
        "recorded": iso(entry.ts) if entry.said_at is not None else None,
        "run": entry.run,
        "id": entry.id,
        "batch": entry.batch,
        "context": shown.context,
        "sum": entry.sum,
        "erased": f"was {entry.was}" if entry.was else None,
        **{word: f"e{seq}" for word, seq in shown.belongs.items()},
    }
    for name, value in facts.items():
        if value is not None:
            out.words((f"{name:<8} ", "dim"), str(value))
    out.line()
    _payload(out, entry)
    out.line()
    if shown.left or shown.added or shown.tokens_before != shown.tokens_after:
        tokens = f"{short(shown.tokens_before)} → {short(shown.tokens_after)} tokens"
        out.words(
            ("the model sees ", "dim"),
            f"{counted(len(shown.left), 'item')} less, {len(shown.added)} more, about {tokens}",
        )
    else:
        out.line("nothing changes for the model", "dim")


def _payload(out: Out, entry: Entry) -> None:
    """Every field of the event: short ones beside their name, texts below it."""
    event = entry.event
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if value in ("", None, (), {}, 0):
            continue
        for part, text in _texts(name, value):
            if "\n" not in text and len(text) < 100:
                out.words((f"{part:<8} ", "dim"), text)
                continue
            out.line(part, "dim")
            out.text(text, "  ")


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
    short_form = json_text(plain)
    return [(name, short_form if len(short_form) < 100 else json_lines(plain))]


def _part(part: Any) -> str:
    text = getattr(part, "text", None)
    if isinstance(text, str):
        return text
    return json_text({key: value for key, value in msgspec.to_builtins(part).items() if key != "type"})
