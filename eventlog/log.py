"""Log: typed events on a storage. What was appended is what is read."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Self

from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.codec import EncodedEvent, encode_event, encode_named
from chatfold.eventlog.errors import ChatDeleted, InvalidEvent
from chatfold.eventlog.events import Entry, Event, Forked, Head, Redacted
from chatfold.eventlog.search import SearchHit, Spans, parse_exact, parse_words
from chatfold.eventlog.storage import Change, Durability, Storage


class Log:
    """``async with Log(FileStorage("./store")) as log``; closing closes the storage."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def __repr__(self) -> str:
        return f"Log({self.storage!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.storage.close()

    async def append(
        self,
        chat: str,
        *events: Event,
        after: int | None = None,
        id: str | None = None,
        run: str | None = None,
        durability: Durability | None = None,
        known: Head | None = None,
        keys: Sequence[str | None] = (),
        said_at: Sequence[int | None] = (),
        lease: str = "",
    ) -> list[Entry]:
        """Appends the events as one batch: all become visible at once, or none ever.

        ``after``: only if the log ends at this seq (0: a new chat), else ``Conflict``. ``id``: this very append
        again returns the first one's entries; with other events it is ``IdConflict``. ``known``: where the log once
        ended; if it does not go on from there, it is ``ChatDeleted``.

        ``keys``: one for each event, or None. An event whose key was used before is not written again: its first
        entry is returned in its place; with other content it is ``IdConflict``. ``after`` is not compared if
        nothing is left to write. ``said_at``: one for each event, or None: when it was said, in epoch milliseconds.

        ``lease``: what ``storage.lease`` gave; if another has it by now, it is ``LeaseLost``.

        A cancelled append may have happened: retry it with its id.
        """
        try:
            if keys or said_at:
                drafts = _encode_named(events, keys, said_at)
            else:
                drafts = tuple(map(encode_event, events))
        except InvalidEvent as error:
            if keys or said_at:
                error.chat = chat
                raise
            drafts = tuple(_draft(event, at, chat) for at, event in enumerate(events, 1))  # says which
        return await self.storage.append(
            AppendRequest(chat, drafts, after, id, run, known or Head(), lease), durability
        )

    async def pages(self, chat: str, first: int = 1, last: int | None = None) -> AsyncIterator[list[Entry]]:
        """What ``read`` reads, many entries at a time."""
        async for page in self.storage.read_entries(chat, first, last):
            yield page

    async def read(self, chat: str, first: int = 1, last: int | None = None) -> AsyncIterator[Entry]:
        """Entries ``first`` … ``last``, or to the end as it is when the reading starts."""
        async for page in self.pages(chat, first, last):
            for entry in page:
                yield entry

    async def read_back(self, chat: str, last: int | None = None) -> AsyncIterator[Entry]:
        """Entries from ``last``, or the end, down to the first."""
        async for page in self.storage.read_entries_back(chat, last):
            for entry in reversed(page):
                yield entry

    async def spans(self, chat: str, spans: Iterable[tuple[int, int]]) -> AsyncIterator[Entry]:
        """The entries of each span (first, last), both included, one span after the other."""
        for first, last in spans:
            async for entry in self.read(chat, first, last):
                yield entry

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Entry]:
        """The last ``count`` entries, or those before and with seq ``upto``, in order."""
        return await self.storage.last(chat, max(0, count), upto)

    async def head(self, chat: str) -> Head:
        """Where the log ends; ``Head()`` for a chat that is not there."""
        return await self.storage.head(chat)

    async def follow(self, chat: str, after: int = 0) -> AsyncGenerator[Entry]:
        """What was, then what comes, from any process. Ends only with an error or when it is closed."""
        link: str | None = None
        while True:
            async for entry in self.read(chat, after + 1):
                if link is not None and entry.prev != link:
                    raise ChatDeleted("another chat of the same key took its place", chat=chat, seq=entry.seq)
                after, link = entry.seq, entry.link
                yield entry
            await self.storage.wait_for_news(chat, after)

    async def search(self, chat: str, query: str, *, limit: int = 20, without: Spans = ()) -> list[SearchHit]:
        """The newest ``limit`` entries that hold all words of the query, newest first; none of the spans ``without``.

        Whatever was ever said is found, unless it was erased; see ``search`` for what a word is. Needs no index: it reads
        from the end until there are enough. ValueError if there is nothing in the query to look for.
        """
        wanted = parse_words(query)
        found: list[Entry] = []
        async with aclosing(self.storage.search(chat, wanted, without)) as entries:
            while len(found) < limit and (entry := await anext(entries, None)):
                found.append(entry)
        return await asyncio.to_thread(lambda: [wanted.show(entry) for entry in found])

    async def grep(self, chat: str, text: str) -> list[int]:
        """The seqs, in order, of the entries that hold this very text, case and all, in one of their strings.

        Whatever somebody put in is found, also what ``search`` passes over: reasoning, recalled copies, skills, ids; but
        nothing inside of bytes, or of events of types not known. ValueError for the empty text.
        """
        found = [entry.seq async for entry in self.storage.search(chat, parse_exact(text))]
        return found[::-1]

    async def chats(self, prefix: str = "") -> AsyncIterator[str]:
        """The keys of all chats, or of those that start with ``prefix``."""
        async for page in self.storage.chats(prefix):
            for row in page.rows:
                yield row.key

    async def follow_chats(self, since: str = "") -> AsyncGenerator[Change]:
        """The chats that have changed since the mark of a change, then those that do, from any process."""
        async with aclosing(self.storage.follow_chats(since)) as changes:
            async for change in changes:
                yield change

    async def fork(self, chat: str, new: str, at: int | None = None) -> Entry:
        """``new`` is ``chat`` up to seq ``at`` (default: its end), then goes its own way."""
        point = (await self.head(chat)).seq if at is None else at
        return await self.storage.fork(chat, new, point, encode_event(Forked(chat, point)))

    async def redact(self, chat: str, *seqs: int, reason: str = "") -> dict[str, list[int]]:
        """Erases payloads for good, here and wherever the same entries or texts are kept; says where that was."""
        erased = await self.storage.redact(chat, seqs)
        for key, where in erased.items():
            with suppress(ChatDeleted):  # meanwhile: then there is nothing to say it in
                if (head := await self.head(key)).seq:
                    await self.append(key, Redacted(tuple(where), reason), known=head)
        return erased

    async def delete(self, chat: str) -> None:
        """The whole chat, for good; its forks stay. Nothing happens if there is none: a delete can be tried again."""
        await self.storage.delete(chat)

    async def flush(self) -> None:
        """A barrier: everything appended before is durable."""
        await self.storage.flush()


def _encode_named(
    events: Sequence[Event], keys: Sequence[str | None], said_at: Sequence[int | None]
) -> tuple[EncodedEvent, ...]:
    nothing = (None,) * len(events)
    if isinstance(keys, str) or len(keys or nothing) != len(events) or len(said_at or nothing) != len(events):
        raise InvalidEvent("keys and said_at need one item for each event")
    return tuple(map(encode_named, events, keys or nothing, said_at or nothing))


def _draft(event: Event, at: int, chat: str) -> EncodedEvent:
    try:
        return encode_event(event)
    except InvalidEvent as error:
        raise InvalidEvent(f"event {at}: {error.args[0]}", chat=chat) from None
