"""ls, tree and search: the chats of a store."""

from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import nlargest

import click
import msgspec

from chatfold.agent import Store
from chatfold.eventlog import ChatfoldError
from chatfold.replay.command import DIFFERENT, chat_of, complete_chat, store_of, verb
from chatfold.replay.inspect.address import BadAddress, point
from chatfold.replay.inspect.forks import family, forest
from chatfold.replay.inspect.listing import ChatRow, Order, list_rows
from chatfold.replay.inspect.times import ago, iso
from chatfold.replay.output import Out
from chatfold.replay.render.tree import tree_lines
from chatfold.replay.terminal import Cell, plural


@verb("chatfold ls", "chatfold ls -q lexer --since -2d", "chatfold ls --json | jq -r .key")
@click.option("-n", "most", type=click.IntRange(0), help="How many; 0: all. Default: 20 on a terminal.")
@click.option(
    "-q", "query", default="", help="Only chats with this text in the key, the title or the last message."
)
@click.option("--since", default="", help="Only chats active since a time: -2h, 2026-11-15T10:00.")
@click.option("--forks/--no-forks", default=None, help="Only forks, or no forks.")
@click.option("--sort", "order", type=click.Choice(["time", "turns", "messages", "key"]), default="time")
async def ls(
    out: Out, store: str | None, *, most: int | None, query: str, since: str, forks: bool | None, order: Order
) -> int:
    """List the chats, newest first: key, turns, when it was last active, what it is about.

    ⑂ marks a fork, … a chat in which something waits to be answered, ✗ one that cannot be read.
    """
    earliest = _time(since) if since else 0
    tell = out.progress("listing")
    async with store_of(store) as place:
        rows = await list_rows(
            place,
            query=query,
            since=earliest,
            forks=forks,
            order=order,
            progress=lambda done, _: tell(done, None),
        )
    count = most if most is not None else (20 if out.is_terminal else 0)
    shown = rows[:count] if count else rows
    with out.paging():
        for row in shown:
            out.row(row, list(_cells(row, plain=out.is_plain)))
    if not rows:
        out.note("there is no such chat" if query or since or forks is not None else "there is no chat yet")
    if len(shown) < len(rows):
        out.note(f"{len(shown)} of {len(rows)} chats; -n 0 shows all")
    return 0 if rows else DIFFERENT


def _time(text: str) -> float:
    given = point(text)
    if given.kind not in ("time", "ago"):
        raise BadAddress(f"not a time: {text!r}")
    return given.time(datetime.now(UTC)).timestamp() * 1000


def _cells(row: ChatRow, *, plain: bool) -> Iterator[Cell]:
    yield Cell(row.key, 30, "bold")
    if row.error:
        yield Cell("✗", 2, "red")
        yield Cell(row.error, 0, "red")
        return
    marks = ("⑂" if row.parent else "") + ("…" if row.is_open else "")
    yield Cell(marks, 2, "magenta")
    yield Cell(str(row.turns) if plain else plural(row.turns, "turn"), 11, right=True)
    yield Cell(iso(row.active) if plain else ago(row.active), 10, "dim", right=True)
    yield Cell(row.title)


@verb("chatfold tree last", "chatfold tree --all")
@click.argument("chat", required=False, shell_complete=complete_chat)
@click.option("--all", "whole", is_flag=True, help="Also chats without forks.")
async def tree(out: Out, store: str | None, *, chat: str | None, whole: bool) -> int:
    """Show which chat was forked from which, and where."""
    async with store_of(store) as place:
        listed = [one async for one in place.chats()]
        key = "" if whole or not chat else await _key(store, chat)
    branches = family(listed, key) if key else forest(listed, alone=whole)
    with out.paging():
        out.show(tree_lines(branches, key, plain=out.is_plain))
    return 0


async def _key(store: str | None, text: str) -> str:
    async with chat_of(store, text) as (chat, meant):
        if meant.last is not None:
            raise BadAddress("a chat is meant here, not a point of it", chat=chat.key)
        return chat.key


# --- search ----------------------------------------------------------------------------------------------

_MANY = 1000  # hits that are looked through for those of a kind


class Found(msgspec.Struct, frozen=True):
    """A line of ``search --json``."""

    chat: str
    seq: int
    preview: str
    ts: int = 0


@verb('chatfold search "drop newlines"', "chatfold search 换行 -C last", "chatfold search lexer --json")
@click.argument("query")
@click.option("-C", "--chat", default="", help="Only in this chat.", shell_complete=complete_chat)
@click.option("-n", "most", default=20, type=click.IntRange(1), help="Show at most N hits.")
@click.option("--kind", default="", help="Only these kinds: user,call,compacted or message_added.")
async def search(out: Out, store: str | None, *, query: str, chat: str, most: int, kind: str) -> int:
    """Find all words of the query in everything that was ever said: archived, compacted or rewound too. "…" is one word with its blanks.

    The newest hits of all chats come first.
    """
    from chatfold.replay.inspect.selection import parse_kinds  # noqa: PLC0415 (a list of chats needs nothing of entries)

    key = await _key(store, chat) if chat else ""
    kinds = parse_kinds(kind)
    tell = out.progress("searching chats")
    found: list[Found] = []
    async with store_of(store) as place:
        keys = [key] if key else sorted([one async for one in place.log.chats()])
        for number, one in enumerate(keys, 1):
            hits = await _search(out, place, one, query, most + 1, kinds)
            found = nlargest(most + 1, [*found, *hits], key=lambda hit: (hit.ts, hit.chat, hit.seq))
            tell(number, len(keys))
    with out.paging():
        for hit in found[:most]:
            out.row(hit, [Cell(f"{hit.chat}@{hit.seq}", 34, "cyan"), Cell(hit.preview)])
    if len(found) > most:
        out.note(f"the newest {most} hits; -n shows more")
    if not found:
        out.note("no entry holds all these words")
    return 0 if found else DIFFERENT


async def _search(
    out: Out, place: Store, key: str, query: str, most: int, kinds: frozenset[str]
) -> list[Found]:
    from chatfold.replay.inspect.selection import kind_filter  # noqa: PLC0415

    try:
        hits = await place.log.search(key, query, limit=_MANY if kinds else most)
        entries = [(await place.log.last(key, 1, hit.seq))[0] for hit in hits]
    except ChatfoldError as error:  # one chat that cannot be read hides no other
        out.note(f"chatfold: {error}")
        return []
    except ValueError as error:
        raise BadAddress(str(error)) from None
    is_wanted = kind_filter(kinds)
    pairs = [(hit, entry) for hit, entry in zip(hits, entries, strict=True) if is_wanted(entry)][:most]
    return [Found(key, hit.seq, hit.preview, entry.time) for hit, entry in pairs]
