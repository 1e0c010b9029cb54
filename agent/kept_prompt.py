"""The prompt that a chat keeps: it goes on with what came since, and is not built anew for each question.

It is believed only while the active context is the very same value as then: a compaction, a switch or a rewind makes another.
What was erased is in no prompt that is kept, since the chat is then opened anew, with nothing kept.

With the view it is also kept in storage, as the window: the next process that opens the chat reads that and the entries after it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from weakref import WeakMethod

from chatfold.agent.views import Later, Opened, put_off
from chatfold.eventlog import ChatfoldError, Entry, Log, MessageAdded
from chatfold.projections import contexts
from chatfold.projections.contexts import MOVES
from chatfold.projections.prompt import Prompt
from chatfold.projections.snapshot import dump_window

ANSWERED, AT_MOST = 16, 64
"""How many entries the window may be behind when a turn ends, and at any time."""
_BYTES = 8192  # of windows an entry
IDLE_S = 5.0
"""After so long without a call a chat lets go of its prompt."""


class KeptPrompt:
    """That of a chat and its moments, at the entry that was asked for last."""

    def __init__(self, opened: Opened | None = None) -> None:
        self._kept = None if opened is None else opened.prompt
        self._window = 0 if self._kept is None else self._kept[0].seq  # how far the one in storage goes
        self._size = 0  # of that, in bytes, if it was stored here

    def at(self, opened: Opened) -> Prompt | None:
        """The prompt of this view, if the one that is kept leads there."""
        if self._kept is None:
            return None
        (then, prompt), new = self._kept, opened.recent
        if then.seq > opened.seq:
            return None
        if then.seq < opened.seq:
            if not new or new[0].seq > then.seq + 1:
                return None
            new = new[then.seq + 1 - new[0].seq :]
            if any(type(entry.event) in MOVES for entry in new) and not _is_same_context(then, opened):
                return None
            prompt = prompt.then(new)
            self.keep(opened, prompt)
        return prompt

    def keep(self, opened: Opened, prompt: Prompt) -> None:
        self._kept = opened, prompt

    def let_go(self) -> None:
        self._kept = None

    def is_due(self, last: Entry) -> bool:
        """Is the window far enough behind to be stored again? It costs at most so many bytes an entry."""
        is_answer = isinstance(last.event, MessageAdded) and last.event.role == "assistant"
        return last.seq - self._window >= max(ANSWERED if is_answer else AT_MOST, self._size // _BYTES)

    def put_off(self, log: Log, chat: str, opened: Opened, snapshot: int, later: Later) -> None:
        """Stores the window again in the background, if prompts are asked for here."""
        if opened.seq <= self._window or self._kept is None or log.storage.read_only:
            return
        prompt = self.at(opened)
        data = None if prompt is None else dump_window(opened.view, prompt, snapshot)
        self._window = opened.seq
        if data is not None:
            self._size = len(data)
            put_off(_store(log, chat, opened, data), later)


class IdleTimer:
    """Calls ``rest`` when nobody has restarted it for ``IDLE_S``. It keeps nobody alive."""

    def __init__(self, rest: WeakMethod[Callable[[], None]]) -> None:
        self._rest = rest
        self._used_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def restart(self) -> None:
        """At the cost of reading a clock: the timer goes on, and looks when it is over."""
        loop = asyncio.get_running_loop()
        self._used_at = loop.time()
        if self._timer is None:
            # In a context of its own: the one of a run would keep the run, and with it the chat.
            self._timer = loop.call_later(IDLE_S, self._look, context=Context())

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._used_at + IDLE_S - loop.time()
        self._timer = loop.call_later(left, self._look, context=Context()) if left > 0 else None
        if left <= 0 and (rest := self._rest()) is not None:
            rest()


async def _store(log: Log, chat: str, opened: Opened, data: bytes) -> None:
    with suppress(ChatfoldError):  # a caller that needs the chat itself is told
        await log.storage.store_window(chat, opened.head, data, opened.erasures)


def _is_same_context(then: Opened, now: Opened) -> bool:
    one, other = then[contexts], now[contexts]
    return one.active is other.active and one.since == other.since
