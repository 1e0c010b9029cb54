"""context: what the model sees at a point, what is archived there, and how long each item stayed."""

import click
import msgspec

from chatfold.agent import Moment
from chatfold.projections import IndexRow, Lifetime, contexts, lifetimes
from chatfold.replay.command import chat_of, complete_chat, verb
from chatfold.replay.inspect.context import Inspected, context_of
from chatfold.replay.inspect.entries import row
from chatfold.replay.inspect.items import Item, preview, text_of
from chatfold.replay.inspect.points import names, seq_of
from chatfold.replay.inspect.times import ago, iso
from chatfold.replay.output import Out
from chatfold.replay.terminal import Cell, Style, counted, short

_STYLES: dict[str, Style] = {
    "system": "yellow",
    "user": "green",
    "assistant": "bold",
    "calls": "cyan",
    "result": "cyan",
    "summary": "magenta",
    "recalled": "magenta",
}
_BAR = "█▓▒░▚▞▛▜▙▟"


class Stayed(msgspec.Struct, frozen=True):
    """A line of ``context --lifetimes --json``. ``left`` 0: the model still sees it."""

    item: int
    entered: int
    left: int
    cause: str
    name: str  # of what it left by, in addresses: c2
    tokens: int
    text: str


@verb(
    "chatfold context last",
    "chatfold context last@c1^ --full",
    "chatfold context last --lifetimes",
    "chatfold context last --archive --json",
)
@click.argument("address", shell_complete=complete_chat)
@click.option("--full", is_flag=True, help="Every item with all that it says.")
@click.option("--archive", is_flag=True, help="All archived contexts, and nothing else.")
@click.option(
    "--lifetimes",
    "stays",
    is_flag=True,
    help="Each item of the chat: when it came, when and by what it left.",
)
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
    """What the model sees: each item with its size in tokens, the whole as a bar; then what is archived.

    Tokens are estimated. e12 is the entry an item comes from: chatfold show CHAT@12.
    """
    async with chat_of(store, address) as (chat, meant):
        moment: Moment = await chat.at(await seq_of(chat, meant.last)) if meant.last else await chat.now()
        with out.paged():
            if stays:
                await _lifetimes(out, moment)
                return
            seen = await context_of(moment, context_id, rows=None if archive or out.json else 10)
            if archive:
                for one in seen.archive:
                    out.row(one, _archive_cells(out, one))
            elif out.json:
                out.value(seen)
            else:
                await _print(out, moment, seen, full=full)


async def _print(out: Out, moment: Moment, seen: Inspected, *, full: bool) -> None:
    title = f' "{seen.title}"' if seen.title else ""
    total = seen.tokens.count
    out.words(
        (f"{seen.id}{title}", "bold"),
        f"   {seen.chat}@{seen.seq} · t{seen.turn} · about {short(total)} tokens",
    )
    if total and out.is_terminal:
        out.line(_bar(seen, min(60, out.cells - 2)))
    parts = [
        f"{sign} {kind} {short(tokens)}"
        for (kind, tokens), sign in zip(seen.by_kind.items(), _BAR, strict=False)
    ]
    if parts and out.is_terminal:
        out.line("  ".join(parts), "dim")
    for one in seen.compactions:
        out.line(f"◆ c{one.number}: e{one.first}..e{one.last} are behind a summary", "magenta")
    whole = full or not out.is_terminal  # a pipe is given whole texts
    messages = await moment.messages(context=seen.id) if whole else ()
    for index, item in enumerate(seen.items):
        _item(out, item, preview(messages[index], 1 << 62) if whole and not full else item.text)
        if full:
            out.text(text_of(messages[index]), "    ")
    if seen.archive:
        out.line()
        out.line(f"archived: {seen.shelved}", "bold")
        for row_ in seen.archive:
            out.row(row_, _archive_cells(out, row_))


def _item(out: Out, item: Item, text: str) -> None:
    out.row(
        item,
        [
            Cell(f"e{item.seq}" if item.seq else "-", 8, "dim", right=out.is_terminal),
            Cell(short(item.tokens) if out.is_terminal else str(item.tokens), 6, "dim", right=True),
            Cell(item.kind, 10, _STYLES.get(item.kind, "")),
            Cell(text),
        ],
    )


def _bar(seen: Inspected, cells: int) -> str:
    """As wide as the context; each kind with its share of it."""
    total = sum(seen.by_kind.values())
    bar, done = "", 0
    for tokens, sign in zip(seen.by_kind.values(), _BAR, strict=False):
        done += tokens
        bar += sign * max(1, round(cells * done / total) - len(bar))
    return bar


def _archive_cells(out: Out, one: IndexRow) -> list[Cell]:
    when = ago(one.archived_at) if out.is_terminal else iso(one.archived_at)
    return [
        Cell(one.context_id, 22, "magenta"),
        Cell(
            counted(one.message_count, "message") if out.is_terminal else str(one.message_count),
            14,
            right=True,
        ),
        Cell(when, 10, "dim", right=True),
        Cell(one.title or one.summary_preview),
    ]


async def _lifetimes(out: Out, moment: Moment) -> None:
    """Reads the whole chat once."""
    state = moment[contexts]
    called = names(state)
    tell = out.progress("reading entries")
    async for page in moment.log.pages(moment.key, 1, moment.seq):
        texts = {entry.seq: row(entry, most=200 if out.is_terminal else None).text for entry in page}
        for one in lifetimes(state, moment.seq, page):
            _stayed(out, moment.seq, one, called.get(one.left, ""), texts[one.item])
        tell(page[-1].seq, moment.seq)


def _stayed(out: Out, head: int, one: Lifetime, name: str, text: str) -> None:
    stayed = Stayed(one.item, one.entered, one.left, one.cause, name, one.tokens, text)
    width = 24
    start, end = (width * seq // (head + 1) for seq in (one.entered, one.left or head + 1))
    bar = " " * start + "━" * max(1, end - start)
    left = f"{one.cause} {name or f'e{one.left}'}" if one.left else "still there"
    if out.is_terminal:
        cells = [
            Cell(f"e{one.item}", 8, "dim", right=True),
            Cell(short(one.tokens), 6, "dim", right=True),
            Cell(bar, width + 1, "cyan"),
            Cell(left, 16, "" if one.left else "green"),
            Cell(text),
        ]
    else:
        cells = [
            Cell(str(fact)) for fact in (one.item, one.entered, one.left, one.cause, name, one.tokens, text)
        ]
    out.row(stayed, cells)
