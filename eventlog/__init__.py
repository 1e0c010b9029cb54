"""eventlog keeps what happened: each chat an append-only log of events, as lines of JSON on disk.

    async with Log(FileStorage("./store")) as log:
        await log.append("chat-1", MessageAdded("user", (Text("hi"),)))     # durable on return
        async for entry in log.read("chat-1"): ...                          # what was
        async for entry in log.follow("chat-1"): ...                        # what was, then what comes
    for entry in scan("./store/chats/chat-1"): ...                          # without an event loop

What is promised. An append is all or nothing, gets contiguous seqs, and is on the medium when it returns
(``durability="full"``, the default). Any number of processes may append to one chat, read it and follow it.
What is read was written: every line carries a checksum and its predecessor's, and neither is taken on trust.
A crash leaves whole batches and perhaps a torn tail, which the next writer sets aside; anything else that does
not verify is ``CorruptLog``, with the place, and nothing is changed. ``docs/format.md`` is the contract of the bytes.

Where to look: ``events`` the vocabulary, ``line`` the grammar, ``storage`` what a storage is; ``batch`` how an
entry gets its seq, ``files.queue``, ``files.writer`` and ``files.segment_writer`` how it gets to disk, ``files.reader`` how it is read, ``files.recovery`` torn or damaged.
"""

from chatfold.eventlog import events
from chatfold.eventlog.errors import (
    ChatDeleted,
    ChatExists,
    ChatfoldError,
    Closed,
    Conflict,
    CorruptLog,
    DiskFull,
    DurabilityUnknown,
    IdConflict,
    InvalidEvent,
    InvalidKey,
    LeaseLost,
    NewerFormat,
    NoSuchChat,
    NoSuchPoint,
    ReadOnly,
)
from chatfold.eventlog.events import *  # noqa: F403 (the vocabulary)
from chatfold.eventlog.files.check import check
from chatfold.eventlog.files.repair import repair, salvage
from chatfold.eventlog.files.scan import scan
from chatfold.eventlog.files.storage import FileStorage
from chatfold.eventlog.log import Log
from chatfold.eventlog.memory import MemoryStorage
from chatfold.eventlog.search import SearchHit
from chatfold.eventlog.storage import Durability, Storage

__all__ = [
    "ChatDeleted",
    "ChatExists",
    "ChatfoldError",
    "Closed",
    "Conflict",
    "CorruptLog",
    "DiskFull",
    "Durability",
    "DurabilityUnknown",
    "FileStorage",
    "IdConflict",
    "InvalidEvent",
    "InvalidKey",
    "LeaseLost",
    "Log",
    "MemoryStorage",
    "NewerFormat",
    "NoSuchChat",
    "NoSuchPoint",
    "ReadOnly",
    "SearchHit",
    "Storage",
    "check",
    "repair",
    "salvage",
    "scan",
]
__all__ += events.__all__
