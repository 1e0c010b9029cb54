"""The window that a chat leaves in storage: whoever opens the chat from it sees what is made of the log alone."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Store
from chatfold.agent.kept_prompt import KeptPrompt
from chatfold.agent.views import open_view
from chatfold.eventlog import (
    Compacted,
    Entry,
    Event,
    FileStorage,
    Head,
    Log,
    MemoryStorage,
)
from chatfold.projections import STANDARD, contexts, fold, messages, outline, projection, start
from chatfold.projections.contexts import window
from chatfold.projections.prompt import Prompt, build
from chatfold.projections.snapshot import WINDOW_BYTES, dump_window, load_window
from tests.support.histories import assistant, talks, user

_WORDS = "the words that are erased"


async def from_nothing(log: Log, key: str = "chat") -> object:
    """What the log alone says: no cache is asked."""
    entries = [entry async for entry in log.read(key)]
    return messages(fold(start((contexts,), memory=len(entries) + 1), entries), entries)


async def opened_and_kept(store: Store, *events: Event) -> None:
    chat = await store.chat("chat")
    if events:
        await chat.record(*events)
    await chat.messages()
    chat.keep_window()


def in_a_file(root: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in root.rglob("*") if path.is_file())


def windows(root: Path) -> list[Path]:
    return list(root.glob("chats/*/cache/window"))


@given(talks(), st.data())
def test_a_prompt_that_was_kept_anywhere_goes_on_as_one_that_was_not(
    talk: list[Event], data: st.DataObject
) -> None:
    async def told() -> list[Entry]:
        async with Log(MemoryStorage()) as log:
            for event in talk:
                await log.append("chat", event)
            return [entry async for entry in log.read("chat")]

    history = asyncio.run(told())
    at = data.draw(st.integers(0, len(history)), label="kept at")
    view = fold(start((contexts,), memory=len(history) + 1), history[:at])
    prompt = build(window(view[contexts], view.seq), history)
    loaded = Prompt.load(prompt.dump())
    assert loaded.messages == prompt.messages
    assert loaded.injected == prompt.injected
    rest = [entry for entry in history[at:] if not isinstance(entry.event, Compacted)]
    for entry in rest:
        prompt, loaded = prompt.then([entry]), loaded.then([entry])
        assert loaded.messages == prompt.messages


@given(talks(), st.data())
def test_whoever_opens_the_chat_from_a_window_is_told_what_the_log_says(
    talk: list[Event], data: st.DataObject
) -> None:
    kept = data.draw(st.sets(st.integers(0, max(0, len(talk) - 1))), label="kept after")

    async def see() -> None:
        storage = MemoryStorage()
        for at, event in enumerate(talk):
            store = Store(storage)
            chat = await store.chat("chat")
            assert await chat.messages() == await from_nothing(store.log)
            await chat.record(event)
            assert await chat.messages() == await from_nothing(store.log)
            if at in kept:
                chat.keep_window()
            await asyncio.gather(*store._later)
            fresh = (await Store(storage).chat("chat")).view
            assert fresh.fingerprint == chat.view.fingerprint

    asyncio.run(see())


async def test_opening_reads_the_window_and_not_the_log(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Store(root) as store:
        await opened_and_kept(store, *(user(f"message {number}") for number in range(300)))

    async def refuse(*_: object) -> None:
        raise AssertionError("the log was read")

    async with Store(root) as store:
        expected = await from_nothing(store.log)
        monkeypatch.setattr(Log, "last", refuse)
        monkeypatch.setattr(Log, "spans", refuse)
        assert await (await store.chat("chat")).messages() == expected


async def test_a_writer_that_opens_the_chat_leaves_it(root: Path) -> None:
    async with Store(root) as store:
        await opened_and_kept(store, user("a title"), assistant("an answer"))
    async with Store(root) as store:
        await store.log.append("chat", user("more"))
        assert len(windows(root)) == 1


async def test_the_view_is_unpacked_when_it_is_asked_for(root: Path) -> None:
    async with Store(root) as store:
        await opened_and_kept(store, user("a title"), assistant("an answer"))
    async with Store(root) as store:
        chat = await store.chat("chat")
        assert (chat[outline].title, chat[outline].messages) == ("a title", 2)
        await chat.user("more")
        assert chat[outline].messages == 3


@pytest.mark.parametrize("damage", ["torn", "flipped", "empty", "of another chat", "older"])
async def test_a_window_that_does_not_prove_itself_is_none(root: Path, damage: str) -> None:
    async with Store(root) as store:
        await opened_and_kept(store, *(user(f"message {number}") for number in range(20)))
        other = await store.chat("other")
        await other.record(*(user(f"another {number}") for number in range(20)))
        await other.messages()
    mine, theirs = sorted(windows(root), key=lambda path: "other" in str(path))
    data = mine.read_bytes()
    match damage:
        case "torn":
            mine.write_bytes(data[: len(data) // 2])
        case "flipped":
            mine.write_bytes(data[:-50] + bytes((data[-50] ^ 1,)) + data[-49:])
        case "empty":
            mine.write_bytes(b"")
        case "of another chat":
            mine.write_bytes(theirs.read_bytes())
        case "older":  # by more than anybody reads after a window
            async with Store(root) as store:
                await store.log.append("chat", *(user(f"more {number}") for number in range(1100)))
    async with Store(root, read_only=True) as store:
        chat = await store.chat("chat")
        assert await chat.messages() == await from_nothing(store.log)
        assert chat.view == fold(start(STANDARD), [entry async for entry in store.log.read("chat")])


async def test_a_window_of_another_version_is_none() -> None:
    view, prompt = start(STANDARD), build(window(start(STANDARD)[contexts], 0), ())
    data = dump_window(view, prompt, 0)
    assert data is not None
    assert load_window(data, Head(), STANDARD) is not None

    @projection(int)
    def mine(state: int, entry: Entry) -> int:
        return state + 1

    assert load_window(data, Head(), (*STANDARD, mine)) is None
    assert load_window(b"\x00" + data, Head(), STANDARD) is None


async def test_a_large_prompt_is_not_kept(root: Path) -> None:
    async with Store(root) as store:
        chat = await store.chat("chat")
        for _ in range(12):
            await chat.user(random.randbytes(WINDOW_BYTES // 20).hex())
        await chat.messages()
    assert windows(root) == []


async def test_what_was_erased_is_in_no_file(root: Path) -> None:
    async with Store(root) as store:
        await opened_and_kept(store, user(_WORDS), assistant("oh"))
        await asyncio.gather(*store._later)
        assert in_a_file(root, _WORDS)
        chat = await store.chat("chat")
        await chat.messages()
        await store.log.redact("chat", 1)
        chat.keep_window()  # of what was known before
    assert not in_a_file(root, _WORDS)


async def test_a_window_that_is_written_while_its_text_is_erased_is_in_no_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The erasure comes after the last look at the epoch, and the writer is killed before it looks again."""
    async with Store(root) as store:
        await opened_and_kept(store, user(_WORDS), assistant("oh"))
        await asyncio.gather(*store._later)
        opened = await open_view(store.log, "chat")
        prompt = KeptPrompt(opened).at(opened)
        assert prompt is not None
        data = dump_window(opened.view, prompt, 0)
        assert data is not None
        storage = store.log.storage
        assert isinstance(storage, FileStorage)
        pwrite = storage._disk.pwrite

        def killed_after(fd: int, data: bytes, offset: int) -> int:
            storage._redact(storage._reader("chat"), [1], ["chat"])
            written = pwrite(fd, data, offset)
            raise KeyboardInterrupt(written)

        monkeypatch.setattr(storage._disk, "pwrite", killed_after)
        from chatfold.eventlog.files.snapshots import store_window

        with pytest.raises(KeyboardInterrupt):
            store_window(storage._reader("chat").cache, opened.head, data, opened.erasures)
        monkeypatch.undo()
    assert not in_a_file(root, _WORDS)


