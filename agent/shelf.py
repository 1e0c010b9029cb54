"""Deciding about contexts: from a view to the events that change it. Pure; refusing raises, and nothing was done.

What goes along into another context is the question being asked, which is every message of the user that has not been
answered yet, and the calls of the open step, so that a tool that changes the context finds its own call there.
"""

from collections.abc import Iterable, Iterator, Sequence

from chatfold.agent.errors import NoSuchContext
from chatfold.agent.summary import told
from chatfold.eventlog import ContextCleared, ContextOpened, ContextRecalled, ContextSwitched, Event
from chatfold.projections import Message, View, calls, contexts, executions
from chatfold.projections.text import one_line, text_of

RECENT = 12
_FULL = 12_000  # characters


def question(view: View) -> tuple[int, ...]:
    """The seqs of what is being asked and done right now."""
    began = max(view[executions].running.values(), default=0)
    asked: list[int] = []
    for seq, is_answer in _said_back(view):
        if not is_answer:
            asked.append(seq)
        elif not (began < seq if began else view[calls].open and not asked):
            break  # what a model says on the way to a tool is no answer yet
    return tuple(sorted({*asked, *(call.seq for call in view[calls].open)}))


def _said_back(view: View) -> Iterator[tuple[int, bool]]:
    """The messages of the active context from the newest on: (seq, by an assistant)."""
    state = view[contexts]
    for first, last in reversed(state.spans(state.active.id, view.seq)):
        for index in range(state.said.upto(last) - 1, state.said.upto(first - 1) - 1, -1):
            seq = state.said[index]
            yield seq, bool(state.answers.within(seq, seq))


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
            text = text_of(summaries[-1].parts) if summaries else _lines(shown, 200, RECENT)
        case "recent":
            text = _lines(shown, _FULL, RECENT)
        case "full":
            text = _lines(shown, _FULL)
        case _:
            raise ValueError(f"mode is summary, recent or full, not {mode!r}")
    return ContextRecalled(id, mode, text)


def _lines(messages: Sequence[Message], most: int, recent: int | None = None) -> str:
    """The newest that fit, one after the other; of the ``recent`` ones that say something in words, and what was done since."""
    if recent is not None:
        spoken = [i for i, m in enumerate(messages) if text_of(m.parts).strip()]
        messages = messages[spoken[-recent:][0] if spoken else 0 :]
    lines = [one_line(line, most) for m in messages for line in told(m)]
    kept: list[str] = []
    for line in reversed(lines):
        if kept and sum(map(len, kept)) + len(line) > _FULL:
            kept.append("…")
            break
        kept.append(line)
    return "\n".join(reversed(kept))
