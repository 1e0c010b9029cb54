"""import: chats that other tools keep, or that were exported, into a store."""

import os
from contextlib import aclosing, suppress
from pathlib import Path

import click
import msgspec

from chatfold.agent import Store
from chatfold.agent.exporting import is_export, read_chunks
from chatfold.eventlog import ChatfoldError
from chatfold.eventlog.places import address_of
from chatfold.importers import Report, import_paths, known_homes
from chatfold.importers.ledger import ledger_path
from chatfold.replay.command import verb
from chatfold.replay.inspect.places import NoStore, store_place
from chatfold.replay.output import Out
from chatfold.replay.terminal import plural


class Imported(msgspec.Struct, frozen=True):
    """What ``import --json`` prints of an export."""

    key: str
    entries: int
    sum: str


@verb(
    "chatfold import chat.jsonl --name refund",
    "chatfold import ~/.codex ./project/.ship --store ./chats",
    "chatfold import session.jsonl --dry-run",
    "chatfold import",
    name="import",
)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--name",
    default="",
    help="The key of the chat, if it is only one. Default: made from its id or its file.",
)
@click.option("--dry-run", is_flag=True, help="Say what would come in, and write nothing.")
async def import_(out: Out, store: str | None, *, paths: tuple[Path, ...], name: str, dry_run: bool) -> None:
    """Bring chats of other tools into the store: files, folders or whole homes. Prints the key of each chat that got something new.

    Without a path it takes what the known tools keep in your home.

    Files are recognised by their content: sessions of Codex, Claude Code, pi, opencode, the Gemini CLI, llm and aider, databases of
    the OpenAI Agents SDK and LangGraph, histories of Pydantic AI, .ship folders, conversation JSONL, messages of OpenAI, Anthropic and the
    AI SDK. Run it again to bring in what is new. What cannot be read is named, and the rest is imported.

    A chat that 'chatfold export' wrote comes in entry for entry the same; or not at all, if it is not whole.
    """
    place = target_of(store)
    paths = paths or tuple(known_homes())
    if not paths:
        raise NoStore("no tool that is known keeps sessions here: name a file or a folder")
    async with Store(place) as chats:
        if len(paths) == 1 and paths[0].is_file() and is_export(paths[0]):
            await _import_export(out, chats, paths[0], name)
            return
        progress = out.progress("importing chats")
        new = chats_with_new = 0
        reports = import_paths(chats, paths, key=name, ledger=ledger_path(place), dry_run=dry_run)
        async for report in reports:
            tell(out, report)
            new, chats_with_new = new + report.new, chats_with_new + (report.new > 0)
            progress(report.done, report.of)
    found = f"{plural(new, 'new entry')} in {plural(chats_with_new, 'chat')}"
    out.note(found + " would come in" * dry_run)


def tell(out: Out, report: Report) -> None:
    for problem in report.problems:
        out.note(f"{problem}")
    if out.json:
        out.value(report)
    elif report.new:
        out.line(report.key)


async def _import_export(out: Out, store: Store, path: Path, name: str) -> None:
    key = name or path.name.removesuffix(".jsonl")
    try:
        async with aclosing(read_chunks(path)) as chunks:
            pieces = out.counting("importing bytes", chunks, _size_of(path))
            await store.log.storage.import_chat(key, pieces)
    except ChatfoldError as error:
        error.chat, error.path = error.chat or key, error.path or path
        raise
    chat = await store.chat(key)
    if out.json:
        out.value(Imported(chat.key, chat.seq, chat.view.head.link))
    else:
        out.line(chat.key)
        out.note(plural(chat.seq, "entry"))


def _size_of(path: Path) -> int:
    return path.stat().st_size


def target_of(store: str | None) -> Path | str:
    """The store there is, or the one there will be: where one was named."""
    if store is not None:
        return store_place(store) if address_of(store) else Path(store)
    with suppress(NoStore):
        return store_place()
    return Path(os.environ.get("CHATFOLD_STORE") or "chats")
