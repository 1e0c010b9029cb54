"""Everything that an engine says of a store, and every file of it, as plain values.

Left out of the files: ``cache/``, of a chat and of the store. Caches never decide, and a snapshot stands under the name of the
module of its projection, so the engines pass each other's over. Names of files set aside end in letters drawn by chance, which are
left out of the name. All else is there: names, bytes, modes, locks, witnesses, and how many names a segment's file has.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from tests.support.engines.old_engine import Engine
from tests.support.engines.plain_values import plain, without_chance

SHAPES = ("neutral", "openai", "openai-responses", "anthropic")
FORMS = ("jsonl", "markdown", "ui")
_WORDS = ("again", "日本", "words plan")
Asked: TypeAlias = Callable[[], Awaitable[Any]]


def files(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        place = path.relative_to(root)
        if "cache" in place.parts[:1] + place.parts[2:3]:
            continue
        status = path.lstat()
        name = without_chance(str(path), root)
        data = path.read_bytes() if path.is_file() else b""
        links = f"{status.st_nlink}" if path.suffix == ".jsonl" else ""
        found.setdefault(name, []).append([f"{status.st_mode:o}", links, data])
    return {name: sorted(some) for name, some in found.items()}


async def all_of(engine: Engine, root: Path, *, read_only: bool = True) -> dict[str, Any]:
    """Of every chat of the store. Read-only: then nothing is changed, and all that is said comes from the files."""
    async with engine.agent.Store(root, read_only=read_only) as store:
        listed = [one async for one in store.chats()]
        chats = {one.key: await _all_of_chat(engine, store, one.key, root) for one in listed}
        return {"listed": plain(listed, root), "chats": chats}


async def _all_of_chat(engine: Engine, store: Any, key: str, root: Path) -> dict[str, Any]:
    asked = _of_the_log(engine, store, key, root)
    found = {name: await _answer(engine, ask, root) for name, ask in asked.items()}
    try:
        chat = await store.chat(key)
    except engine.eventlog.ChatfoldError as error:
        return found | {"refused": plain(error, root)}
    asked = _of_the_chat(engine, chat)
    return found | {name: await _answer(engine, ask, root) for name, ask in asked.items()}


async def _answer(engine: Engine, ask: Asked, root: Path) -> Any:
    try:
        return plain(await ask(), root)
    except (engine.eventlog.ChatfoldError, ValueError, OSError) as error:
        return plain(error, root)


async def _seqs(log: Any, key: str, word: str) -> list[int]:
    """All hits: which come first is decided otherwise by the old engine."""
    return sorted(hit.seq for hit in await log.search(key, word, limit=100_000))


def _of_the_log(engine: Engine, store: Any, key: str, root: Path) -> dict[str, Asked]:
    log = store.log
    folder = engine.chat_path(root, key)

    async def entries() -> Any:
        return [entry async for entry in log.read(key)]

    async def entries_back() -> Any:
        return [entry.seq async for entry in log.read_back(key)]

    async def last() -> Any:
        return await log.last(key, 3)

    async def head() -> Any:
        return await log.head(key)

    async def found() -> Any:
        return {word: [await _seqs(log, key, word), await log.grep(key, word)] for word in _WORDS}

    async def scanned() -> Any:
        return [entry.sum for entry in engine.eventlog.scan(folder)]

    async def checked() -> Any:
        return engine.eventlog.check(folder)

    some = (entries, entries_back, last, head, found, scanned, checked)
    return {ask.__name__: ask for ask in some}


def _of_the_chat(engine: Engine, chat: Any) -> dict[str, Asked]:
    projections = engine.projections
    seeds = engine.module("projections.to_seeds")

    def shape(name: str) -> Asked:
        return lambda: chat.messages(name, model="m")

    def form(name: str) -> Asked:
        async def exported() -> bytes:
            return b"".join([piece async for piece in chat.export_bytes(name)])

        return exported

    async def states() -> Any:
        packed = engine.module("projections.packing").pack
        return {
            one.name.rpartition(".")[2]: packed(chat[one], "deterministic") for one in projections.STANDARD
        }

    async def contexts() -> Any:
        return [await chat.contexts(None), chat[projections.contexts].active.id, await chat.open_calls()]

    async def earlier() -> Any:
        return await (await chat.at(chat.seq // 2)).messages("openai")

    async def rows() -> Any:
        entries = [entry async for entry in chat.entries()]
        return {
            "transcript": projections.transcript(entries),
            "ui": engine.function(projections, "to_ui")(entries, chat_key=chat.key, audit=True),
            "active": seeds.active_lines(entries),
            "contexts": engine.function(seeds, "legacy_lines")(entries, chat[projections.contexts]),
        }

    async def others() -> Any:
        return [await chat.runs(), await chat.cut(most=3), await chat.cut(tokens=200)]

    async def judged() -> Any:
        return await engine.replay.verdict(chat)

    some = (states, contexts, earlier, rows, others, judged)
    return {
        **{ask.__name__: ask for ask in some},
        **{f"messages {name}": shape(name) for name in SHAPES},
        **{f"exported {name}": form(name) for name in FORMS},
    }
