"""Two chats of one store exchange a file: what a restore, a copy or a file system may do. Is anything of the other ever read as a chat's own?

In each round one file of the one chat and one of the other change places: segments, blobs, ``head``, caches; overwritten in place, as
new files, or by renames. A storage that was open and warm reads both chats then: the right values, or an error that says what is
wrong. Then both are repaired: nothing of the other chat is left in either, nothing of its own that is left and proven is given up,
and ``check`` says ok.
"""

import asyncio
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from chatfold.eventlog import (
    ChatDeleted,
    CorruptLog,
    Entry,
    FileStorage,
    Log,
    Lost,
    Noted,
    check,
    repair,
    scan,
)
from chatfold.eventlog.codec import parse_references
from tests.support.damage.broken import lines_of
from tests.support.figures import Figures
from tests.support.judges.judging_reads import Wrong
from tests.support.judges.talk import entries_of

CHATS = ("alice", "bobby")  # names of one length, so that many lines are as long as the other's


class Kept(NamedTuple):
    """A chat as it was."""

    entries: list[Entry]
    lines: dict[int, bytes]


def campaign(number: int, seed: int, folder: Path) -> Figures:
    """``number``: of exchanges."""
    figures, chance = Figures(), random.Random(seed)
    for what in ("wrong reads", "repaired", "lost", "told"):
        figures.count(what, 0)
    template = folder / "template"
    asyncio.run(_write(template, chance))
    kept = {chat: _kept(template / "chats" / chat) for chat in CHATS}
    for round_ in range(number):
        root = folder / f"round-{round_}"
        shutil.copytree(template, root)
        where = f"round {round_} of seed {seed}"
        try:
            where = f"{where}: {asyncio.run(_read_and_exchange(root, kept, chance, figures))}"
            for chat in CHATS:
                _repair(root / "chats" / chat, kept[chat], figures)
        except Exception as error:  # noqa: BLE001 (an error that no verb documents is a violation, too)
            figures.violated(where, error)
        figures.tried += 1
        shutil.rmtree(root)
    return figures


# --- the chats -----------------------------------------------------------------------------------------------


async def _write(root: Path, chance: random.Random) -> None:
    """Of nearly one shape: batches, texts said again, of which the second is a reference, a blob."""
    async with Log(FileStorage(root, segment_bytes=4_000)) as log:
        for chat in CHATS:
            await log.append(chat, Noted(chat, f"{chat}'s secret " * 100), id="first")
            await log.append(chat, Noted(chat, f"{chat}'s large text " * 60_000))
            for number in range(12 + chance.randrange(8)):
                size = chance.choice((0, 0, 0, 1, 9))
                said = [Noted(chat, f"{chat} {number} {index}" + "." * size) for index in range(3)]
                await log.append(chat, *said[: chance.randint(1, 3)], id=f"{number}")
                if not number % 4:
                    await log.append(chat, Noted(chat, f"{chat}'s secret " * 100))
    async with Log(FileStorage(root, segment_bytes=4_000)) as log:
        for chat in CHATS:
            assert [entry async for entry in log.read(chat)]
            assert await log.last(chat, 3)


def _kept(folder: Path) -> Kept:
    return Kept(list(scan(folder)), lines_of(folder))


# --- the exchange --------------------------------------------------------------------------------------------


def _in_place(one: Path, other: Path) -> None:
    mine, theirs = one.read_bytes(), other.read_bytes()
    one.write_bytes(theirs)
    other.write_bytes(mine)


def _as_new_files(one: Path, other: Path) -> None:
    mine, theirs = one.read_bytes(), other.read_bytes()
    for path, content in ((one, theirs), (other, mine)):
        path.unlink()
        path.write_bytes(content)
        path.chmod(0o600)


