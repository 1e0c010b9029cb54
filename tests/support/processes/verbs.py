"""Every verb of a chat and of a store, each with the store it is done in: the side of the process that is killed.

    verbs      kills, for each line ``VERB FOLDER DURABILITY`` on stdin, as ``dying`` does; answers with the number of kills

FOLDER/<n>/store holds ``root``, the store, and ``files``, where exports go to and imports come from.
"""

import io
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiofiles.threadpool

from chatfold.agent import Chat, Policy, Store, assistant, user
from chatfold.agent.views import keep_view
from chatfold.eventlog import (
    CheckpointSet,
    ContextOpened,
    Durability,
    Event,
    FileStorage,
    Noted,
    SkillActivated,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.files.disk import Disk
from tests.support.disk.faulty_disk import DyingDisk
from tests.support.listing import settle
from tests.support.processes.children import ready, tell
from tests.support.processes.dying import kill_everywhere
from tests.support.processes.operations import LARGE, Tell

SEGMENT_BYTES = 2_000
SECRET = "the password is swordfish, do not tell; " * 40  # long enough to be referred to
NOON = 1_738_713_600_000


class Scene(NamedTuple):
    """A store, the chat that a verb is done to, and a folder for files beside the store."""

    store: Store
    chat: Chat
    files: Path


@asynccontextmanager
async def scene(
    folder: Path, *, disk: Disk | None = None, durability: Durability = "full"
) -> AsyncIterator[Scene]:
    """It is always noon: two runs differ in nothing but random ids."""
    storage = FileStorage(
        folder / "root", disk=disk, durability=durability, clock=lambda: NOON, segment_bytes=SEGMENT_BYTES
    )
    async with Store(storage) as store:
        yield Scene(store, await store.chat("chat"), folder / "files")


# --- what is there before ------------------------------------------------------------------------------------

PAGES = [
    event
    for number in range(4)
    for event in (user(f"what is on page {number}?"), assistant(f"text of page {number}"))
]


async def a_talk(now: Scene) -> None:
    """Two contexts, a checkpoint, a skill, a call with its result, a compaction in force, a question."""
    chat = now.chat
    await chat.record(user("why does the lexer drop newlines?"), assistant("let me look"))
    await chat.record(CheckpointSet("before-tools"))
    await chat.record(ToolCalled("c1", "read", {"path": "lexer.py"}))
    await chat.record(ToolReturned("c1", (Text("line.split()"),)), assistant("because of split"))
    await chat.record(SkillActivated("pdf", "", "how to read them"))
    await chat.record(ContextOpened("docs", "docs build"))
    for event in PAGES:
        await chat.record(event)
    await chat.compact(Policy(keep=2))
    await chat.user("and the rest?")
    await (await now.store.chat("other")).user("hello")


async def many_steps(now: Scene) -> None:
    """A question, and since then more tool calls than there is room for."""
    for number in range(6):
        await now.chat.record(user(f"question {number}, at some length"), assistant("an answer, too " * 8))
    await now.chat.user("the last question")
    for number in range(10):
        call = f"s{number}"
        result = ToolReturned(call, (Text(f"result {number}: " + "words " * 60),))
        await now.chat.record(ToolCalled(call, "read", number), result)


async def a_long_talk(now: Scene) -> None:
    for start in range(0, 300, 100):
        events = (user(f"question {start + number}") for number in range(100))
        await now.chat.log.append("chat", *events)  # not by the chat, which would keep snapshots


async def a_secret(now: Scene) -> None:
    """Said first, so that it is the title; said again, so that it is referred to; forked; in every cache there is."""
    await now.chat.user(SECRET)
    await now.chat.record(user("something else"), assistant("yes"), Noted("again", {"text": SECRET}))
    twin = await now.chat.fork("twin")
    for chat in (now.chat, twin):
        await chat.search("swordfish", everything=True)
        await keep_view(chat.log, chat.key, chat.view)
    await (await now.store.chat("other")).user("hello")


async def a_secret_that_was_listed(now: Scene) -> None:
    await a_secret(now)
    await listed(now)


async def an_export_that_was_made_before(now: Scene) -> None:
    await a_talk(now)
    await now.chat.export(now.files / "chat.jsonl")
    await now.chat.record(Noted("large", {"text": LARGE}), user("the newest"))


async def an_export_to_import(now: Scene) -> None:
    await an_export_that_was_made_before(now)
    await now.chat.export(now.files / "chat.jsonl")
    await now.store.delete("chat")


async def listed(now: Scene) -> None:
    await settle()  # what changed just now is not kept
    assert [one.key async for one in now.store.chats()]


# --- the verbs -----------------------------------------------------------------------------------------------


class Verb(NamedTuple):
    """``adds``: so many entries to the chat ``to``. ``files``: it writes some of its own, without the store's disk."""

    do: Callable[[Scene], Awaitable[object]]
    before: Callable[[Scene], Awaitable[None]] = a_talk
    adds: int = 1
    to: str = "chat"
    files: bool = False


TOO_LONG = RuntimeError("This model's maximum context length is 8192 tokens")
SENT: list[Event] = [*PAGES, user("and the rest?"), assistant("there is none"), user("thanks")]
SENT_ANEW: list[Event] = [*PAGES[:4], user("what is on the last page?")]


async def _searched(now: Scene) -> None:
    assert await now.chat.search("question", everything=True)


async def _first_words(now: Scene) -> None:
    await (await now.store.chat("new")).user("hi")


def _recorded(now: Scene) -> Awaitable[object]:
    return now.chat.record(user("one"), assistant("two"), Noted("three"), id="batch", run="r1")


def _recorded_many(now: Scene) -> Awaitable[object]:
    return now.chat.record(*(user(f"more {number}") for number in range(260)), id="many")


VERBS: dict[str, Verb] = {
    "record": Verb(_recorded, adds=3),
    "record so many that a snapshot is due": Verb(_recorded_many, adds=260),
    "user": Verb(lambda now: now.chat.user("and now?", id="tg-1")),
    "user says the first words": Verb(_first_words, to="new"),
    "user says what is too large for a line": Verb(lambda now: now.chat.user(LARGE)),
    "assistant": Verb(lambda now: now.chat.assistant("like this", run="r1")),
    "tool_call": Verb(lambda now: now.chat.tool_call("read", {"path": "a.py"})),
    "inject": Verb(lambda now: now.chat.inject("remember the milk", source="memory")),
    "merge the tail": Verb(lambda now: now.chat.merge(SENT), adds=2),
    "merge and rewind": Verb(lambda now: now.chat.merge(SENT_ANEW), adds=2),
    "activate_skill": Verb(lambda now: now.chat.activate_skill("pptx", "how to make slides")),
    "deactivate_skill": Verb(lambda now: now.chat.deactivate_skill("pdf")),
    "new_context": Verb(lambda now: now.chat.new_context("tests", "another topic")),
    "load_context by its id": Verb(lambda now: now.chat.load_context(context_id="main")),
    "load_context by what was said": Verb(lambda now: now.chat.load_context("lexer newlines")),
    "clear_context": Verb(lambda now: now.chat.clear_context("a mess")),
    "rename_context": Verb(lambda now: now.chat.rename_context("main", "first steps")),
    "recall": Verb(lambda now: now.chat.recall("main", "full")),
    "compact": Verb(lambda now: now.chat.compact(Policy(keep=1))),
    "compact before and after the question": Verb(
        lambda now: now.chat.compact(Policy(keep=1, budget=700, summary=150)), many_steps, adds=2
    ),
    "compact_if_due": Verb(lambda now: now.chat.compact_if_due(Policy(keep=1, above=3))),
    "compact_after": Verb(lambda now: now.chat.compact_after(TOO_LONG, Policy(summary=150)), many_steps, 2),
    "revert_compaction": Verb(lambda now: now.chat.revert_compaction(17, "too short")),
    "checkpoint": Verb(lambda now: now.chat.checkpoint("here")),
    "rewind": Verb(lambda now: now.chat.rewind("before-tools")),
    "fork at a checkpoint": Verb(lambda now: now.chat.fork("branch", "before-tools"), adds=4, to="branch"),
    "fork at the end": Verb(lambda now: now.chat.fork("branch"), adds=19, to="branch"),
    "redact": Verb(lambda now: now.chat.redact(1, reason="asked to"), a_secret),
    "export": Verb(lambda now: now.chat.export(now.files / "new.jsonl"), adds=0, files=True),
    "export over another": Verb(
        lambda now: now.chat.export(now.files / "chat.jsonl"), an_export_that_was_made_before, 0, files=True
    ),
    "import_chat": Verb(
        lambda now: now.store.import_chat(now.files / "chat.jsonl", "copy"), an_export_to_import, 20, "copy"
    ),
    "delete": Verb(lambda now: now.store.delete("chat"), adds=-18),
    "chats": Verb(listed, adds=0),
    "chat, a long one": Verb(lambda now: now.store.chat("chat"), a_long_talk, 0),
    "search": Verb(_searched, a_long_talk, 0),
}


def method_of(name: str) -> str:
    return name.split(maxsplit=1)[0].rstrip(",")


# --- dying ---------------------------------------------------------------------------------------------------


class _Watched(io.FileIO):
    """A file that is written without the store's disk, and yet dies with it."""

    disk: DyingDisk

    def write(self, data: Any) -> int:
        return self.disk.write(self.fileno(), bytes(data))


def _watch_files(disk: DyingDisk) -> None:
    """From now on, what Python itself does to files counts as a change, too. In a process that is about to die."""
    _Watched.disk = disk
    real_open = os.open

    def watched(name: str, kind: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            disk.before(kind)
            return real(*args, **options)

        setattr(os, name, call)

    def opened(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            disk.before("create")
        return real_open(path, flags, *args, **options)

    def opened_file(path: Any, mode: str, *args: Any, opener: Any = None, **_: Any) -> Any:
        if mode == "rb":
            return open(path, mode)  # noqa: PTH123
        return io.BufferedWriter(_Watched(path, mode.replace("b", ""), opener=opener))

    for name, kind in {"fsync": "sync", "replace": "rename", "rename": "rename", "unlink": "unlink"}.items():
        watched(name, kind)
    for module, name, replacement in ((os, "open", opened), (aiofiles.threadpool, "sync_open", opened_file)):
        setattr(module, name, replacement)


def kill(name: str, folder: Path, durability: Durability) -> int:
    verb = VERBS[name]

    async def prepare(template: Path) -> None:
        (template / "files").mkdir(parents=True)
        async with scene(template, durability=durability) as now:
            await verb.before(now)

    async def do(place: Path, disk: DyingDisk, told: Tell) -> None:
        if verb.files:
            _watch_files(disk)
        async with scene(place, disk=disk, durability=durability) as now:
            await verb.do(now)
            told("done")

    return kill_everywhere(prepare, do, folder)


_LEVELS: dict[str, Durability] = {"full": "full", "normal": "normal", "off": "off"}

if __name__ == "__main__":
    ready()
    for line in sys.stdin:
        words, place, level = line.rstrip("\n").split("\t")
        try:
            tell(kill(words, Path(place), _LEVELS[level]))
        except AssertionError as error:
            tell(error)
