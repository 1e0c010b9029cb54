"""What differs between two points, as lines."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from chatfold.replay.inspect.diff import Archives, Comparison, Events, Messages, Step
from chatfold.replay.inspect.items import Item  # noqa: TC001 (see the annotation)
from chatfold.replay.inspect.serial import json_text
from chatfold.replay.render.context import item_line
from chatfold.replay.render.line import Line, body, words
from chatfold.replay.terminal import Style, plural

Texts: TypeAlias = Mapping[tuple[int, ...], str]
"""All that an item says, by its entries."""

_FEW = 6  # context events that figures name one by one
_LETTERS = {"compacted": "c", "opened": "s", "switched": "s", "cleared": "s"}
_CACHE = {
    "whole": "the cache still serves it",
    "part": "the cache serves that much",
    "lost": "the cache is lost",
}


def comparison_lines(
    found: Comparison, before: Texts, after: Texts, *, only_figures: bool = False, plain: bool = False
) -> Iterator[Line]:
    yield from _figures(found, is_short=only_figures)
    if only_figures:
        return
    signs: tuple[tuple[str, Style, tuple[Item, ...], Texts], ...] = (
        ("-", "red", found.left, before),
        ("+", "green", found.added, after),
        ("~", "yellow", tuple(change.after for change in found.changed), after),
        (">", "blue", found.moved, after),
    )
    for sign, style, items, texts in signs:
        for item in items:
            yield item_line(item, texts.get(item.seqs), sign=sign, style=style, plain=plain)


def _figures(found: Comparison, *, is_short: bool) -> Iterator[Line]:
    yield from _steps(found.undone, "- ", is_short=is_short)
    yield from _steps(found.steps, "", is_short=is_short)
    before, after = found.before, found.after
    change = after.tokens.count - before.tokens.count
    sizes = f"{before.tokens.count} → {after.tokens.count} tokens ({change:+})"
    yield words(("context   ", "dim"), f"{plural(before.items, 'item')} → {after.items}   {sizes}")
    if before.context != after.context:
        yield words(("active    ", "dim"), f"{before.context} → {after.context} {after.title}".rstrip())
    moved = f", {len(found.moved)} of them elsewhere" if found.moved else ""
    for word, count, note in (
        ("kept", len(found.kept), moved),
        ("left", len(found.left), ""),
        ("added", len(found.added), ""),
        ("changed", len(found.changed), ""),
    ):
        if count or word == "kept":
            items = "item " if count == 1 else "items"
            yield words((f"  {word:<8}", "dim"), f"{count:>5} {items}  {found.tokens[word]:>8} tokens{note}")
    archive = found.archive
    if archive.added or archive.removed:
        yield words(("archive   ", "dim"), f"+{len(archive.added)} -{len(archive.removed)}")
    same = (
        f"the first {found.prefix} of {before.items} messages are the same ({found.prefix_tokens} tokens): "
    )
    yield words(("prompt    ", "dim"), same + _CACHE[found.cache])
    if found.is_same:
        yield words(("what the model sees is the same", "dim"))


def _steps(steps: Sequence[Step], lead: str, *, is_short: bool) -> Iterator[Line]:
    if is_short and len(steps) > _FEW:
        kinds = Counter(step.kind for step in steps)
        yield words(lead, ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
        return
    for step in steps:
        yield from _step(step, lead, is_short=is_short)


def _step(step: Step, lead: str, *, is_short: bool) -> Iterator[Line]:
    about = {
        "compacted": f"e{step.first}..e{step.last} by {step.trigger}",
        "rewound": f"to e{step.last}",
        "reverted": f"e{step.first}",
    }.get(step.kind, " ".join(filter(None, (step.context, step.title))))
    where = f" · e{step.seq} · t{step.turn} · {about} {step.reason}".rstrip()
    yield words(lead, (f"{name_of(step.kind, step.number)}{step.kind}", "magenta"), where, seq=step.seq)
    if step.summary and not is_short:
        yield body(step.summary, "    ", seq=step.seq)


def name_of(kind: str, number: int) -> str:
    """What addresses call a context event, and a blank: ``c2 ``."""
    letter = _LETTERS.get(kind, "")
    return f"{letter}{number} " if letter else ""


def messages_lines(found: Messages, *, only_figures: bool = False) -> Iterator[Line]:
    sides: tuple[tuple[str, Style, tuple[object, ...]], ...] = (
        ("-", "red", found.left),
        ("+", "green", found.added),
    )
    for sign, style, some in () if only_figures else sides:
        for one in some:
            yield words((f"{sign} {json_text(one)}", style))
    yield words(
        f"{found.prefix} messages at the beginning and {found.suffix} at the end are the same; "
        f"{len(found.left)} left, {len(found.added)} added"
    )


def archives_lines(found: Archives, *, only_figures: bool = False) -> Iterator[Line]:
    for sign, rows in () if only_figures else (("-", found.removed), ("+", found.added)):
        for one in rows:
            yield words(f"{sign} {one.context_id} {one.title or one.summary_preview}", seq=one.checkpoint)
    if only_figures:
        yield words(f"{len(found.removed)} left, {len(found.added)} added")
    yield words(f"{found.kept} are the same, {len(found.changed)} have changed")


def events_lines(found: Events) -> Iterator[Line]:
    yield words(f"both have the entries up to e{found.shared}")
    for sign, counts in (("-", found.before), ("+", found.after)):
        for kind, count in counts.items():
            yield words(f"{sign} {count} {kind}")
