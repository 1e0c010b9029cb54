"""A file of JSON lines a chat, written and read as the seeds of this project and many small programs do it.

``open("a")`` for each message, an fsync a turn if it is to be durable; reading is reading everything. Threads append in turn.
"""

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from benchmarks.conversation import Message


def native(message: Message) -> Message:
    return message


plain = native

RELAXED = ("",)


class Store:
    def __init__(self, place: Path, *, durable: bool, setting: str) -> None:
        assert not setting
        self.place = place
        self.durable = durable
        self.lock = Lock()

    def path(self, chat: str) -> Path:
        return self.place / f"{chat}.jsonl"

    async def append(self, chat: str, items: list[Message]) -> None:
        await asyncio.to_thread(self._append, chat, items)

    def _append(self, chat: str, items: list[Message]) -> None:
        with self.lock:
            for message in items:
                with self.path(chat).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(message, ensure_ascii=False) + "\n")
            if self.durable:
                with self.path(chat).open("rb") as file:
                    os.fsync(file.fileno())

    async def last(self, chat: str, count: int, upto: int | None = None) -> list[Message]:
        messages = list(await self.replay(chat))[:upto]
        return messages[-count:]

    async def replay(self, chat: str) -> Iterator[Message]:
        lines = self.path(chat).read_text(encoding="utf-8").split("\n")
        return (json.loads(line) for line in lines if line)

    async def fork(self, chat: str, new: str, at: int) -> None:
        await asyncio.to_thread(self._fork, chat, new, at)

    def _fork(self, chat: str, new: str, at: int) -> None:
        """Copied and cut; durable as an append is."""
        shutil.copyfile(self.path(chat), self.path(new))
        with self.path(new).open("rb+") as file:
            for _ in range(at):
                file.readline()
            file.truncate(file.tell())
            os.fsync(file.fileno())

    async def forget(self, new: str) -> None:
        self.path(new).unlink()

    async def compact(self, chat: str, summary: Message, keep: int) -> list[Message]:
        """The file is written anew: what was said before is gone."""
        left = [summary, *await self.last(chat, keep)]
        new = self.path(f"{chat}.new")
        await asyncio.to_thread(self._append, f"{chat}.new", left)
        new.replace(self.path(chat))
        return left

    async def search(self, chat: str, text: str) -> int:
        """By looking at every line."""
        lines = self.path(chat).read_text(encoding="utf-8").split("\n")
        return len([line for line in lines if text in line][:20])

    async def close(self) -> None:
        pass
