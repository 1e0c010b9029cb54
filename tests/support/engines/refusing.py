"""What every engine refuses: things to ask of a store that holds one chat, ``a``, each of which must raise."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.support.engines.old_engine import Engine
from tests.support.engines.one_engine import NOON

Refused = Callable[[Engine, Any, Path], Awaitable[Any]]

_VALUES: dict[str, Any] = {
    "a set": {1, 2},
    "a number with too many digits": 10**5000,
    "a value that is nested too deeply": None,
    "a key that is no text": {1: "one"},
    "an object": object,
}


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def _appends(value: Any) -> Refused:
    given = _nested(200) if value is None else value
    return lambda engine, store, _: store.log.append(
        "a", engine.eventlog.Noted("fine"), engine.eventlog.Noted("n", given)
    )


def _asks(ask: Callable[[Any], Awaitable[Any]]) -> Refused:
    async def of_the_chat(_engine: Engine, store: Any, _root: Path) -> Any:
        return await ask(await store.chat("a"))

    return of_the_chat


def _says(event: str, *args: Any) -> Refused:
    return lambda engine, store, _: store.log.append("a", getattr(engine.eventlog, event)(*args))


async def _write_read_only(engine: Engine, _store: Any, root: Path) -> Any:
    async with engine.agent.Store(root, read_only=True) as store:
        await store.log.append("a", engine.eventlog.Noted("n"))


async def _import_garbage(_engine: Engine, store: Any, _root: Path) -> Any:
    """As the export that it is not: of a file, the new engine first asks what format it has."""

    async def garbage() -> AsyncIterator[bytes]:
        yield b"not an export\n"

    await _import_of(store)("new", garbage())


async def _import_over_a_chat(_engine: Engine, store: Any, _root: Path) -> Any:
    await store.import_chat(await store.chat("a"), "a")


def _import_of(store: Any) -> Any:
    """The old engine calls it ``adopt``."""
    return getattr(store.log.storage, "import_chat", None) or store.log.storage.adopt


async def _import_half(engine: Engine, store: Any, _root: Path) -> Any:
    whole = b"".join([piece async for piece in store.log.storage.export("a")])

    async def half() -> AsyncIterator[bytes]:
        yield whole[: len(whole) // 2]

    await _import_of(store)("new", half())


async def _load_missing(engine: Engine, store: Any, _root: Path) -> Any:
    agent = engine.agent.Agent(model=engine.agent.ScriptedModel([]), store=store)
    await agent.load_conversation("nowhere")


async def _make_again(engine: Engine, store: Any, _root: Path) -> Any:
    agent = engine.agent.Agent(model=engine.agent.ScriptedModel([]), store=store)
    await agent.new_conversation("a")


async def _exported(chat: Any) -> Any:
    return [piece async for piece in chat.export_bytes("pdf")]


async def _check_missing(engine: Engine, _store: Any, root: Path) -> Any:
    return engine.eventlog.check(root / "chats" / "nowhere")


async def _scan_missing(engine: Engine, _store: Any, root: Path) -> Any:
    return [*engine.eventlog.scan(root / "chats" / "nowhere")]


async def _act_without_run(engine: Engine, _store: Any, _root: Path) -> Any:
    return engine.function(engine.agent, "current_run")()


REFUSED: dict[str, Refused] = {
    **{f"an event with {name}": _appends(value) for name, value in _VALUES.items()},
    "a role that there is not": _says("MessageAdded", "nobody", ()),
    "a batch of nothing": lambda _engine, store, _root: store.log.append("a"),
    "an empty key": lambda engine, store, _root: store.log.append("", engine.eventlog.Noted("n")),
    "a key that is a number": lambda engine, store, _root: store.log.append(7, engine.eventlog.Noted("n")),
    "an append after another seq": lambda engine, store, _: store.log.append(
        "a", engine.eventlog.Noted("n"), after=77
    ),
    "writing what is read-only": _write_read_only,
    "a fork of nothing": lambda _engine, store, _root: store.log.fork("nowhere", "new"),
    "a fork where a chat is": lambda _engine, store, _root: store.log.fork("a", "a"),
    "a fork later than the end": lambda _engine, store, _root: store.log.fork("a", "new", 77),
    "erasing what is not there": lambda _engine, store, _root: store.log.redact("a", 77),
    "erasing where nothing is": lambda _engine, store, _root: store.log.redact("nowhere", 1),
    "importing garbage": _import_garbage,
    "importing half an export": _import_half,
    "importing over a chat": _import_over_a_chat,
    "a shape that there is not": _asks(lambda chat: chat.messages("morse")),
    "a form that there is not": _asks(_exported),
    "no context": _asks(lambda chat: chat.load_context()),
    "a context that there is not": _asks(lambda chat: chat.load_context(context_id="ctx_9")),
    "a query that nothing fits": _asks(lambda chat: chat.load_context("zebra")),
    "recalling what there is not": _asks(lambda chat: chat.recall("ctx_9")),
    "a point that there is not": _asks(lambda chat: chat.at("no such checkpoint")),
    "a point later than the end": _asks(lambda chat: chat.rewind(77)),
    "a search for nothing": _asks(lambda chat: chat.search("  ")),
    "a grep for nothing": lambda _engine, store, _root: store.log.grep("a", ""),
    "a conversation that is not there": _load_missing,
    "a conversation that is there": _make_again,
    "checking what is not there": _check_missing,
    "scanning what is not there": _scan_missing,
    "acting without a run": _act_without_run,
}


async def refuse(engine: Engine, root: Path, case: str) -> BaseException | None:
    """What is raised; None if nothing is."""
    storage = engine.eventlog.FileStorage(root, clock=lambda: NOON)
    async with engine.agent.Store(storage) as store:
        await store.log.append("a", engine.agent.user("a plan"), engine.agent.assistant("words"), id="i1")
        try:
            await REFUSED[case](engine, store, root)
        except Exception as error:  # noqa: BLE001 (whatever it is: it is compared)
            return error
        return None
