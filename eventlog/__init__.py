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

The life of a chat. It begins with its first append and has no state of its own before. A fork is another chat, whose first
entries are the same lines. ``redact`` puts tombstones in the place of entries, in forks too. ``delete`` ends it; another one of
that key may begin later. A storage is open until ``close``, which makes everything durable. After ``os.fork`` a child opens its own.

Where to look. This folder opens no file: what an event is, how it becomes a line, what a storage must do.

    log             Log: what callers use, typed events on any storage
    events          the vocabulary; Entry and Head
    errors          what can go wrong
    values          what an event may hold, and how odd values are written
    codec           event <-> JSON; a line made whole again: references, blobs; Page
    line            the grammar of a line: checksum, link, fields, header, seal
    batch           build_batch: events get their seqs and times; retries by id and key, conflicts, texts said before
    known           the same for a storage that fetches what numbering needs in one round trip
    erasure         tombstones, and what goes with an erased entry
    storage         Storage: the methods of a backend, and the defaults on top of them; leases, snapshots
    deltas          the pieces of an answer that is coming
    memory          MemoryStorage, the reference
    transfer        exports: a chat in one file, and back
    search          what is looked for; search_text: the text of an entry; needle: which bytes may hold it
    keys            chat key <-> folder name
    places          which storage a place means

``files/`` is the storage of files: one folder a chat. Its ``__init__`` says who calls whom.

    storage         FileStorage: append, fork, redact, delete, import; reading: all that only reads
    queue           CommitQueue: what an append waits for; groups, syncs, the timer
    open_chat       the chats being written, and their turns; handover: threads that sync, answers back to a loop
    writer          LogWriter: number, write, sync; held_log: find the end, follow others, seal, roll, poison
    segment_writer  the open segment's descriptor: bytes written, cut back, synced
    seen            the ids, keys and texts of a chat that numbering asks for; seen_files: the older ones
    lock            one writer at a time; one holder of a lease at a time
    reader          LogReader: pages forwards and backwards, one line, one entry
    log_end         where the log ends, TailCell: as its writer knows; recovery: is what follows padding, torn or damaged; watermark: ``head``
    chat_segments   the segments of a folder; continuity: do they belong to this chat; offsets: where their lines start
    segment         Tail and Position; a segment's lines, verified; seal: made in steps, and a full one read at once
    scan            reading without an event loop; search: the newest hits first, by the bytes
    notify          hints that a chat has grown
    chat_dir        folders of a store; how a chat appears and goes; preparation: what a killed process left
    fork, redact, importer      these verbs, on folders
    blobs, snapshots    what else is kept beside the lines
    check, repair   damage: told, mended, salvaged; survey: the lines of a damaged file; chain: which are this chat's
    disk            every call to the operating system

``postgres/`` is the storage for more than one machine, and an extra. Its ``__init__`` says what is where.
"""

from typing import TYPE_CHECKING

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
    InvalidPlace,
    LeaseLost,
    NewerFormat,
    NoSuchChat,
    NoSuchPoint,
    NoSuchStore,
    ReadOnly,
    Unavailable,
)
from chatfold.eventlog.events import *  # noqa: F403 (the vocabulary)
from chatfold.eventlog.files.storage import FileStorage
from chatfold.eventlog.log import Log
from chatfold.eventlog.memory import MemoryStorage
from chatfold.eventlog.places import storage_of
from chatfold.eventlog.search import SearchHit
from chatfold.eventlog.storage import Durability, Storage
from chatfold.late import late

if TYPE_CHECKING:
    from chatfold.eventlog.files.check import check
    from chatfold.eventlog.files.repair import repair, salvage
    from chatfold.eventlog.files.scan import scan
else:  # few programs need them
    __getattr__ = late(
        __name__,
        {
            "check": "chatfold.eventlog.files.check",
            "repair": "chatfold.eventlog.files.repair",
            "salvage": "chatfold.eventlog.files.repair",
            "scan": "chatfold.eventlog.files.scan",
        },
    )

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
    "InvalidPlace",
    "LeaseLost",
    "Log",
    "MemoryStorage",
    "NewerFormat",
    "NoSuchChat",
    "NoSuchPoint",
    "NoSuchStore",
    "ReadOnly",
    "SearchHit",
    "Storage",
    "Unavailable",
    "check",
    "repair",
    "salvage",
    "scan",
    "storage_of",
]
__all__ += events.__all__
