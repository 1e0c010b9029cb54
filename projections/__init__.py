"""projections say what a log adds up to: pure folds over its entries, and the messages a model is sent.

    view = start(STANDARD)                      # before the first entry
    view = fold(view, entries)                  # or entry by entry: view = view.then(entry)
    view[contexts].active.title                 # a view is subscripted with a projection
    messages(view, entries)                     # what the model sees, whatever happened

    class Files(msgspec.Struct, frozen=True):
        read: int = 0

    @projection(Files, version=1)
    def files(state: Files, entry: Entry) -> Files:
        match entry.event:
            case ToolCalled(name="read_file"):
                return Files(state.read + 1)
        return state

    view[files].read                            # in any view that was started with it

What is promised. A view is a value: nothing changes it, and ``then`` is the only way to the next one. Equal histories
give equal views and fingerprints, however they were reached. States are small: history is read from the log, as
``spans`` of it. Nothing here does I/O, asks a clock or needs an event loop. Events of a type not known are passed over.

Where to look. ``fold``: projections and views. ``contexts``: which part of the log the model is at. ``context`` and ``nest``: one of them,
and its compactions. ``prompt``: what the model is sent. ``shapes``: the form in which a provider takes it. ``history``: where messages, turns
and runs stand; ``archive``, ``lifetimes`` and ``runs`` are read from the log with its help.
"""

from typing import TYPE_CHECKING, Any

from chatfold.late import late
from chatfold.projections.activity import calls, executions, sends, skills, turn
from chatfold.projections.archive import ArchiveRow
from chatfold.projections.contexts import Contexts, Window, contexts
from chatfold.projections.cutting import Cut
from chatfold.projections.fold import NeedsEarlier, OutOfOrder, Projection, View, fold, projection, start
from chatfold.projections.lifetimes import Lifetime, lifetimes
from chatfold.projections.listing import Outline, lineage, outline
from chatfold.projections.prompt import Message, messages
from chatfold.projections.runs import RunDigest
from chatfold.projections.tokens import Tokens, estimate
from chatfold.projections.usage import Usage, usage

if TYPE_CHECKING:
    from chatfold.projections.documents.markdown import to_markdown
    from chatfold.projections.documents.transcript import transcript
    from chatfold.projections.shapes.anthropic import from_anthropic, to_anthropic
    from chatfold.projections.shapes.openai import from_openai, to_openai
    from chatfold.projections.shapes.openai_responses import from_openai_responses, to_openai_responses
    from chatfold.projections.shapes.recognise import from_messages
    from chatfold.projections.shapes.ui import from_ui, to_ui
else:  # few programs need them
    __getattr__ = late(
        __name__,
        {
            "from_anthropic": "chatfold.projections.shapes.anthropic",
            "from_openai": "chatfold.projections.shapes.openai",
            "from_openai_responses": "chatfold.projections.shapes.openai_responses",
            "from_messages": "chatfold.projections.shapes.recognise",
            "from_ui": "chatfold.projections.shapes.ui",
            "to_anthropic": "chatfold.projections.shapes.anthropic",
            "to_openai": "chatfold.projections.shapes.openai",
            "to_openai_responses": "chatfold.projections.shapes.openai_responses",
            "to_markdown": "chatfold.projections.documents.markdown",
            "transcript": "chatfold.projections.documents.transcript",
            "to_ui": "chatfold.projections.shapes.ui",
        },
    )

__all__ = [
    "STANDARD",
    "ArchiveRow",
    "Contexts",
    "Cut",
    "Lifetime",
    "Message",
    "NeedsEarlier",
    "OutOfOrder",
    "Outline",
    "Projection",
    "RunDigest",
    "Tokens",
    "Usage",
    "View",
    "Window",
    "calls",
    "contexts",
    "estimate",
    "executions",
    "fold",
    "from_anthropic",
    "from_messages",
    "from_openai",
    "from_openai_responses",
    "from_ui",
    "lifetimes",
    "lineage",
    "messages",
    "outline",
    "projection",
    "sends",
    "skills",
    "start",
    "to_anthropic",
    "to_markdown",
    "to_openai",
    "to_openai_responses",
    "to_ui",
    "transcript",
    "turn",
    "usage",
]

STANDARD: tuple[Projection[Any], ...] = (
    contexts,
    turn,
    calls,
    sends,
    skills,
    executions,
    usage,
    outline,
    lineage,
)
"""What every chat is opened with."""
