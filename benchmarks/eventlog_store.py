"""Stores of a given size, and the processes that open them cold."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from benchmarks.machine import HERE, environment
from benchmarks.measure import progress
from benchmarks.workload import turns
from chatfold.eventlog import Event, FileStorage, Log
from chatfold.eventlog.files.chat_dir import chat_path

_GROUP = 128  # turns


async def build(root: Path, chat: str, events: int, *, seed: int = 4) -> int:
    """Appends the first ``events`` of the workload, each turn a batch: the bytes of their JSON."""
    encode = msgspec.json.Encoder().encode
    stream = turns(seed)
    payload = done = 0
    async with Log(FileStorage(root, durability="off")) as log:
        while done < events:
            group = [turn for turn in _up_to(events - done, islice(stream, _GROUP)) if turn]
            payload += sum(len(encode(event)) for turn in group for event in turn)
            await asyncio.gather(*(log.append(chat, *turn) for turn in group))  # in this order, in few writes
            done += sum(map(len, group))
            progress(f"  building {chat!r}: {done:,} of {events:,} entries")
    return payload


def _up_to(count: int, turns: Iterable[list[Event]]) -> Iterator[list[Event]]:
    """The turns as long as they fit, the last one cut."""
    for turn in turns:
        yield turn[:count]
        count -= min(count, len(turn))


def chat_folder(root: Path, chat: str) -> Path:
    return chat_path(root, chat)


def remove(root: Path) -> None:
    shutil.rmtree(root)


def delete_caches(root: Path, chat: str) -> None:
    shutil.rmtree(chat_folder(root, chat) / "cache", ignore_errors=True)


def size_of(folder: Path, *patterns: str) -> int:
    """Bytes in the files that match, as ``ls`` says, not in blocks."""
    return sum(file.stat().st_size for pattern in patterns for file in folder.glob(pattern) if file.is_file())


def start_child(*arguments: object) -> "subprocess.Popen[str]":
    """A new process that runs ``eventlog_child`` and prints JSON."""
    command = [sys.executable, "-m", "benchmarks.eventlog_child", *map(str, arguments)]
    return subprocess.Popen(command, cwd=HERE.parent, env=environment(), stdout=subprocess.PIPE, text=True)
