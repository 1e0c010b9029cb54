"""fork: the one verb that makes a chat. It runs nothing."""

import os
import secrets
import shlex
import subprocess
import tempfile
from pathlib import Path

import click
import msgspec

from chatfold.agent import Chat, Store, user
from chatfold.eventlog import ChatfoldError, MessageAdded, NoSuchPoint
from chatfold.projections import contexts
from chatfold.projections.text import text_of
from chatfold.replay.command import chat_of, complete_chat, home_of, verb
from chatfold.replay.inspect.address import HEAD
from chatfold.replay.inspect.points import seq_of
from chatfold.replay.output import Out
from chatfold.replay.terminal import Cell


class Unedited(ChatfoldError):
    next_step = "Nothing was forked"


class Fork(msgspec.Struct, frozen=True):
    """What ``fork --json`` prints."""

    key: str
    parent: str
    at: int


@verb(
    "chatfold fork last@t12",
    "chatfold fork last@c1^ --name before-it-forgot",
    "chatfold fork last@t12.0 --edit",
)
@click.argument("address", shell_complete=complete_chat)
@click.option("--name", default="", help="The key of the new chat. Default: made from the parent's.")
@click.option(
    "--edit", is_flag=True, help="Change the last message of the user before that point, in $EDITOR."
)
async def fork(out: Out, store: str | None, *, address: str, name: str, edit: bool) -> None:
    """A chat that has everything up to a point and then goes its own way. Nothing is run; the parent stays as it is.

    Prints the new chat's key.
    """
    home = home_of(store, address)
    async with chat_of(store, address) as (chat, meant):
        at = await seq_of(chat, meant.last or HEAD)
        parent = chat.key
        if edit:
            at, said = await _question(chat, at)
    name = name or f"{parent}-{at}-{secrets.token_hex(3)}"
    new = user(_edited(said)) if edit else None
    async with Store(home) as place:
        branch = await (await place.chat(parent)).fork(name, at)
        if new:
            await branch.record(new)
    out.row(Fork(name, parent, at), [Cell(name)])


async def _question(chat: Chat, at: int) -> tuple[int, str]:
    """The entry before the last question up to ``at``, and what it said."""
    state = chat[contexts]
    seq = state.asked_at(state.turn_at(at))
    if not seq:
        raise NoSuchPoint("there is no message of the user to edit before that point", chat=chat.key, seq=at)
    [entry] = await chat.log.last(chat.key, 1, seq)
    assert isinstance(entry.event, MessageAdded)
    return seq - 1, text_of(entry.event.parts)


def _edited(text: str) -> str:
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
