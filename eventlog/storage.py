"""What a storage is: a handful of methods that move verbatim lines.

A chat keeps its bytes and its checksums wherever it lives, so everything above works on every storage, and
one state machine in the tests holds each to ``MemoryStorage``, the reference. A storage for more than one
machine fits the same methods: ``append`` is one statement with the expected head, built by ``build_batch``.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias

from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.codec import EncodedEvent
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.search import SearchHit

Durability: TypeAlias = Literal["full", "normal", "off"]
"""full: on the medium before ``append`` returns. normal: within 250 ms. off: when the system likes.

All three survive a killed process; only ``full`` survives a power cut right after the append.
"""


Clock: TypeAlias = Callable[[], int]
"""Epoch milliseconds. ``ts`` is for people: it orders nothing, and may jump as the clock does."""


def now() -> int:
    return time.time_ns() // 1_000_000


class Storage(Protocol):
    read_only: bool
    """Is nothing kept?"""

    async def append(self, request: AppendRequest, durability: Durability | None = None) -> list[Entry]:
        """All or nothing. The same id again returns the first entries; see ``batch`` for the errors.

        Cancelling does not take an append back: its outcome is then unknown, and a retry with its id tells.
        """

    def read(self, chat: str, first: int = 1, last: int | None = None) -> AsyncIterator[list[bytes]]:
        """The lines from ``first`` to ``last`` or the end as of now, in pages, whole. A chat that is not there is empty."""

    def read_back(self, chat: str, last: int | None = None) -> AsyncGenerator[list[bytes]]:
        """The same from ``last`` or the end back to the start: last page first, each page in order."""

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Entry]:
        """The last ``count`` entries, or those before and with seq ``upto``, in order."""

    async def head(self, chat: str) -> Head: ...

    async def wait_for_news(self, chat: str, after: int) -> None:
        """Returns when there may be an entry after seq ``after``. May return too early, never too late."""

    def chats(self) -> AsyncIterator[str]: ...

    async def change_tokens(self) -> list[tuple[str, str]]:
        """Every chat by key, with a word that becomes another one whenever its log does. Reads no log."""

    async def keep_listing(self, data: bytes) -> None:
        """Keeps bytes made from all chats, as a cache: they may be gone the next moment."""

    async def kept_listing(self) -> bytes: ...

    async def fork(self, chat: str, new: str, at: int, first: EncodedEvent) -> Entry:
        """``new`` becomes a complete chat: ``chat`` up to seq ``at``, then ``first``. Neither hurts the other."""

    def export(self, chat: str) -> AsyncIterator[bytes]:
        """The whole chat as one file of lines, in pieces; see ``exports``."""

    async def import_chat(self, chat: str, chunks: AsyncIterator[bytes]) -> None:
        """An export becomes the chat of this key: all of it, or nothing."""

    async def redact(self, chat: str, seqs: Collection[int]) -> dict[str, list[int]]:
        """Erases the payloads, also where they are referred to or were forked: what was erased, by chat."""

    async def delete(self, chat: str) -> None: ...

    async def search(
        self, chat: str, query: str, *, limit: int = 20, without: Sequence[tuple[int, int]] = ()
    ) -> list[SearchHit]:
        """The entries that hold all words of the query, best first; none of the spans ``without``."""

    async def grep(self, chat: str, text: str) -> list[int]:
        """The seqs, in order, of the entries that hold this very text in one of their strings; see ``grepping``."""

    async def erasure_epoch(self, chat: str) -> str:
        """Another text after every erasure; none before the first."""

    async def store_snapshot(self, chat: str, head: Head, data: bytes, erasures: str = "") -> None:
        """Keeps bytes made from the entries up to ``head``, as a cache: they may be gone the next moment.

        ``erasures``: as it was before these were read. If it is another by now, the bytes may hold what was erased, and are not kept.
        """

    def load_snapshots(self, chat: str, last: int | None = None) -> AsyncGenerator[tuple[Head, bytes]]:
        """What was kept at or before seq ``last``, newest first. The log may have become another one since."""

    async def segment_boundaries(self, chat: str) -> Sequence[int]:
        """The seqs, in order, at which what is kept stays. Between them there is what is read in one go."""

    def lease(self, chat: str) -> AbstractAsyncContextManager[None]:
        """Inside, nobody else who asked for it is, in any process; whoever dies inside has left it. For what is done about a
        chat that exists, one at a time; appending needs nothing of the kind."""

    async def flush(self) -> None:
        """A barrier: everything appended before is durable."""

    async def close(self) -> None: ...
