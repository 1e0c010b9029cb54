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

Where to look: ``folding`` projections and views, ``context`` which part of the log the model is at, ``prompt`` what it is
sent, ``to_*`` in whose shape; ``archive``, ``lifetime``, ``digest`` what else is read from the log with their help.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chatfold.projections.archive import IndexRow as IndexRow
from chatfold.projections.archive import archived as archived
from chatfold.projections.archive import index as index
from chatfold.projections.archive import previews as previews
from chatfold.projections.context import MAIN as MAIN
from chatfold.projections.context import Contexts as Contexts
from chatfold.projections.context import Window as Window
from chatfold.projections.context import contexts as contexts
from chatfold.projections.context import window as window
from chatfold.projections.cost import Usage as Usage
from chatfold.projections.cost import usage as usage
from chatfold.projections.cutting import Cut as Cut
from chatfold.projections.cutting import cut as cut
from chatfold.projections.digest import Execution as Execution
from chatfold.projections.digest import digests as digests
from chatfold.projections.folding import OutOfOrder as OutOfOrder
from chatfold.projections.folding import Projection as Projection
from chatfold.projections.folding import View as View
from chatfold.projections.folding import fold as fold
from chatfold.projections.folding import projection as projection
from chatfold.projections.folding import start as start
from chatfold.projections.lifetime import Lifetime as Lifetime
from chatfold.projections.lifetime import lifetimes as lifetimes
from chatfold.projections.listing import Outline as Outline
from chatfold.projections.listing import lineage as lineage
from chatfold.projections.listing import outline as outline
from chatfold.projections.prompt import Message as Message
from chatfold.projections.prompt import first_difference as first_difference
from chatfold.projections.prompt import messages as messages
from chatfold.projections.to_anthropic import anthropic as anthropic
from chatfold.projections.to_openai import openai_chat as openai_chat
from chatfold.projections.to_openai import openai_responses as openai_responses
from chatfold.projections.tokens import Tokens as Tokens
from chatfold.projections.tokens import estimate as estimate
from chatfold.projections.work import calls as calls
from chatfold.projections.work import executions as executions
from chatfold.projections.work import sends as sends
from chatfold.projections.work import skills as skills
from chatfold.projections.work import turn as turn

if TYPE_CHECKING:
    from chatfold.projections.from_anthropic import from_anthropic_messages as from_anthropic_messages
    from chatfold.projections.from_openai import from_openai_messages as from_openai_messages
    from chatfold.projections.from_ui import from_ui_messages as from_ui_messages
    from chatfold.projections.to_markdown import markdown as markdown
    from chatfold.projections.to_seeds import transcript as transcript
    from chatfold.projections.to_ui import ui_messages as ui_messages

# Few need them, and all wait for imports: these are imported when they are first used.
_LATE = {
    "from_anthropic_messages": "chatfold.projections.from_anthropic",
    "from_openai_messages": "chatfold.projections.from_openai",
    "from_ui_messages": "chatfold.projections.from_ui",
    "markdown": "chatfold.projections.to_markdown",
    "transcript": "chatfold.projections.to_seeds",
    "ui_messages": "chatfold.projections.to_ui",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'chatfold.projections' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATE[name]), name)
    return value


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
