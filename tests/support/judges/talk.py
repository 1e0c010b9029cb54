"""What the writers of these tests say, and how their logs are judged.

Everything is made from the append's id alone, so that any process can say what must be in the log.
"""

import hashlib
import os
import random
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from chatfold.eventlog import Entry, Noted, check, scan

STORY = "the same long result of a tool, again and again. " * 60
"""Long enough to be written as a reference the second time."""


def said(name: str) -> tuple[Noted, ...]:
    """The batch with this id: one to four events of 300 bytes to 200 kB, some repeating an earlier text."""
    chance = random.Random(name)
    return tuple(_event(name, index, chance) for index in range(chance.choice([1, 1, 1, 2, 3, 4])))


def _event(name: str, index: int, chance: random.Random) -> Noted:
    size = chance.choice([300, 300, 300, 1_000, 3_000, 3_000, 20_000, 200_000])
    body = STORY if chance.random() < 0.15 else chance.randbytes(size // 2).hex()
    return Noted("said", {"id": name, "index": index, "body": body})


def short(name: str, count: int = 1) -> tuple[Noted, ...]:
    """A batch of small events."""
    return tuple(Noted("said", {"id": name, "index": index}) for index in range(count))


def entries_of(folder: Path) -> list[Entry]:
    """The log, after making sure that it is one: gapless, whole batches, chained."""
    entries = list(scan(folder))
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    for before, entry in pairwise(entries):
        assert entry.prev == before.link
    for _ in batches(entries):
        pass
    return entries


def batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    for entry in entries:
        batch.append(entry)
        index, size = map(int, (entry.batch or "1/1").split("/"))
        assert index == len(batch)
        if index == size:
            yield batch
            batch = []
    assert not batch, "half a batch is visible"


def ids_of(folder: Path) -> list[str]:
    """The ids of the appends in the log, in order, after making sure that each said what it had to say."""
    return ids_in(entries_of(folder))


def ids_in(entries: Iterable[Entry]) -> list[str]:
    names = []
    for batch in batches(entries):
        if isinstance(batch[0].event, Noted) and batch[0].id is not None:
            names.append(batch[0].id)
            texts = [entry.event for entry in batch]
            assert texts in ([*short(batch[0].id, len(batch))], [*said(batch[0].id)])
    assert len(names) == len(set(names)), "an append is there twice"
    return names


def is_clean(folder: Path) -> bool:
    """No damage and nothing torn."""
    return not [problem for problem in check(folder).problems if problem.kind != "odd"]


def digest_of(tree: Path, *, times: bool = True) -> str:
    """Names, modes, contents and (``times``) modification times of everything in a tree."""
    found = hashlib.sha256()
    for folder, folders, files in os.walk(tree):
        folders.sort()
        for name in (".", *sorted(files)):
            path = Path(folder, name)
            status = path.lstat()
            found.update(f"{path} {status.st_mode} {status.st_ino}".encode())
            if times:
                found.update(f" {status.st_mtime_ns} {status.st_ctime_ns}".encode())
            if path.is_file() and not path.is_symlink():
                found.update(path.read_bytes())
    return found.hexdigest()