def _by_renames(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


WAYS: dict[str, Callable[[Path, Path], None]] = {
    "in place": _in_place,
    "as new files": _as_new_files,
    "by renames": _by_renames,
}


def _exchange(root: Path, chance: random.Random) -> str:
    """A kind of file first: there are more caches than anything else."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted((root / "chats" / CHATS[0]).rglob("*")):
        if path.is_file() and path.name not in ("lock", "alone"):
            kinds.setdefault("segment" if path.suffix == ".jsonl" else path.parent.name, []).append(path)
    one = chance.choice(kinds[chance.choice([*sorted(kinds), "segment", "segment"])])
    there = root / "chats" / CHATS[1] / one.parent.relative_to(root / "chats" / CHATS[0])
    same = there / one.name
    twins = sorted(path for path in there.iterdir() if path.is_file() and path.suffix == one.suffix)
    twins = [path for path in twins if path.name not in ("lock", "alone")]
    other = same if same.is_file() and chance.random() < 0.8 else chance.choice(twins)
    way = chance.choice(sorted(WAYS))
    WAYS[way](one, other)
    return f"{one.relative_to(root)} and {other.relative_to(root)} {way}"


async def _read_and_exchange(
    root: Path, kept: dict[str, Kept], chance: random.Random, figures: Figures
) -> str:
    async with Log(FileStorage(root, read_only=True)) as log:
        for chat in CHATS:
            assert [entry async for entry in log.read(chat)] == kept[chat].entries
        where = _exchange(root, chance)
        for chat in CHATS:
            try:
                await _judge_reads(log, chat, kept[chat].entries, chance, figures)
            except Wrong as error:
                figures.count("wrong reads")
                figures.violated(where, error)
    return where


async def _judge_reads(
    log: Log, chat: str, right: list[Entry], chance: random.Random, figures: Figures
) -> None:
    first = chance.randint(1, len(right))
    for name, read, wanted in (
        ("the last", partial(log.last, chat, 5), right[-5:]),
        (f"from {first} on", partial(_taken, log, chat, first), right[first - 1 :]),
        ("all", partial(_taken, log, chat, 1), right),
    ):
        try:
            found = await read()
        except (CorruptLog, ChatDeleted):
            figures.count("told")
            continue
        if found != wanted:
            raise Wrong(f"{chat} read wrong: {name}")


async def _taken(log: Log, chat: str, first: int) -> list[Entry]:
    return [entry async for entry in log.read(chat, first)]


# --- the repair ----------------------------------------------------------------------------------------------


def _repair(folder: Path, kept: Kept, figures: Figures) -> None:
    gone = set(_gone(folder, kept.lines))
    if check(folder).ok:
        if gone:
            raise Wrong(f"{folder.name}: check does not see that {sorted(gone)} are gone")
        return
    report = repair(folder)
    figures.count("repaired")
    figures.count("lost", len(gone))
    for entry in entries_of(folder):
        is_own = entry.seq <= len(kept.entries) and entry == kept.entries[entry.seq - 1]
        if not is_own and not isinstance(entry.event, Lost):
            raise Wrong(f"{folder.name}: entry {entry.seq} is of another chat")
    own = {seq for seq in report.lost if seq <= len(kept.entries)}
    if own != gone:
        raise Wrong(f"{folder.name}: given up {sorted(own)}, gone {sorted(gone)}")
    if not check(folder).ok:
        raise Wrong(f"{folder.name}: damaged after its repair")


def _gone(folder: Path, lines: dict[int, bytes]) -> Iterator[int]:
    """What is not there any more, and what needs it."""
    left = b"".join(path.read_bytes() for path in folder.glob("*.jsonl"))
    blobs = folder / "blobs"
    gone: set[int] = set()
    for seq, line in lines.items():
        seqs, digests = parse_references(line)
        is_whole = all(sha256((blobs / digest).read_bytes()).hexdigest() == digest for digest in digests)
        if line not in left or seqs & gone or not is_whole:
            gone.add(seq)
            yield seq
