"""Everything that changes a store, and what must be true of it when that was interrupted at any point.

``STORE`` chats are made by ``prepare``; an operation then works on a copy, tells what returned, and is cut short
by a kill or a failing disk. ``judge`` opens what is left with a healthy disk.
"""

import asyncio
import fcntl
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from chatfold.agent import Chat, Policy, Store
from chatfold.eventlog import (
    Compacted,
    ContextOpened,
    ContextSwitched,
    Entry,
    FileStorage,
    Forked,
    Log,
    MessageAdded,
    Noted,
    Redacted,
    Text,
    check,
    repair,
)
from chatfold.eventlog.files.chat_dir import NOTE
from chatfold.eventlog.files.disk import Disk
from chatfold.projections import contexts
from tests.support.disk.threadless import run_here, without_threads
from tests.support.judges.talk import entries_of, is_clean, short

SEGMENT_BYTES = 900
SECRET = "the password is swordfish, do not tell; " * 40  # long enough to be referred to
LARGE = "a text too large for a line " * 40_000
STORE = ("chat", "twin", "other")
Tell = Callable[[str], None]


def opened(root: Path, disk: Disk | None = None) -> Log:
    return Log(FileStorage(root, segment_bytes=SEGMENT_BYTES, disk=disk, durability="full"))


async def prepare(root: Path) -> None:
    """A chat of several segments with a secret said twice, a fork of it, and one that has nothing to do with them."""
    async with opened(root) as log:
        for number in range(3):
            await log.append("chat", *short(f"p{number}"), id=f"p{number}")
        await log.append("chat", MessageAdded("user", (Text(SECRET),)))
        await log.append("chat", *short("p4", 3), id="p4")
        await log.append("chat", Noted("again", {"text": SECRET}))
        await log.fork("chat", "twin")
        await log.append("chat", *short("p5"), id="p5")
        await log.append("other", *short("o"), id="o")


async def prepare_torn(root: Path) -> None:
    await prepare(root)
    with max((root / "chats" / "chat").glob("*.jsonl")).open("ab") as segment:
        segment.write(b'{"seq":10,"ts":17')


async def prepare_large(root: Path) -> None:
    await prepare(root)
    async with opened(root) as log:
        await log.append("chat", Noted("large", {"text": SECRET + LARGE}))


async def prepare_talk(root: Path) -> None:
    """With turns that can be compacted."""
    await prepare(root)
    async with opened(root) as log:
        for number in range(4):
            for role in ("user", "assistant"):
                await log.append("chat", MessageAdded(role, (Text(f"said {number}"),)))


async def prepare_half_erased(root: Path) -> None:
    """As a kill leaves it right after the note of what is to be erased was written."""
    await prepare(root)
    elsewhere = root.with_name("erased")
    shutil.copytree(root, elsewhere)
    async with opened(elsewhere) as log:
        erased = await log.storage.redact("chat", [4])
    shutil.rmtree(elsewhere)
    note = {}
    async with opened(root) as log:
        for chat, seqs in erased.items():
            links = {entry.seq: entry.link async for entry in log.read(chat)}
            note[chat] = {"origin": links[1], "entries": {seq: links[seq] for seq in seqs}}
    (root / f"{NOTE}0123456789abcdef").write_bytes(msgspec.json.encode(note))


async def prepare_damaged(root: Path) -> None:
    await prepare(root)
    segment = min((root / "chats" / "chat").glob("*.jsonl"))
    content = segment.read_bytes()
    segment.unlink()  # its fork has the same file
    segment.write_bytes(content.replace(b'"p1"', b'"x1"'))
    segment.chmod(0o600)


# --- the operations: each tells the ids, or its own name, once they are acknowledged ------------------------


async def append(log: Log, tell: Tell) -> None:
    for name, count in (("a", 1), ("b", 3)):
        await log.append("chat", *short(name, count), id=name)
        tell(name)


async def roll(log: Log, tell: Tell) -> None:
    for number in range(8):
        await log.append("chat", *short(f"r{number}", 1 + number % 2), id=f"r{number}")
        tell(f"r{number}")


