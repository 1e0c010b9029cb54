"""Every verb of a chat and of a store is atomic: killed before any change to the disk, or halfway through any write.

What is left is the store as before the verb or as after it, nothing in between. It can be read at once; the next
writer finds nothing in its way, leaves nothing of the dead one behind, and the same verb, done again, gets through.
"""

import asyncio
import inspect
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from chatfold.agent import Chat, Store
from chatfold.eventlog import ChatfoldError, Durability, Entry, FileStorage, Noted, Redacted, check
from chatfold.projections import calls
from chatfold.projections.packing import pack
from tests.support.judges.talk import entries_of, is_clean
from tests.support.processes.children import started
from tests.support.processes.verbs import VERBS, Verb, a_secret_that_was_listed, method_of, scene

LONG = "CHATFOLD_LONG" in os.environ
LEVELS: list[Durability] = ["full", "normal", "off"] if LONG else ["full"]
READING = """
    append_if at close context_entries contexts cut entries export_bytes find_context fold follow history keep_window memory messages moments now
    open_calls read refresh rest runs seq_of window
"""
_RANDOM = re.compile(rb"ctx_[0-9a-f]{16}|call_[0-9a-f]{16}")


@pytest.mark.smoke
def test_every_verb_is_killed() -> None:
    """One that is not in the table yet has to be added to it; or to those that only read."""
    names = {name for kind in (Chat, Store) for name, _ in inspect.getmembers(kind, inspect.isroutine)}
    public = {name for name in names if not name.startswith("_")}
    assert public - set(READING.split()) == {method_of(name) for name in VERBS}


# --- what can be seen of a store -----------------------------------------------------------------------------


class Seen(NamedTuple):
    """Of every chat its entries, its messages, its contexts and all that is folded; of every file its bytes.

    Random ids are replaced by their number. Equal bytes are equal to whoever looks.
    """

    chats: dict[str, bytes]
    files: dict[str, bytes]


async def seen(folder: Path) -> Seen:
    chats = {}
    async with Store(FileStorage(folder / "root", read_only=True)) as store:
        async for listed in store.chats():
            assert listed.error is None
            chats[listed.key] = _numbered(await _shown(await store.chat(listed.key)))
    files = {path.name: path.read_bytes() for path in (folder / "files").iterdir()}
    left = {name for name in files if name.startswith(".") and name.endswith(".tmp")}
    return Seen(chats, {name: data for name, data in files.items() if name not in left})


async def _shown(chat: Chat) -> bytes:
    entries = [(e.seq, e.ts, e.run, e.id, e.batch, e.event) async for e in chat.entries()]
    view = chat.view
    states = [
        view[calls].open if one is calls else view[one] for one in view.projections
    ]  # by seq: ids are random
    return pack((entries, await chat.messages("openai"), await chat.contexts(), states))


def _numbered(data: bytes) -> bytes:
    ids: dict[bytes, int] = {}
    return _RANDOM.sub(lambda found: b"%0*d" % (len(found[0]), ids.setdefault(found[0], len(ids))), data)


async def _done_again(verb: Verb, folder: Path) -> tuple[type[Exception] | None, Seen]:
    """By a healthy process: what it refused with, and what can be seen then."""
    error = None
    async with scene(folder) as now:
        try:
            await verb.do(now)
        except ChatfoldError as refused:
            error = type(refused)
    return error, await seen(folder)


# --- what must be true ---------------------------------------------------------------------------------------


class Known(NamedTuple):
    """What can be seen before the verb, after it, and after it was done twice, with the error if it was refused then."""

    before: Seen
    after: Seen
    twice: tuple[type[Exception] | None, Seen]


async def _known(verb: Verb, folder: Path, through: list[Path]) -> Known:
    before = await seen(folder / "template")
    after, also_after = [await seen(place / "store") for place in through]
    assert after == also_after
    shutil.copytree(through[0] / "store", folder / "twice")
    return Known(before, after, await _done_again(verb, folder / "twice"))


async def _judge(verb: Verb, place: Path, known: Known) -> str:
    """Says which of the two it was."""
    folder = place / "store"
    now = await seen(folder)
    assert now in (known.before, known.after)
    if (place / "told").read_text():
        assert now == known.after
    for chat in now.chats:
        assert check(folder / "root" / "chats" / chat).ok
    done = now == known.after
    assert await _done_again(verb, folder) == (known.twice if done else (None, known.after))
    await _can_be_written_on(folder)
    return "after" if done else "before"


def _nothing_is_left_over(root: Path) -> None:
    assert not list((root / "chats").rglob(".*"))
    assert not (root / "trash").exists() or not list((root / "trash").iterdir())
    assert not list(root.glob("redacting-*"))


async def _can_be_written_on(folder: Path) -> None:
    async with scene(folder) as now:
        for key in [listed.key async for listed in now.store.chats()]:
            chat = await now.store.chat(key)
            end = chat.seq
            assert [entry.seq for entry in await chat.record(Noted("on"))] == [end + 1]
    for path in (folder / "root" / "chats").iterdir():
        assert is_clean(path)
        assert isinstance(entries_of(path)[-1].event, Noted)
    _nothing_is_left_over(folder / "root")


# --- the kills -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nursery() -> Iterator[subprocess.Popen[str]]:
    with started("verbs") as child:
        yield child


