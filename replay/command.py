"""command: what all verbs have in common: the chat that is meant, how the answer is shown, and what becomes of errors."""

import asyncio
import functools
import inspect
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click

from chatfold.agent import Chat, Moment, NoSuchContext, Store
from chatfold.eventlog import (
    ChatDeleted,
    ChatfoldError,
    CorruptLog,
    NewerFormat,
    NoSuchChat,
    NoSuchPoint,
    NoSuchStore,
)
from chatfold.replay.inspect.address import HEAD, Address, BadAddress, address
from chatfold.replay.inspect.places import (
    LAST,
    NoStore,
    find_chat,
    is_chat_folder,
    open_place,
    root_of,
    store_place,
)
from chatfold.replay.inspect.points import seq_of
from chatfold.replay.output import Out
from chatfold.replay.terminal import printable

DIFFERENT, USAGE, MISSING, DAMAGED, NEWER, NO_EXTRA, FAILED = range(1, 8)
"""The exit codes; see ``replay.cli``."""


def verb(
    *examples: str, name: str | None = None
) -> Callable[[Callable[..., Coroutine[Any, Any, int | None]]], click.Command]:
    """Makes a command of an async function. It is given ``out`` and ``store``; what it returns is the exit code."""

    def make(function: Callable[..., Coroutine[Any, Any, int | None]]) -> click.Command:
        @functools.wraps(function)
        def run(
            *,
            store: str | None,
            as_json: bool,
            raw: bool,
            color: str,
            pager: bool,
            quiet: bool,
            **given: Any,
        ) -> None:
            out = Out(json=as_json, raw=raw, color=color, pager=pager, quiet=quiet)
            context = click.get_current_context()

            def work() -> int | None:
                try:
                    return asyncio.run(function(out, store or context.obj, **given))
                finally:
                    out.clear()  # before anything is said of what went wrong

            if code := run_reporting(work):
                context.exit(code)

        shown = "\b\n" + "\n".join(examples) + "\n\n" + inspect.cleandoc(function.__doc__ or "")
        command = click.command(name or function.__name__, help=shown)(run)
        command.params += _COMMON  # in the help below the verb's own
        return command

    return make


_COMMON = (
    click.Option(
        ["--store"],
        metavar="PLACE",
        help="The store. Default: $CHATFOLD_STORE, or the one in this folder.",
    ),
    click.Option(["--json", "as_json"], is_flag=True, help='For programs: JSON objects with "v":1.'),
    click.Option(["--raw"], is_flag=True, help="Print text as it is, even if it controls your terminal."),
    click.Option(
        ["--color"],
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="Default: on a terminal, unless NO_COLOR is set.",
    ),
    click.Option(["--no-pager", "pager"], flag_value=False, default=True, help="Do not use a pager."),
    click.Option(["--quiet"], is_flag=True, help="Print no progress and no remarks."),
)


# --- which chat ------------------------------------------------------------------------------------------


@asynccontextmanager
async def chat_of(store: str | None, text: str) -> AsyncIterator[tuple[Chat, Address]]:
    """The chat that an address names: of the store, or an export or a chat's folder given by its path."""
    whole, parsed = path_of(text), address(text)
    by_path = (whole, Address(text)) if whole else (path_of(parsed.chat), parsed)
    if by_path[0] is not None:
        async with open_place(by_path[0]) as (place, key):
            yield await place.chat(key or await _only_chat(place, by_path[0])), by_path[1]
        return
    async with open_place(store_place(store), keep_caches=parsed.chat == LAST) as (place, _):
        if "@" in text and (chat := await place.chat(text)).seq:  # the key of a chat may look like anything
            yield chat, Address(text)
        else:
            yield await find_chat(place, parsed.chat), parsed


async def _only_chat(place: Store, path: Path) -> str:
    """That of a store of one chat, as ``agent.new_conversation("./chats/task.jsonl")`` makes them."""
    keys = [key async for key in place.log.chats()]
    if len(keys) != 1:
        raise NoStore(f"this is a store of {len(keys)} chats: which one?", path=path)
    return keys[0]


