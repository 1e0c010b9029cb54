"""Where and how it runs makes no difference: options of Python, locale, umask, clock; watchers that see nothing, slow readers, many forks."""

import asyncio
import itertools
import os
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from chatfold.eventlog import (
    CorruptLog,
    FileStorage,
    Forked,
    Log,
    MessageAdded,
    NoSuchChat,
    Noted,
    Text,
    scan,
)
from tests.support.damage.broken import make_healthy, wrong_checksum
from tests.support.judges.talk import entries_of, ids_of, is_clean, short
from tests.support.listing import tokens
from tests.support.processes.children import ENVIRONMENT

# --- Python and its surroundings ----------------------------------------------------------------------------

PROGRAM = """
import asyncio, itertools, sys
from chatfold.eventlog import FileStorage, Log, MessageAdded, Noted, Text, scan
key = "schl\\u00fcssel \\u9375 \\ud800"
async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is none of our business
    clock = itertools.count(1_738_713_600_000).__next__
    async with Log(FileStorage(sys.argv[1], clock=clock, segment_bytes=2_000)) as log:
        for number in range(12):
            await log.append(key, Noted("n", {"set": [1.5, float("nan"), b"x", "\\u00fc", number]}), id=f"\\u00e4{number}")
        await log.append(key, MessageAdded("user", (Text("\\u518d\\u3073 " * 600),)), Noted("again", "\\u518d\\u3073 " * 600))
        await log.fork(key, "fork", 5)
        await log.redact(key, 3)
asyncio.run(main())
"""
VARIANTS: dict[str, tuple[list[str], dict[str, str]]] = {
    "another hash seed and time zone": ([], {"PYTHONHASHSEED": "12345", "TZ": "Pacific/Apia"}),
    "-OO": (["-OO"], {}),
    "LC_ALL=C": (
        [],
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    ),
    "development mode": (["-X", "dev", "-W", "error"], {}),
}