def _killed(nursery: subprocess.Popen[str], name: str, folder: Path, level: str) -> list[Path]:
    """Where each kill, and the two that got through, left the store."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write(f"{name}\t{folder}\t{level}\n")
    nursery.stdin.flush()
    answer = nursery.stdout.readline().strip()
    places = sorted(folder.glob("[0-9]*"))
    assert answer == str(len(places) - 2), answer
    assert len(places) > 4
    return places


def _outcomes(places: list[Path], judge: Callable[[Path], Coroutine[Any, Any, str]]) -> set[str]:
    """What the judge says. Unless there is time, of kills that left the same bytes only the first is judged."""
    outcomes, judged = set(), set()
    for place in places:
        left = str(place) if LONG else _digest(place)
        if left not in judged:
            judged.add(left)
            try:
                outcomes.add(asyncio.run(judge(place)))
            except Exception as error:
                raise AssertionError(f"killed at {place.name}") from error
    return outcomes


def _digest(place: Path) -> str:
    """Of names and bytes; caches know inodes, and names that are random differ each time."""
    found = sha256()
    for path in sorted(place.rglob("*")):
        content = path.read_bytes() if path.is_file() and path.suffix != ".offsets" else b""
        name = re.sub(r"[0-9a-f]{12,16}(?=\.tmp|/|$)", "…", str(path.relative_to(place)))
        found.update(f"{name} {len(content)}".encode() + content)
    return found.hexdigest()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", [name for name in VERBS if name != "redact"])
def test_a_verb_that_is_killed_has_happened_or_not(
    nursery: subprocess.Popen[str], fast_folder: Path, name: str, level: str
) -> None:
    verb = VERBS[name]
    places = _killed(nursery, name, fast_folder, level)
    known = asyncio.run(
        _known(verb, fast_folder, [place for place in places if (place / "through").exists()])
    )
    assert _count(known.after, verb.to) - _count(known.before, verb.to) == verb.adds
    outcomes = _outcomes(places, lambda place: _judge(verb, place, known))
    assert outcomes == ({"before", "after"} if known.before != known.after else {"after"})


def _count(now: Seen, chat: str) -> int:
    return len(msgspec.msgpack.decode(now.chats[chat])[0]) if chat in now.chats else 0


# --- erasing: not two states but a way of no return --------------------------------------------------------------


def test_an_erasure_that_is_killed_has_happened_everywhere_or_nowhere(
    nursery: subprocess.Popen[str], fast_folder: Path
) -> None:
    """Once it is written down what is to be erased, the next writer ends it; its event is there when it is called again."""
    places = _killed(nursery, "redact", fast_folder, "full")
    after = asyncio.run(_messages(next(place for place in places if (place / "through").exists()) / "store"))
    assert _outcomes(places, lambda place: _judge_erasure(place, after)) == {"everywhere", "nowhere"}


async def _judge_erasure(place: Path, after: dict[str, list[dict[str, Any]]]) -> str:
    folder = place / "store"
    await seen(folder)  # whatever is there can be read
    async with scene(folder) as now:
        await (await now.store.chat("other")).user("a writer came along")
    holding = {path.name for path in (folder / "root" / "chats").iterdir() if _says(path)}
    assert holding in (set(), {"chat", "twin"})
    if not holding:
        _no_file_says(folder)
    else:
        assert not (place / "told").read_text()
        assert not any(isinstance(e.event, Redacted) for key in holding for e in _entries(folder, key))
    async with scene(folder) as now:
        assert (await now.chat.redact(1)).keys() == after.keys()
    _no_file_says(folder)
    assert await _messages(folder) == after
    assert all(isinstance(_entries(folder, key)[-1].event, Redacted) for key in after)
    await _can_be_written_on(folder)
    return "nowhere" if holding else "everywhere"


def _entries(folder: Path, key: str) -> list[Entry]:
    return entries_of(folder / "root" / "chats" / key)


def _says(chat: Path) -> bool:
    return any("swordfish" in repr(entry.event) for entry in entries_of(chat))


def _no_file_says(folder: Path) -> None:
    holding = [path for path in folder.rglob("*") if path.is_file() and b"swordfish" in path.read_bytes()]
    assert not holding


async def _messages(folder: Path) -> dict[str, list[dict[str, Any]]]:
    async with Store(FileStorage(folder / "root", read_only=True)) as store:
        return {key: await (await store.chat(key)).messages("openai") for key in ("chat", "twin")}


@pytest.mark.smoke
@pytest.mark.parametrize("verb", ["redact", "delete"])
async def test_the_listing_does_not_say_what_was_erased(fast_folder: Path, verb: str) -> None:
    (fast_folder / "files").mkdir()
    async with scene(fast_folder) as now:
        await a_secret_that_was_listed(now)
        for key in ("chat", "twin"):
            await (now.store.delete(key) if verb == "delete" else (await now.store.chat(key)).redact(1))
    _no_file_says(fast_folder)


@pytest.mark.parametrize("name", ["redact", "chats"])
def test_a_temporary_file_beside_the_chats_is_removed_by_the_next_writer(
    nursery: subprocess.Popen[str], fast_folder: Path, name: str
) -> None:
    for place in _killed(nursery, name, fast_folder, "full"):
        asyncio.run(_can_be_written_on(place / "store"))
        assert not [path for path in (place / "store" / "root").rglob(".*") if path.name.endswith(".tmp")]
