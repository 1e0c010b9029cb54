"""The chats that a process writes: each with its writer and the appends that wait for it.

One thread at a time is in a chat's writer: the one that ``acquire`` let in. It lets the next group out with ``pop_group``,
or sets the chat free, under one lock: an append either finds the chat free or joins the next group.
"""

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Literal, TypeAlias

from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.events import Entry
from chatfold.eventlog.files.inbox import Inbox
from chatfold.eventlog.files.writer import LogWriter, Result
from chatfold.eventlog.storage import Durability

OPEN_CHATS = 128
"""Chats whose files stay open."""

GROUP_BYTES = 4 << 20

Followup: TypeAlias = Literal["", "sync", "watermark"]


class PendingAppend:
    """An append on its way and the future that waits for it. Without a ``request``, a sync or the end of a segment."""

    __slots__ = ("durability", "future", "inbox", "request", "result", "seal")

    def __init__(
        self,
        request: AppendRequest | None,
        durability: Durability,
        inbox: Inbox | None = None,
        seal: tuple[int, int] | None = None,
    ) -> None:
        self.request = request
        self.durability = durability
        self.inbox = inbox
        self.seal = seal
        self.result = Result()
        self.future: asyncio.Future[list[Entry]] | None = inbox.create_future() if inbox else None

    @property
    def size(self) -> int:
        return sum([len(event.raw) for event in self.request.events]) if self.request else 0

    def answer(self) -> asyncio.Future[list[Entry]]:
        assert self.future is not None
        return self.future

    def settle(self) -> None:
        """Give the answer, on the future's loop. A cancelled append is on disk all the same."""
        if self.future is None or self.future.done():
            return
        if self.result.error is not None:
            self.future.set_exception(self.result.error)
        else:
            self.future.set_result(self.result.entries)


class OpenChat:
    """``is_gone``: the chat was deleted, and the last one inside closes its files."""

    def __init__(self, key: str, writer: LogWriter) -> None:
        self.key = key
        self.writer = writer
        self.followup: Followup = ""  # what is to be done soon
        self.is_gone = False
        self._pending: deque[PendingAppend] = deque()
        self._is_busy = False
        self._lock = threading.Lock()

    def acquire(self) -> bool:
        """Take the writer, if it is free."""
        with self._lock:
            is_free, self._is_busy = not self._is_busy, True
        return is_free

    def add(self, pending: PendingAppend) -> bool:
        """Let it wait for the next group. True: the chat was free, and the caller has it now."""
        with self._lock:
            self._pending.append(pending)
            is_free, self._is_busy = not self._is_busy, True
        return is_free

    def release(self) -> bool:
        """Set the chat free. False: appends came meanwhile, or there is work to do, and the caller still has it."""
        with self._lock:
            self._is_busy = bool(self._pending) or self.writer.has_cache_work or self.is_gone
            return not self._is_busy

    def pop_group(self) -> list[PendingAppend]:
        """The next group. Empty: nothing waits, and the chat is free."""
        group: list[PendingAppend] = []
        size = 0
        with self._lock:
            while self._pending and size < GROUP_BYTES:
                pending = self._pending.popleft()
                group.append(pending)
                size += pending.size
            self._is_busy = bool(group)
        return group

    def add_followup(self, followup: Followup) -> None:
        with self._lock:
            self.followup = "sync" if "sync" in (followup, self.followup) else followup or self.followup

    def take_followup(self) -> Followup:
        with self._lock:
            followup, self.followup = self.followup, ""
        return followup


class OpenChats:
    """By key, the most recently used last. Safe from any thread."""

    def __init__(self, open_writer: Callable[[str], LogWriter]) -> None:
        self._open_writer = open_writer
        self.has_excess = False  # are there more than ``OPEN_CHATS``?
        self._chats: OrderedDict[str, OpenChat] = OrderedDict()
        self._lock = threading.Lock()

    def all(self) -> list[OpenChat]:
        with self._lock:
            return [*self._chats.values()]

    def get(self, key: str) -> OpenChat:
        with self._lock:
            chat = self._chats.get(key)
            if chat is None:
                chat = self._chats[key] = OpenChat(key, self._open_writer(key))
                self.has_excess = len(self._chats) > OPEN_CHATS
            self._chats.move_to_end(key)
        return chat

    def find(self, key: str) -> OpenChat | None:
        return self._chats.get(key)

    def pop(self, key: str) -> OpenChat | None:
        with self._lock:
            return self._chats.pop(key, None)

    def pop_idle(self) -> list[OpenChat]:
        """Take out the least recently used chats, as far as they are free: at most ``OPEN_CHATS`` stay. The caller has them."""
        popped: list[OpenChat] = []
        with self._lock:
            excess = len(self._chats) - OPEN_CHATS
            for key, chat in [*self._chats.items()][:-1]:
                if len(popped) < excess and chat.acquire():
                    popped.append(self._chats.pop(key))
            self.has_excess = len(self._chats) > OPEN_CHATS
        return popped
