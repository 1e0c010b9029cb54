"""eventsourcing on PostgreSQL: a chat is an aggregate, a message an event of it. In threads, as it has no coroutines."""

import asyncio
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, UUID, uuid5

from eventsourcing.domain import datetime_now_with_tzinfo
from eventsourcing.persistence import DatetimeAsISO, EventStore, JSONTranscoder, Mapper, UUIDAsHex
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

from benchmarks.peers.eventsourcing_store import Said


class Store:
    def __init__(self, dsn: str) -> None:
        place = urlsplit(dsn)
        self.datastore = PostgresDatastore(
            dbname=place.path[1:],
            host=place.hostname or "",
            port=place.port or 5432,
            user=place.username or "",
            password="",
            pool_size=8,
        )
        recorder = PostgresApplicationRecorder(self.datastore, events_table_name="peer_events")
        recorder.create_table()
        transcoder = JSONTranscoder()
        transcoder.register(UUIDAsHex())
        transcoder.register(DatetimeAsISO())
        self.events: EventStore[UUID] = EventStore(Mapper(transcoder), recorder)
        self.next: dict[str, int] = {}

    @classmethod
    async def open(cls, dsn: str) -> "Store":
        return await asyncio.to_thread(cls, dsn)

    async def append(self, chat: str, texts: list[str]) -> None:
        await asyncio.to_thread(self._append, chat, texts)

    def _append(self, chat: str, texts: list[str]) -> None:
        number, now, id = self.next.get(chat, 1), datetime_now_with_tzinfo(), uuid5(NAMESPACE_URL, chat)  # noqa: A001
        self.events.put(
            [
                Said(
                    originator_id=id,
                    originator_version=version,
                    timestamp=now,
                    message={"role": "user", "content": text},
                )
                for version, text in enumerate(texts, number)
            ]
        )
        self.next[chat] = number + len(texts)

    async def last(self, chat: str, count: int) -> list[str]:
        return await asyncio.to_thread(self._last, chat, count)

    def _last(self, chat: str, count: int) -> list[str]:
        newest = self.events.get(uuid5(NAMESPACE_URL, chat), desc=True, limit=count)
        return [event.message["content"] for event in newest][::-1]

    async def close(self) -> None:
        self.datastore.close()
