"""Closing ends, at whatever moment it comes."""

import asyncio
import threading
from pathlib import Path

from chatfold.eventlog import FileStorage, Log, Noted


class ClosedMeanwhile(threading.Event):
    """Of what is due: the storage is closed at the very moment at which it is looked after."""

    def __init__(self, closed: threading.Event) -> None:
        super().__init__()
        self._closed = closed

    def clear(self) -> None:
        self._closed.set()
        self.set()
        super().clear()


async def test_whoever_looks_after_the_chats_ends_although_it_was_just_about_to_look(root: Path) -> None:
    storage = FileStorage(root)
    queue = storage._queue
    queue._due = ClosedMeanwhile(queue._is_closed)
    async with Log(storage) as log:
        await log.append("chat", Noted("something to witness"))
        timer = queue._timer
        assert timer is not None
        await asyncio.to_thread(timer.join, 3)
        ended = not timer.is_alive()
        queue._due.set()  # or nothing here would ever end
        assert ended
