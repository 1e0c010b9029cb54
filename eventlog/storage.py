"""What a storage is: a few methods that move verbatim lines, and what is built on them.

A storage of one's own subclasses ``Storage`` and writes the abstract methods. All others have a default that uses
only those; a storage overrides a default that it can do faster. What it need not have at all stands in
``Snapshots``, ``Leases`` and ``Deltas``. ``chatfold.testing.conformance`` holds any storage to this text, with ``MemoryStorage`` as the reference.

What the methods promise together, over any number of storages open on one place:

- A chat's lines are a chain: seqs without a gap, each line linked to the one before. No one sees half of a batch.
- ``append`` numbers with ``build_batch`` and writes only if nothing that it numbered from has changed since. It compares
  the head (seq *and* link) and the erasures. A head alone is not enough, because **an erasure does not move the head**:
  a batch numbered before it may refer to a text that is not there any more, and could not be read. So an erasure must
  move something that an append compares, in one step with it: a lock that both hold, or a counter in the row that both
  update. The same goes for a fork, which must not copy a text while it is being erased.
- A blob is there before the first line that needs it, and as long as any chat, forks included, has such a line.
- Forks are chats like others: ``delete`` of one leaves the other whole, and ``redact`` erases in all of them.
- An id and a key are looked up over the whole history, however long ago they were used.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import Literal, TypeAlias, get_args

import msgspec

from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.codec import (
    DEL_BYTE,
    EncodedEvent,
    Page,
    decode_page,
    parse_references,
    resolve_line,
)
from chatfold.eventlog.deltas import Deltas
from chatfold.eventlog.errors import ChatDeleted, CorruptLog, NoSuchChat
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.line import parse_seq
from chatfold.eventlog.search import Query, Spans, is_within
from chatfold.eventlog.transfer import ExportWriter

Durability: TypeAlias = Literal["full", "normal", "off"]
"""full: on the medium before ``append`` returns. normal: within 250 ms. off: when the system likes.

All three survive a killed process; only ``full`` survives a power cut right after the append.
"""


def check_durability(durability: object) -> None:
    """ValueError for another word: an append would be as durable as nobody has asked for."""
    if durability not in get_args(Durability):
        raise ValueError(f"no such durability: {durability!r}; there are: {', '.join(get_args(Durability))}")


_LOOK = 0.5  # seconds between two looks for chats that have changed


class ChatRow(msgspec.Struct, frozen=True, gc=False):
    """A chat as ``chats`` lists it.

    ``token``: another word whenever the log is another one: appended to, erased in, or deleted and made again. Looking at a
    chat leaves it as it is, except for a moment after a change. No two chats have the same.

    ``row``: the bytes that ``store_rows`` was given last, if they are still there. They say how the log is now if
    ``row_token`` is ``token``, and how it once was otherwise.
    """

    key: str
    token: str
    row: bytes = b""
    row_token: str = ""


class ChatPage(msgspec.Struct, frozen=True):
    """Some of the chats. ``mark``: what to give as ``changed_since`` next time; empty if the storage cannot tell."""

    rows: list[ChatRow]
    mark: str = ""


class Change(msgspec.Struct, frozen=True):
    """A chat that has changed. ``mark``: what to give as ``since`` to go on after it."""

    key: str
    mark: str


class Opening(msgspec.Struct, frozen=True):
    """``snapshot``: the newest one, with the head that it was made at; ``window``: the same, if the end was asked for.

    Of the two a storage may leave out the snapshot if there is a window.
    """

    erasures: str
    head: Head
    snapshot: tuple[Head, bytes] | None = None
    window: tuple[Head, bytes] | None = None


class Snapshots:
    """What a storage need not have: caches. Their bytes may be gone the next moment, so to keep nothing is right, too."""

    async def erasure_epoch(self, chat: str) -> str:  # noqa: ARG002
        """Another text after every erasure; none before the first."""
        return ""

    async def store_snapshot(self, chat: str, head: Head, data: bytes, erasures: str = "") -> None:
        """Keeps bytes made from the entries up to ``head``.

        ``erasures``: the epoch before these were read. If it is another by now, the bytes may hold what was erased, and
        are refused.
        """

    async def load_snapshots(self, chat: str, last: int | None = None) -> AsyncGenerator[tuple[Head, bytes]]:  # noqa: ARG002
        """What was kept at or before seq ``last``, newest first. The log may have become another one since."""
        for kept in tuple[tuple[Head, bytes], ...]():
            yield kept

    async def store_window(self, chat: str, head: Head, data: bytes, erasures: str = "") -> None:
        """Keeps bytes made from the entries up to ``head`` in the place of those that were kept this way before.

        Written often: nothing else is kept or looked at. ``erasures``: as in ``store_snapshot``.
        """

    async def load_window(self, chat: str) -> tuple[Head, bytes] | None:  # noqa: ARG002
        """What was kept last, if it is from after the last erasure. The log may have become another one since."""
        return None

    async def store_chapter(self, chat: str, first: int, head: Head, data: bytes, erasures: str = "") -> None:
        """Keeps bytes made from the entries ``first`` up to ``head`` in the place of those that were kept from ``first`` on.

        ``erasures``: as in ``store_snapshot``.
        """

    async def load_chapters(self, chat: str, first: int, last: int) -> dict[int, tuple[Head, bytes]]:  # noqa: ARG002
        """What was kept, by the seq it begins with, which is one of ``first`` … ``last``. The log may have become another one since."""
        return {}

    async def segment_boundaries(self, chat: str) -> Sequence[int]:  # noqa: ARG002
        """The seqs, in order, at which what is kept stays. Between them there is what is read in one go."""
        return ()

    async def store_rows(self, rows: Mapping[str, tuple[str, bytes]]) -> None:
        """Keeps bytes made from whole chats, a few hundred for each, for ``chats`` to give back.

        ``rows``: by key, the token from before the chat was read, and the bytes. An erasure removes them with the text.
        """


class Leases:
    """What a storage need not have, as long as no agent runs on it."""

    def lease(self, chat: str) -> AbstractAsyncContextManager[str]:
        """Inside, nobody else who asked for it is, in any process; whoever dies inside has left it. For what is done about a
        chat that exists, one at a time; appending needs nothing of the kind.

        Gives the epoch of the lease, another one each time. An append whose request names an epoch that has passed is
        ``LeaseLost``: the append compares it in the same step as the head. An empty epoch says that the lease cannot be lost
        by one who is alive, as the lock of a file cannot; then there is nothing to compare.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no leases, and {chat!r} cannot be run without one"
        )