async def test_an_idle_chat_lets_go_of_its_prompt(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatfold.agent.kept_prompt.IDLE_S", 0.01)
    async with Store(root) as store:
        chat = await store.chat("chat")
        await chat.record(user("one"), assistant("two"))
        expected = await chat.messages()
        while chat._prompt._kept is not None:  # noqa: ASYNC110 (nobody says when)
            await asyncio.sleep(0.005)
        await asyncio.gather(*store._later)
        assert len(windows(root)) == 1
        assert len(chat.opened.recent) == 0
        assert await chat.messages() == expected


async def test_a_read_only_store_writes_no_window(root: Path) -> None:
    async with Store(root) as store:
        await store.log.append("chat", user("one"), assistant("two"))
    async with Store(root, read_only=True) as store:
        await (await store.chat("chat")).messages()
    assert windows(root) == []


_LIFE = """
import asyncio, random, sys
from pathlib import Path
import chatfold.agent.kept_prompt as kept_prompt
from chatfold.agent import Policy, Store
from chatfold.eventlog import Compacted, Rewound

kept_prompt._BYTES = 1 << 20
kept_prompt.ANSWERED = kept_prompt.AT_MOST = 1  # after every append

async def live():
    chance = random.Random(sys.argv[2])
    while True:
        async with Store(Path(sys.argv[1])) as store:
            chat = await store.chat("chat")
            for _ in range(chance.randint(1, 8)):
                await chat.messages()
                await chat.user(chance.randbytes(chance.choice([10, 2_000])).hex())
                await chat.messages()
                await chat.assistant("so " * chance.randint(1, 300))
                if chance.random() < 0.2 and chat.seq > 8:
                    await chat.record(Compacted(1, chat.seq - 4, chat.seq - 4, "in short"))
                if chance.random() < 0.1:
                    await chat.rewind(max(1, chat.seq - 5))
                if chance.random() < 0.1:
                    await chat.new_context("else")
                print("turn", flush=True)

asyncio.run(live())
"""


def test_kills_between_window_and_log_never_show_a_stale_prompt(root: Path) -> None:
    """Real kills, at random moments, of processes that store the window after every append."""
    chance = random.Random(7)
    kept = 0
    for number in range(6):
        child = subprocess.Popen(
            [sys.executable, "-c", _LIFE, str(root), str(number)], stdout=subprocess.PIPE, env=os.environ
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(chance.random() * 0.25)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        kept += bool(windows(root))
        asyncio.run(_compare(root))
    assert kept


async def _compare(root: Path) -> None:
    async with Store(root, read_only=True) as store:
        chat = await store.chat("chat")
        assert await chat.messages() == await from_nothing(store.log)
        entries = [entry async for entry in store.log.read("chat")]
        assert chat.view.fingerprint == fold(start(STANDARD, memory=len(entries) + 1), entries).fingerprint
