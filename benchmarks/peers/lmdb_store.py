"""LMDB by hand: one B-tree of all chats, keys that sort by chat and number, a transaction a turn.

``sync=True`` is its default: a commit is on the medium. Relaxed is ``sync=False``. Writes go to a thread, as with SQLite.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import lmdb
import msgspec

from benchmarks.conversation import Message

_SPACE = 1 << 36  # of addresses, not of the disk


def _key(chat: str, number: int) -> bytes:
    return chat.encode() + b"\0" + number.to_bytes(8, "big")


def native(message: Message) -> Message:
    return message


plain = native

RELAXED = ("",)


class Store:
    def __init__(self, place: Path, *, durable: bool, setting: str) -> None:
        assert not setting
        self.environment = lmdb.open(str(place), map_size=_SPACE, sync=durable)
        self.next: dict[str, int] = {}

    async def append(self, chat: str, items: list[Message]) -> None:
        await asyncio.to_thread(self._append, chat, items)

    def _append(self, chat: str, items: list[Message]) -> None:
        values = list(map(msgspec.json.encode, items))
        with self.environment.begin(write=True) as transaction:  # one at a time, whoever asks
            number = self.next.get(chat) or self._length(transaction, chat) + 1
            for at, value in enumerate(values, number):
                transaction.put(_key(chat, at), value)
            self.next[chat] = number + len(items)

    @staticmethod
    def _length(transaction: lmdb.Transaction, chat: str) -> int:
        with transaction.cursor() as cursor:
            found = cursor.prev() if cursor.set_range(_key(chat, 1 << 63)) else cursor.last()
            same = found and cursor.key().startswith(chat.encode() + b"\0")
            return int.from_bytes(cursor.key()[-8:], "big") if same else 0

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Message]:
        with self.environment.begin(buffers=True) as transaction:
            end = self._end(chat) if upto is None else upto
            first = max(1, end - count + 1)
            return [
                msgspec.json.decode(transaction.get(_key(chat, number))) for number in range(first, end + 1)
            ]

    def _end(self, chat: str) -> int:
        with self.environment.begin() as transaction:
            return self._length(transaction, chat)

    async def replay(self, chat: str) -> Iterator[Message]:
        return self._replay(chat)

    def _replay(self, chat: str) -> Iterator[Message]:
        prefix = chat.encode() + b"\0"
        with self.environment.begin(buffers=True) as transaction, transaction.cursor() as cursor:
            cursor.set_range(prefix)
            for key, value in cursor:
                if bytes(key[: len(prefix)]) != prefix:
                    break
                yield msgspec.json.decode(value)

    async def fork(self, chat: str, new: str, at: int) -> None:
        await asyncio.to_thread(self._fork, chat, new, at)

    def _fork(self, chat: str, new: str, at: int) -> None:
        with self.environment.begin(write=True) as transaction:
            for number in range(1, at + 1):
                transaction.put(_key(new, number), transaction.get(_key(chat, number)))

    async def forget(self, new: str) -> None:
        with self.environment.begin(write=True) as transaction:
            for number in range(1, self._length(transaction, new) + 1):
                transaction.delete(_key(new, number))

    async def close(self) -> None:
        self.environment.close()
