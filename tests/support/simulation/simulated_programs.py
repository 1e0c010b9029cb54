"""What is done on the simulated disk, and what goes wrong meanwhile: drawn from a seed, written down as steps.

Every step makes sense whatever became of those before it, so that any of them can be left out to see whether it mattered.
"""

import errno
import random

import msgspec

from chatfold.eventlog import Event, MessageAdded, Noted, Text
from chatfold.eventlog.storage import Durability
from tests.support.judges.talk import STORY

CHATS = ("a", "b", "c", "d" * 250)
"""The last one's folder has another name, and a file that says which chat it is."""
_LARGE = "too large for a line " * 52_000
_VERBS = {
    "append": 60,
    "later": 6,
    "flush": 3,
    "reopen": 4,
    "snapshot": 4,
    "read": 4,
    "search": 2,
    "check": 1,
    "fork": 6,
    "copy": 2,
    "redact": 7,
    "delete": 5,
}
_FAULTS = {"kill": 12, "cut": 20, "EIO": 8, "ENOSPC": 5}
_THREADS = 0.1  # of the programs: one thing happens at a time anyway, and to wait for a thread takes longer than what it does
CODES = {"kill": 0, "cut": 0, "EIO": errno.EIO, "ENOSPC": errno.ENOSPC}


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    verb: str
    name: str  # of what is appended; whatever else is chosen follows from it
    chat: str
    by: int = 0  # which process
    fault: str = ""
    nth: int = 0  # the call that fails
    forever: bool = False
    then: str = ""  # after an error: go on, or also a kill or a power cut

    @property
    def chance(self) -> random.Random:
        return random.Random(f"{self.verb} {self.name}")


class Program(msgspec.Struct, frozen=True):
    seed: int
    segment_bytes: int
    short: float  # of the writes, so many write less than asked
    threads: bool  # does the engine have any? Otherwise whoever appends does their work
    steps: tuple[Step, ...]


def drawn(seed: int, length: int) -> Program:
    chance = random.Random(f"program {seed}")
    steps = tuple(_step(chance, f"{seed}.{number}") for number in range(length))
    size, short = chance.choice([900, 900, 3_000, 20_000, 150_000]), chance.choice([0, 0, 0.1])
    return Program(seed, size, short, chance.random() < _THREADS, steps)


def _step(chance: random.Random, name: str) -> Step:
    verb = chance.choices([*_VERBS], [*_VERBS.values()])[0]
    often = verb in ("fork", "copy", "redact", "delete")  # these do more at once
    fault = ""
    if chance.random() < (0.8 if often else 0.45):
        fault = chance.choices([*_FAULTS], [*_FAULTS.values()])[0]
    nth = chance.randint(1, chance.choice([8, 15, 40] if often else [3, 8, 15]))
    then = chance.choice(["", "kill", "cut"]) if fault in ("EIO", "ENOSPC") else ""
    chat = chance.choices(CHATS, (4, 3, 2, 1))[0]
    by = int(chance.random() < 0.25)
    return Step(verb, name, chat, by, fault, nth if fault else 0, bool(fault) and chance.random() < 0.4, then)


def words(name: str) -> tuple[Event, ...]:
    """The batch with this id. Each event has a word that is nowhere else: ``secret``."""
    chance = random.Random(f"words {name}")
    return tuple(_event(name, index, chance) for index in range(chance.choice([1, 1, 1, 2, 3, 5])))


def secret(name: str, index: int) -> str:
    return f"<{name}:{index}>"


def _event(name: str, index: int, chance: random.Random) -> Event:
    kind = chance.random()
    size = chance.choice([10, 100, 100, 400, 400, 1_500, 6_000, 30_000])
    text = secret(name, index) + (_LARGE if kind < 0.006 else chance.randbytes(size // 2).hex())
    if chance.random() < 0.3:
        return MessageAdded("user", (Text(text), Text(STORY)) if kind > 0.7 else (Text(text),))
    return Noted("said", {"text": text, "again": STORY} if kind > 0.8 else {"text": text})


def durability(chance: random.Random) -> Durability:
    return chance.choice(("full", "full", "full", "normal", "off"))
