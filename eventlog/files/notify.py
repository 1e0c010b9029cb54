"""Hints that a folder changed, from the operating system. A hint may be late, doubled or missing: polling tells."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path

_IDLE_S = 10


class Watch:
    """Sets ``hint`` whenever something in the folder changes, as long as it can watch it and somebody waits."""

    def __init__(self, path: Path) -> None:
        self.hint = asyncio.Event()
        self._path = path
        self._stop = asyncio.Event()
        self._used = time.monotonic()
        self._task = asyncio.create_task(self._run())

    async def wait(self, seconds: float) -> None:
        """Until the next hint, at most this long."""
        self._used = time.monotonic()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.hint.wait(), seconds)
        self.hint.clear()

    def wake(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop was closed: nobody waits
            self._task.get_loop().call_soon_threadsafe(self.hint.set)

    @property
    def is_idle(self) -> bool:
        """Has nobody waited for a while? Then it should be closed: each watch has a thread."""
        return time.monotonic() - self._used > _IDLE_S

    async def _run(self) -> None:
        from watchfiles import awatch  # noqa: PLC0415 (slow to import, and only followers need it)

        # Without inotify, or out of its limits, there are no hints and the poll carries on alone.
        with suppress(OSError, RuntimeError):
            changes = awatch(
                self._path, debounce=20, step=2, stop_event=self._stop, recursive=False, watch_filter=None
            )
            async for _ in changes:
                self.hint.set()

    async def close(self) -> None:
        self._stop.set()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
