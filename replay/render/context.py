"""The context of a moment as lines: a head, the items, the archive; and how long each item stayed."""

from collections.abc import Iterator, Sequence

import msgspec

from chatfold.projections import ArchiveRow, Lifetime
from chatfold.replay.inspect.context import Inspected
from chatfold.replay.inspect.items import Item
from chatfold.replay.inspect.times import ago, iso
from chatfold.replay.render.entries import STYLES
from chatfold.replay.render.line import Line, row, words
from chatfold.replay.terminal import Cell, Style, plural, short

_BAR = "█▓▒░▚▞▛▜▙▟"
_WIDTH = 24  # cells of the line of a life


class Stayed(msgspec.Struct, frozen=True):
    """``left`` 0: the model still sees it. ``name``: of what it left by, in addresses: c2."""

    item: int
    entered: int
    left: int
    cause: str
    name: str
    tokens: int
    text: str


def head_lines(seen: Inspected, cells: int = 0) -> Iterator[Line]:
    """``cells``: the width of the bar; 0: no bar."""
    title = f' "{seen.title}"' if seen.title else ""
    about = f"   {seen.chat}@{seen.seq} · t{seen.turn} · about {short(seen.tokens.count)} tokens"
    yield words((f"{seen.id}{title}", "bold"), about)
    if seen.tokens.count and cells:
        yield words(_bar(seen, cells))
        signs = zip(seen.by_kind.items(), _BAR, strict=False)
        yield words(("  ".join(f"{sign} {kind} {short(tokens)}" for (kind, tokens), sign in signs), "dim"))
    for one in seen.compactions:
        text = f"◆ c{one.number}: e{one.first}..e{one.last} are behind a summary"
        yield words((text, "magenta"), seq=one.seq)


def item_line(
    item: Item, text: str | None = None, *, sign: str = "", style: Style = "", plain: bool = False
) -> Line:
    """``text``: all that it says, for a pipe. ``sign``: what became of it, in a comparison."""
    cells = [
        Cell(f"e{item.seq}" if item.seq else "-", 8, "dim", right=not plain and not sign),
        Cell(str(item.tokens) if plain else short(item.tokens), 6, "dim", right=True),
        Cell(item.kind, 10, style or STYLES.get(item.kind, "")),
        Cell(item.text if text is None else text),
    ]
    return row([Cell(sign, 1, style), *cells] if sign else cells, item, seq=item.seq)


def archive_lines(rows: Sequence[ArchiveRow], *, plain: bool = False) -> Iterator[Line]:
    for one in rows:
        when = iso(one.archived_at) if plain else ago(one.archived_at)
        count = str(one.message_count) if plain else plural(one.message_count, "message")
        cells = (
            Cell(one.context_id, 22, "magenta"),
            Cell(count, 14, right=True),
            Cell(when, 10, "dim", right=True),
            Cell(one.title or one.summary_preview),
        )
        yield row(cells, one, seq=one.checkpoint)


def lifetime_line(one: Stayed, head: int, *, plain: bool = False) -> Line:
    if plain:
        facts = (one.item, one.entered, one.left, one.cause, one.name, one.tokens, one.text)
        return row([Cell(str(fact)) for fact in facts], one, seq=one.item)
    start, end = (_WIDTH * seq // (head + 1) for seq in (one.entered, one.left or head + 1))
    left = f"{one.cause} {one.name or f'e{one.left}'}" if one.left else "still there"
    cells = (
        Cell(f"e{one.item}", 8, "dim", right=True),
        Cell(short(one.tokens), 6, "dim", right=True),
        Cell(" " * start + "━" * max(1, end - start), _WIDTH + 1, "cyan"),
        Cell(left, 16, "" if one.left else "green"),
        Cell(one.text),
    )
    return row(cells, one, seq=one.item)


def stay_of(one: Lifetime, name: str, text: str) -> Stayed:
    return Stayed(one.item, one.entered, one.left, one.cause, name, one.tokens, text)


def _bar(seen: Inspected, cells: int) -> str:
    """As wide as the context; each kind with its share of it."""
    total = sum(seen.by_kind.values())
    bar, done = "", 0
    for tokens, sign in zip(seen.by_kind.values(), _BAR, strict=False):
        done += tokens
        bar += sign * max(1, round(cells * done / total) - len(bar))
    return bar
