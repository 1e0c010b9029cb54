"""What a verb refuses leaves no trace: every byte of the store, and all that the chat shows, is as it was.

And the refusal says where it happened and what to do next. On files the folder is compared, without its caches; in memory
every entry. A refusal by name is in ``refusals``; here is what is refused whatever is asked for.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chatfold.agent import Store, user
from chatfold.eventlog import (
    ChatDeleted,
    ChatfoldError,
    Conflict,
    FileStorage,
    IdConflict,
    MemoryStorage,
    Noted,
    ReadOnly,
)
from chatfold.eventlog.line import add_checksum
from tests.support.processes.operations import LARGE
from tests.support.processes.verbs import SEGMENT_BYTES, VERBS, Scene, a_talk
from tests.support.refusals import REFUSALS, Refusal
from tests.support.simulation.simulated_verbs import still


@pytest.fixture(params=["files", "memory"])
async def now(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> AsyncIterator[Scene]:
    files = tmp_path / "files"
    files.mkdir()
    # Nothing happens by itself: what is witnessed a moment after an append is no trace of what is refused then.
    there = still(FileStorage(root, segment_bytes=SEGMENT_BYTES))
    async with Store(there if request.param == "files" else MemoryStorage()) as store:
        scene = Scene(store, await store.chat("chat"), files)
        await a_talk(scene)
        await scene.chat.user("once", id="tg-1")
        await _make_exports(scene)
        yield scene


async def _make_exports(now: Scene) -> None:
    await now.chat.export(now.files / "good.jsonl")
    whole = (now.files / "good.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    newer = add_checksum(b'{"chatfold":2,"reader":2,"first":1,"prev":"%b"' % (b"0" * 16)) + b"\n"
    for name, content in {
        "damaged": whole.replace(b"lexer", b"LEXER", 1),
        "cut": whole[: len(whole) // 2],
        "without-its-last-line": b"".join(lines[:-1]),
        "without-a-line": b"".join([*lines[:3], *lines[4:]]),
        "with-a-line-too-many": b"".join([*lines, lines[1]]),
        "newer": b"".join([newer, *lines[1:]]),
        "empty": b"",
    }.items():
        (now.files / f"{name}.jsonl").write_bytes(content)


# --- what a trace is -----------------------------------------------------------------------------------------


async def trace(now: Scene) -> dict[str, object]:
    """Everything there is, and everything the chat shows."""
    storage = now.store.log.storage
    found: dict[str, object] = {"view": now.chat.view.fingerprint}
    found |= {path.name: path.read_bytes() for path in now.files.iterdir()}
    found["open"] = open_in(now.files)
    if isinstance(storage, FileStorage):
        return found | tree(storage._root)
    async for key in now.store.log.chats():
        found[key] = (await storage.head(key), [entry async for entry in now.store.log.read(key)])
    return found


def open_in(folder: Path) -> list[str]:
    """The files of this folder that this process holds open: a file that is left to the garbage collector is one."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that this loop reads with
            targets.append(str(descriptor.readlink()))
    return [target for target in targets if target.startswith(str(folder))]


def tree(root: Path, *, caches: bool = False) -> dict[str, object]:
    """Names, modes and bytes."""
    return {
        str(path): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(root.rglob("*"))
        if caches or "cache" not in path.relative_to(root).parts
    }


async def refused(now: Scene, refusal: Refusal) -> None:
    before = await trace(now)
    with pytest.raises(refusal.error) as caught:
        await refusal.do(now)
    assert type(caught.value) is refusal.error
    text = str(caught.value)
    assert [words for words in refusal.says if words not in text] == [], text
    assert await trace(now) == before


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_leaves_no_trace_and_says_what_to_do_next(now: Scene, name: str) -> None:
    await refused(now, REFUSALS[name])


# --- a store that takes nothing ------------------------------------------------------------------------------

READING = ["export", "chats", "chat", "search"]
WRITING = [name for name in VERBS if name.split()[0].rstrip(",") not in READING]


async def prepared(name: str, root: Path, files: Path) -> Store:
    """A store in which this verb would have something to do."""
    files.mkdir()  # noqa: ASYNC240
    store = Store(FileStorage(root, segment_bytes=SEGMENT_BYTES))
    await VERBS[name].before(Scene(store, await store.chat("chat"), files))
    return store