async def append_in_room(log: Log, tell: Tell) -> None:
    """In a segment that is large enough for padding: it is made, written over, used up, made again and cut off."""
    storage = log.storage
    assert isinstance(storage, FileStorage)
    roomy = FileStorage(storage._root, disk=storage._disk, durability="full", segment_bytes=1 << 17)
    async with Log(roomy) as inner:
        for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz"):
            await inner.append("chat", *short(f"i{letter}", 1 + number % 2), id=f"i{letter}")
            tell(f"i{letter}")


async def append_large(log: Log, tell: Tell) -> None:
    await log.append("chat", Noted("large", {"text": LARGE}), id="large")
    tell("large")


async def create(log: Log, tell: Tell) -> None:
    await log.append("new", *short("n", 2), id="n")
    tell("n")


async def fork(log: Log, tell: Tell) -> None:
    await log.fork("chat", "branch", 7)
    tell("fork")


async def fork_whole(log: Log, tell: Tell) -> None:
    """By a process that writes the parent, too: its segment ends there, and is shared."""
    await log.append("chat", *short("a"), id="a")
    tell("a")
    await log.fork("chat", "branch")
    tell("fork")


async def redact(log: Log, tell: Tell) -> None:
    await log.redact("chat", 4)
    tell("redact")


async def redact_large(log: Log, tell: Tell) -> None:
    await log.redact("chat", 4, 10)
    tell("redact")


async def delete(log: Log, tell: Tell) -> None:
    await log.delete("chat")
    tell("delete")


async def mend(log: Log, tell: Tell) -> None:
    storage = log.storage
    assert isinstance(storage, FileStorage)
    repair(storage._root / "chats" / "chat", disk=storage._disk)
    tell("mend")


async def snapshot(log: Log, tell: Tell) -> None:
    """A cache: whatever becomes of it, what is appended afterwards is."""
    head = await log.head("chat")
    await log.storage.store_snapshot("chat", head, b"a snapshot")
    await append(log, tell)


async def take_in(log: Log, tell: Tell) -> None:
    await log.storage.import_chat("taken", log.storage.export("chat"))
    tell("import")


async def take_up(log: Log, tell: Tell) -> None:
    """Whoever writes first finishes what the note says."""
    await log.append("other", *short("a"), id="a")
    tell("redact")


async def switch_context(log: Log, tell: Tell) -> None:
    async with _chat(log) as chat:
        first = chat[contexts].active.id
        await chat.new_context("another topic")
        tell("context")
        await chat.load_context(context_id=first)
        tell("switch")


async def compact(log: Log, tell: Tell) -> None:
    async with _chat(log) as chat:
        assert await chat.compact(Policy(keep=1))
        tell("compact")


@asynccontextmanager
async def _chat(log: Log) -> AsyncIterator[Chat]:
    """What is done later, as by a store that is not closed, is done when this ends."""
    store = Store(log.storage)
    try:
        yield await store.chat("chat")
    finally:
        await asyncio.gather(*store._later, return_exceptions=True)


Prepare = Callable[[Path], Coroutine[Any, Any, None]]
Run = Callable[[Log, Tell], Coroutine[Any, Any, None]]
OPERATIONS: dict[str, tuple[Prepare, Run]] = {
    "append": (prepare, append),
    "append to a torn log": (prepare_torn, append),
    "append in room": (prepare, append_in_room),
    "append a blob": (prepare, append_large),
    "roll": (prepare, roll),
    "create": (prepare, create),
    "fork": (prepare, fork),
    "fork at the end": (prepare, fork_whole),
    "fork a torn log": (prepare_torn, fork_whole),
    "redact": (prepare, redact),
    "redact a blob": (prepare_large, redact_large),
    "delete": (prepare, delete),
    "repair": (prepare_damaged, mend),
    "snapshot": (prepare, snapshot),
    "import": (prepare, take_in),
    "redact what a kill left": (prepare_half_erased, take_up),
    "context switch": (prepare_talk, switch_context),
    "compact": (prepare_talk, compact),
}


# --- what must be true afterwards ---------------------------------------------------------------------------


