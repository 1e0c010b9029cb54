"""Contexts: from a view to the events that change them, and which archived one fits a query best.

Deciding is pure; refusing raises, and nothing was done. What goes along into another context is the question being asked,
which is every message of the user that has not been answered yet, and the calls of the open step, so that a tool that
changes the context finds its own call there.

An archived context is found by its title, else by what was said in it, else by as many of the words as possible. Of contexts
in which the query was said, the one that says it most often is the best; a query that stands somewhere as words of their own is
not looked for inside of other words.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from unicodedata import normalize

from chatfold.agent.errors import NoSuchContext
from chatfold.agent.summary import describe_message
from chatfold.eventlog import ContextCleared, ContextOpened, ContextRecalled, ContextSwitched, Event, Log
from chatfold.projections import Message, View, calls, contexts, executions
from chatfold.projections.context import Context
from chatfold.projections.history import History
from chatfold.projections.spans import includes, minus, spans
from chatfold.projections.text import one_line, text_of

if TYPE_CHECKING:
    from chatfold.agent.moment import Moment

RECENT = 12
_FULL = 12_000  # characters
_MOST_WORDS = 24
_MOST_HITS = 1000  # of a word, the newest: in a long context there may be many before the next one


async def question(now: "Moment") -> tuple[int, ...]:
    """The seqs of what is being asked and done right now."""
    view, history = now.view, await now.history()
    began = max(view[executions].running.values(), default=0)
    asked: list[int] = []
    for seq, is_answer in _walk_back(view, history):
        if not is_answer:
            asked.append(seq)
        elif not (began < seq if began else view[calls].open and not asked):
            break  # what a model says on the way to a tool is no answer yet
    return tuple(sorted({*asked, *(call.seq for call in view[calls].open)}))


def _walk_back(view: View, history: History) -> Iterator[tuple[int, bool]]:
    """The messages of the active context from the newest on: (seq, by an assistant)."""
    state = view[contexts]
    for span in reversed(state.spans(state.active.id, view.seq)):
        yield from history.messages_back(span)


async def open_context(now: "Moment", id: str, title: str, reason: str) -> Iterable[Event]:
    return (ContextOpened(id, title, reason, await question(now)),)


async def clear_context(now: "Moment", reason: str) -> Iterable[Event]:
    return (ContextCleared(reason, await question(now)),)


async def switch_context(now: "Moment", id: str, reason: str) -> Iterable[Event]:
    """Nothing if it is the active one."""
    state = now[contexts]
    if id == state.active.id:
        return ()
    if id not in state.shelf:
        raise NoSuchContext(f"there is no context {id!r}", chat=now.key)
    return (ContextSwitched(id, await question(now), reason),)


def recall_context(id: str, mode: str, shown: Sequence[Message]) -> ContextRecalled:
    """``summary``: the newest summary, else a line a message of the last ones; ``recent``: those; ``full``: all."""
    shown = [message for message in shown if message.kind != "runtime"]  # of another moment
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
    lines = [one_line(line, most) for m in messages for line in describe_message(m)]
    kept: list[str] = []
    for line in reversed(lines):
        if kept and sum(map(len, kept)) + len(line) > _FULL:
            kept.append("…")
            break
        kept.append(line)
    return "\n".join(reversed(kept))


# --- finding an archived context ---------------------------------------------------------------------------


async def best_context(log: Log, key: str, shelf: list[Context], head: int, query: str) -> str | None:
    """The id; None if nothing matches. Of several that match equally well, the one left last."""
    words = _words(query)
    for context in shelf:
        if words and all(word in _alike(context.title) for word in words):
            return context.id
    shelved = spans(span for context in shelf for span in context.spans)
    elsewhere = (*minus(((1, head),), shelved), (head + 1, 1 << 62))
    for wanted in dict.fromkeys((query, " ".join(words) or query)):
        hits = await log.search(key, wanted, limit=_MOST_HITS, without=elsewhere)
        best = [hit for hit in hits if _has_whole_words(hit.preview, words)] or hits
        if best:
            return max(shelf, key=lambda context: sum(includes(context.spans, hit.seq) for hit in best)).id
    return await _by_words(log, key, shelf, elsewhere, words)


def _has_whole_words(preview: str, words: list[str]) -> bool:
    """Does the place that matches show one of the words on its own?"""
    text = _alike(preview)
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words if word)


def _alike(text: str) -> str:
    return normalize("NFKC", text).casefold()


def _words(query: str) -> list[str]:
    """Without the punctuation around them."""
    bare = (re.sub(r"^[\W_]+|[\W_]+$", "", word) or word for word in _alike(query).split())
    return list(dict.fromkeys(bare))[:_MOST_WORDS]


async def _by_words(
    log: Log, key: str, shelf: list[Context], elsewhere: tuple[tuple[int, int], ...], words: list[str]
) -> str | None:
    """The context that holds the most of the words, somewhere in it or in its title, and at least half of them."""
    found = {context.id: sum(word in _alike(context.title) for word in words) for context in shelf}
    for word in words:
        try:
            hits = await log.search(key, word, limit=_MOST_HITS, without=elsewhere)
        except ValueError:  # nothing but punctuation
            continue
        for context in shelf:
            if word not in _alike(context.title):
                found[context.id] += any(includes(context.spans, hit.seq) for hit in hits)
    best = max(shelf, key=lambda context: found[context.id], default=None)
    return best.id if best is not None and 0 < len(words) <= 2 * found[best.id] else None