def _written(root: Path, variant: str) -> dict[str, bytes]:
    options, environment = VARIANTS.get(variant, ([], {}))
    done = subprocess.run(
        [sys.executable, *options, "-c", PROGRAM, str(root)],
        check=False,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.jsonl")}


def test_the_same_bytes_are_written_however_python_was_started(fast_folder: Path) -> None:
    expected = _written(fast_folder / "first", "as it is")
    assert len(expected) > 3
    for variant in VARIANTS:
        assert _written(fast_folder / variant, variant) == expected, variant


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_modes_are_ours_whatever_the_umask_and_the_folder_above(fast_folder: Path, mask: int) -> None:
    """The folder that the store is made in may be anybody's."""
    fast_folder.chmod(0o777)
    root = fast_folder / "above" / "store"
    old = os.umask(mask)
    try:
        folder = make_healthy(root)
    finally:
        os.umask(old)
    for path in [root, *root.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert is_clean(folder)


# --- time ---------------------------------------------------------------------------------------------------

HOUR = 3_600_000
CLOCKS = {
    "stands still": [1_738_713_600_000],
    "goes back": [1_738_713_600_000, 1_738_713_600_000 - HOUR, 1_738_713_600_000 - 2 * HOUR],
    "jumps to 1970": [1_738_713_600_000, 0],
    "is before 1970": [-1, -HOUR],
    "jumps to 2262 and back": [1_738_713_600_000, 9_223_372_036_854, 5],
}


@pytest.mark.parametrize("times", CLOCKS.values(), ids=CLOCKS)
async def test_a_clock_orders_nothing(fast_folder: Path, times: list[int]) -> None:
    clock = itertools.cycle(times).__next__
    names = [f"a{number}" for number in range(12)]
    async with Log(FileStorage(fast_folder, clock=clock, segment_bytes=700)) as log:
        for name in names:
            [entry] = await log.append("chat", *short(name), id=name)
            assert entry.ts in times
        assert await log.append("chat", *short("a3"), id="a3") == await log.append(
            "chat", *short("a3"), id="a3"
        )
        await log.fork("chat", "fork", 7)
        assert [entry.id async for entry in log.read("chat")] == names
    folder = fast_folder / "chats" / "chat"
    assert ids_of(folder) == names
    assert len(entries_of(fast_folder / "chats" / "fork")) == 8
    assert is_clean(folder)


async def test_times_of_files_decide_nothing(fast_folder: Path) -> None:
    """A file system whose times are coarse, or go back: what is new is seen by size, inode and content."""
    folder = fast_folder / "chats" / "chat"
    async with Log(FileStorage(fast_folder)) as log, Log(FileStorage(fast_folder)) as reader:
        stamps: list[str] = []
        for number in range(6):
            await log.append("chat", MessageAdded("user", (Text("the same words"),)))
            for path in [folder, *folder.rglob("*")]:
                os.utime(path, ns=(0, 0))
            assert (await reader.head("chat")).seq == number + 1
            assert len([entry async for entry in reader.read("chat")]) == number + 1
            assert len(await reader.search("chat", "words")) == number + 1
            stamps += (await tokens(reader.storage)).values()
    assert len(set(stamps)) == 6


# --- watchers and slow readers ------------------------------------------------------------------------------

UNWATCHED = """
import asyncio, pathlib, sys
pathlib.Path("/proc/sys/user/max_inotify_instances").write_text("0")  # of this user namespace
from chatfold.eventlog import FileStorage, Log, Noted
async def main():
    async with Log(FileStorage(sys.argv[1])) as log, Log(FileStorage(sys.argv[1])) as other:
        await log.append("chat", Noted("a"))
        seen = []
        async def follow():
            async for entry in log.follow("chat"):
                seen.append(entry.seq)
        following = asyncio.create_task(follow())
        await asyncio.sleep(0.1)
        await other.append("chat", Noted("b"))
        async with asyncio.timeout(60):
            while seen != [1, 2]:
                await asyncio.sleep(0.01)
        following.cancel()
asyncio.run(main())
"""


def test_a_follower_where_inotify_is_out_of_its_limits(fast_folder: Path) -> None:
    fast_folder.chmod(0o777)
    command = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    done = subprocess.run(
        [*command, sys.executable, "-W", "error", "-c", UNWATCHED, str(fast_folder / "store")],
        check=False,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_a_follower_that_is_slow_misses_nothing_and_hoards_nothing(fast_folder: Path) -> None:
    """A hundred segments of 60 kB are written while it looks at the first entry."""
    body = "0123456789abcdef" * 1_200
    async with (
        Log(FileStorage(fast_folder, segment_bytes=50_000, durability="off")) as log,
        Log(FileStorage(fast_folder, read_only=True)) as reader,
    ):
        await log.append("chat", Noted("first"))
        following = reader.follow("chat")
        assert (await anext(following)).seq == 1
        for number in range(300):
            await log.append("chat", Noted("n", f"{number}{body}"))
        tracemalloc.start()
        try:
            assert [(await anext(following)).seq for _ in range(300)] == list(range(2, 302))
            assert tracemalloc.get_traced_memory()[1] < 3_000_000  # of 6 MB
        finally:
            tracemalloc.stop()
    assert len(list((fast_folder / "chats" / "chat").glob("*.jsonl"))) >= 100


# --- forks of forks -----------------------------------------------------------------------------------------


async def test_a_fork_of_a_fork_of_a_fork_is_a_chat_like_any_other(fast_folder: Path) -> None:
    """Nothing looks for the parent: depth costs nothing, and all of them may go."""
    async with Log(FileStorage(fast_folder, durability="off")) as log:
        await log.append("0", *short("a"), id="a")
        for depth in range(1, 200):
            await log.fork(str(depth - 1), str(depth))
            await log.delete(str(depth - 1))
        entries = [entry async for entry in log.read("199")]
        assert [entry.event for entry in entries[1:]] == [Forked(str(n), n + 1) for n in range(199)]
        await log.append("199", *short("b"), id="b")
        with pytest.raises(NoSuchChat):
            await log.fork("198", "late")
    assert is_clean(fast_folder / "chats" / "199")


async def test_chats_that_say_they_come_from_each_other_are_read_like_any_others(fast_folder: Path) -> None:
    """By hand: no engine writes this."""
    async with Log(FileStorage(fast_folder)) as log:
        await log.append("a", Noted("n"), Forked("b", 1))
        await log.append("b", Noted("n"), Forked("a", 1))
        await log.append("c", Noted("n"), Forked("c", 1))
        for chat in "abc":
            await log.fork(chat, f"{chat}2", 2)
            assert len([entry async for entry in log.read(f"{chat}2")]) == 3
            await log.redact(chat, 1)
            await log.delete(chat)


def test_a_fork_of_a_damaged_chat_is_refused_or_tells_of_the_damage(fast_folder: Path) -> None:
    folder = make_healthy(fast_folder)
    wrong_checksum(folder)

    async def fork(at: int) -> None:
        async with Log(FileStorage(fast_folder)) as log:
            await log.fork("chat", f"fork{at}", at)

    for at in (3, 12, 30):
        try:
            asyncio.run(fork(at))
        except CorruptLog:
            continue
        if at < 9:
            assert len(list(scan(fast_folder / "chats" / f"fork{at}"))) == at + 1
        else:
            with pytest.raises(CorruptLog):
                list(scan(fast_folder / "chats" / f"fork{at}"))
