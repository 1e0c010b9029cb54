"""diff and why: what changed between two points, and where a text went."""

from typing import TypeAlias

import click

from chatfold.agent import Chat, Moment
from chatfold.agent.moment import SHAPES
from chatfold.eventlog import NoSuchPoint
from chatfold.replay.command import DIFFERENT, chat_of, complete_chat, verb
from chatfold.replay.inspect.address import HEAD, Address, BadAddress, point
from chatfold.replay.inspect.diff import (
    Comparison,
    Step,
    compare,
    compare_archives,
    compare_events,
    compare_messages,
)
from chatfold.replay.inspect.items import Item, preview
from chatfold.replay.inspect.points import range_of, seq_of
from chatfold.replay.inspect.serial import json_text
from chatfold.replay.inspect.why import Left, Now, Trace, trace
from chatfold.replay.output import Out
from chatfold.replay.terminal import Cell, Style, short


@verb(
    "chatfold diff last@c1^..c1",
    "chatfold diff last@t3..head --stat",
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
    "--as", "shape", type=click.Choice(list(SHAPES)), default="neutral", help="The shape of the messages."
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
    shape: str,
    stat: bool,
    exit_code: bool,
) -> int:
    """What the model no longer sees, still sees, and sees anew; in items and tokens; and whether the prompt's beginning, which
    a provider keeps in its cache, survived.

    CHAT@A..B, or two addresses, also of two chats: a fork against its parent.
    """
    async with chat_of(store, address) as (chat, meant):
        if other is None:
            before, after = await _both(chat, meant)
            differs = await _compared(out, before, after, what, shape, stat=stat)
        else:
            async with chat_of(store, other) as (second, there):
                before = await _at(chat, meant)
                differs = await _compared(out, before, await _at(second, there), what, shape, stat=stat)
    return DIFFERENT if differs and exit_code else 0


async def _both(chat: Chat, meant: Address) -> tuple[Moment, Moment]:
    if not meant.is_range:
        raise BadAddress("between which two points? CHAT@A..B, or two addresses", chat=chat.key)
    first, last = await range_of(chat, meant)
    return await chat.at(first), await chat.at(last)


async def _at(chat: Chat, meant: Address) -> Moment:
    return await chat.at(await seq_of(chat, meant.last or HEAD))


async def _compared(out: Out, before: Moment, after: Moment, what: str, shape: str, *, stat: bool) -> bool:
    """Prints it; is there a difference?"""
    with out.paged():
        match what:
            case "context":
                found = await compare(before, after)
                if out.json:
                    out.value(found)
                    return not found.is_same
                _figures(out, found)
                if not stat:
                    _items(out, found, await _whole(out, before), await _whole(out, after))
                return not found.is_same
            case "messages":
                messages = await compare_messages(before, after, shape)
                if out.json:
                    out.value(messages)
                    return not messages.is_same
                for sign, style, some in (("-", "red", messages.left), ("+", "green", messages.added)):
                    for one in () if stat else some:
                        out.line(f"{sign} {json_text(one)}", style)  # type: ignore[arg-type]
                out.line(
                    f"{messages.prefix} messages at the beginning and {messages.suffix} at the end are the same; "
                    f"{len(messages.left)} left, {len(messages.added)} added"
                )
                return not messages.is_same
            case "archive":
                archive = await compare_archives(before, after)
                if out.json:
                    out.value(archive)
                else:
                    for sign, rows in (("-", archive.removed), ("+", archive.added)):
                        for one in rows:
                            out.line(f"{sign} {one.context_id} {one.title or one.summary_preview}")
                    out.line(f"{archive.kept} are the same, {len(archive.changed)} have changed")
                return bool(archive.added or archive.removed or archive.changed)
        events = await compare_events(before, after)
        if out.json:
            out.value(events)
        else:
            out.line(f"both have the entries up to e{events.shared}")
            for sign, counts in (("-", events.before), ("+", events.after)):
                for kind, count in counts.items():
                    out.line(f"{sign} {count} {kind}")
        return bool(events.before or events.after)


def _figures(out: Out, found: Comparison) -> None:
    for step in found.undone:
        _step(out, step, "- ")
    for step in found.steps:
        _step(out, step, "")
    before, after = found.before, found.after
    change = after.tokens.count - before.tokens.count
    out.words(
        ("context   ", "dim"),
        f"{before.items} items → {after.items}   {before.tokens.count} → {after.tokens.count} tokens ({change:+})",
    )
    if before.context != after.context:
        out.words(("active    ", "dim"), f"{before.context} → {after.context} {after.title}")
    moved = f", {len(found.moved)} of them elsewhere" if found.moved else ""
    for word, count, note in (
        ("kept", len(found.kept), moved),
        ("left", len(found.left), ""),
        ("added", len(found.added), ""),
        ("changed", len(found.changed), ""),
    ):
        if count or word == "kept":
            out.words((f"  {word:<8}", "dim"), f"{count:>5} items  {found.tokens[word]:>8} tokens{note}")
    archive = found.archive
    if archive.added or archive.removed:
        out.words(("archive   ", "dim"), f"+{len(archive.added)} -{len(archive.removed)}")
    told = {
        "whole": "the cache still serves it",
        "part": "the cache serves that much",
        "lost": "the cache is lost",
    }
    out.words(
        ("prompt    ", "dim"),
        f"the first {found.prefix} of {before.items} messages are the same ({found.prefix_tokens} tokens): "
        + told[found.cache],
    )


