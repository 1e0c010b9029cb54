"""ls, tree, search: the chats of a store."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import click
import msgspec

from chatfold.agent.store import Listed, Store
from chatfold.eventlog import ChatfoldError
from chatfold.projections.listing import Fork
from chatfold.replay.command import DIFFERENT, chat_of, complete_chat, store_of, verb
from chatfold.replay.inspect.address import BadAddress, point
from chatfold.replay.inspect.times import ago, iso
from chatfold.replay.output import Out
from chatfold.replay.terminal import Cell, counted


class ListedChat(msgspec.Struct, frozen=True):
    """A line of ``ls --json``. Times are epoch milliseconds."""

    key: str
    title: str
    turns: int
    messages: int
    created: int
    active: int
    preview: str
    role: str
    parent: Fork | None
    is_open: bool
    error: str = ""


def _row(one: Listed) -> ListedChat:
    said = one.outline
    error = "" if one.error is None else str(one.error)
    return ListedChat(
        one.key,
        said.title,
        said.turns,
        said.messages,
        said.created,
        said.active,
        said.preview,
        said.role,
        one.parent,
        one.is_open,
        error,
    )


@verb("chatfold ls", "chatfold ls -q lexer --since -2d", "chatfold ls --json | jq -r .key")
@click.option("-n", "most", type=click.IntRange(0), help="How many; 0: all. Default: 20 on a terminal.")
@click.option("-q", "query", default="", help="Only those with this text in the key, the title or the end.")
@click.option("--since", default="", help="Only those active since a time: -2h, 2026-11-15T10:00.")
@click.option("--forks/--no-forks", default=None, help="Only forks, or none of them.")
@click.option("--sort", type=click.Choice(["time", "turns", "messages", "key"]), default="time")
async def ls(
    out: Out, store: str | None, *, most: int | None, query: str, since: str, forks: bool | None, sort: str
) -> int:
    """The chats, newest first: key, turns, when it was last active, what it is about.

    ⑂ marks a fork, … a chat in which something is waiting to be answered, ✗ one that cannot be read.
    """
    earliest = _time(since) if since else 0
    tell = out.progress("listing")
    rows = []
    async with store_of(store) as place:
        async for one in place.chats():
            rows.append(_row(one))
            tell(len(rows), None)
    rows = [row for row in rows if row.active >= earliest and _matches(row, query)]
    if forks is not None:
        rows = [row for row in rows if (row.parent is not None) == forks]
    rows.sort(key=lambda row: row.key)
    if sort != "key":
        rows.sort(key=lambda row: getattr(row, "active" if sort == "time" else sort), reverse=True)
    count = most if most is not None else (20 if out.is_terminal else 0)
    shown = rows[:count] if count else rows
    with out.paged():
        for row in shown:
            out.row(row, list(_cells(out, row)))
    if len(shown) < len(rows):
        out.note(f"{len(shown)} of {len(rows)} chats; -n 0 shows all")
    return 0 if rows else DIFFERENT


def _time(text: str) -> float:
    given = point(text)
    if given.kind not in ("time", "ago"):
        raise BadAddress(f"not a time: {text!r}")
    return given.time(datetime.now(UTC)).timestamp() * 1000


def _matches(row: ListedChat, query: str) -> bool:
    wanted = query.casefold()
    return any(wanted in text.casefold() for text in (row.key, row.title, row.preview))


def _cells(out: Out, row: ListedChat) -> Iterator[Cell]:
    yield Cell(row.key, 30, "bold")
    if row.error:
        yield Cell("✗", 2, "red")
        yield Cell(row.error, 0, "red")
        return
    marks = ("⑂" if row.parent else "") + ("…" if row.is_open else "")
    yield Cell(marks, 2, "magenta")
    yield Cell(counted(row.turns, "turn") if out.is_terminal else str(row.turns), 11, right=True)
    yield Cell(ago(row.active) if out.is_terminal else iso(row.active), 10, "dim", right=True)
    yield Cell(row.title)


# --- tree ------------------------------------------------------------------------------------------------


class Branch(msgspec.Struct, frozen=True):
    """A line of ``tree --json``. ``depth`` 0: not a fork, or of a chat that is gone."""

    key: str
    depth: int
    parent: str
    at: int
    turns: int
    active: int
    title: str


@verb("chatfold tree last", "chatfold tree --all")
@click.argument("chat", required=False, shell_complete=complete_chat)
@click.option("--all", "whole", is_flag=True, help="The trees of all chats.")
async def tree(out: Out, store: str | None, *, chat: str | None, whole: bool) -> int:
    """Which chat was forked from which, and where."""
    async with store_of(store) as place:
        listed = [one async for one in place.chats()]
        key = "" if whole or not chat else await _key(store, chat)
    known = {one.key: one for one in listed}
    order = sorted(listed, key=lambda one: (one.parent.at if one.parent else 0, one.key))
    above = _above(order)
    children: dict[str, list[Listed]] = {}
    for one in order:
        children.setdefault(above[one.key], []).append(one)
    root = key
    while root and above[root]:
        root = above[root]
    with out.paged():
        tops = (
            [known[root]] if root else [one for one in children.get("", []) if whole or one.key in children]
        )
        for top in tops:
            for line, branch in _branches(top, children):
                out.row(branch, _tree_cells(out, line, branch, key))
    return 0


async def _key(store: str | None, text: str) -> str:
    async with chat_of(store, text) as (chat, _):
        return chat.key


def _above(order: list[Listed]) -> dict[str, str]:
    """Of each chat the one it was forked from; "" for those on top. They may go round: a fork can take the key of a
    chat that is gone, and that it comes from. Then the first of them in this order is on top."""
    keys = {one.key for one in order}
    above = {one.key: one.parent.parent if one.parent and one.parent.parent in keys else "" for one in order}
    settled = {""}
    for one in order:
        way: dict[str, None] = {}
        key = one.key
        while key not in settled and key not in way:
            way[key] = None
            key = above[key]
        if key in way:
            above[key] = ""
        settled |= way.keys()
    return above


def _branches(top: Listed, children: dict[str, list[Listed]]) -> Iterator[tuple[str, Branch]]:
    """Forks of forks may be deeper than Python's stack."""
    stack = [(top, "", "", 0)]
    while stack:
        one, lead, below, depth = stack.pop()
        yield lead, _branch(one, depth)
        for child in reversed(own := children.get(one.key, [])):
            branch, under = ("└─ ", "   ") if child is own[-1] else ("├─ ", "│  ")
            stack.append((child, below + branch, below + under, depth + 1))


