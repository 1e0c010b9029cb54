"""The tabs that look at more than the cursor: 3 Diff, 5 Tree, and why something came and went."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from chatfold.projections.shapes.values import json_text
from chatfold.replay.inspect.diff import Comparison, Step, compare
from chatfold.replay.inspect.forks import Branch
from chatfold.replay.inspect.points import COMPACTIONS, SWITCHES
from chatfold.replay.inspect.why import Left, Now, Trace, trace
from chatfold.replay.stepper.state import Line, Session, State
from chatfold.replay.stepper.text import body, cut
from chatfold.replay.terminal import Style, padded, short

if TYPE_CHECKING:
    from chatfold.replay.inspect.items import Item

_MOST = 500  # items of a section


# --- 3 Diff ----------------------------------------------------------------------------------------------


async def compared(session: Session, state: State, cells: int) -> list[Line]:
    """A to the cursor; without a mark, what this entry changed."""
    before = state.mark if state.mark is not None else max(0, state.cursor - 1)
    found = await compare(await session.at(before), session.replay)
    return list(_comparison(found, cells, is_marked=state.mark is not None))


def _comparison(found: Comparison, cells: int, *, is_marked: bool) -> Iterator[Line]:
    a, b = found.before, found.after
    yield Line(cut(f"{'A ' * is_marked}e{a.seq} (t{a.turn}) → e{b.seq} (t{b.turn})", cells), "bold", a.seq)
    change = b.tokens.count - a.tokens.count
    sizes = (
        f"{a.items} items → {b.items} · {short(a.tokens.count)} → {short(b.tokens.count)} tokens ({change:+})"
    )
    yield Line(cut(sizes, cells))
    yield Line(
        cut(f"prompt prefix: {found.prefix} messages are the same, the cache is {found.cache}", cells), "dim"
    )
    for undone, steps in ((True, found.undone), (False, found.steps)):
        for step in steps:
            yield from _step(step, cells, undone=undone)
    sections: tuple[tuple[str, str, Style, Iterable[Item]], ...] = (
        ("-", "left", "red", found.left),
        ("+", "added", "green", found.added),
        ("~", "changed", "yellow", (one.after for one in found.changed)),
        (">", "moved", "blue", found.moved),
    )
    for sign, what, style, some in sections:
        items = list(some)
        if items:
            tokens = short(sum(item.tokens for item in items))
            yield Line("")
            count = f"{len(items)} item{'s' * (len(items) > 1)}"
            yield Line(cut(f"{what}: {count}, {tokens} tokens", cells), "bold")
        for item in items[:_MOST]:
            text = f"{sign} {padded(item.kind, 9)} {short(item.tokens):>5} e{item.seq}  {item.text}"
            yield Line(cut(text, cells), style, item.seq)
        if len(items) > _MOST:
            yield Line(cut(f"… {len(items) - _MOST} more; ! says how to print all", cells), "dim")
    archive = found.archive
    if archive.added or archive.removed:
        yield Line("")
        yield Line(cut(f"archive: +{len(archive.added)} -{len(archive.removed)}", cells), "bold")
    for sign, rows in (("+", archive.added), ("-", archive.removed)):
        for one in rows[:_MOST]:
            yield Line(cut(f"{sign} {one.context_id} {one.title!r}  {one.summary_preview}", cells))
    if found.is_same:
        yield Line("")
        yield Line(cut("what the model sees is the same", cells), "dim")


def _step(step: Step, cells: int, *, undone: bool) -> Iterator[Line]:
    letter = "c" if step.kind in COMPACTIONS else "s" if step.kind in SWITCHES else ""
    name = f" {letter}{step.number}" if letter else ""
    words = [f"{'undone: ' if undone else ''}{step.kind}{name} at e{step.seq}"]
    words += [
        step.trigger,
        step.reason,
        json_text(step.policy) if step.policy else "",
        step.title or step.context,
    ]
    yield Line(cut(" · ".join(word for word in words if word), cells), "magenta", step.seq)
    if step.summary:
        yield from body(step.summary, cells)


# --- why -------------------------------------------------------------------------------------------------


async def traced(session: Session, state: State, cells: int) -> list[Line]:
    """When the entry came into the model's sight and what took it out, up to the end of the chat."""
    now = await session.replay.chat.now()
    found = await trace(now, f"e{state.asked}")
    return [line for one in found.traces for line in _trace(one, cells)]


def _trace(one: Trace, cells: int) -> Iterator[Line]:
    yield Line(cut(f"why e{one.seq}: t{one.turn} {one.kind} {one.role}", cells), "bold", one.seq)
    yield Line(cut(one.text, cells))
    yield Line("")
    for visit in one.visits:
        yield Line(cut(f"entered  e{visit.entered} t{visit.turn}", cells), "green", visit.entered)
        if visit.left is not None:
            yield from _left(visit.left, cells)
    yield Line(cut(_now(one.now), cells), "cyan")


def _left(left: Left, cells: int) -> Iterator[Line]:
    letter = "c" if left.cause in COMPACTIONS else "s" if left.cause in SWITCHES else ""
    words = [f"left     e{left.seq} t{left.turn} {left.cause}", f"{letter}{left.number}" if letter else ""]
    words += [left.trigger, left.reason, left.title or left.to]
    yield Line(cut(" · ".join(word for word in words if word), cells), "red", left.seq)
    if left.survived is not None:
        yield Line(cut(f"         {left.survived:.0%} of its words are in the summary:", cells), "dim")
        yield from body(left.summary, cells)


def _now(now: Now) -> str:
    where = f" in {now.title or now.context}" if now.context else ""
    return f"now      {now.where}{where}; it is seen at {now.address}"


# --- 5 Tree ----------------------------------------------------------------------------------------------


def tree_lines(branches: Iterable[Branch], here: str, cells: int) -> list[Line]:
    lines = []
    for one in branches:
        lead = "   " * (one.depth - 1) + "└─ " if one.depth else ""
        at = f"e{one.at} " if one.depth else ""
        note = " (gone)" if one.is_gone else "  ← here" if one.key == here else ""
        title = f" {one.title!r}" if one.title else ""
        lines.append(
            Line(
                cut(f"{lead}{at}{one.key}{note}{title}", cells),
                "dim" if one.is_gone else "bold" if one.key == here else "",
                one.at,
                "" if one.is_gone else one.key,
            )
        )
    return lines
