"""importers: the chats that other tools keep, as chats of a store. Each keeps its times, ids, models, usage, calls and failures.

    async for report in import_paths(store, [Path.home() / ".codex"]): ...      # what ``chatfold import`` does

Importing again brings what is new. Nothing is read twice into a chat, a file that was rewritten takes its chat back to where
they part, and what cannot be read is named with its file, line and byte.

Where to look. A format is a module that turns records into items, and nothing else:

    lists           provider messages: OpenAI, Anthropic, the AI SDK's UIMessage

What they have in common:

    items           Item, Session, Format: the interface of a format
    formats         which there are
    head, lines     a file's beginning, by which it is recognised; files of JSON lines
    finding         the files of a folder, and what they are
    writing         from items to entries: what is new, what was rewritten, what is shared with another chat
    importing       import_paths: all of it together
    ledger          which files have nothing new
"""

from chatfold.importers.importing import Report, import_paths
from chatfold.importers.items import Format, Item, Problem, Session, UnknownFormat

__all__ = ["Format", "Item", "Problem", "Report", "Session", "UnknownFormat", "import_paths"]