_Texts: TypeAlias = dict[tuple[int, ...], str]


async def _whole(out: Out, moment: Moment) -> _Texts:
    """A pipe is given whole texts: of each item, by its entries. A terminal has no room for them."""
    if out.is_terminal:
        return {}
    return {message.seqs: preview(message, 1 << 62) for message in await moment.messages()}


def _items(out: Out, found: Comparison, before: _Texts, after: _Texts) -> None:
    signs: tuple[tuple[str, Style, tuple[Item, ...], _Texts], ...] = (
        ("-", "red", found.left, before),
        ("+", "green", found.added, after),
        ("~", "yellow", tuple(change.after for change in found.changed), after),
    )
    for sign, style, items, texts in signs:
        for item in items:
            _item(out, sign, style, item, texts.get(item.seqs, item.text))


def _step(out: Out, step: Step, lead: str) -> None:
    letter = {"compacted": "c", "opened": "s", "switched": "s", "cleared": "s"}.get(step.kind, "")
    name = f"{letter}{step.number} " if letter else ""
    about = {
        "compacted": f"e{step.first}..e{step.last} by {step.trigger}",
        "rewound": f"to e{step.last}",
        "reverted": f"e{step.first}",
    }.get(step.kind, " ".join(filter(None, (step.context, step.title))))
    out.words(
        f"{lead}", (f"{name}{step.kind}", "magenta"), f" · e{step.seq} · t{step.turn} · {about} {step.reason}"
    )
    if step.summary:
        out.text(step.summary, "    ")


def _item(out: Out, sign: str, style: Style, item: Item, text: str) -> None:
    cells = (
        Cell(sign, 1, style),
        Cell(f"e{item.seq}", 8, "dim"),
        Cell(short(item.tokens) if out.is_terminal else str(item.tokens), 6, "dim", right=True),
        Cell(item.kind, 10, style),
        Cell(text),
    )
    out.row(item, cells)


# --- why -------------------------------------------------------------------------------------------------


@verb('chatfold why last "must not touch vendor/"', "chatfold why last e12", 'chatfold why last@t9 "vendor/"')
@click.argument("address", shell_complete=complete_chat)
@click.argument("text")
@click.option("-n", "most", default=20, type=click.IntRange(1), help="At most so many places.")
@click.option("--at", default="", help="As it was at this point: the same as CHAT@POINT.")
async def why(out: Out, store: str | None, *, address: str, text: str, most: int, at: str) -> int:
    """Where a text went: when it came into the model's sight, when and by what it left, where it is now.

    The very text is looked for, case and all; if nothing holds it, its words. e12 is entry 12.
    """
    async with chat_of(store, address) as (chat, meant):
        where = point(at) if at else meant.last
        moment = await chat.at(await seq_of(chat, where)) if where else await chat.now()
        try:
            found = await trace(moment, text, limit=most)
        except ValueError as error:
            if isinstance(error, NoSuchPoint):
                raise
            raise BadAddress(str(error)) from None
        if out.json:
            out.value(found)
        elif not found.traces:
            out.note(f"nothing in {moment.key} up to e{moment.seq} holds that text, or its words")
        else:
            if not found.exact:
                out.note("nothing holds this very text; these hold its words")
            with out.paged():
                for one in found.traces:
                    _trace(out, one)
            if found.total > len(found.traces):
                out.note(f"{len(found.traces)} of {found.total} places; -n {found.total} shows all")
    return 0 if found.traces else DIFFERENT


def _trace(out: Out, one: Trace) -> None:
    who = " ".join(filter(None, (one.kind, one.role)))
    out.words((f"e{one.seq}", "bold"), f" · t{one.turn} · {who} · ", (one.text, "cyan"))
    for visit in one.visits:
        came = "" if visit.entered == one.seq else " again"
        out.words(("  entered  ", "dim"), f"e{visit.entered} · t{visit.turn}{came}")
        if visit.left is not None:
            _left(out, visit.left)
    out.words(("  now      ", "dim"), _now(one.now))
    out.line()


def _left(out: Out, left: Left) -> None:
    letter = {"compacted": "c", "opened": "s", "switched": "s", "cleared": "s"}.get(left.cause, "")
    name = f"{letter}{left.number} " if letter else ""
    about = " ".join(filter(None, (left.trigger, left.reason, left.to, left.title)))
    out.words(
        ("  left     ", "dim"),
        f"e{left.seq} · t{left.turn} · ",
        (f"{name}{left.cause}", "magenta"),
        f" {about}",
    )
    if left.survived is not None:
        out.words(
            ("  summary  ", "dim"), f"has {left.survived:.0%} of its words: ", (left.summary[:200], "dim")
        )


def _now(now: Now) -> str:
    look = f"chatfold context {now.address} --full"
    context = f"{now.context}" + (f' "{now.title}"' if now.title else "")
    told = {
        "active": f"the model sees it, in {context}",
        "compacted": f"behind the summary of c{now.number}, in {context}.  {look}",
        "archived": f"in the archived context {context}"
        + (f", behind the summary of c{now.number}" if now.number else "")
        + f".  {look}",
        "rewound": f"rewound away by e{now.seq}.  {look}",
        "erased": "erased: its text is gone",
        "recorded": "recorded; no model is shown such an event",
        "away": f"in no model's sight.  {look}",
    }
    return told[now.where]
