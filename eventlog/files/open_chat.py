"""The chats that a process writes: each with its writer and the appends that wait for it.

One thread at a time is in a chat's writer: the one that has its ``turn``. Who finds it taken puts an append among the
``pending`` ones and tries the turn once more. Who lets go of the turn looks at ``pending`` once more. So one of the two sees the
other, and no append is left behind.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable

from chatfold.eventlog.files.handover import PendingAppend
from chatfold.eventlog.files.writer import LogWriter

OPEN_CHATS = 128
"""Chats whose files stay open."""

GROUP_BYTES = 4 << 20


class OpenChat:
    """A chat and its writer, who has the only tail of it.

    ``turn``: who holds it may use the writer. ``is_sync_due``: is there a ``normal`` append? ``is_gone``: it was deleted, and the
    last one inside closes its files.
    """

    def __init__(self, key: str, writer: LogWriter) -> None:
        self.key = key
        self.writer = writer
        self.turn = threading.Lock()
        self.pending: deque[PendingAppend] = deque()
        self.is_sync_due = False
        self.is_gone = False

    def take_group(self) -> list[PendingAppend]:
        """The appends that wait, or the first of them. The caller has the turn."""
        group: list[PendingAppend] = []
        size = 0
        while self.pending and size < GROUP_BYTES:
            pending = self.pending.popleft()
            group.append(pending)
            if pending.request is not None:
                size += pending.request.size
        return group

    def leave(self) -> bool:
        """Let go of the turn. False: there is something to do, and the caller still has it, or has it again."""
        if self.writer.has_cache_work or self.pending:
            return False
        self.turn.release()
        return not (self.pending and self.turn.acquire(blocking=False))


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
        """Take out the least recently used chats, as far as they are free: at most ``OPEN_CHATS`` stay. The caller has their turns."""
        popped: list[OpenChat] = []
        with self._lock:
            excess = len(self._chats) - OPEN_CHATS
            for key, chat in [*self._chats.items()][:-1]:
                if len(popped) < excess and not chat.pending and chat.turn.acquire(blocking=False):
                    popped.append(self._chats.pop(key))
            self.has_excess = len(self._chats) > OPEN_CHATS
        return popped
