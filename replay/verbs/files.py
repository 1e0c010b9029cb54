"""export: a chat as a file."""

import os
import shlex
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Literal, get_args

import click
import msgspec

from chatfold.agent import Moment, Store
from chatfold.agent.exporting import Form, write_file
from chatfold.importers.ship_export import export_ship
from chatfold.replay.command import chat_of, complete_chat, verb
from chatfold.replay.inspect.address import BadAddress
from chatfold.replay.inspect.points import range_of
from chatfold.replay.output import Out
from chatfold.replay.redact import Redacted, Report, redact_chat
from chatfold.replay.redact_rules import Rules

_TRANSCRIPTS = ("markdown", "html")
_ENDINGS: dict[str, Form | Literal["html"]] = {
    ".jsonl": "jsonl",
    ".md": "markdown",
    ".html": "html",
    ".htm": "html",
}


class Exported(msgspec.Struct, frozen=True):
    """What ``export --json`` prints, when it wrote a file."""

    chat: str
    seq: int
    form: str
    path: str
    redacted: Report


@verb(
    "chatfold export last -o chat.jsonl --force",
    "chatfold export last -o chat.html --redact secrets --redact emails",
    "chatfold export last --as ship -o project/.ship",
    "chatfold export last@t1..t2 --as markdown | less",
    "chatfold export last -o - --redact 'text:ACME Corp' --redact @rules.txt > chat.jsonl",
)
@click.argument("address", shell_complete=complete_chat)
@click.option("-o", "path", default="-", help="The file; '-' is stdout.")
@click.option(
    "--as",
    "form",
    type=click.Choice([*get_args(Form), "html", "ship"]),
    help="Default: by the file's ending, else jsonl. ship is a folder.",
)
@click.option(
    "--redact",
    "given",
    multiple=True,
    metavar="RULE",
    help="Leave out: secrets, emails, phones, paths, text:…, re:…, @FILE.",
)
@click.option("--model", default="", help="With a provider's shape: the model to write for.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
async def export(
    out: Out,
    store: str | None,
    *,
    address: str,
    path: str,
    form: Form | Literal["html", "ship"] | None,
    given: tuple[str, ...],
    model: str,
    force: bool,
) -> None:
    """Write a chat to a file: jsonl is lossless and can be imported; html is one page that opens without a network.

    CHAT@A..B writes what came after A, up to B, as markdown or html, and nothing of the rest.

    With --redact the rules are applied before anything is written, and what they found is reported on stderr. The file
    appears when it is complete, or not at all.
    """
    form = form or _ENDINGS.get(Path(path).suffix.lower(), "jsonl")
    rules = Rules.parse(given)
    if form != "ship" and path != "-" and not force and os.path.exists(path):  # noqa: ASYNC240, PTH110 (once)
        raise click.UsageError(f"{shlex.quote(path)} exists already; --force replaces it")
    async with chat_of(store, address) as (chat, meant):
        moment: Moment = chat
        first, last = await range_of(chat, meant)
        if first and form not in _TRANSCRIPTS:
            raise BadAddress(
                f"a range goes with --as {' or '.join(_TRANSCRIPTS)}: {form} needs what came before",
                chat=chat.key,
            )
        if meant.last is not None:
            if form == "jsonl" and not rules:
                raise BadAddress(
                    "the log of an earlier point: 'chatfold fork' it there, and export the fork",
                    chat=chat.key,
                )
            moment = await chat.at(last)
        found = await redact_chat(moment, rules) if rules else None
        report = found.report if found else Report(())
        whole = found.moment if found else moment
        if form == "ship":
            await export_ship(whole, _ship_folder(path))
            _tell(out, moment, form, path, report)
            return
        if form == "html":
            pieces = export_page(moment, found, first + 1 if first else 1)
        elif first:
            pieces = _transcript(whole, first + 1, last)
        else:
            pieces = (found or moment).export_bytes(form, model=model)
        if path == "-":
            sys.stdout.flush()
            async for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        else:
            await write_file(Path(path), out.counting("exporting bytes", pieces))
    _tell(out, moment, form, path, report)


def _tell(out: Out, moment: Moment, form: str, path: str, report: Report) -> None:
    for line in report.lines():
        out.note(f"redacted {line}")
    if path != "-" and out.json:
        out.value(Exported(moment.key, moment.seq, form, path, report))


def _ship_folder(path: str) -> Path:
    """``-o project`` and ``-o project/.ship`` are the same folder."""
    if path == "-":
        raise ValueError("a .ship folder is no stream: name it with -o")
    folder = Path(path)
    return folder if folder.name == ".ship" else folder / ".ship"


async def export_page(moment: Moment, found: Redacted | None, first: int) -> AsyncGenerator[bytes]:
    """The debugger's page as one file. What was redacted is a chat of its own in memory, so that nothing else can be read for it."""
    from chatfold.replay.web.page import page_of  # noqa: PLC0415 (for this form only)

    async with Store.memory() as store:
        if found is not None:
            key = found.moment.key
            await store.log.storage.import_chat(key, found.export_bytes())
            moment = await store.chat(key)
        async for piece in page_of(moment, first=first):
            yield piece


async def _transcript(moment: Moment, first: int, last: int) -> AsyncGenerator[bytes]:
    """These entries and nothing else: not even the chat's title, which is the beginning of its first question."""
    from chatfold.projections.documents.markdown import Document  # noqa: PLC0415 (for exports only)

    document = Document(f"{moment.key} e{first}..e{last}")
    yield document.begin().encode()
    async for page in moment.log.pages(moment.key, first, last):
        yield "".join(map(document.of, page)).encode()
    yield document.end().encode()
