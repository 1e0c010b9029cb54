"""copy: all chats of one store, or some, into another."""

from pathlib import Path

import click
import msgspec

from chatfold.agent import Store
from chatfold.eventlog import ChatDeleted, ChatExists, Head, NoSuchChat, Storage
from chatfold.replay.command import DIFFERENT, complete_chat, verb
from chatfold.replay.inspect.places import open_place, store_place
from chatfold.replay.output import Out
from chatfold.replay.terminal import plural


class Copied(msgspec.Struct, frozen=True):
    """A line of ``copy --json``. ``state``: copied, there (from before), differs (another chat, or one that has gone on)."""

    key: str
    state: str
    entries: int


@verb(
    "chatfold copy ./chatfold-demo ./backup",
    "chatfold copy ./chats 'postgresql://me@db/work?schema=bots'",
    "chatfold copy 'postgresql://me@db/work?schema=bots' ./backup telegram-42",
)
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.argument("chats", metavar="[CHAT]...", nargs=-1, shell_complete=complete_chat)
async def copy(out: Out, store: str | None, *, source: str, target: str, chats: tuple[str, ...]) -> int:  # noqa: ARG001
    """Copy chats from the store SRC into the store DST, line for line; each is verified on its way.

    If it is interrupted, run it again: nothing is copied twice. Exit code 1: DST has another chat of the same key, which is left
    as it is.
    """
    worst = 0
    progress = out.progress("copying chats")
    async with open_place(store_place(source)) as (whence, _), Store(_target(target)) as whither:
        keys = list(chats) or sorted([key async for key in whence.log.chats()])
        for number, key in enumerate(keys, 1):
            done = await copy_chat(whence.log.storage, whither.log.storage, key)
            worst = max(worst, DIFFERENT if done.state == "differs" else 0)
            if out.json:
                out.value(done)
            elif done.state != "there":
                out.line(f"{done.state}: {done.key}: {plural(done.entries, 'entry')}")
            progress(number, len(keys))
    return worst


def _target(target: str) -> Path | str:
    return store_place(target) if "://" in target else Path(target)


async def copy_chat(source: Storage, target: Storage, key: str) -> Copied:
    """The chat as it is now. ``import_chat`` verifies every line, and writes all of them or none."""
    head = await source.head(key)
    before = await target.head(key)
    if before == Head():
        try:
            await target.import_chat(key, source.export(key))
        except ChatExists:  # another process made it meanwhile
            before = await target.head(key)
        except (ChatDeleted, NoSuchChat):  # it went away meanwhile
            return Copied(key, "there", 0)
        else:
            return Copied(key, "copied", (await target.head(key)).seq)
    return Copied(key, "there" if before == head else "differs", before.seq)