def _branch(one: Listed, depth: int) -> Branch:
    fork = one.parent
    return Branch(
        one.key,
        depth,
        fork.parent if fork else "",
        fork.at if fork else 0,
        one.outline.turns,
        one.outline.active,
        one.outline.title,
    )


def _tree_cells(out: Out, lead: str, branch: Branch, key: str) -> list[Cell]:
    at = f"e{branch.at} " if branch.depth else ""
    if not out.is_terminal:
        facts = (branch.key, branch.depth, branch.parent, branch.at, branch.turns, iso(branch.active))
        return [*(Cell(str(fact)) for fact in facts), Cell(branch.title)]
    sign = "●" if branch.key == key else "○"
    mark = Cell(f"{lead}{at}{sign} {branch.key}", 44, "bold" if branch.key == key else "")
    return [
        mark,
        Cell(counted(branch.turns, "turn"), 10, right=True),
        Cell(ago(branch.active), 10, "dim", right=True),
        Cell(branch.title),
    ]


# --- search ----------------------------------------------------------------------------------------------

_MANY = 1000  # hits that are looked through for those of a kind


class Found(msgspec.Struct, frozen=True):
    """A line of ``search --json``."""

    chat: str
    seq: int
    preview: str


@verb('chatfold search "drop newlines"', "chatfold search 换行 -C last", "chatfold search lexer --json")
@click.argument("query")
@click.option("-C", "--chat", default="", help="Only in this chat.", shell_complete=complete_chat)
@click.option("-n", "most", default=20, type=click.IntRange(1), help="At most so many, of each chat.")
@click.option("--kind", default="", help="Only these, by commas: user,call,compacted or message_added.")
async def search(out: Out, store: str | None, *, query: str, chat: str, most: int, kind: str) -> int:
    """All words of the query, anywhere in what was ever said: archived, compacted, rewound. "…" is one word with its blanks.

    The newest hits of a chat come first.
    """
    key = await _key(store, chat) if chat else ""
    kinds = frozenset(filter(None, kind.split(",")))
    count = 0
    tell = out.progress("searching chats")
    async with store_of(store) as place:
        keys = [key] if key else sorted([one async for one in place.log.chats()])
        with out.paged():
            for number, one in enumerate(keys, 1):
                for found in await _found(out, place, one, query, most, kinds):
                    count += 1
                    out.row(found, [Cell(f"{found.chat}@{found.seq}", 34, "cyan"), Cell(found.preview)])
                tell(number, len(keys))
    return 0 if count else DIFFERENT


async def _found(
    out: Out, place: Store, key: str, query: str, most: int, kinds: frozenset[str]
) -> Iterable[Found]:
    try:
        hits = await place.log.search(key, query, limit=_MANY if kinds else most)
        if kinds:
            from chatfold.replay.inspect.selection import wanted  # noqa: PLC0415 (a list of chats needs nothing of entries)

            is_wanted = wanted(kinds)
            hits = [hit for hit in hits if is_wanted((await place.log.last(key, 1, hit.seq))[0])][:most]
    except ChatfoldError as error:  # one chat that cannot be read hides no other
        out.note(f"chatfold: {error}")
        return ()
    except ValueError as error:
        raise BadAddress(str(error)) from None
    return [Found(key, hit.seq, hit.preview) for hit in hits]
