"""A chat is copied file by file while it is written: what opens is a prefix, or says that it is not whole."""

import asyncio
import shutil
from pathlib import Path

import pytest

from chatfold.eventlog import CorruptLog, FileStorage, Log, scan
from tests.support.damage.broken import segments
from tests.support.judges.talk import entries_of, ids_of, is_clean, short
from tests.support.processes.children import go, next_told, started

COPIES = 6


def _copy(folder: Path, target: Path, *, head_first: bool) -> None:
    """File by file, as ``cp -r`` does: what comes later is newer."""
    target.mkdir(parents=True)
    if head_first:
        shutil.copy(folder / "head", target)
    for path in sorted(folder.glob("*.jsonl"), reverse=not head_first):
        shutil.copy(path, target)
    if not head_first:
        shutil.copy(folder / "head", target)


@pytest.mark.parametrize("head_first", [True, False])
def test_a_copy_made_while_it_is_written_is_a_prefix(tmp_path: Path, *, head_first: bool) -> None:
    """With the witness first, always. With the witness last it may know of more than was copied, and says so."""
    folder = tmp_path / "chats" / "chat"
    whole = 0
    with started("appending", tmp_path, "chat", "w", "off", 100_000, 10**6) as child:
        go(child)
        acknowledged = next_told(child, 5)
        for number in range(COPIES):
            copy = tmp_path / str(number) / "chats" / "chat"
            acknowledged += next_told(child, 6)
            _copy(folder, copy, head_first=head_first)
            try:
                names = ids_of(copy)
            except CorruptLog:
                assert not head_first
                continue
            whole += 1
            assert names[: len(acknowledged)] == acknowledged
            asyncio.run(_goes_on(copy.parents[1]))
            assert is_clean(copy)
    assert whole == COPIES or not head_first


async def _append(log: Log, *names: str) -> None:
    for name in names:
        await log.append("chat", *short(name), id=name)


async def _goes_on(root: Path) -> None:
    async with Log(FileStorage(root)) as log:
        await _append(log, "after")


@pytest.mark.smoke
def test_the_witness_alone_makes_a_copy_incomplete(tmp_path: Path) -> None:
    """Copying the segments is enough: see docs/format.md."""

    async def write() -> None:
        async with Log(FileStorage(tmp_path, segment_bytes=500)) as log:
            await _append(log, *(f"a{number}" for number in range(20)))

    asyncio.run(write())
    folder = tmp_path / "chats" / "chat"
    last = segments(folder)[-1]
    last.unlink()
    with pytest.raises(CorruptLog):
        list(scan(folder))
    (folder / "head").unlink()
    assert 0 < len(entries_of(folder)) < 20
