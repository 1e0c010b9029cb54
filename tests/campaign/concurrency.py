"""Two to eight processes on one chat, killed and started again at random: is there one log, and is it the same for all?

Each round a crowd appends, races, compacts, forks, redacts, reads and follows one chat, and another chat is written,
followed and deleted. Afterwards a checker holds what every process was told to the final log: one total order, nothing
acknowledged lost, nothing twice, of those who append after the same entry one winner, followers and readers saw a
beginning of the log and nothing else, forks hold what their parent held, what was erased is nowhere.
"""

import asyncio
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from chatfold.eventlog import FileStorage, Forked, Log, Noted, check, scan
from tests.support.figures import Figures
from tests.support.judges.talk import entries_of
from tests.support.processes.crowd import CHAT, ROLES, SEGMENT_BYTES, born

_SECONDS, _KILLS = 0.7, 3  # of each round, at least
_WRITING = ("write", "race", "compact", "redact")
_DOOMED = ("write-doomed", "delete", "follow-doomed")
_START = "0" * 16


class Crowd:
    """The processes of one round."""

    def __init__(self, place: Path, chance: random.Random) -> None:
        self._place = place
        self._chance = chance
        self.kills = 0
        others = [role for role in ROLES if role not in _DOOMED]
        self.roles = ["write", chance.choice(_WRITING), *chance.choices(others, k=chance.randint(0, 6))]
        if chance.random() < 0.5:
            self.roles = [*self.roles[:5], *_DOOMED]
        self._lives = [0] * len(self.roles)
        self._pids: dict[int, int] = {}  # whose it is, by pid

    def run(self) -> None:
        for number in range(len(self.roles)):
            self._start(number)
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end or self.kills < _KILLS:
            time.sleep(self._chance.random() * 0.12)
            self._kill_one()
        (self._place / "stop").touch()
        self._wait([number for number, role in enumerate(self.roles) if role != "follow"])
        asyncio.run(_end(self._place / "store"))
        self._wait(list(range(len(self.roles))))

    def _start(self, number: int) -> None:
        self._pids[born(self._place, self.roles[number], number, self._lives[number])] = number
        self._lives[number] += 1

    def _kill_one(self) -> None:
        pid = self._chance.choice(list(self._pids))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.kills += 1
        self._start(self._pids.pop(pid))

    def _wait(self, numbers: list[int]) -> None:
        for pid, number in list(self._pids.items()):
            if number in numbers:
                _wait_for(pid)
                del self._pids[pid]


def _wait_for(pid: int) -> None:
    """What never ends is killed, and so has not told that it finished."""
    for _ in range(6_000):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGUSR1)
    time.sleep(0.5)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


async def _end(root: Path) -> None:
    async with Log(FileStorage(root, segment_bytes=SEGMENT_BYTES)) as log:
        await log.append(CHAT, Noted("end"))


# --- the checker ---------------------------------------------------------------------------------------------


