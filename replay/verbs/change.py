"""fork, redact, compact and delete: the verbs that change a store. Each says what it will do, and asks, or takes --yes."""

import os
import secrets
import shlex
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from chatfold.agent import Chat, Policy, Store, user
from chatfold.eventlog import ChatfoldError, MessageAdded, NoSuchPoint
from chatfold.projections.text import text_of
from chatfold.replay.command import (
    DIFFERENT,
    chat_of,
    complete_chat,
    confirm,
    home_of,
    seq_meant,
    store_of,
    verb,
)
from chatfold.replay.inspect.address import BadAddress, point
from chatfold.replay.inspect.context import context_of
from chatfold.replay.inspect.entries import row
from chatfold.replay.inspect.listing import list_rows
from chatfold.replay.inspect.places import store_place
from chatfold.replay.inspect.points import range_of
from chatfold.replay.inspect.times import ago
from chatfold.replay.output import Out
from chatfold.replay.terminal import Cell, plural, short

_SHOWN = 10  # of what is to be erased or deleted


class Unedited(ChatfoldError):
    next_step = "Nothing was forked"


class Fork(msgspec.Struct, frozen=True):
    """What ``fork --json`` prints."""

    key: str
    parent: str
    at: int


@verb(
    "chatfold fork last@t1", "chatfold fork last@t1 --name before-it-forgot", "chatfold fork last@t1.0 --edit"
)
@click.argument("address", shell_complete=complete_chat)
@click.option("--name", default="", help="The key of the new chat. Default: made from the parent's.")
@click.option(
    "--edit", is_flag=True, help="Change the last message of the user before that point, in $EDITOR."
)
async def fork(out: Out, store: str | None, *, address: str, name: str, edit: bool) -> None:
    """Make a chat that has everything up to a point and then goes its own way. Nothing is run; the parent stays as it is.

    Prints the new chat's key.
    """
    if edit and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("--edit opens an editor: it needs a terminal")
    home = home_of(store, address)
    async with chat_of(store, address) as (chat, meant):
        at = await seq_meant(chat, meant)
        parent = chat.key
        if edit:
            at, said = await _question(chat, at)
    name = name or f"{parent}-{at}-{secrets.token_hex(3)}"
    new = user(_edit(said)) if edit else None
    async with Store(home) as place:
        branch = await (await place.chat(parent)).fork(name, at)
        if new:
            await branch.record(new)
    out.row(Fork(name, parent, at), [Cell(name)])


async def _question(chat: Chat, at: int) -> tuple[int, str]:
    """The entry before the last question up to ``at``, and what it said."""
    known = await chat.history()
    seq = known.asked_at(known.turn_at(at))
    if not seq:
        raise NoSuchPoint("there is no message of the user to edit before that point", chat=chat.key, seq=at)
    [entry] = await chat.log.last(chat.key, 1, seq)
    assert isinstance(entry.event, MessageAdded)
    return seq - 1, text_of(entry.event.parts)