def judge(name: str, root: Path, told: list[str]) -> None:
    """``told``: what the operation called ``name`` acknowledged before it was cut short."""
    no_lock_is_held(root)
    listed = set(run_here(_listed(root)))
    _right_chats(name, listed, told)
    if name == "repair" and "mend" not in told:
        repair(root / "chats" / "chat")
    for chat in listed:
        assert check(root / "chats" / chat).ok
    run_here(_write_on(root, sorted(listed)))
    nothing_left_over(root)
    for chat in listed:
        folder = root / "chats" / chat
        assert is_clean(folder)
        _right_entries(chat, entries_of(folder), told, name)
    if "chat" in listed:
        _right_events(name, [type(entry.event) for entry in entries_of(root / "chats" / "chat")], told)
    if name.startswith("redact"):
        _erased_everywhere_or_nowhere(root, told)


def no_lock_is_held(root: Path) -> None:
    """Or the next writer would wait for ever."""
    for path in root.rglob("lock"):
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def _listed(root: Path) -> list[str]:
    async with Log(FileStorage(root, read_only=True)) as log:
        return [chat async for chat in log.chats()]


def _right_chats(name: str, listed: set[str], told: list[str]) -> None:
    must, may = set(STORE), set(STORE)
    if name == "delete":
        must.remove("chat")
        if "delete" in told:
            may.remove("chat")
    for operation, chat in (("create", "new"), ("fork", "branch"), ("import", "taken")):
        if name.startswith(operation):
            may.add(chat)
            must |= {chat} if {"n", "fork", "import"} & {*told} else set()
    assert must <= listed <= may


async def _write_on(root: Path, chats: list[str]) -> None:
    """A healthy writer comes along."""
    storage = FileStorage(root, segment_bytes=SEGMENT_BYTES, durability="full")
    async with Log(without_threads(storage)) as log:
        for chat in chats:
            await log.append(chat, *short("after"), id="after")


def nothing_left_over(root: Path) -> None:
    assert not list((root / "chats").glob(".*"))
    assert not list((root / "trash").iterdir())
    assert not list(root.rglob("redacting"))
    assert not list(root.rglob("failed-sync"))


def _right_entries(chat: str, entries: list[Entry], told: list[str], name: str) -> None:
    names = [entry.id for entry in entries if entry.id is not None]
    before = {"chat": ["p0", "p1", "p2", "p4", "p5"], "twin": ["p0", "p1", "p2", "p4"], "other": ["o"]}
    at = 7 if name == "fork" else 10
    before["taken"] = before["chat"]
    if chat == "branch":
        before["branch"] = before["twin"] if name == "fork" else [*before["chat"], "a"]
    expected = before.get(chat, [])
    if name == "repair" and chat == "chat":
        expected.remove("p1")
    assert names[: len(expected)] == expected
    assert names[-1] == "after"
    added = names[len(expected) : -1]
    assert len(added) == len(set(added))
    acknowledged = [word for word in told if len(word) <= 2 or word == "large"]
    if chat == {"create": "new", "redact what a kill left": "other"}.get(name, "chat"):
        # Of what was not acknowledged, at most the one that was under way.
        assert added[: len(acknowledged)] == acknowledged
        assert len(added) <= len(acknowledged) + 1
    else:
        assert not added
    if chat == "branch":
        assert entries[at].event == Forked("chat", at)
        assert len(entries) == at + 2


def _right_events(name: str, kinds: list[type], told: list[str]) -> None:
    """What is told is there once; what is not told, at most once."""
    for word, operation, kind in (
        ("context", "context switch", ContextOpened),
        ("switch", "context switch", ContextSwitched),
        ("compact", "compact", Compacted),
    ):
        assert kinds.count(kind) in ((1,) if word in told else (0, 1) if name == operation else (0,))


def _erased_everywhere_or_nowhere(root: Path, told: list[str]) -> None:
    """Not one copy of the words is left in any chat, or every chat still has them."""
    holding = {chat for chat in STORE if _says(root / "chats" / chat)}
    assert holding in (set(), {"chat", "twin"})
    if told:
        assert not holding
    if not holding:
        assert not [path for path in root.rglob("*") if path.is_file() and b"swordfish" in path.read_bytes()]
    for chat in holding:
        assert not any(isinstance(entry.event, Redacted) for entry in entries_of(root / "chats" / chat))


def _says(folder: Path) -> bool:
    return any("swordfish" in repr(entry.event) for entry in entries_of(folder))
