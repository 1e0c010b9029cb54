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

Where to look: ``fold`` projections and views, ``contexts`` which part of the log the model is at, ``context`` one of them, ``prompt`` what it is
sent, ``to_*`` in whose shape; ``archive``, ``lifetimes``, ``runs`` what else is read from the log with their help.
"""

from typing import TYPE_CHECKING, Any

from chatfold.late import late
from chatfold.projections.activity import calls, executions, sends, skills, turn
from chatfold.projections.archive import IndexRow
from chatfold.projections.contexts import Contexts, Window, contexts
from chatfold.projections.cutting import Cut
from chatfold.projections.fold import NeedsEarlier, OutOfOrder, Projection, View, fold, projection, start
from chatfold.projections.lifetimes import Lifetime, lifetimes
from chatfold.projections.listing import Outline, lineage, outline
from chatfold.projections.prompt import Message, messages
from chatfold.projections.runs import Execution
from chatfold.projections.to_anthropic import anthropic
from chatfold.projections.to_openai import openai_chat, openai_responses
from chatfold.projections.tokens import Tokens, estimate
from chatfold.projections.usage import Usage, usage

if TYPE_CHECKING:
    from chatfold.projections.from_anthropic import from_anthropic_messages
    from chatfold.projections.from_openai import from_openai_messages
    from chatfold.projections.from_ui import from_ui_messages
    from chatfold.projections.to_markdown import markdown
    from chatfold.projections.to_seeds import transcript
    from chatfold.projections.to_ui import ui_messages
else:  # few programs need them
    __getattr__ = late(
        __name__,
        {
            "from_anthropic_messages": "chatfold.projections.from_anthropic",
            "from_openai_messages": "chatfold.projections.from_openai",
            "from_ui_messages": "chatfold.projections.from_ui",
            "markdown": "chatfold.projections.to_markdown",
            "transcript": "chatfold.projections.to_seeds",
            "ui_messages": "chatfold.projections.to_ui",
        },
    )

__all__ = [
    "STANDARD",
    "Contexts",
    "Cut",
    "Execution",
    "IndexRow",
    "Lifetime",
    "Message",
    "NeedsEarlier",
    "OutOfOrder",
    "Outline",
    "Projection",
    "Tokens",
    "Usage",
    "View",
    "Window",
    "anthropic",
    "calls",
    "contexts",
    "estimate",
    "executions",
    "fold",
    "from_anthropic_messages",
    "from_openai_messages",
    "from_ui_messages",
    "lifetimes",
    "lineage",
    "markdown",
    "messages",
    "openai_chat",
    "openai_responses",
    "outline",
    "projection",
    "sends",
    "skills",
    "start",
    "transcript",
    "turn",
    "ui_messages",
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
