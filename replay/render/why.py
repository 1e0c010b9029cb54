"""Where a text went, as lines: when it came, what carried it, what took it out of sight, where it is now."""

import shlex
from collections.abc import Iterator

from chatfold.projections.text import one_line
from chatfold.replay.inspect.why import Left, Now, Trace, Visit
from chatfold.replay.render.diff import name_of
from chatfold.replay.render.line import Line, words

_SUMMARY = 200  # characters


def trace_lines(one: Trace, store: str = "") -> Iterator[Line]:
    """``store``: as in --store, for the commands that are named."""
    who = " ".join(filter(None, (one.kind, one.role)))
    yield words((f"e{one.seq}", "bold"), f" · t{one.turn} · {who} · ", (one.text, "cyan"), seq=one.seq)
    for visit in one.visits:
        came = "" if visit.entered == one.seq else " again"
        yield words(("  entered  ", "dim"), f"e{visit.entered} · t{visit.turn}{came}", seq=visit.entered)
        if visit.requests is not None:
            yield words(("  sent     ", "dim"), _requests(visit))
        if visit.left is not None:
            yield from _leaving_lines(visit.left)
    yield words(("  now      ", "dim"), _now(one.now, store))
    yield words()


def _requests(visit: Visit) -> str:
    assert visit.requests is not None
    first, last = visit.requests
    return f"in request m{first}" if first == last else f"in {last - first + 1} requests, m{first}..m{last}"


def _leaving_lines(left: Left) -> Iterator[Line]:
    about = " ".join(filter(None, (left.trigger, left.reason, left.to, left.title)))
    cause = (f"{name_of(left.cause, left.number)}{left.cause}", "magenta")
    yield words(("  left     ", "dim"), f"e{left.seq} · t{left.turn} · ", cause, f" {about}", seq=left.seq)  # type: ignore[arg-type]
    if left.survived is not None:
        summary = (one_line(left.summary, _SUMMARY), "dim")
        yield words(("  summary  ", "dim"), f"has {left.survived:.0%} of its words: ", summary)  # type: ignore[arg-type]


def _now(now: Now, store: str) -> str:
    where = ("--store", store) if store else ()
    look = shlex.join(("chatfold", "context", now.address, "--full", *where))
    context = f"{now.context}" + (f' "{now.title}"' if now.title else "")
    behind = f", behind the summary of c{now.number}" if now.number else ""
    return {
        "active": f"the model sees it, in {context}",
        "compacted": f"behind the summary of c{now.number}, in {context}.  {look}",
        "archived": f"in the archived context {context}{behind}.  {look}",
        "rewound": f"rewound away by e{now.seq}.  {look}",
        "erased": "erased: its text is gone",
        "recorded": "recorded; no model is shown such an event",
        "away": f"in no model's sight.  {look}",
    }[now.where]
