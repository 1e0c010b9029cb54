"""diff and why: what changed between two points, and where a text went."""

from typing import get_args

import click
import msgspec  # noqa: TC002 (see the annotation)

from chatfold.agent import Chat, Moment
from chatfold.agent.moment import SentShape
from chatfold.eventlog import NoSuchPoint
from chatfold.eventlog.places import show_place
from chatfold.replay.command import DIFFERENT, chat_of, complete_chat, moment_meant, verb
from chatfold.replay.inspect.address import Address, BadAddress, point
from chatfold.replay.inspect.diff import compare, compare_archives, compare_events, compare_messages
from chatfold.replay.inspect.items import preview
from chatfold.replay.inspect.points import range_of, seq_of
from chatfold.replay.inspect.why import trace
from chatfold.replay.output import Out
from chatfold.replay.render.diff import (
    Texts,
    archives_lines,
    comparison_lines,
    events_lines,
    messages_lines,
)
from chatfold.replay.render.why import trace_lines


@verb(
    "chatfold diff last@t1..head --stat",
    "chatfold diff last@c1^..c1",
    "chatfold diff my-chat my-chat-what-if",
    "chatfold diff last@t1..t2 --what messages",
)
@click.argument("address", shell_complete=complete_chat)
@click.argument("other", required=False, shell_complete=complete_chat)
@click.option(
    "--what",
    type=click.Choice(["context", "messages", "archive", "events"]),
    default="context",
    help="What is compared.",
)
@click.option(
    "--as",
    "shape",
    type=click.Choice(get_args(SentShape)),
    default="neutral",
    help="The shape of the messages.",
)
@click.option("--stat", is_flag=True, help="Only the figures.")
@click.option("--exit-code", is_flag=True, help="1 if there is a difference.")
async def diff(
    out: Out,
    store: str | None,
    *,
    address: str,
    other: str | None,
    what: str,
    shape: SentShape,
    stat: bool,
    exit_code: bool,
) -> int:
    """Compare two points: what left the model's sight, what came in, in items and tokens; and how much of the prompt a provider's
    cache still serves.

    Give CHAT@A..B, or two addresses, also of two chats: a fork and its parent.
    """
    async with chat_of(store, address) as (chat, meant):
        if other is None:
            before, after = await _both(chat, meant)
            differs = await _show(out, before, after, what, shape, stat=stat)
        else:
            async with chat_of(store, other) as (second, there):
                before = await moment_meant(chat, meant)
                differs = await _show(out, before, await moment_meant(second, there), what, shape, stat=stat)
    return DIFFERENT if differs and exit_code else 0


async def _both(chat: Chat, meant: Address) -> tuple[Moment, Moment]:
    if not meant.is_range:
        raise BadAddress("between which two points? CHAT@A..B, or two addresses", chat=chat.key)
    first, last = await range_of(chat, meant)
    return await chat.at(first), await chat.at(last)


async def _show(out: Out, before: Moment, after: Moment, what: str, shape: SentShape, *, stat: bool) -> bool:
    """Prints it; is there a difference?"""
    match what:
        case "context":
            found = await compare(before, after)
            texts = ({}, {}) if stat or out.json else (await _texts(out, before), await _texts(out, after))
            lines = comparison_lines(found, *texts, only_figures=stat, plain=out.is_plain)
            value: msgspec.Struct = found
            differs = not found.is_same
        case "messages":
            value = messages = await compare_messages(before, after, shape)
            lines, differs = messages_lines(messages, only_figures=stat), not messages.is_same
        case "archive":
            value = archive = await compare_archives(before, after)
            lines = archives_lines(archive, only_figures=stat)
            differs = bool(archive.added or archive.removed or archive.changed)
        case _:
            value = events = await compare_events(before, after)
            lines, differs = events_lines(events), bool(events.before or events.after)
    if out.json:
        out.value(value)
    else:
        with out.paging():
            out.show(lines)
    return differs


async def _texts(out: Out, moment: Moment) -> Texts:
    """A pipe is given whole texts. A terminal has no room for them."""
    if not out.is_plain:
        return {}
    return {message.seqs: preview(message, 1 << 62) for message in await moment.messages()}


@verb('chatfold why last "newlines"', "chatfold why last e12", 'chatfold why last@t1 "newlines"')
@click.argument("address", shell_complete=complete_chat)
@click.argument("text")
@click.option("-n", "most", default=20, type=click.IntRange(1), help="Show at most N places.")
@click.option("--at", default="", help="As it was at this point: the same as CHAT@POINT.")
async def why(out: Out, store: str | None, *, address: str, text: str, most: int, at: str) -> int:
    """Trace a text: when it came into the model's sight, which requests carried it, what took it out, where it is now.

    The exact text is looked for first; if nothing holds it, its words. e12 is entry 12.
    """
    async with chat_of(store, address) as (chat, meant):
        moment = await chat.at(await seq_of(chat, point(at))) if at else await moment_meant(chat, meant)
        try:
            found = await trace(moment, text, limit=most)
        except ValueError as error:
            if isinstance(error, NoSuchPoint):
                raise
            raise BadAddress(str(error)) from None
    if out.json:
        out.value(found)
        return 0 if found.traces else DIFFERENT
    if not found.traces:
        out.note(f"nothing in {moment.key} up to e{moment.seq} holds that text, or its words")
        return DIFFERENT
    if not found.exact:
        out.note("nothing holds this exact text; these hold its words")
    with out.paging():
        for one in found.traces:
            out.show(trace_lines(one, show_place(store) if store else ""))
    if found.total > len(found.traces):
        out.note(f"{len(found.traces)} of {found.total} places; -n {found.total} shows all")
    return 0