class Checker:
    """Holds what was told to the log. Every method raises AssertionError with what it found."""

    def __init__(self, place: Path, figures: Figures) -> None:
        self._root = place / "store"
        self._figures = figures
        self.told = {path.name: list(_words(path)) for path in sorted((place / "told").iterdir())}
        self.entries = entries_of(self._root / "chats" / CHAT)
        self._links = {entry.seq: entry.link for entry in self.entries}

    def _of(self, *kinds: str) -> Iterator[tuple[str, list[str]]]:
        """(who, what) of everything of these kinds that was told."""
        for name, lines in self.told.items():
            yield from ((name, line[1:]) for line in lines if line[0] in kinds)

    def check(self) -> None:
        self._all_ended_well()
        self._acknowledged_is_there()
        self._ids_are_there_once_and_in_order()
        self._one_winner()
        self._seen_is_the_log()
        self._forks_hold_what_their_parent_held()
        self._erased_is_nowhere()
        self._doomed_is_one_chain_at_a_time()
        for folder in (self._root / "chats").iterdir():
            wrong = [problem for problem in check(folder).problems if problem.kind != "odd"]
            if folder.name != CHAT:  # nobody has written after the last kill
                wrong = [problem for problem in wrong if problem.kind != "torn"]
            assert not wrong, f"{folder.name}: {wrong[0]}"

    def _all_ended_well(self) -> None:
        for name, lines in self.told.items():
            errors = [" ".join(line[1:]) for line in lines if line[0] == "error"]
            assert not errors, f"{name}: {errors[0]}"
            stuck = [" ".join(line) for line in lines if line[0] in ("Thread", "Current", "")]
            assert lines[-1] == ["finished"], f"{name} did not end: {stuck or lines[-1]}"

    def _acknowledged_is_there(self) -> None:
        for name, (seq, link, _, _) in self._of("ack"):
            if "doomed" not in name:
                self._figures.count("acknowledged")
                found = self._links.get(int(seq))
                assert found == link, f"{name} was told {seq} {link}, the log has {found}"

    def _ids_are_there_once_and_in_order(self) -> None:
        names = [entry.id for entry in self.entries if entry.id]
        assert len(names) == len(set(names)), f"twice: {Counter(names).most_common(1)}"
        for name in {who.partition(".")[0] for who in names}:
            mine = [int(who.partition(".")[2]) for who in names if who.partition(".")[0] == name]
            assert mine == list(range(len(mine))), f"of {name} there are {mine}"
            # The last one's answer may have come too late for the last life.
            told = {what[3] for _, what in self._of("ack")}
            untold = [number for number in mine[:-1] if f"{name}.{number}" not in told]
            assert not untold, f"nobody was told of {name}.{untold[0]}"

    def _one_winner(self) -> None:
        won = [(int(after), int(seq)) for _, (after, seq) in self._of("won")]
        assert all(seq == after + 1 for after, seq in won), "a winner stands elsewhere"
        assert len(won) == len(set(won)), "two won the same race"
        for name, (expected, actual) in self._of("lost"):
            assert int(expected) < int(actual) <= len(self.entries), f"{name} lost to {actual}"
        self._figures.count("races won", len(won))
        self._figures.count("races lost", len(list(self._of("lost"))))

    def _seen_is_the_log(self) -> None:
        """What followers saw: without a gap, from the first on; each life begins anew."""
        for name, lines in self.told.items():
            following, seen = 0, 0
            for word, *what in lines:
                if word == "saw":
                    seen += 1
                    found = self._links.get(int(what[0]))
                    assert found == what[1], f"{name} saw {what}, the log has {found}"
                    following += 1
                    assert "follow" not in name or int(what[0]) == following, f"{name}: gap before {what[0]}"
                elif word == "follows":
                    following = 0
            if name.startswith("follow") and "doomed" not in name:
                assert following == len(self.entries), f"{name} saw {following} of {len(self.entries)}"
            self._figures.count("entries seen", seen)

    def _forks_hold_what_their_parent_held(self) -> None:
        gone = {key for _, [key] in self._of("unforked")}
        for name, (key, at, link) in self._of("forked"):
            if key in gone:
                continue
            entries = list(scan(self._root / "chats" / key))  # a fork may cut a batch
            event = entries[int(at)].event
            assert event == Forked(CHAT, int(at)), f"{name}: {key} says {event}"
            assert link == self._links[int(at)], f"{name}: {key} follows another entry"
            assert [e.link for e in entries[: int(at)]] == [e.link for e in self.entries[: int(at)]], key
            self._figures.count("forks")

    def _erased_is_nowhere(self) -> None:
        secrets = {what[1].encode(): int(what[0]) for _, what in self._of("redacted")}
        files = [path.read_bytes() for path in self._root.rglob("*") if path.is_file()] if secrets else []
        for secret, seq in secrets.items():
            assert not any(secret in content for content in files), f"{secret!r} is still there"
            assert self.entries[seq - 1].was, f"{seq} is no tombstone"
        self._figures.count("redactions", len(secrets))

    def _doomed_is_one_chain_at_a_time(self) -> None:
        """Of whatever anybody was told, no two entries follow the same one: but the first of each chat of this key."""
        after: dict[str, str] = {}
        for name, what in self._of("ack", "chain"):
            if "doomed" in name:
                link, prev = what[1], what[2]
                assert prev == _START or after.setdefault(prev, link) == link, f"{name}: two follow {prev}"
        for name, lines in self.told.items():
            link = _START
            for word, *what in lines:
                if word == "follows":
                    link = _START
                elif word == "chain":
                    assert what[2] == link, f"{name} saw {what} after {link}"
                    link = what[1]
        self._figures.count("deletions", len(list(self._of("deletion"))))
        self._figures.count("compactions", len(list(self._of("compacted"))))


def _words(path: Path) -> Iterator[list[str]]:
    for line in path.read_text().splitlines():
        yield line.split(" ")


def campaign(number: int, seed: int, folder: Path) -> Figures:
    """``number`` rounds. What is told depends on the machine; who takes part and is killed when, on the seed alone."""
    figures = Figures()
    for count in range(number):
        place = folder / f"round-{count}"
        (place / "told").mkdir(parents=True)
        crowd = Crowd(place, random.Random(f"{seed} {count}"))
        figures.tried += 1
        figures.count("processes", len(crowd.roles))
        where = f"round {count} of seed {seed}, {' '.join(crowd.roles)}, left in {place}"
        try:
            crowd.run()
            Checker(place, figures).check()
        except Exception as error:  # noqa: BLE001 (what cannot even be read is a violation)
            figures.violated(where, error)
        else:
            shutil.rmtree(place)
        figures.count("kills", crowd.kills)
    return figures
