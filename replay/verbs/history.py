"""log, show and stats: what happened in a chat."""

from collections.abc import AsyncIterator
from contextlib import nullcontext

import click

from chatfold.agent import Chat, Moment
from chatfold.eventlog import Entry, NoSuchPoint
from chatfold.eventlog.search_text import holds
from chatfold.projections.history import History
from chatfold.replay.command import (
    DIFFERENT,
    chat_of,
    complete_chat,
    moment_meant,
    seq_meant,
    store_of,
    verb,
)
from chatfold.replay.inspect.entries import row
from chatfold.replay.inspect.event import event_of
from chatfold.replay.inspect.points import names, range_of
from chatfold.replay.inspect.selection import Wanted, kind_filter, parse_kinds, select, turns
from chatfold.replay.inspect.stats import stats as stats_of
from chatfold.replay.output import Out
from chatfold.replay.render.entries import entry_line, event_lines, fork_line, turn_line
from chatfold.replay.render.stats import stats_line, stats_lines

_BEGINNING = 400  # characters of a text that a terminal may need
_MOST = 100  # columns of a chart


@verb(
    "chatfold log last -n 20",
    "chatfold log last@t1..t2 --kind user,assistant",
    "chatfold log last --turns",
    'chatfold log last -S "newlines"',
    "chatfold log last -f",
)
@click.argument("address", shell_complete=complete_chat)
@click.option("-n", "most", default=0, type=click.IntRange(0), help="Only the last N; 0: all.")
@click.option("--turns", "by_turn", is_flag=True, help="One line for each turn instead of each event.")
@click.option("--kind", default="", help="Only these kinds: user,call,compacted or message_added.")
@click.option("--errors", is_flag=True, help="Only what failed.")
@click.option("-S", "text", default="", help="Only entries that hold this exact text.")
@click.option("--reverse", is_flag=True, help="Newest first.")
@click.option("--graph", is_flag=True, help="Show the chats that were forked here.")
@click.option("-f", "--follow", is_flag=True, help="Then print what any process adds, until Ctrl-C.")
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
    """List what happened, one line for each event: seq, time, turn, kind, text.

    CHAT@A..B lists what came after A, up to and including B, as in git; CHAT@P everything up to P. In a pipe the fields are
    separated by tabs and nothing is cut: seq, time, turn, kind, label, failed, run, name, text. Notes that the adapter of a
    framework keeps for itself are left out; --kind noted shows them.
    """
    if by_turn and (kind or text or graph or follow):
        raise click.UsageError("--turns goes with -n, --errors and --reverse only")
    is_wanted = kind_filter(parse_kinds(kind), errors=errors, notes=bool(kind or text))
    async with chat_of(store, address) as (chat, meant):
        first, last = await range_of(chat, meant)
        with nullcontext() if follow else out.paging():
            if by_turn:
                return await _show_turns(out, chat, first, last, most, errors=errors, reverse=reverse)
            tell = out.progress("looking through entries")
            entries = select(
                chat, first, last, is_wanted, most=most, text=text, reverse=reverse, progress=tell
            )
            forks = await _forks(store, chat.key) if graph else {}
            count = await _show_entries(out, chat, entries, forks)
            if not count and not follow:
                out.note(
                    "no such entry"
                    if last
                    else f"{chat.key} has no entry by then: its first one is of a later time"
                )
            if follow:
                await _follow(out, chat, last, is_wanted, text)
            return 0 if count else DIFFERENT


async def _show_entries(
    out: Out, chat: Moment, entries: AsyncIterator[Entry], forks: dict[int, list[str]]
) -> int:
    known = await chat.history()
    called = names(known)
    count = 0
    async for entry in entries:
        count += 1
        _show_entry(out, entry, known, called)
        out.show(fork_line(entry.seq, key, plain=out.is_plain) for key in forks.get(entry.seq, ()))
    return count


def _show_entry(out: Out, entry: Entry, known: History, called: dict[int, str]) -> None:
    name = called.get(entry.seq, "")
    one = row(entry, known.turn_at(entry.seq), name, most=None if out.is_plain else _BEGINNING)
    out.show([entry_line(one, plain=out.is_plain)])


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
    async with out.watching():
        async for moment in chat.moments(last):
            entry = moment.opened.recent[-1]
            if not is_wanted(entry) or (text and not holds(entry.event, text)):
                continue
            known = await moment.history()
            _show_entry(out, entry, known, names(known))
            out.flush()


async def _show_turns(
    out: Out, chat: Moment, first: int, last: int, most: int, *, errors: bool, reverse: bool
) -> int:
    known = await chat.history()
    if most and not errors:
        first = max(first, known.asked_at(max(1, known.turn_at(last) - most + 1)) - 1)
    some = (turn async for turn in turns(chat, first, last) if turn.failures or not errors)
    count = 0
    if reverse or (most and errors):
        found = [turn async for turn in some]
        found = found[-most:] if most else found
        count = out.show(turn_line(turn, plain=out.is_plain) for turn in (found[::-1] if reverse else found))
    else:
        async for turn in some:
            count += out.show([turn_line(turn, plain=out.is_plain)])
    return 0 if count else DIFFERENT


@verb(
    "chatfold show last@12",
    "chatfold show last@t1.0 --json | jq .entry.event",
    "chatfold show last@12 --raw",
)
@click.argument("address", shell_complete=complete_chat)
async def show(out: Out, store: str | None, *, address: str) -> None:
    """Show one event: when, by which run, what it says, what belongs to it, what it changed for the model.

    --raw prints the line as it is in the log.
    """
    async with chat_of(store, address) as (chat, meant):
        seq = await seq_meant(chat, meant)
        if out.raw:
            if not seq:
                raise NoSuchPoint("before the first entry there is nothing to show", chat=chat.key)
            async for page in chat.log.storage.read(chat.key, seq, seq):
                for line in page.lines():
                    out.text(line.decode("utf-8", "surrogateescape"))
            return
        view = await event_of(chat, seq)
        if out.json:
            out.value(view)
            return
        with out.paging():
            out.show(event_lines(view))


@verb("chatfold stats last", "chatfold stats last --line", "chatfold stats last --json | jq .picture.peak")
@click.argument("address", shell_complete=complete_chat)
@click.option("--line", is_flag=True, help="One line, for a prompt or a status bar.")
@click.option("--height", default=6, type=click.IntRange(1, 100), help="Lines of the chart.")
async def stats(out: Out, store: str | None, *, address: str, line: bool, height: int) -> None:
    """Count turns, tokens, tools, errors and compactions, and draw how large the context was.

    ◆ is a compaction, ⇄ another context, ↶ a rewind. Sizes of the context are estimated; tokens spent are what models reported.
    """
    async with chat_of(store, address) as (chat, meant):
        moment = await moment_meant(chat, meant)
        width = 24 if line else max(10, min(_MOST, out.cells - 12))
        found = await stats_of(moment, width=width, progress=out.progress("reading entries"))
    if out.json:
        out.value(found)
    else:
        out.show([stats_line(found)] if line else stats_lines(found, height))
