"""Stores as each format wrote them, read for ever."""

import json
import shutil
from pathlib import Path

import pytest

from chatfold.eventlog import FileStorage, Log, Noted, check
from tests.golden.make import BATCHES, CHAT, KEYED, KEYED_BATCHES, PADDED, decoded

VERSIONS = ["v1", "v1-keys"]
HERE = Path(__file__).parent


@pytest.fixture(params=VERSIONS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return copied(request.param, tmp_path)


def copied(version: str, folder: Path) -> Path:
    """A copy with the modes a store has: version control keeps neither those nor hard links."""
    copy = folder / version
    shutil.copytree(HERE / version, copy)
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


def test_newlines_after_the_last_line_are_no_problem(tmp_path: Path) -> None:
    assert check(copied("v1-keys", tmp_path) / "chats" / PADDED).problems == []


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


async def test_ids_of_a_golden_store_still_hold(tmp_path: Path) -> None:
    async with Log(FileStorage(copied("v1", tmp_path))) as log:
        head = await log.head(CHAT)
        for index, events in enumerate(BATCHES):
            entries = await log.append(CHAT, *events, id=f"id {index}\x7f")
            assert entries[0].id == f"id {index}\x7f"
        assert await log.head(CHAT) == head


async def test_keys_of_a_golden_store_still_hold(tmp_path: Path) -> None:
    async with Log(FileStorage(copied("v1-keys", tmp_path))) as log:
        head = await log.head(KEYED)
        for index, batch in enumerate(KEYED_BATCHES):
            events, keys, said_at = zip(*batch, strict=True)
            known = await log.append(KEYED, *events, id=f"id {index}", keys=keys, said_at=said_at)
            assert [entry.key for entry in known] == [*keys]
            named = [(event, key) for event, key in zip(events, keys, strict=True) if key is not None]
            again = await log.append(KEYED, *(event for event, _ in named), keys=[key for _, key in named])
            assert again == [entry for entry in known if entry.key is not None]
        assert await log.head(KEYED) == head
