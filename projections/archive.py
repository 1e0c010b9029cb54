"""The archive index: one row a shelved context, as a list or a search shows it.

A row is made when it is asked for: counts come from ``history``, the preview from the one
entry that ``preview_seqs`` names, so that no text is kept twice and none outlives its erasure.
"""

from collections.abc import Iterable

import msgspec

from chatfold.eventlog import Compacted, Entry, MessageAdded
from chatfold.projections.context import Context
from chatfold.projections.contexts import Contexts
from chatfold.projections.history import History
from chatfold.projections.text import one_line, text_of

PREVIEW = 120


class ArchiveRow(msgspec.Struct, frozen=True, rename="camel"):
    """``checkpoint`` is the seq of its last assistant message; ``reason`` says why the context was left.

    ``title``: the one it was given, else its first question.
    """

    context_id: str
    title: str
    created_at: int
    archived_at: int
    message_count: int
    reason: str
    checkpoint: int
    summary_preview: str = ""


def shelved_contexts(state: Contexts, history: History, limit: int | None = None) -> list[Context]:
    """The shelved contexts that hold a message, last left first."""
    found: list[Context] = []
    for name in reversed(state.shelf):
        if len(found) == limit:
            break
        context = state.shelf[name]
        if history.messages(context.spans):
            found.append(context)
    return found


def preview_seqs(history: History, contexts: Iterable[Context]) -> tuple[int, ...]:
    """The entries whose beginnings are shown: a context's newest summary, else its checkpoint; and its first question."""
    found = ((_preview(history, context), _question(history, context)) for context in contexts)
    return tuple(sorted({seq for pair in found for seq in pair if seq}))


def _question(history: History, context: Context) -> int:
    """What an untitled context goes by."""
    return 0 if context.title else history.first_question(context.spans)


def _preview(history: History, context: Context) -> int:
    return max((top.seq for top in context.tops), default=0) or history.last_answer(context.spans)


def archive_rows(
    history: History, contexts: Iterable[Context], entries: Iterable[Entry] = ()
) -> list[ArchiveRow]:
    """The rows of these contexts; ``entries``: those that ``preview_seqs`` named."""
    texts = {entry.seq: _text(entry) for entry in entries}
    return [
        ArchiveRow(
            context.id,
            context.title or texts.get(_question(history, context), ""),
            context.created,
            context.archived,
            history.messages(context.spans),
            context.reason,
            history.last_answer(context.spans),
            texts.get(_preview(history, context), ""),
        )
        for context in contexts
    ]


def _text(entry: Entry) -> str:
    match entry.event:
        case Compacted(summary=summary):
            return one_line(summary, PREVIEW)
        case MessageAdded(parts=parts):
            return one_line(text_of(parts), PREVIEW)
    return ""