@pytest.mark.parametrize("name", VERBS)
async def test_a_store_that_is_read_only_refuses_to_be_written_and_is_not_changed_by_reading(
    root: Path, tmp_path: Path, name: str
) -> None:
    await (await prepared(name, root, tmp_path / "files")).close()
    before = tree(root, caches=True)
    async with Store(root, read_only=True) as store:
        now = Scene(store, await store.chat("chat"), tmp_path / "files")
        if name not in WRITING:
            await VERBS[name].do(now)
        else:
            with pytest.raises(ReadOnly, match=r"opened read-only .*Open the storage without read_only=True"):
                await VERBS[name].do(now)
    assert tree(root, caches=True) == before


@pytest.mark.parametrize("name", WRITING)
async def test_a_store_that_is_closed_refuses_to_be_written(root: Path, tmp_path: Path, name: str) -> None:
    store = await prepared(name, root, tmp_path / "files")
    now = Scene(store, await store.chat("chat"), tmp_path / "files")
    await store.close()
    before = await trace(now)
    with pytest.raises(ChatfoldError, match=r"the storage is closed .*chat .*path"):
        await VERBS[name].do(now)
    assert await trace(now) == before


# --- appends that were already under way ---------------------------------------------------------------------

LATE: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "late": (Conflict, {"after": 3}),
    "an id that is taken": (IdConflict, {"id": "tg-1"}),
}


@pytest.mark.parametrize("now", ["files"], indirect=True)
@pytest.mark.parametrize("why", LATE)
async def test_a_refused_append_to_a_full_segment_does_not_begin_the_next_one(now: Scene, why: str) -> None:
    await now.chat.record(Noted("filling", {"text": "x" * SEGMENT_BYTES}))
    error, how = LATE[why]
    await refused(now, Refusal(lambda now: now.chat.record(user("another"), **how), error, ()))


@pytest.mark.parametrize("now", ["files"], indirect=True)
@pytest.mark.parametrize("why", LATE)
async def test_a_refused_append_leaves_no_blob(now: Scene, why: str) -> None:
    error, how = LATE[why]
    await refused(now, Refusal(lambda now: now.chat.record(user(LARGE), **how), error, ()))


async def test_what_is_said_to_a_chat_that_was_replaced_is_not_recorded_in_the_new_one(now: Scene) -> None:
    await now.store.delete("chat")
    another = await now.store.chat("chat")
    await another.record(*(user(f"of another talk {number}") for number in range(30)))
    await refused(now, Refusal(lambda now: now.chat.user("of the old talk"), ChatDeleted, ("chat 'chat'",)))


# --- where, and what next ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["fork before the first", "redact before the first", "redact after the last"]
)
async def test_an_entry_that_is_not_there_is_told_as_such(now: Scene, name: str) -> None:
    verb, _, where = name.partition(" ")
    seq = 20 if where == "after the last" else 0
    with pytest.raises(ChatfoldError) as caught:
        await (now.chat.fork("branch", seq) if verb == "fork" else now.chat.redact(seq))
    assert "append after the actual head" not in str(caught.value)


@pytest.mark.parametrize("name", ["damaged", "cut", "newer"])
async def test_what_cannot_be_imported_is_told_with_the_file_and_the_chat(now: Scene, name: str) -> None:
    with pytest.raises(ChatfoldError) as caught:
        await now.store.import_chat(now.files / f"{name}.jsonl", "copy")
    assert "chat 'copy'" in str(caught.value)
    assert f"{name}.jsonl" in str(caught.value)


@pytest.mark.parametrize("now", ["files"], indirect=True)
async def test_a_store_that_is_closed_says_what_to_do_next(now: Scene) -> None:
    await now.store.close()
    with pytest.raises(ChatfoldError) as caught:
        await now.chat.user("hi")
    assert caught.value.next_step


async def test_deleting_what_is_not_there_is_quiet_and_makes_no_folder(root: Path) -> None:
    async with Store(root) as store:
        await store.delete("nobody")
    assert tree(root) == {}


@pytest.mark.parametrize("name", ["redact", "fork", "record"])
async def test_a_refusal_does_not_even_make_the_folder_of_the_store(root: Path, name: str) -> None:
    async with Store(root) as store:
        chat = await store.chat("nobody")
        verbs: dict[str, Callable[[], Awaitable[object]]] = {
            "redact": lambda: chat.redact(1),
            "fork": lambda: chat.fork("branch"),
            "record": lambda: chat.record(user("late"), after=3),
        }
        with pytest.raises(ChatfoldError):
            await verbs[name]()
    assert tree(root) == {}
