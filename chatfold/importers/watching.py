"""Watching: a store is kept up to date with sessions as their tools write them.

    async for report in watch(store, known_homes()): ...

Changes are waited for before anything is read, so none is missed. A session that is written stays open, with all that its
reader knows: a new line costs that line, however long the session is. What was not open, was rewritten or lost
its chat is read from the start. A file that vanishes leaves its chat as it is. What happened while nobody watched is brought by
the import that comes first.
"""

import asyncio
import os
import stat
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from chatfold.agent import Store
from chatfold.importers.database import database_of
from chatfold.importers.finding import files_of, format_of
from chatfold.importers.importing import Report, import_paths, import_session, own_key, write_news
from chatfold.importers.items import Problem, Session, UnknownFormat
from chatfold.importers.ledger import Ledger
from chatfold.importers.writing import ChatWriter

_OPEN = 64  # sessions that are kept open
_WAIT_MS, _STEP_MS = 40, 5  # how long changes are collected, and in which steps they are looked for
_SAVE_S = 5.0
_RECENT, _RECENT_S = 8, 86400.0  # files that are opened at the start, and how old they may be


class _Live(msgspec.Struct):
    tool: str
    session: Session
    writer: ChatWriter


async def watch(
    store: Store, folders: Sequence[Path], *, ledger: Path | None = None, stop: asyncio.Event | None = None
) -> AsyncIterator[Report]:
    """A report for each session that got something new: first what came in since the last time, then as it happens."""
    from watchfiles import awatch  # noqa: PLC0415 (for those who watch)

    stop = stop or asyncio.Event()
    changes: asyncio.Queue[set[Path]] = asyncio.Queue()

    async def collect() -> None:
        watching = awatch(*folders, debounce=_WAIT_MS, step=_STEP_MS, stop_event=stop, watch_filter=None)
        async for found in watching:
            changes.put_nowait({Path(path) for _, path in found})

    collecting = asyncio.create_task(collect())
    stopping = asyncio.create_task(stop.wait())
    try:
        with suppress(UnknownFormat):  # nothing is there yet
            async for report in import_paths(store, folders, ledger=ledger):
                if report.new or report.problems:
                    yield report
        watcher = _Watcher(store, ledger)
        for path in await asyncio.to_thread(_newest, folders):  # these are likely to be written next
            for report in await watcher.look_at(path):
                yield report
        while not stop.is_set():
            getting = asyncio.create_task(changes.get())
            await asyncio.wait({getting, stopping, collecting}, return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                getting.cancel()
                break
            for path in sorted(getting.result()):
                for report in await watcher.look_at(path):
                    yield report
            await watcher.settle()
        if collecting.done():
            collecting.result()  # raises why nothing more is seen
    finally:
        stop.set()
        stopping.cancel()
        await asyncio.gather(collecting, stopping, return_exceptions=True)


def _newest(folders: Sequence[Path]) -> list[Path]:
    since = time.time() - _RECENT_S
    found = sorted(files_of(folders), key=lambda one: one.stat.st_mtime, reverse=True)
    return [one.path for one in found[:_RECENT] if one.stat.st_mtime > since]


class _Watcher:
    def __init__(self, store: Store, ledger: Path | None) -> None:
        self._store = store
        self._ledger = Ledger(ledger)
        self._live: OrderedDict[str, _Live] = OrderedDict()  # by the key of the chat
        self._chats: dict[Path, tuple[str, list[str]]] = {}  # of a file: its format, and the keys
        self._versions: dict[tuple[Path, str], object] = {}  # of the sessions of files that hold many
        self._saved = 0.0

    async def look_at(self, path: Path) -> list[Report]:
        """What is new in this file."""
        path = database_of(path)
        try:
            info = os.stat(path)  # noqa: PTH116 (it waits for nothing)
            if not stat.S_ISREG(info.st_mode) or not info.st_size:
                return []
            _, known = self._chats.get(path, ("", []))
            keys = [key for key in known if key in self._live]
            reports = [await self._go_on(key) for key in keys] if keys else await self._begin(path)
        except FileNotFoundError:  # its chat stays
            self._chats.pop(path, None)
            self._ledger.forget(path)
            return []
        except OSError as error:
            problem = Problem(str(path), 0, 0, error.strerror or str(error))
            return [Report("", "", (str(path),), "unchanged", 0, 0, problems=(problem,))]
        if path in self._chats:
            self._ledger.note(path, info, *self._chats[path])
        return [report for report in reports if report.new or report.problems]

    async def _go_on(self, key: str) -> Report:
        live = self._live[key]
        self._live.move_to_end(key)
        live.session.problems.clear()
        new, items = await write_news(live.writer, live.session)
        problems = tuple(
            one for one in live.session.problems if "not whole" not in one.what
        )  # it is being written
        paths = tuple(map(str, live.session.paths))
        return Report(
            key, live.tool, paths, "continued" if new else "unchanged", new, items, problems=problems
        )

    async def _begin(self, path: Path) -> list[Report]:
        problems: list[Problem] = []
        form = await asyncio.to_thread(format_of, path, problems)
        if form is None:
            return []
        reports = []
        for session in await asyncio.to_thread(list, form.sessions([path])):
            if form.holds_many and self._is_as_it_was(path, session):
                continue
            session.key = await own_key(self._store.log, form, session, {})
            writer = ChatWriter(self._store.log, session.key, form.name)
            reports.append(await import_session(self._store.log, session, form.name, writer=writer))
            if not form.holds_many:
                self._live[session.key] = _Live(form.name, session, writer)
            for one in {path, *session.paths}:
                _, keys = self._chats.setdefault(one, (form.name, []))
                keys += [] if session.key in keys else [session.key]
        while len(self._live) > _OPEN:
            self._live.popitem(last=False)
        return reports

    def _is_as_it_was(self, path: Path, session: Session) -> bool:
        mark = path, session.key
        if session.version is not None and self._versions.get(mark) == session.version:
            return True
        self._versions[mark] = session.version
        return False

    async def settle(self) -> None:
        """What was written is made durable; only then it is remembered as read."""
        await self._store.log.flush()
        now = asyncio.get_running_loop().time()
        if now - self._saved > _SAVE_S:
            self._saved = now
            await asyncio.to_thread(self._ledger.save)
