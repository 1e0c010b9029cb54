"""Watching: lines appear as they are written; files that are rewritten, torn, rotated or deleted take nothing away."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from chatfold import Store
from chatfold.eventlog import MessageAdded
from chatfold.importers import import_paths, watch
from chatfold.projections.text import text_of
from tests.importers.fixtures import OWN

SESSION = (
    OWN / "claude-code" / "synthetic" / "-home-dev-project" / "7d1c0f6e-3a1b-4c7e-9f10-2b6d5e8a0001.jsonl"
)
KEY = "claude-code-7d1c0f6e-3a1b-4c7e-9f10-2b6d5e8a0001"


@asynccontextmanager
async def watching(root: Path, folder: Path) -> AsyncIterator[Store]:
    """A store that follows the folder, in this process; it is read through another one."""
    stop, began = asyncio.Event(), asyncio.Event()

    async def follow() -> None:
        async with Store(root, durability="off") as store:
            began.set()
            async for _ in watch(store, [folder], ledger=root / "cache" / "imports", stop=stop):
                pass

    task = asyncio.create_task(follow())
    await began.wait()
    try:
        async with Store(root, read_only=True) as reader:
            yield reader
    finally:
        stop.set()
        await task


async def said(store: Store) -> list[str]:
    entries: list[Any] = [entry async for entry in store.log.read(KEY)]
    return [text_of(entry.event.parts) for entry in entries if isinstance(entry.event, MessageAdded)]


async def until(store: Store, text: str, seconds: float = 20) -> float:
    """Waits until the text is in the chat; how long that took."""
    began = time.perf_counter()
    while not any(text in one for one in await said(store)):
        assert time.perf_counter() - began < seconds, f"{text!r} did not appear"
        await asyncio.sleep(0.002)
    return time.perf_counter() - began


async def same_as_imported_at_once(store: Store, path: Path) -> None:
    async with Store.memory() as other:
        async for _ in import_paths(other, [path]):
            pass
        one = [(entry.key, entry.event) async for entry in store.log.read(KEY)]
        assert one == [(entry.key, entry.event) async for entry in other.log.read(KEY)]


async def test_each_line_appears_as_it_is_written(tmp_path: Path) -> None:
    folder, path = tmp_path / "projects", tmp_path / "projects" / SESSION.name
    folder.mkdir()
    lines = SESSION.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    async with watching(tmp_path / "store", folder) as store:
        await until(store, "改行がなくなる")
        for line in lines[3:20]:
            with path.open("ab") as file:
                file.write(line[:40])  # half of it
                file.flush()
                await asyncio.sleep(0.01)
                file.write(line[40:])
        await until(store, "Fix it, please.")
        with path.open("ab") as file:
            file.write(b"".join(lines[20:]))
        await until(store, "Fixed ✅")
        await same_as_imported_at_once(store, path)


async def test_what_was_written_while_nobody_watched_comes_first(tmp_path: Path) -> None:
    folder, path = tmp_path / "projects", tmp_path / "projects" / SESSION.name
    folder.mkdir()
    lines = SESSION.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:10]))
    async with watching(tmp_path / "store", folder) as store:
        await until(store, "split()")
    path.write_bytes(b"".join(lines[:20]))
    async with watching(tmp_path / "store", folder) as store:
        await until(store, "Fix it, please.")
        path.write_bytes(b"".join(lines))
        await until(store, "Fixed ✅")
        await same_as_imported_at_once(store, path)


async def test_a_file_that_vanishes_leaves_its_chat_and_may_come_back(tmp_path: Path) -> None:
    folder, path = tmp_path / "projects", tmp_path / "projects" / SESSION.name
    folder.mkdir()
    lines = SESSION.read_bytes().splitlines(keepends=True)
    async with watching(tmp_path / "store", folder) as store:
        await asyncio.sleep(0.3)
        path.write_bytes(b"".join(lines[:10]))
        await until(store, "split()")
        path.unlink()
        await asyncio.sleep(0.2)
        assert await said(store)
        (folder / "part").write_bytes(b"".join(lines))
        (folder / "part").rename(path)  # in one step, as tools do that rewrite their files
        await until(store, "Fixed ✅")
        await same_as_imported_at_once(store, path)


async def test_a_file_that_is_rewritten_takes_its_chat_back(tmp_path: Path) -> None:
    folder, path = tmp_path / "projects", tmp_path / "projects" / SESSION.name
    folder.mkdir()
    lines = SESSION.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:10]))
    async with watching(tmp_path / "store", folder) as store:
        await until(store, "split()")
        await asyncio.sleep(0.3)
        path.write_bytes(b"".join(lines[:4]) + lines[4].replace(b"I look at two files", b"I look at no file"))
        await until(store, "I look at no file")
        shown = str(await (await store.chat(KEY)).messages("anthropic"))
        assert "I look at two files" not in shown


async def test_new_folders_and_foreign_files_are_no_trouble(tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    async with watching(tmp_path / "store", folder) as store:
        await asyncio.sleep(0.3)
        (folder / "notes.txt").write_text("nothing")
        (folder / "broken.jsonl").write_bytes(b"\xff\xfe{")
        (folder / "new").mkdir()
        await asyncio.sleep(0.2)
        shutil.copy(SESSION, folder / "new")
        await until(store, "Fixed ✅")
