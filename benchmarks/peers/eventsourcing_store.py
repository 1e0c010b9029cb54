"""eventsourcing: a chat is an aggregate, a message an event of it; its SQLite module records, its JSON transcoder writes.

It sets WAL and leaves SQLite's default, FULL. Events are read by version, which is what time travel and the end of a chat need, so the
aggregate is not made when only its last messages are wanted. Calls go to a thread, as with SQLite. It has no forks.
"""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from eventsourcing.domain import Aggregate, datetime_now_with_tzinfo
from eventsourcing.persistence import DatetimeAsISO, EventStore, JSONTranscoder, Mapper, UUIDAsHex
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

from benchmarks.conversation import Message


class Said(Aggregate.Event):
    message: dict[str, Any]


def native(message: Message) -> Message:
    return message


def plain(event: Said) -> Message:
    return event.message


def _id(chat: str) -> UUID:
    return uuid5(NAMESPACE_URL, chat)


class Store:
    def __init__(self, place: Path, *, durable: bool, setting: str) -> None:
        assert durable
        assert not setting
        self.lock = Lock()
        self.datastore = SQLiteDatastore(str(place / "events.sqlite"), lock_timeout=30)
        self.recorder = SQLiteApplicationRecorder(self.datastore)
        self.recorder.create_table()
        transcoder = JSONTranscoder()
        transcoder.register(UUIDAsHex())
        transcoder.register(DatetimeAsISO())
        self.events: EventStore[UUID] = EventStore(Mapper(transcoder), self.recorder)
        self.next: dict[str, int] = {}

    async def append(self, chat: str, items: list[Message]) -> None:
        await asyncio.to_thread(self._append, chat, items)

    def _append(self, chat: str, items: list[Message]) -> None:
        with self.lock:
            number = self.next.get(chat) or self._length(chat) + 1
            now = datetime_now_with_tzinfo()
            self.events.put([_said(chat, at, now, item) for at, item in enumerate(items, number)])
            self.next[chat] = number + len(items)

    def _length(self, chat: str) -> int:
        newest = self.recorder.select_events(_id(chat), desc=True, limit=1)
        return newest[0].originator_version if newest else 0

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Said]:
        newest = list(self.events.get(_id(chat), lte=upto, desc=True, limit=count))
        return newest[::-1]

    async def replay(self, chat: str) -> Iterator[Said]:
        return self.events.get(_id(chat))

    async def close(self) -> None:
        self.datastore.close()


def _said(chat: str, version: int, now: datetime, message: Message) -> Said:
    return Said(originator_id=_id(chat), originator_version=version, timestamp=now, message=message)
