"""Lives as processes of their own: forked from one in which everything was done once, heard, and ended by SIGKILL."""

import asyncio
import ctypes
import gc
import os
import random
import select
import shutil
import signal
import time
import traceback
from pathlib import Path
from typing import NamedTuple, NoReturn

from chatfold.eventlog import Durability
from tests.support.judges.account import Account
from tests.support.judges.talk import is_clean
from tests.support.processes.living import VERBS, Life, Tell
from tests.support.processes.operations import nothing_left_over


class Plan(NamedTuple):
    """``verbs``: these and no others, and then it ends well. ``gate``: a descriptor that it reads from before it begins."""

    verbs: tuple[str, ...] = ()
    durability: Durability = "full"
    segment_bytes: int = 0
    gate: int = -1


ENDING = Plan(("end",))


class Ear:
    """Hears what a life tells, for an account."""

    def __init__(self, told: int, account: Account) -> None:
        self._told = told
        self._account = account
        self._rest = b""
        self._dead = False

    def listen(self, word: str = "", times: int = 1, seconds: float = 0) -> None:
        """For so long after it told the word so many times; or until it is dead."""
        end = None
        while not self._dead:
            wait = None if end is None else end - time.monotonic()
            if wait is not None and not select.select([self._told], [], [], max(0, wait))[0]:
                return  # having heard all that was told until now
            data = os.read(self._told, 1 << 16)
            if not data:
                os.close(self._told)
                self._dead = True
            times -= data.count(word.encode())
            if word and end is None and times <= 0:
                end = time.monotonic() + seconds
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._account.hear(line.decode())


class Moment(NamedTuple):
    """So long after a life told the word so many times."""

    word: str
    times: int
    seconds: float


def some_moment(chance: random.Random) -> Moment:
    """While it mends what the last one left, in its first deed, or later: counted in deeds, for the machine may be slow."""
    seconds = chance.uniform(0, chance.choice([0.001, 0.01]))
    return Moment(*chance.choice([("born", 1), ("begin", 1), ("done", chance.randint(1, 12))]), seconds)


class Born(NamedTuple):
    pid: int
    ear: Ear

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.end()

    def end(self) -> bool:
        """Hears the rest of what it told. Was it killed?"""
        self.ear.listen()
        return os.WIFSIGNALED(os.waitpid(self.pid, 0)[1])


def warm(folder: Path) -> None:
    """Everything is done once in this process, so that those that are forked from it start at once."""
    for verbs in ((*VERBS,), ENDING.verbs):
        asyncio.run(_lived(Life(folder / "warm", f"warm{len(verbs)}", lambda *_: None), verbs))
    shutil.rmtree(folder / "warm")
    gc.freeze()


def born(root: Path, name: str, account: Account, plan: Plan = Plan()) -> Born:  # noqa: B008 (a value)
    here, there = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(here)
        _run(root, name, there, plan)
    os.close(there)
    return Born(pid, Ear(here, account))


def die_with_parent() -> None:
    """Whoever interrupts a campaign leaves no lives behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _run(root: Path, name: str, there: int, plan: Plan) -> NoReturn:
    def tell(*words: object) -> None:
        # Not by ``write``: whoever kills at the n-th call of that kind means one to a file.
        os.writev(there, [(" ".join(map(str, words)) + "\n").encode()])

    die_with_parent()
    try:
        if plan.gate >= 0:
            os.read(plan.gate, 1)
        asyncio.run(_life(root, name, tell, plan))
    except BaseException as error:  # noqa: BLE001 (told)
        tell("failed", repr(error), traceback.format_exc().replace("\n", " | ")[-1500:])
    finally:
        os._exit(0)


async def _life(root: Path, name: str, tell: Tell, plan: Plan) -> None:
    life = Life(root, name, tell, plan.durability, plan.segment_bytes)
    tell("born")
    await (_lived(life, plan.verbs) if plan.verbs else life.live())


async def _lived(life: Life, verbs: tuple[str, ...]) -> None:
    if verbs == ENDING.verbs:
        await life.end()
        return
    await life.open()
    for verb in verbs:
        await life.do(verb)
    await life.store.close()


def in_peace(root: Path, name: str, account: Account) -> None:
    """A last life writes on in every chat: nothing is in its way, and it leaves nothing of the dead behind."""
    born(root, name, account, ENDING).end()
    account.judge(root)
    nothing_left_over(root)
    assert all(is_clean(folder) for folder in (root / "chats").iterdir())
