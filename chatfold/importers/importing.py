"""Importing: the sessions of files and folders, each as a chat, and later what is new of them.

async for report in import_paths(store, [Path.home() / ".codex"]): ...
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec
from xxhash import xxh3_64_hexdigest

from chatfold.agent import Store
from chatfold.eventlog import ChatDeleted, ChatStarted, Log
from chatfold.importers.finding import files_of, format_of
from chatfold.importers.formats import known_formats
from chatfold.importers.items import Format, Item, Problem, Rewritten, Session, UnknownFormat
from chatfold.importers.ledger import Ledger
from chatfold.importers.writing import BATCH, ChatWriter


class Report(msgspec.Struct, frozen=True):
    """What became of a session. ``new``: entries; ``forked_from``: the chat that it shares its beginning with."""

    key: str
    format: str
    paths: tuple[str, ...]
    state: Literal["imported", "continued", "unchanged"]
    new: int
    entries: int
    forked_from: str = ""
    problems: tuple[Problem, ...] = ()
    done: int = 0  # sessions, this one included
    of: int = 0


async def import_paths(
    store: Store,
    paths: Iterable[Path | str],
    *,
    key: str = "",
    ledger: Path | None = None,
    dry_run: bool = False,
) -> AsyncIterator[Report]:
    """A report for each session that has anything new, or that was asked for by its own path.

    ``key``: of the chat, if there is one session. ``ledger``: where it is remembered which files have nothing new.
    ``UnknownFormat`` if none of the files, or a file that was named, is of a format known here.
    """
    known = Ledger(ledger)
    given = [Path(path) for path in paths]
    chats = (
        {row.key async for page in store.log.storage.chats() for row in page.rows} if known.files else set()
    )
    plan = await asyncio.to_thread(_plan, given, known, chats)
    if key and len(plan.sessions) != 1:
        raise ValueError(f"a key is for one session, and there are {len(plan.sessions)}")
    for problem in plan.problems:
        yield Report("", "", (problem.path,), "unchanged", 0, 0, problems=(problem,))
    taken: dict[str, Path] = {}
    chats_of: dict[Path, list[str]] = {}
    parents = {session.parent for _, session in plan.sessions}
    coming: dict[str, ChatWriter] = {}  # what a dry run would have written, for forks of it
    of = len(plan.sessions)
    for done in range(1, of + 1):
        form, session = plan.sessions.popleft()  # what its reader knows goes with it
        session.key = key or await own_key(store.log, form, session, taken)
        report = await import_session(store.log, session, form.name, coming=coming if dry_run else None)
        if session.key not in parents:
            coming.pop(session.key, None)
        if not dry_run:
            for path in session.paths:
                chats_of.setdefault(path, []).append(session.key)
                if (stat := plan.stats.get(path)) is not None:
                    known.note(path, stat, form.name, chats_of[path])
        yield msgspec.structs.replace(report, done=done, of=of)
    if not dry_run:
        for path in plan.foreign:
            known.note(path, plan.stats[path], "", [])
        await store.log.flush()
        await asyncio.to_thread(known.save)


class _Plan(msgspec.Struct):
    sessions: deque[tuple[Format, Session]] = msgspec.field(default_factory=deque)
    foreign: list[Path] = []  # of no known format
    stats: dict[Path, os.stat_result] = {}
    problems: list[Problem] = []


def _plan(paths: Sequence[Path], ledger: Ledger, chats: set[str]) -> _Plan:
    """Which sessions there are to be read, those that others began as copies of first."""
    plan = _Plan()
    files: dict[str, tuple[Format, list[Path]]] = {}
    seen = False
    for path, stat in files_of(paths):
        known = ledger.find(path, stat)
        if known is not None and chats.issuperset(known.chats) and (known.format or path not in paths):
            seen = seen or bool(known.format)
            continue
        plan.stats[path] = stat
        form = format_of(path, plan.problems)
        if form is None:
            if path in paths and not plan.problems:
                raise _unknown(path)
            plan.foreign.append(path)
        else:
            files.setdefault(form.name, (form, []))[1].append(path)
    if not files and not seen and not plan.problems:
        raise _unknown(paths[0] if paths else Path())
    for form, found in files.values():
        plan.sessions += ((form, session) for session in _parents_first(form.sessions(found)))
    return plan


def _unknown(path: Path) -> UnknownFormat:
    what = "nothing in this folder has" if path.is_dir() else "this file does not have"
    return UnknownFormat(f"{what} a format that is known here: {known_formats()}", path=path)


def _parents_first(sessions: Iterable[Session]) -> Iterator[Session]:
    waiting = {id(session): session for session in sessions}
    keys = {session.key for session in waiting.values()}
    while waiting:
        ready = [one for one in waiting.values() if one.parent not in keys] or list(waiting.values())
        for session in ready:
            del waiting[id(session)]
            yield session
        keys = {session.key for session in waiting.values()}


async def own_key(log: Log, form: Format, session: Session, taken: dict[str, Path]) -> str:
    """The session's key, or one made from its path, if that is another file's."""
    path = session.paths[0].absolute()
    if taken.setdefault(session.key, path) == path and not await _is_of_another(log, session, form):
        return session.key
    return f"{session.key}-{xxh3_64_hexdigest(os.fsencode(path))[:8]}"


async def _is_of_another(log: Log, session: Session, form: Format) -> bool:
    """Is there a chat of this key that was not made from this file?"""
    first = [entry async for entry in log.read(session.key, 1, 1)]
    if not first:
        return False
    event, name = first[0].event, first[0].key
    if name is None or not name.startswith(f"{form.name}:"):
        return True
    if not isinstance(event, ChatStarted) or event.key != session.key:  # it began as a copy of another
        return False
    return bool(event.meta.get("source", _source(session)) != _source(session))


def _source(session: Session) -> str:
    return session.source or str(session.paths[0].absolute())


async def import_session(
    log: Log,
    session: Session,
    tool: str,
    *,
    coming: dict[str, ChatWriter] | None = None,
    writer: ChatWriter | None = None,
) -> Report:
    """All of the session that its chat does not have yet.

    ``coming``: nothing is written; this chat joins those that would have come in. ``writer``: one for this chat, to go on with later.
    """
    writer = writer or ChatWriter(log, session.key, tool)
    await writer.open()
    existed, forked = writer.exists, ""
    if session.parent and not existed:
        parent = (coming or {}).get(session.parent) or await ChatWriter(log, session.parent, tool).open()
        if parent.exists:
            if coming is not None:
                writer.take_shared(parent, session.read())
            else:
                await writer.begin_as_fork(parent, session.read())
                await writer.open()
            forked = session.parent if writer.exists else ""
        session.restart()
    new, items = await write_news(writer, session, dry_run=coming is not None)
    if items:
        new += (
            writer.count_title(session.title)
            if coming is not None
            else await writer.give_title(session.title)
        )
    if coming is not None:
        coming[session.key] = writer
    state: Literal["imported", "continued", "unchanged"] = (
        "unchanged" if not new else "continued" if existed else "imported"
    )
    paths = tuple(map(str, session.paths))
    return Report(session.key, tool, paths, state, new, items, forked, tuple(session.problems))


async def write_news(writer: ChatWriter, session: Session, *, dry_run: bool = False) -> tuple[int, int]:
    """What is new since the session was read last: entries written, items read."""
    new = items = 0
    reading = session.read()
    while True:
        try:
            batch = await asyncio.to_thread(_next_items, reading)
            new += writer.count_new(batch) if dry_run else await writer.write(batch)
        except (Rewritten, ChatDeleted):  # the file is another one now, or the chat is
            session.restart()
            await writer.open()
            reading = session.read()
            continue
        if not batch:
            return new, items
        items += len(batch)


def _next_items(reading: Iterator[Item]) -> list[Item]:
    return list(islice(reading, BATCH))
