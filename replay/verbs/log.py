"""log: what happened, a line an event or a line a turn."""

from collections.abc import AsyncIterator
from contextlib import nullcontext

import click

from chatfold.agent import Chat, Moment
from chatfold.eventlog import Entry
from chatfold.eventlog.search_text import holds
from chatfold.projections import Contexts, contexts
from chatfold.replay.command import DIFFERENT, chat_of, complete_chat, store_of, verb
from chatfold.replay.inspect.entries import row
from chatfold.replay.inspect.points import names, range_of
from chatfold.replay.inspect.selection import Turn, Wanted, selected, turns, wanted
from chatfold.replay.inspect.times import clock, iso
from chatfold.replay.output import Out
from chatfold.replay.terminal import Cell, Style, short

_STYLES: dict[str, Style] = {
    "user": "green",
    "assistant": "bold",
    "call": "cyan",
    "result": "cyan",
    "compacted": "magenta",
    "opened": "magenta",
    "switched": "magenta",
    "cleared": "magenta",
    "rewound": "magenta",
    "forked": "magenta",
    "checkpoint": "yellow",
}
_BEGINNING = 400  # characters of a text that a terminal may need


@verb(
    "chatfold log last -n 20",
    "chatfold log last@t3..t5 --errors",
    "chatfold log telegram-42 --turns",
    'chatfold log last -S "vendor/"',
    "chatfold log last -f",
)
@click.argument("address", shell_complete=complete_chat)
@click.option("-n", "most", default=0, type=click.IntRange(0), help="The last so many; 0: all.")
@click.option("--turns", "by_turn", is_flag=True, help="A line a turn instead of a line an event.")
@click.option("--kind", default="", help="Only these, by commas: user,call,compacted or message_added.")
@click.option("--errors", is_flag=True, help="Only what failed.")
@click.option("-S", "text", default="", help="Only entries that hold this very text.")
@click.option("--reverse", is_flag=True, help="Newest first.")
@click.option("--graph", is_flag=True, help="With the chats that were forked here.")
@click.option("-f", "--follow", is_flag=True, help="Then what comes, from any process, until Ctrl-C.")
async def log(
    out: Out,
    store: str | None,
    *,
    address: str,
    most: int,
    by_turn: bool,
    kind: str,
    errors: bool,
    text: str,
    reverse: bool,
    graph: bool,
    follow: bool,
) -> int:
    """What happened, a line an event: seq, time, turn, what it was, what it said.

    CHAT@A..B is what came after A, up to B; CHAT@P everything up to P. A pipe is given whole texts, separated by tabs.
    """
    if by_turn and (kind or text or graph or follow):
        raise click.UsageError("--turns goes with -n, --errors and --reverse only")
    async with chat_of(store, address) as (chat, meant):
        first, last = await range_of(chat, meant)
        with nullcontext() if follow else out.paged():
            if by_turn:
                return await _turns(out, chat, first, last, most, errors=errors, reverse=reverse)
            is_wanted = wanted(frozenset(filter(None, kind.split(","))), errors=errors)
            tell = out.progress("looking through entries")
            entries = selected(
                chat, first, last, is_wanted, most=most, text=text, reverse=reverse, progress=tell
            )
            count = await _entries(out, chat, entries, await _forks(store, chat.key) if graph else {})
            if follow:
                await _follow(out, chat, last, is_wanted, text)
            return 0 if count else DIFFERENT


async def _entries(out: Out, chat: Moment, entries: AsyncIterator[Entry], forks: dict[int, list[str]]) -> int:
    state, called = chat[contexts], names(chat[contexts])
    count = 0
    async for entry in entries:
        count += 1
        _entry(out, entry, state, called.get(entry.seq, ""))
        for key in forks.get(entry.seq, ()):
            out.row({"seq": entry.seq, "forked": key}, _fork_cells(out, entry.seq, key))
    return count


def _entry(out: Out, entry: Entry, state: Contexts, name: str) -> None:
    one = row(entry, state.turn_at(entry.seq), name, most=_BEGINNING if out.is_terminal else None)
    style: Style = "red" if one.failed else _STYLES.get(one.what, "dim")
    if not out.is_terminal:
        facts = (str(one.seq), iso(one.ts), f"t{one.turn}", one.kind, one.run or "", one.name)
        out.row(one, [*map(Cell, facts), Cell(one.text)])
        return
    out.row(
        one,
        [
            Cell(str(one.seq), 7, "dim", right=True),
            Cell(clock(one.ts), 8, "dim"),
            Cell(f"t{one.turn}", 5, "dim"),
            Cell(f"{one.glyph} {one.what}", 12, style),
            Cell(" · ".join(filter(None, (one.name, one.text))), 0, "red" if one.failed else ""),
        ],
    )


def _fork_cells(out: Out, seq: int, key: str) -> list[Cell]:
    if out.is_terminal:
        return [Cell("", 7), Cell(f"└─⑂ {key}", 0, "magenta")]
    return [*map(Cell, (str(seq), "", "", "fork", "", "")), Cell(key)]  # as many fields as an entry has


async def _forks(store: str | None, chat: str) -> dict[int, list[str]]:
    """By the entry up to which they have everything: the chats that were forked off."""
    found: dict[int, list[str]] = {}
    async with store_of(store) as place:
        async for one in place.chats():
            if one.parent and one.parent.parent == chat:
                found.setdefault(one.parent.at, []).append(one.key)
    return found


async def _follow(out: Out, chat: Chat, last: int, is_wanted: Wanted, text: str) -> None:
    out.flush()
    async with out.watched():
        async for moment in chat.moments(last):
            entry = moment.opened.recent[-1]
            if not is_wanted(entry) or (text and not holds(entry.event, text)):
                continue
            _entry(out, entry, moment[contexts], names(moment[contexts]).get(entry.seq, ""))
            out.flush()


# --- turns -----------------------------------------------------------------------------------------------


async def _turns(
    out: Out, chat: Moment, first: int, last: int, most: int, *, errors: bool, reverse: bool
) -> int:
    state = chat[contexts]
    if most and not errors:
        first = max(first, state.asked_at(max(1, state.turn_at(last) - most + 1)) - 1)
    some = (turn async for turn in turns(chat, first, last) if turn.failures or not errors)
    if reverse or (most and errors):
        found = [turn async for turn in some]
        found = found[-most:] if most else found
        for turn in reversed(found) if reverse else found:
            out.row(turn, _turn_cells(out, turn))
        return 0 if found else DIFFERENT
    count = 0
    async for turn in some:
        count += 1
        out.row(turn, _turn_cells(out, turn))
    return 0 if count else DIFFERENT


def _turn_cells(out: Out, turn: Turn) -> list[Cell]:
    tools = ", ".join(f"{name} x{count}" if count > 1 else name for name, count in turn.tools.items())
    failed = f"{turn.failures} ✗" if turn.failures else ""
    size = f"ctx {short(turn.size)}" if turn.size else ""
    question = f'"{turn.question}"' if turn.question else ""
    said = " · ".join(word for word in (" ".join(turn.marks), tools, question) if word)
    if out.is_terminal:
        return [
            Cell(f"t{turn.turn}", 5, "green"),
            Cell(clock(turn.ts), 8, "dim"),
            Cell(failed, 4, "red"),
            Cell(size, 10, "dim"),
            Cell(said),
        ]
    facts = (
        f"t{turn.turn}",
        str(turn.first),
        str(turn.last),
        iso(turn.ts),
        str(turn.failures),
        str(turn.size),
    )
    return [*map(Cell, facts), Cell(tools), Cell(",".join(turn.marks)), Cell(turn.question)]
