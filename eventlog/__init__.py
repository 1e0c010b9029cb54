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

Where to look: ``events`` the vocabulary, ``line`` the grammar, ``storage`` what a storage is; ``numbering`` how an
entry gets its seq, ``lanes``, ``writer`` and ``end`` how it gets to disk, ``folder`` how it is read, ``recovery`` torn or damaged.
"""

from chatfold.eventlog.check import Problem as Problem
from chatfold.eventlog.check import Report as Report
from chatfold.eventlog.check import check as check
from chatfold.eventlog.check import repair as repair
from chatfold.eventlog.check import salvage as salvage
from chatfold.eventlog.disk import Disk as Disk
from chatfold.eventlog.errors import ChatDeleted as ChatDeleted
from chatfold.eventlog.errors import ChatExists as ChatExists
from chatfold.eventlog.errors import ChatfoldError as ChatfoldError
from chatfold.eventlog.errors import Closed as Closed
from chatfold.eventlog.errors import Conflict as Conflict
from chatfold.eventlog.errors import CorruptLog as CorruptLog
from chatfold.eventlog.errors import DiskFull as DiskFull
from chatfold.eventlog.errors import DurabilityUnknown as DurabilityUnknown
from chatfold.eventlog.errors import ForkedProcess as ForkedProcess
from chatfold.eventlog.errors import IdConflict as IdConflict
from chatfold.eventlog.errors import InvalidEvent as InvalidEvent
from chatfold.eventlog.errors import InvalidKey as InvalidKey
from chatfold.eventlog.errors import NewerFormat as NewerFormat
from chatfold.eventlog.errors import NoSuchChat as NoSuchChat
from chatfold.eventlog.errors import NoSuchPoint as NoSuchPoint
from chatfold.eventlog.errors import ReadOnly as ReadOnly
from chatfold.eventlog.events import *  # noqa: F403 (the vocabulary; its __all__ is pinned by a test)
from chatfold.eventlog.files import FileStorage as FileStorage
from chatfold.eventlog.log import Log as Log
from chatfold.eventlog.memory import MemoryStorage as MemoryStorage
from chatfold.eventlog.scan import scan as scan
from chatfold.eventlog.search import Hit as Hit
from chatfold.eventlog.storage import Durability as Durability
from chatfold.eventlog.storage import Storage as Storage