def _edit(text: str) -> str:
    """As the user's editor leaves it. An empty text is none: nothing is forked then."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "message.md"
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
        done = subprocess.run([*editor, str(path)], check=False)  # noqa: S603 (the user's own)
        said = path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    if done.returncode or not said.strip():
        raise Unedited("the editor left no message" if not done.returncode else "the editor failed")
    return said


# --- redact ----------------------------------------------------------------------------------------------


class Redacted(msgspec.Struct, frozen=True):
    """What ``redact --json`` prints. ``erased``: the seqs of the entries, by chat: forks have them, too."""

    chat: str
    erased: dict[str, list[int]]


@verb("chatfold redact last@12", "chatfold redact last@12..14 --reason 'asked to' --yes")
@click.argument("address", shell_complete=complete_chat)
@click.option("--reason", default="", help="Kept in the log.")
@click.option("--yes", is_flag=True, help="Do not ask.")
async def redact(out: Out, store: str | None, *, address: str, reason: str, yes: bool) -> None:
    """Erase what entries say, for good: CHAT@12 is that entry, CHAT@A..B what came after A, up to B.

    The text goes from the log, from every chat that shares it (forks, and what this was forked from), and from all caches. That there
    was an entry stays.
    """
    async with chat_of(store, address) as (chat, meant):
        if meant.last is None:
            raise BadAddress("which entry? CHAT@12, or CHAT@A..B", chat=chat.key)
        first, last = await range_of(chat, meant)
        if not meant.is_range:
            first = last - 1
        key, count = chat.key, last - first
        if count < 1 or last < 1:
            raise NoSuchPoint("there is no entry to erase there", chat=key)
        out.note(
            f"This erases the text of {plural(count, 'entry')} of {key!r}, for good, in every chat that shares it:"
        )
        async for entry in chat.entries(first + 1, min(last, first + _SHOWN)):
            one = row(entry, most=60)
            out.note(f"  e{one.seq} {one.glyph} {one.what} {one.text}")
        if count > _SHOWN:
            out.note(f"  and {count - _SHOWN} more")
    confirm(yes=yes)
    async with Store(home_of(store, address)) as place:
        erased = await (await place.chat(key)).redact(*range(first + 1, last + 1), reason=reason)
    if out.json:
        out.value(Redacted(key, erased))
    for name, seqs in {} if out.json else erased.items():
        out.line(f"erased: {name}: " + ", ".join(f"e{seq}" for seq in seqs))


# --- compact ---------------------------------------------------------------------------------------------


class CompactedNow(msgspec.Struct, frozen=True):
    """A line of ``compact --json``: the compaction is entry ``seq``. Tokens of the whole prompt, estimated."""

    chat: str
    seq: int
    before: int
    after: int


@verb("chatfold compact last --keep 2", "chatfold compact my-chat --budget 20000 --yes")
@click.argument("address", metavar="CHAT", shell_complete=complete_chat)
@click.option(
    "--keep", default=30, type=click.IntRange(0), help="How many of the newest messages stay. Default: 30."
)
@click.option(
    "--budget", default=None, type=click.IntRange(1), help="Tokens that the whole prompt may have then."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
async def compact(
    out: Out, store: str | None, *, address: str, keep: int, budget: int | None, yes: bool
) -> int:
    """Put older messages behind a summary, which is made without a model. Nothing is deleted: a compaction can be reverted.

    The exit code is 1 if there was nothing to do.
    """
    async with chat_of(store, address) as (chat, meant):
        if meant.last is not None:
            raise BadAddress("a chat is compacted at its end, not at a point", chat=chat.key)
        key, seen = chat.key, await context_of(chat, rows=0)
        count = len(await chat.messages())
    if budget is None and count <= keep:
        out.note(
            f"there is nothing to put behind a summary: {key!r} has {plural(count, 'message')}, and the newest {keep} stay (--keep)"
        )
        return DIFFERENT
    size = seen.tokens.count
    out.note(
        f"This puts all but the newest {plural(keep, 'message')} of {key!r} ({plural(len(seen.items), 'item')}, "
        f"about {short(size)} tokens) behind a summary; Chat.revert_compaction takes it back."
    )
    confirm(yes=yes)
    async with Store(home_of(store, address)) as place:
        chat = await place.chat(key)
        done = await chat.compact(Policy(keep=keep, budget=budget))
        after = (await context_of(chat, rows=0)).tokens.count
    if not done:
        out.note("there was nothing to put behind a summary")
    for entry in done:
        told = f"e{entry.seq}: about {short(size)} → {short(after)} tokens"
        out.row(CompactedNow(key, entry.seq, size, after), [Cell(told)])
    return 0 if done else DIFFERENT


# --- delete ----------------------------------------------------------------------------------------------


class Deleted(msgspec.Struct, frozen=True):
    """A line of ``delete --json``."""

    key: str


@verb("chatfold delete lexer-bug-what-if-1", "chatfold delete --older 90d")
@click.argument("chats", metavar="[CHAT]...", nargs=-1, shell_complete=complete_chat)
@click.option(
    "--older",
    default="",
    help="Every chat that was not active for so long, or since then: 90d, 12h, 2026-01-31.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
async def delete(out: Out, store: str | None, *, chats: tuple[str, ...], older: str, yes: bool) -> int:
    """Delete whole chats, for good. Forks of them stay.

    The exit code is 1 if there was nothing to delete.
    """
    if bool(chats) == bool(older):
        raise click.UsageError("name the chats, or say --older 90d")
    async with store_of(store, keep_caches=False) as place:
        rows = await list_rows(place, order="key")
        if older:
            before = _time(older)
            keys = [one.key for one in rows if not one.error and one.active < before]
        else:
            keys = []
            for text in chats:
                async with chat_of(store, text) as (chat, meant):
                    if meant.last is not None:
                        raise BadAddress("whole chats are deleted, not points of them", chat=chat.key)
                    keys.append(chat.key)
    known = {one.key: one for one in rows}
    if not keys:
        out.note(f"no chat was last active before {older}")
        return DIFFERENT
    out.note(f"This deletes {plural(len(keys), 'chat')}, for good:")
    for key in keys[:_SHOWN]:
        one = known.get(key)
        out.note(
            f"  {key}" + (f"  {plural(one.turns, 'turn')}, {ago(one.active)}  {one.title}" if one else "")
        )
    if len(keys) > _SHOWN:
        out.note(f"  and {len(keys) - _SHOWN} more")
    confirm(yes=yes)
    async with Store(store_place(store)) as place:
        tell = out.progress("deleting chats")
        for number, key in enumerate(keys, 1):
            await place.delete(key)
            out.row(Deleted(key), [Cell(f"deleted: {key}")])
            tell(number, len(keys))
    return 0


def _time(text: str) -> float:
    """``90d``: so long ago."""
    given = point(text if "-" in text else f"-{text}")
    if given.kind not in ("time", "ago"):
        raise click.UsageError(f"--older: not a time: {text!r}. Give 90d, 12h, or a date as 2026-01-31")
    return given.time(datetime.now(UTC)).timestamp() * 1000
