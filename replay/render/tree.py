"""The tree of forks as lines."""

from collections.abc import Iterator, Sequence

from chatfold.replay.inspect.forks import Branch
from chatfold.replay.inspect.times import ago, iso
from chatfold.replay.render.line import Line, row
from chatfold.replay.terminal import Cell, Style, plural


def tree_lines(branches: Sequence[Branch], here: str = "", *, plain: bool = False) -> Iterator[Line]:
    """``here``: the chat that is looked at."""
    below: list[str] = []
    for one in branches:
        del below[max(0, one.depth - 1) :]
        lead = "".join(below) + ("└─ " if one.is_last else "├─ ") * bool(one.depth)
        below.append(("   " if one.is_last else "│  ") * bool(one.depth))
        if not one.depth:
            below.clear()
        chat = "" if one.is_gone else one.key
        yield row(_cells(one, lead, here, plain=plain), one, seq=one.at, chat=chat)


def _cells(one: Branch, lead: str, here: str, *, plain: bool) -> list[Cell]:
    title = "(gone)" if one.is_gone else one.title
    if plain:
        when = "" if one.is_gone else iso(one.active)
        return [
            *(Cell(str(fact)) for fact in (one.key, one.depth, one.parent, one.at, one.turns, when)),
            Cell(title),
        ]
    at = f"e{one.at} " if one.depth else ""
    style: Style = "dim" if one.is_gone else "bold" if one.key == here else ""
    mark = Cell(f"{lead}{at}{'●' if one.key == here else '○'} {one.key}", 44, style)
    if one.is_gone:
        return [mark, Cell("", 10), Cell("", 10), Cell(title, 0, "dim")]
    turns = Cell(plural(one.turns, "turn"), 10, right=True)
    return [mark, turns, Cell(ago(one.active), 10, "dim", right=True), Cell(title)]
