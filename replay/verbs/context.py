"""context and messages: what the model sees at a point, and exactly what a model is, or was, sent."""

from collections.abc import Iterator
from typing import Any, get_args

import click
import msgspec

from chatfold.agent import Moment
from chatfold.agent.models import fingerprint
from chatfold.agent.moment import SentShape
from chatfold.projections import lifetimes, usage
from chatfold.replay.command import DIFFERENT, chat_of, complete_chat, moment_meant, verb
from chatfold.replay.inspect.context import Inspected, context_of
from chatfold.replay.inspect.entries import row
from chatfold.replay.inspect.items import preview, text_of
from chatfold.replay.inspect.points import names
from chatfold.replay.inspect.serial import json_lines
from chatfold.replay.output import Out
from chatfold.replay.render.context import archive_lines, head_lines, item_line, lifetime_line, stay_of
from chatfold.replay.render.entries import message_lines
from chatfold.replay.render.line import Line, body, words
from chatfold.replay.terminal import Cell

_LIFE = 200  # characters of an item beside its life


@verb(
    "chatfold context last",
    "chatfold context last@t2 --full",
    "chatfold context last --lifetimes",
    "chatfold context last --archive --json",
)
@click.argument("address", shell_complete=complete_chat)
@click.option("--full", is_flag=True, help="Each item with all that it says.")
@click.option("--archive", is_flag=True, help="Only the archived contexts, all of them.")
@click.option("--lifetimes", "stays", is_flag=True, help="When each item came, when it left, and why.")
@click.option("--id", "context_id", default=None, help="An archived context instead of the active one.")
async def context(
    out: Out,
    store: str | None,
    *,
    address: str,
    full: bool,
    archive: bool,
    stays: bool,
    context_id: str | None,
) -> None:
    """Show what the model sees: each item with its size in tokens, the whole as a bar, then what is archived.

    Tokens are estimated. e12 is the entry that an item comes from: chatfold show CHAT@12.
    """
    async with chat_of(store, address) as (chat, meant):
        moment = await moment_meant(chat, meant)
        with out.paging():
            if stays:
                await _show_lifetimes(out, moment)
                return
            seen = await context_of(moment, context_id, rows=None if archive or out.json else 10)
            if archive:
                out.show(archive_lines(seen.archive, plain=out.is_plain))
            elif out.json:
                out.value(seen)
            else:
                messages = await moment.messages(context=seen.id) if full or out.is_plain else ()
                out.show(_context_lines(out, seen, messages, full=full))


def _context_lines(out: Out, seen: Inspected, messages: Any, *, full: bool) -> Iterator[Line]:
    yield from head_lines(seen, 0 if out.is_plain else min(60, out.cells - 2))
    for index, item in enumerate(seen.items):
        whole = preview(messages[index], 1 << 62) if out.is_plain and not full else None
        yield item_line(item, whole, plain=out.is_plain)
        if full:
            yield body(text_of(messages[index]), "    ", seq=item.seq)
    if seen.archive:
        yield words()
        yield words((f"archived: {seen.shelved}", "bold"))
        yield from archive_lines(seen.archive, plain=out.is_plain)


async def _show_lifetimes(out: Out, moment: Moment) -> None:
    """Reads the whole chat once."""
    known = await moment.history()
    called = names(known)
    tell = out.progress("reading entries")
    async for page in moment.log.pages(moment.key, 1, moment.seq):
        texts = {entry.seq: row(entry, most=None if out.is_plain else _LIFE).text for entry in page}
        for one in lifetimes(known, page):
            life = stay_of(one, called.get(one.left, ""), texts[one.item])
            out.show([lifetime_line(life, moment.seq, plain=out.is_plain)])
        tell(page[-1].seq, moment.seq)


# --- messages --------------------------------------------------------------------------------------------


class Shown(msgspec.Struct, frozen=True):
    """What ``messages --json`` prints. ``fingerprint``: of the messages in this shape."""

    chat: str
    seq: int
    shape: str
    fingerprint: str
    messages: Any


@verb(
    "chatfold messages last",
    "chatfold messages last@t1 --as openai --json | jq .messages",
    "chatfold messages last --for-call 2",
)
@click.argument("address", shell_complete=complete_chat)
@click.option(
    "--as", "shape", type=click.Choice(get_args(SentShape)), default="neutral", help="In a provider's shape."
)
@click.option("--model", default="", help="The model to write for: some are given their reasoning back.")
@click.option("--hash", "only_hash", is_flag=True, help="Only the fingerprint.")
@click.option(
    "--for-call", "number", type=int, help="The request of this number, whole and proved; -1: the last."
)
async def messages(
    out: Out,
    store: str | None,
    *,
    address: str,
    shape: SentShape,
    model: str,
    only_hash: bool,
    number: int | None,
) -> int:
    """Show what the model would be sent next, or at an earlier point.

    --for-call makes a past request again, with its system text and tools, and compares its fingerprint with the recorded one.
    The exit code is 1 if they differ. 'chatfold log CHAT --kind asked' lists the requests.
    """
    async with chat_of(store, address) as (chat, meant):
        moment = await moment_meant(chat, meant)
        if number is not None:
            total = moment[usage].called
            if not total:
                raise click.UsageError(
                    f"no model was asked in {moment.key} up to e{moment.seq}: there is no request to show"
                )
            return await _show_request(
                out, moment, number if number > 0 else total + 1 + number, only_hash=only_hash
            )
        made: Any = await moment.messages(shape, model=model)
        mark = fingerprint({"messages": msgspec.to_builtins(made)})
        if only_hash:
            _show_hash(out, mark)
        elif out.json:
            out.value(Shown(moment.key, moment.seq, shape, mark, made))
        else:
            with out.paging():
                if shape == "neutral":
                    out.show(message_lines(made, plain=out.is_plain and not out.raw))
                else:
                    out.text(json_lines(made))
    return 0


def _show_hash(out: Out, mark: str) -> None:
    out.row({"fingerprint": mark}, [Cell(mark)])


async def _show_request(out: Out, chat: Moment, number: int, *, only_hash: bool) -> int:
    from chatfold.replay.verify.requests import rebuild_request  # noqa: PLC0415 (it knows the providers)

    found = await rebuild_request(chat, number)
    if only_hash:
        _show_hash(out, found.rebuilt or found.recorded)
    elif out.json:
        out.value(found)
    else:
        with out.paging():
            out.words(
                (f"call {found.number}", "bold"),
                f" · {found.chat}@{found.seq} · {found.provider} {found.model}",
            )
            if found.payload is not None:
                out.text(json_lines(found.payload))
        verdict = {
            True: f"proved: this is what was sent (fingerprint {found.recorded})",
            False: f"not what was sent: recorded {found.recorded}, made again {found.rebuilt}",
            None: f"cannot be proved: {found.why}",
        }
        out.note(verdict[found.proved])
    return DIFFERENT if found.proved is False else 0
