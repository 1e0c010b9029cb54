"""A soak: writers that are killed and replaced, followers and readers, chats that roll, end and are deleted, for as long as wanted.

``number`` is in seconds; an hour is 3600. Of every chat that ends, what was acknowledged must be in it once and at its place, and
each follower must have seen exactly what is in it. Those that live as long as the soak must not grow: not in memory, not in
open files.
"""

import asyncio
import os
import random
import select
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from itertools import count
from pathlib import Path
from statistics import median

from tests.support.figures import Figures
from tests.support.judges.talk import entries_of, ids_in
from tests.support.processes.births import die_with_parent, warm
from tests.support.processes.children import started
from tests.support.processes.soaking import SLOTS, WRITERS, Board, Writer, seen_of

CREW = ("keeper", "follower", "follower", "reader")
_CHATS = 8
"""One after the other in each slot, at least, in a short soak; in a long one they live for a quarter of a minute."""
_WARM = 0.25
"""Of the time, in which memory may grow."""
_MORE_KB = 6_000  # after that, and 15 %: less than what a long soak would make of any leak
_MORE_FILES = 10
_SETTLED_S = 12  # a follower keeps the watch of a chat for ten seconds after nobody has waited for it


class Soak:
    def __init__(self, seconds: float, seed: int, root: Path, stack: ExitStack, figures: Figures) -> None:
        self._chance = random.Random(seed)
        self._root = root
        self._board = Board(root)
        self._figures = figures
        self._life = min(15.0, seconds / _CHATS)
        self._seconds = seconds
        self._names = count()
        self._said: dict[str, dict[str, int]] = {}  # chat -> id -> seq
        self._saw: dict[str, list[tuple[int, str]]] = {}
        self._ending: set[str] = (
            set()
        )  # chats in which nobody writes any more, until the followers have seen it
        self._ears: dict[int, tuple[str, bytes]] = {}  # descriptor -> (whose, what it began to tell)
        self._writers: dict[int, int] = {}  # number -> pid
        self._crew = [stack.enter_context(started("soaking", role, root)) for role in CREW]
        self._samples: list[list[tuple[int, int]]] = []
        for role, process in zip(CREW, self._crew, strict=True):
            assert process.stdout is not None
            self._ears[process.stdout.fileno()] = role, b""

    def run(self) -> None:
        start = time.monotonic()
        due = {
            self._kill: self._every(0.1, 0.5),
            self._sample: self._every(self._seconds / 200, self._seconds / 200),
            self._end_one: self._every(self._life / SLOTS, self._life / SLOTS),
        }
        when = {do: start + next(pauses) for do, pauses in due.items()}
        for number in range(WRITERS - 1):
            self._start(number)
        while time.monotonic() < start + self._seconds:
            self._listen(0.02)
            for do, moment in when.items():
                if moment < time.monotonic():
                    do()
                    when[do] = time.monotonic() + next(due[do])
        self._finish()

    def _every(self, least: float, most: float) -> Iterator[float]:
        while True:
            yield self._chance.uniform(least, most)

    # --- the processes -----------------------------------------------------------------------------------

    def _start(self, number: int) -> None:
        here, there = os.pipe()
        name = f"w{next(self._names)}"
        pid = os.fork()
        if not pid:
            _write(self._root, number, name, there)
        os.close(there)
        self._ears[here] = f"writer {number}", b""
        self._writers[number] = pid

    def _kill(self) -> None:
        number = self._chance.choice(sorted(self._writers))
        self._end(number)
        self._start(number)
        self._figures.count("kills")
        self._figures.tried += 1

    def _end(self, number: int) -> None:
        pid = self._writers.pop(number)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self._board.leave(number)

    def _listen(self, seconds: float) -> None:
        for fd in select.select([*self._ears], [], [], seconds)[0]:
            who, rest = self._ears[fd]
            data = os.read(fd, 1 << 16)
            *lines, rest = (rest + data).split(b"\n")
            self._ears[fd] = who, rest
            for line in lines:
                self._hear(who, line.decode().split())
            if not data:
                del self._ears[fd]
                if who.startswith("writer"):
                    os.close(fd)
                else:
                    raise AssertionError(f"the {who} ended")

    def _hear(self, who: str, words: list[str]) -> None:
        match words:
            case ["said", chat, name, seq]:
                self._said.setdefault(chat, {})[name] = int(seq)
            case ["saw", chat, number, digest]:
                self._saw.setdefault(chat, []).append((int(number), digest))
                if len(self._saw[chat]) == CREW.count("follower"):
                    self._judge(chat)
            case ["read"]:
                self._figures.count("reads")
            case ["failed", *why]:
                raise AssertionError(f"{who}: {' '.join(why)}")

    def _tell_keeper(self, *words: str) -> None:
        assert self._crew[0].stdin is not None
        self._crew[0].stdin.write(" ".join(words) + "\n")
        self._crew[0].stdin.flush()

    # --- chats that end ----------------------------------------------------------------------------------

    def _end_one(self) -> None:
        """The oldest: the slots take turns."""
        slot = min(range(SLOTS), key=self._board.number)
        number = self._board.number(slot)
        self._board.next(slot)
        while self._board.is_in_use(slot, number):
            self._listen(0.002)
        self._ending.add(f"s{slot}-{number}")
        self._tell_keeper("end", f"s{slot}-{number}")

    def _judge(self, chat: str) -> None:
        folder = self._root / "chats" / chat
        entries = entries_of(folder)
        assert len(ids_in(entries)) >= len(self._said.get(chat, {}))
        lost = {name for name, seq in self._said.pop(chat, {}).items() if entries[seq - 1].id != name}
        self._figures.count("lost", len(lost))
        assert not lost, f"{len(lost)} of {chat} are lost"
        digest = sha256(b"".join(map(seen_of, entries))).hexdigest()
        for saw in self._saw.pop(chat):
            assert saw == (len(entries), digest), f"a follower saw something else in {chat}: {saw}"
        self._figures.count("chats")
        self._figures.count("entries", len(entries))
        self._figures.count("rolls", len(list(folder.glob("*.jsonl"))) - 1)
        self._ending.remove(chat)
        self._tell_keeper("drop", chat)

    def stop(self) -> None:
        for number in list(self._writers):
            self._end(number)

    def _finish(self) -> None:
        self.stop()
        for _ in range(SLOTS):
            self._end_one()
        patience = time.monotonic() + 60
        while self._ending:
            assert time.monotonic() < patience, f"nobody saw the end of {[*self._ending]}"
            self._listen(0.1)
        self._judge_growth()

    # --- growth ------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        self._samples.append([_size(process.pid) for process in self._crew])

    def _judge_growth(self) -> None:
        samples = self._samples[int(len(self._samples) * _WARM) :]
        third = len(samples) // 3
        for at, role in enumerate(CREW):
            for what, which, more in (("kB", 0, _MORE_KB), ("files", 1, _MORE_FILES)):
                first, last = (
                    round(median(sample[at][which] for sample in part))
                    for part in (samples[:third], samples[-third:])
                )
                name = f"{role}{at}"
                self._figures.counted[f"{name}, {what} first"] = first
                self._figures.counted[f"{name}, {what} last"] = last
                if last > first * 1.15 + more and (what == "kB" or self._seconds * _WARM > _SETTLED_S):
                    self._figures.violated(name, AssertionError(f"grew from {first} to {last} {what}"))


def _size(pid: int) -> tuple[int, int]:
    """(kB of memory that is its own, open files)"""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]), sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _write(root: Path, number: int, name: str, there: int) -> None:
    def tell(*words: object) -> None:
        os.write(there, (" ".join(map(str, words)) + "\n").encode())

    die_with_parent()
    try:
        asyncio.run(Writer(root, number, name, tell).live())
    except BaseException as error:  # noqa: BLE001 (told)
        tell("failed", repr(error), traceback.format_exc().replace("\n", " | ")[-1500:])
    finally:
        os._exit(0)


def campaign(number: int, seed: int, folder: Path) -> Figures:
    figures = Figures()
    for what in ("lost", "kills", "chats", "entries", "rolls", "reads"):
        figures.count(what, 0)
    root = folder / "store"
    root.mkdir(parents=True)
    warm(folder)
    try:
        with ExitStack() as stack:
            soak = Soak(number, seed, root, stack, figures)
            stack.callback(soak.stop)
            soak.run()
    except Exception as error:  # noqa: BLE001 (counted)
        traceback.print_exc()
        figures.violated(f"seed {seed}", error)
    return figures
