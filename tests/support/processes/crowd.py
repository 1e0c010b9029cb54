"""The processes that share one store: each does one thing again and again, and tells what it was told.

What a process tells goes to a file of its own in single writes, so that a kill takes nothing back. One that was killed is
started again as the next ``life`` and goes on where the last one stopped: a writer repeats the append whose answer it may
have missed. All stop when there is a file ``stop``; followers when they see the entry called ``end``.
"""

import asyncio
import faulthandler
import os
import random
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from chatfold.agent import Policy, Store, assistant, user
from chatfold.eventlog import (
    ChatDeleted,
    ChatExists,
    Conflict,
    Entry,
    FileStorage,
    Log,
    NoSuchChat,
    NoSuchPoint,
    Noted,
    scan,
)
from tests.support.judges.talk import batches, short

CHAT, DOOMED = "chat", "doomed"
SEGMENT_BYTES = 4_000
_SIZES = (1, 1, 1, 2, 3)


class Member:
    """One process of the crowd: its name, its life, where it tells."""

    def __init__(self, place: Path, name: str, life: int, *, read_only: bool = False) -> None:
        self.root = place / "store"
        self.name = name
        self.chance = random.Random(f"{name} {life}")
        self._stop = place / "stop"
        self._fd = os.open(place / "told" / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.before = (place / "told" / name).read_text().splitlines()
        self.storage = FileStorage(
            self.root, segment_bytes=SEGMENT_BYTES, durability="off", read_only=read_only
        )
        faulthandler.register(signal.SIGUSR1, self._fd)  # where it hangs, if it does
        self.tell("life", life)

    def tell(self, *words: object) -> None:
        os.write(self._fd, (" ".join(map(str, words)) + "\n").encode())

    def acknowledged(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.tell("ack", entry.seq, entry.link, entry.prev, entry.id or "-")

    async def goes_on(self) -> bool:
        await asyncio.sleep(self.chance.random() * 0.004)
        return not self._stop.exists()


async def write(me: Member, chat: str = CHAT) -> None:
    number = len({line for line in me.before if line.startswith("ack") and not line.endswith(" -")})
    async with Log(me.storage) as log:
        while await me.goes_on():
            name = f"{me.name}.{number}"
            try:
                entries = await log.append(chat, *short(name, _SIZES[number % 5]), id=name)
            except ChatDeleted:
                me.tell("deleted")
                continue
            me.acknowledged(entries)
            number += 1


async def write_doomed(me: Member) -> None:
    await write(me, DOOMED)


async def race(me: Member) -> None:
    """Always says where it believes the log ends."""
    async with Log(me.storage) as log:
        while await me.goes_on():
            after = (await log.head(CHAT)).seq
            await asyncio.sleep(0)
            try:
                [entry] = await log.append(CHAT, Noted("race", me.name), after=after)
            except Conflict as conflict:
                me.tell("lost", conflict.expected, conflict.actual)
            else:
                me.tell("won", after, entry.seq)
                me.acknowledged([entry])


async def compact(me: Member) -> None:
    """Holds a chat, as an embedder does."""
    async with Store(me.storage) as store:
        chat = await store.chat(CHAT)
        while await me.goes_on():
            me.acknowledged(await chat.record(user("what now?"), assistant("this " * 20)))
            if not me.chance.randrange(4):
                done = await chat.compact(Policy(keep=4, budget=None), summarise=lambda _: "in short")
                me.tell("compacted", len(done))
                me.acknowledged(done)
            await chat.messages("openai")


async def fork(me: Member) -> None:
    async with Log(me.storage) as log:
        while await me.goes_on():
            end = (await log.head(CHAT)).seq
            at, key = me.chance.randint(1, max(1, end)), f"{me.name}-{me.chance.getrandbits(40)}"
            with suppress(NoSuchChat, NoSuchPoint, ChatExists):
                entry = await log.fork(CHAT, key, at)
                me.tell("forked", key, at, entry.prev)
                if not me.chance.randrange(3):
                    me.tell("unforked", key)  # before: whoever is killed may have done it
                    await log.delete(key)
            await asyncio.sleep(0.03)


async def redact(me: Member) -> None:
    async with Log(me.storage) as log:
        while await me.goes_on():
            secret = f"swordfish-{me.name}-{me.chance.getrandbits(60)}"
            [entry] = await log.append(CHAT, Noted("secret", secret))
            me.acknowledged([entry])
            await log.redact(CHAT, entry.seq)
            me.tell("redacted", entry.seq, secret)
            await asyncio.sleep(0.03)


async def delete(me: Member) -> None:
    async with Log(me.storage) as log:
        while await me.goes_on():
            await asyncio.sleep(0.05)
            with suppress(NoSuchChat, ChatDeleted):
                if (await log.head(DOOMED)).seq:
                    await log.delete(DOOMED)
                    me.tell("deletion")


async def read(me: Member) -> None:
    """The whole log, in three ways: each is a log."""
    async with Log(me.storage) as log:
        while await me.goes_on():
            entries = [entry async for entry in log.read(CHAT)]
            back = [entry async for entry in log.read_back(CHAT)][::-1]
            ways = [entries, back]
            with suppress(NoSuchChat):
                ways.append(list(scan(me.root / "chats" / CHAT)))
            for found in ways:
                assert [entry.seq for entry in found] == list(range(1, len(found) + 1))
                assert sum(map(len, batches(found))) == len(found)
                for entry in found[-1:]:
                    me.tell("saw", entry.seq, entry.link)


async def follow(me: Member) -> None:
    me.tell("follows")
    async with Log(me.storage) as log:
        async for entry in log.follow(CHAT):
            me.tell("saw", entry.seq, entry.link)
            if isinstance(entry.event, Noted) and entry.event.name == "end":
                break


async def follow_doomed(me: Member) -> None:
    """From the start each time it is told that the chat is gone."""
    async with Log(me.storage) as log:
        while await me.goes_on():
            me.tell("follows")
            with suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    try:
                        async for entry in log.follow(DOOMED):
                            me.tell("chain", entry.seq, entry.link, entry.prev)
                    except (ChatDeleted, NoSuchChat):
                        me.tell("deleted")


ROLES: dict[str, tuple[Callable[[Member], Coroutine[Any, Any, None]], bool]] = {
    "write": (write, False),
    "race": (race, False),
    "compact": (compact, False),
    "fork": (fork, False),
    "redact": (redact, False),
    "read": (read, True),
    "follow": (follow, True),
    "write-doomed": (write_doomed, False),
    "delete": (delete, False),
    "follow-doomed": (follow_doomed, True),
}
"""What each does, and whether it only reads."""


def born(place: Path, role: str, number: int, life: int) -> int:
    """A new process of the crowd: its pid. Forked: importing takes longer than most of them live."""
    pid = os.fork()
    if pid:
        return pid
    do, read_only = ROLES[role]
    me = Member(place, f"{role}{number}", life, read_only=read_only)
    try:
        asyncio.run(do(me))
        me.tell("finished")
    except BaseException as error:  # noqa: BLE001 (whoever judges reads it)
        me.tell("error", type(error).__name__, error)
    finally:
        os._exit(0)
