"""Stores as each format wrote them, read for ever."""

import json
import shutil
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Log, Noted, check
from tests.golden.make import BATCHES, CHAT, decoded

VERSIONS = ["v1"]
HERE = Path(__file__).parent


@pytest.fixture(params=VERSIONS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy with the modes a store has: version control keeps neither those nor hard links."""
    copy: Path = tmp_path / request.param
    shutil.copytree(HERE / request.param, copy)
    for path in copy.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return copy


def test_every_version_that_was_kept_is_read() -> None:
    assert sorted(path.name for path in HERE.iterdir() if path.name.startswith("v")) == VERSIONS


def test_a_golden_store_reads_as_it_was_written(store: Path) -> None:
    expected = json.loads((store / "expected.json").read_text())
    assert json.dumps(decoded(store)) == json.dumps(expected)  # as text: 1, 1.0 and True are told apart


def test_a_golden_store_is_healthy(store: Path) -> None:
    for folder in (store / "chats").iterdir():
        report = check(folder)
        assert report.entries > 0
        assert report.problems == []


def test_reading_a_golden_store_changes_nothing(store: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    decoded(store)
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


async def test_a_golden_store_goes_on(store: Path) -> None:
    async with Log(FileStorage(store)) as log:
        for key in [key async for key in log.chats()]:
            head = await log.head(key)
            [entry] = await log.append(key, Noted("more"))
            assert (entry.seq, entry.prev) == (head.seq + 1, head.link)
    assert all(check(folder).problems == [] for folder in (store / "chats").iterdir())


async def test_ids_of_a_golden_store_still_hold(store: Path) -> None:
    async with Log(FileStorage(store)) as log:
        head = await log.head(CHAT)
        for index, events in enumerate(BATCHES):
            entries = await log.append(CHAT, *events, id=f"id {index}\x7f")
            assert entries[0].id == f"id {index}\x7f"
        assert await log.head(CHAT) == head
