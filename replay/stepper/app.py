"""``chatfold step CHAT[@POINT]``: a chat entry by entry, in a terminal. See ``stepping`` for the keys.

    code = await step("./store", "lexer-bug", "c2^")

Keys are never waited for by what they ask for: the list is drawn at once, what takes longer follows when no key came meanwhile, and
Escape stops what is being looked for. Where there is no terminal to draw on, the same keys are read as lines.
"""

import asyncio
import os
import signal
from collections import deque
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from chatfold.agent import Store
from chatfold.eventlog import ChatfoldError
from chatfold.eventlog.places import show_place
from chatfold.replay.inspect.address import Point
from chatfold.replay.inspect.cursor import Replay
from chatfold.replay.inspect.places import LAST, find_chat, open_place
from chatfold.replay.stepper.keymap import begin, grow, press
from chatfold.replay.stepper.keys import Keys
from chatfold.replay.stepper.lines import in_lines
from chatfold.replay.stepper.panes import Panes
from chatfold.replay.stepper.screen import frame
from chatfold.replay.stepper.state import Session, State
from chatfold.replay.stepper.tty import Terminal, is_terminal
from chatfold.replay.terminal import wants_colour

_ESCAPE = 0.05  # seconds after which an Escape was only that
_POLL = 0.5  # seconds between two looks at whether the chat has grown
_TELL = 0.1  # seconds between two words about how far something came


async def step(
    place: Path | str | Store,
    chat: str = "",
    point: str | Point | None = None,
) -> int:
    """Until it is left; gives the exit code. It begins at the end. Raises ``NoSuchPoint``, ``NoStore``, ``UnknownChat``."""
    async with open_place(place) as (store, key):
        found = await store.chat(key) if key else await find_chat(store, chat or LAST)
        replay = Replay(found)
        if point is not None:
            await replay.seek(point)
        session = Session(store, replay, place="" if isinstance(place, Store) else show_place(place))
        state = begin(session)
        if not is_terminal():
            return await in_lines(session, state)
        with Terminal() as terminal:
            return await _Stepper(session, state, terminal).run()


class _Stepper:
    def __init__(self, session: Session, state: State, terminal: Terminal) -> None:
        self._session = session
        self._state = state
        self._terminal = terminal
        self._panes = Panes(session)
        self._colour = wants_colour("auto")
        self._decoder = Keys()
        self._keys: deque[str] = deque()
        self._woken = asyncio.Event()
        self._pressing: asyncio.Task[State] | None = None
        self._working: asyncio.Task[None] | None = None  # at what the panes show
        self._others: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._told = 0.0
        self._is_stopped = False  # what a key began was stopped by another
        session.tell = self._tell

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        signals = {
            signal.SIGINT: lambda: self._take(["ctrl-c"]),
            signal.SIGTERM: lambda: self._end(128 + signal.SIGTERM),
            signal.SIGWINCH: self._resize,
            signal.SIGTSTP: self._suspend,
        }
        for number, act in signals.items():
            loop.add_signal_handler(number, act)
        loop.add_reader(self._terminal.fd, self._read)
        try:
            self._start(self._watch())
            return await self._loop()
        finally:
            loop.remove_reader(self._terminal.fd)
            for number in signals:
                loop.remove_signal_handler(number)
            for task in self._others | ({self._working} if self._working else set()):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _loop(self) -> int:
        while self._state.code is None:
            if self._failure is not None:
                raise self._failure
            await self._look()
            if not self._keys:
                await self._wait()
            await self._happen()
        return self._state.code

    async def _wait(self) -> None:
        """Until there is something to do."""
        await self._woken.wait()
        self._woken.clear()

    async def _happen(self) -> None:
        while self._keys and self._state.code is None:
            await self._rest()
            key = self._keys.popleft()
            if key == "ctrl-l":
                self._terminal.clear()
            else:
                await self._press(key)
        if self._session.replay.end != self._state.end:
            if self._state.following or self._state.cursor == self._state.end:
                await self._rest()
            await self._become(grow(self._session, self._state))

    async def _become(self, change: Awaitable[State]) -> None:
        """The chat may be gone: then what was read of it stays on the screen."""
        try:
            self._state = await change
        except (ChatfoldError, OSError) as error:
            self._state = replace(self._state, message=str(error))

    async def _press(self, key: str) -> None:
        self._pressing = asyncio.create_task(press(self._session, self._state, key))
        try:
            self._state = await self._pressing
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise
            self._is_stopped = False
            self._state = replace(self._state, prompt="", typed="", message="stopped")
        except (
            ChatfoldError,
            OSError,
        ) as error:  # the chat may be gone: what was read of it stays on the screen
            self._state = replace(self._state, message=str(error))
        finally:
            self._pressing = None

    # --- what comes from outside -------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            data = os.read(self._terminal.fd, 4096)
        except OSError:
            data = b""
        if not data:  # the terminal is gone
            self._end(129)
            return
        self._take(self._decoder.feed(data))
        if self._decoder.is_waiting:
            asyncio.get_running_loop().call_later(_ESCAPE, lambda: self._take(self._decoder.flush()))

    def _take(self, keys: list[str]) -> None:
        for key in keys:
            if self._pressing is not None and key in ("esc", "ctrl-c"):
                self._is_stopped = self._pressing.cancel()
            else:
                self._keys.append(key)
        self._woken.set()

    def _end(self, code: int) -> None:
        self._state = replace(self._state, code=code)
        if self._pressing is not None:
            self._is_stopped = self._pressing.cancel()
        self._woken.set()

    def _resize(self) -> None:
        self._terminal.clear()
        self._woken.set()

    def _suspend(self) -> None:
        self._terminal.suspend()
        self._woken.set()

    async def _watch(self) -> None:
        """Wakes the loop when the chat has grown. A chat that is gone is told of once."""
        while True:
            await asyncio.sleep(_POLL)
            try:
                await self._session.replay.refresh()
                if self._session.replay.end != self._state.end:
                    self._woken.set()
            except (ChatfoldError, OSError) as error:
                self._state = replace(self._state, message=str(error))
                self._woken.set()
                return

    # --- what is shown -----------------------------------------------------------------------------------

    async def _look(self) -> None:
        size = self._terminal.size
        self._session.page = size.detailed if self._state.in_detail else size.listed
        self._session.has_one_pane = size.has_one_pane
        try:
            await self._panes.at(self._state, size)
        except (ChatfoldError, OSError) as error:
            self._state = replace(self._state, message=str(error))
        self._draw()
        if self._working is None and not self._panes.is_done(self._state, size):
            self._working = self._start(self._work())
        if self._panes.wants_picture(size):
            self._start(self._paint())

    async def _work(self) -> None:
        """What takes longer: the rest of a list that is filtered, and the detail pane."""
        try:
            async for _ in self._panes.rest(self._state, self._terminal.size):
                self._draw()
        finally:
            self._working = None

    async def _paint(self) -> None:
        await self._panes.paint(self._terminal.size)
        self._draw()

    async def _rest(self) -> None:
        """While the cursor moves, what stands there is not read."""
        task = self._working
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _draw(self) -> None:
        shown = self._panes.compose(self._state)
        self._terminal.draw(frame(shown, self._terminal.size, colour=self._colour))

    def _tell(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told > _TELL:
            self._told = now
            self._state = replace(self._state, message=f"{text} Esc stops")
            self._draw()

    def _start(self, work: "asyncio._CoroutineLike[None]") -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._others.add(task)
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: "asyncio.Task[None]") -> None:
        self._others.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
        self._woken.set()