async def seq_meant(chat: Chat, meant: Address) -> int:
    """The entry that an address without a range names; without a point, the last one. Raises ``BadAddress`` for a range."""
    if meant.is_range:
        raise BadAddress(
            f"a range, {meant.first or 1}..{meant.last}, where one point is meant; log, diff, replay, redact and export take ranges",
            chat=chat.key,
        )
    return await seq_of(chat, meant.last or HEAD)


async def moment_meant(chat: Chat, meant: Address) -> Moment:
    """The chat as it was there."""
    seq = await seq_meant(chat, meant)
    return await chat.at(seq) if meant.last else await chat.now()


def confirm(*, yes: bool) -> None:
    """Asks whether to go on. Without a terminal it cannot ask, and ``--yes`` is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nothing was changed: this needs a terminal to ask on, or --yes")
    click.confirm("Go on?", abort=True, err=True)


def path_of(text: str) -> Path | None:
    """The export, the chat's folder, or the store of one chat that is meant, if it is one."""
    if os.sep not in text and not text.endswith(".jsonl"):
        return None
    path = Path(text)
    try:
        return path if path.is_file() or (path / "chats").is_dir() or is_chat_folder(path) else None
    except OSError:  # too long to be one, or not ours to look at
        return None


def path_in(text: str) -> Path | None:
    """The same of an address, which may have a point behind the path."""
    return path_of(text) or path_of(address(text).chat)


def home_of(store: str | None, text: str) -> Path | str:
    """The place of the store that an address is in, for the verbs that write. Raises ``NotInStore``."""
    path = path_in(text)
    return root_of(path) if path else store_place(store)


@asynccontextmanager
async def store_of(store: str | None, *, keep_caches: bool = True) -> AsyncIterator[Store]:
    async with open_place(store_place(store), keep_caches=keep_caches) as (place, _):
        yield place


def complete_chat(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """For the shell: the keys that begin so."""
    above = ctx.parent.params if ctx.parent else {}

    import shlex  # noqa: PLC0415 (for completion only)

    async def keys() -> list[str]:
        async with store_of(ctx.params.get("store") or above.get("store"), keep_caches=False) as place:
            return sorted([key async for key in place.log.chats() if key.startswith(incomplete)])

    try:
        return [shlex.quote(key) for key in asyncio.run(keys()) if key.isprintable()]
    except (ChatfoldError, OSError):  # a shell that completes wants no messages
        return []


# --- what goes wrong -------------------------------------------------------------------------------------

_CODES: tuple[tuple[type[Exception], int], ...] = (
    (NewerFormat, NEWER),
    (CorruptLog, DAMAGED),
    (NoSuchChat, MISSING),
    (ChatDeleted, MISSING),
    (NoSuchPoint, MISSING),
    (NoSuchContext, MISSING),
    (NoStore, MISSING),
    (NoSuchStore, MISSING),
    (FileNotFoundError, MISSING),
    (ImportError, NO_EXTRA),
    (ValueError, USAGE),  # whatever is said in a way that cannot be meant
)


def run_reporting(work: Callable[[], int | None]) -> int:
    """What is expected to go wrong ends in one line, not in a traceback; gives the exit code."""
    try:
        return work() or 0
    except (ChatfoldError, OSError, ImportError) as error:
        if isinstance(error, BrokenPipeError) or (
            isinstance(error, ImportError) and not is_missing_extra(error)
        ):
            raise  # the reader has closed the pipe; any other import that fails is a bug
        tell(error)
        return code_of(error)


def is_missing_extra(error: BaseException) -> bool:
    """Its message says how to install it."""
    return isinstance(error, ImportError) and "chatfold[" in str(error)


def code_of(error: BaseException) -> int:
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def tell(error: Exception) -> None:
    text = str(error)
    if isinstance(error, OSError):
        text = f"{error.strerror or error}: {error.filename}" if error.filename else text
    sys.stdout.flush()
    click.echo(f"chatfold: {printable(text)}", err=True)