class Storage(Snapshots, Leases, Deltas, ABC):
    read_only = False
    """Is nothing kept?"""

    # --- what every storage must have ------------------------------------------------------------------

    @abstractmethod
    async def append(self, request: AppendRequest, durability: Durability | None = None) -> list[Entry]:
        """All or nothing. The same id again returns the first entries; see ``batch`` for the errors.

        Cancelling does not take an append back: its outcome is then unknown, and a retry with its id tells.
        """

    @abstractmethod
    def read(self, chat: str, first: int = 1, last: int | None = None) -> AsyncGenerator[Page]:
        """The lines from ``first`` to ``last`` or the end as of now, verified, as they were written.

        A chat that is not there is empty.
        """

    @abstractmethod
    def read_back(self, chat: str, last: int | None = None) -> AsyncGenerator[Page]:
        """The same from ``last`` or the end back to the start: last page first, each page in order."""

    @abstractmethod
    async def head(self, chat: str) -> Head:
        """Where the log ends; ``Head()`` for a chat that is not there."""

    @abstractmethod
    async def find(self, chat: str, *, id: str | None = None, key: str | None = None) -> int | None:
        """The seq of the entry of this key, or of the first that was appended with this id, over the whole history.

        None if there is none.
        """

    @abstractmethod
    async def blob(self, chat: str, digest: str) -> bytes:
        """The content that a line names by its sha256. CorruptLog if it is not there."""

    @abstractmethod
    async def wait_for_news(self, chat: str, after: int) -> None:
        """Returns when there may be an entry after seq ``after``. May return too early, never too late.

        ChatDeleted if there is no chat, and ``after`` says that there was one.
        """

    @abstractmethod
    def chats(self, prefix: str = "", changed_since: str = "") -> AsyncGenerator[ChatPage]:
        """The chats whose keys start with ``prefix``, in pages; at least one page, for its mark. Decodes no entry.

        ``changed_since``, the mark of a page: chats whose tokens are as they were then may be left out, no others. It says
        nothing of chats that are gone. A mark that the storage does not know leaves nothing out.
        """

    @abstractmethod
    async def fork(self, chat: str, new: str, at: int, first: EncodedEvent) -> Entry:
        """``new`` becomes a complete chat: ``chat`` up to seq ``at``, then ``first``. Neither hurts the other."""

    @abstractmethod
    async def redact(self, chat: str, seqs: Collection[int]) -> dict[str, list[int]]:
        """Erases the payloads, also where they are referred to or were forked: what was erased, by chat."""

    @abstractmethod
    async def delete(self, chat: str) -> None:
        """The whole chat, for good; its forks stay. Quiet if there is none, so that a delete can be tried again."""

    @abstractmethod
    async def import_chat(self, chat: str, chunks: AsyncIterator[bytes]) -> None:
        """An export becomes the chat of this key, with the very same lines: all of it, or nothing. See ``transfer``."""

    @abstractmethod
    async def close(self) -> None:
        """Closing twice is closing once."""

    # --- what is built on it -----------------------------------------------------------------------------

    async def read_entries(
        self, chat: str, first: int = 1, last: int | None = None
    ) -> AsyncGenerator[list[Entry]]:
        """What ``read`` reads, decoded and whole, a page at a time."""
        async with aclosing(self.read(chat, first, last)) as pages:
            async for page in pages:
                yield await self._decode(chat, page)

    async def read_entries_back(self, chat: str, last: int | None = None) -> AsyncGenerator[list[Entry]]:
        """What ``read_back`` reads: last page first, each page in order."""
        async with aclosing(self.read_back(chat, last)) as pages:
            async for page in pages:
                yield await self._decode(chat, page)

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Entry]:
        """The last ``count`` entries, or those before and with seq ``upto``, in order."""
        found: list[Entry] = []
        async with aclosing(self.read_back(chat, upto)) as pages:
            while len(found) < count and (page := await anext(pages, None)):
                found[:0] = await self._decode(chat, page)
        return found[max(0, len(found) - count) :]

    async def search(self, chat: str, query: Query, without: Spans = ()) -> AsyncGenerator[Entry]:
        """The entries that match, newest first, but none of the spans ``without``.

        A chat that is not there has none, and one that is deleted meanwhile no more.
        """
        with suppress(ChatDeleted):
            async with aclosing(self.read_entries_back(chat)) as pages:
                async for page in pages:
                    for entry in reversed(page):
                        if query.matches(entry) and not is_within(entry.seq, without):
                            yield entry

    async def export(self, chat: str) -> AsyncGenerator[bytes]:
        """The whole chat as one file of lines, in pieces; see ``transfer``."""
        head = await self.head(chat)
        if head == Head():
            raise NoSuchChat("no such chat", chat=chat)
        blobs: dict[str, bytes] = {}
        packing = ExportWriter(blobs.__getitem__)
        yield packing.begin()
        async with aclosing(self.read(chat, 1, head.seq)) as pages:
            async for page in pages:
                whole, found = await self._with_blobs(chat, page)
                blobs |= found
                yield packing.page(whole.lines())
                blobs.clear()
        yield packing.end()

    async def follow_chats(self, since: str = "") -> AsyncGenerator[Change]:
        """The chats that have changed since the mark, then those that do, for ever. Each at least once after its last change; a
        chat that changes often may be told once for several changes. Nothing is said of chats that are gone.
        """
        while True:
            pages = [page async for page in self.chats(changed_since=since)]
            keys = [row.key for page in pages for row in page.rows]
            for key in keys[:-1]:
                yield Change(key, since)  # the others of these are still to come
            since = pages[0].mark
            for key in keys[-1:]:
                yield Change(key, since)
            await asyncio.sleep(_LOOK)

    async def load_opening(self, chat: str, last: int | None = None) -> Opening:
        """What whoever opens a chat asks first, in this order; ``last``: see ``load_snapshots``.

        A remote storage answers in one round trip.
        """
        erasures, head = await self.erasure_epoch(chat), await self.head(chat)
        if last is None and (window := await self.load_window(chat)):
            return Opening(erasures, head, None, window)
        async with aclosing(self.load_snapshots(chat, last)) as kept:
            return Opening(erasures, head, await anext(kept, None))

    async def flush(self) -> None:
        """A barrier: everything appended before is durable. Nothing to do where every append is durable on return."""

    async def _decode(self, chat: str, page: Page) -> list[Entry]:
        """The entries of verified lines, with all that they keep elsewhere, which is read first."""
        if page.data.find(DEL_BYTE, page.start, page.end) < 0:
            return decode_page(page, bytes)
        while True:
            try:
                return await self._resolve(chat, page)
            except CorruptLog as error:
                page = await self._read_again(chat, page, error)

    async def _resolve(self, chat: str, page: Page) -> list[Entry]:
        seqs, digests = _references(page)
        lines: dict[int, bytes] = {}
        for seq in seqs:
            async for one in self.read(chat, seq, seq):
                lines[seq] = one.first_line()
        if len(lines) < len(seqs):
            raise CorruptLog("the text that an entry refers to is not there")
        blobs = {digest: await self.blob(chat, digest) for digest in digests}

        def whole(line: bytes) -> bytes:
            return resolve_line(line, lines.__getitem__, blobs.__getitem__)

        return decode_page(page, whole)

    async def _with_blobs(self, chat: str, page: Page) -> tuple[Page, dict[str, bytes]]:
        while True:
            try:
                return page, {digest: await self.blob(chat, digest) for digest in _references(page)[1]}
            except CorruptLog as error:
                page = await self._read_again(chat, page, error)

    async def _read_again(self, chat: str, page: Page, error: CorruptLog) -> Page:
        """The same lines as they are now: erased since they were read, together with what they refer to. Or the error."""
        first, last = parse_seq(page.first_line()), parse_seq(page.last_line())
        lines = [line async for one in self.read(chat, first, last) for line in one.lines()]
        if len(lines) < last - first + 1:
            raise ChatDeleted("the chat was deleted", chat=chat, seq=first) from None
        if lines == page.lines():
            error.chat = chat
            raise error
        return Page.of(lines)


def _references(page: Page) -> tuple[list[int], list[str]]:
    """(seqs, blobs) that the lines of a page need to be whole."""
    seqs, blobs = set[int](), set[str]()
    for line in page.lines():
        if DEL_BYTE in line:
            needed = parse_references(line)
            seqs |= needed[0]
            blobs |= needed[1]
    return sorted(seqs), sorted(blobs)
