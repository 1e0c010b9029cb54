"""Deciding about contexts: from a view to the events that change it. Pure; refusing raises, and nothing was done.

What goes along into another context is the question being asked, which is every message of the user that has not been
answered yet, and the calls of the open step, so that a tool that changes the context finds its own call there.
"""

from collections.abc import Iterable, Sequence

from agent.errors import NoSuchContext
from eventlog import ContextCleared, ContextOpened, ContextRecalled, ContextSwitched, Event
from projections import Message, View, calls, contexts
from projections.text import one_line, text_of

RECENT = 12
_FULL = 12_000  # characters


def question(view: View) -> tuple[int, ...]:
    """The seqs of what is being asked and done right now."""
    state = view[contexts]
    spans = state.spans(state.active.id, view.seq)
    answered = state.checkpoint(spans)
    asked = [
        state.said[index]
        for first, last in spans
        for index in range(state.said.upto(max(first - 1, answered)), state.said.upto(last))
    ]
    return tuple(sorted({*asked, *(call.seq for call in view[calls].open)}))


def opened_anew(view: View, id: str, title: str, reason: str) -> Iterable[Event]:
    return (ContextOpened(id, title, reason, question(view)),)


def cleared(view: View, reason: str) -> Iterable[Event]:
    return (ContextCleared(reason, question(view)),)


def loaded(view: View, id: str, reason: str, *, chat: str) -> Iterable[Event]:
    """Nothing if it is the active one."""
    state = view[contexts]
    if id == state.active.id:
        return ()
    if id not in state.shelf:
        raise NoSuchContext(f"there is no context {id!r}", chat=chat)
    return (ContextSwitched(id, question(view), reason),)


def recalled(id: str, mode: str, shown: Sequence[Message]) -> ContextRecalled:
    """``summary``: the newest summary, else a line a message of the last ones; ``recent``: those; ``full``: all."""
    summaries = [message for message in shown if message.kind == "summary"]
    match mode:
        case "summary":
            text = text_of(summaries[-1].parts) if summaries else _lines(shown[-RECENT:], 200)
        case "recent":
            text = _lines(shown[-RECENT:], _FULL)
        case "full":
            text = _lines(shown, _FULL)
        case _:
            raise ValueError(f"mode is summary, recent or full, not {mode!r}")
    return ContextRecalled(id, mode, text)


def _lines(messages: Sequence[Message], most: int) -> str:
    """The newest that fit, one after the other."""
    lines = [f"{m.role}: {one_line(text_of(m.parts), most)}" for m in messages if text_of(m.parts).strip()]
    kept: list[str] = []
    for line in reversed(lines):
        if kept and sum(map(len, kept)) + len(line) > _FULL:
            kept.append("…")
            break
        kept.append(line)
    return "\n".join(reversed(kept))
