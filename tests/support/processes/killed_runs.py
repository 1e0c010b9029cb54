"""A run of many steps that can be killed anywhere: its model, its tools, the world around it, and the process that dies.

    runs      for each line ``VERB FOLDER MOMENT`` on stdin, a process that does it and is killed at that moment;
              answers ``killed``, or ``through`` if the moment never came

FOLDER holds ``root``, the store, or ``database``, the address of one, and beside it what the world saw: ``deeds``, each execution
of a tool, and ``outbox``, each message that went out. Neither is taken back by a kill.
"""

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from chatfold.agent import (
    CHAT_TOOLS,
    Agent,
    ModelFailed,
    ModelReply,
    Policy,
    Store,
    Tool,
    ToolCall,
    assistant,
    tool,
    user,
)
from chatfold.agent.limits import Limits
from chatfold.agent.models import Piece, Request
from chatfold.agent.run_context import call_id, inject_assistant_once
from chatfold.eventlog import (
    FileStorage,
    Json,
    MemoryStorage,
    ModelCalled,
    ModelReturned,
    Part,
    Storage,
    Text,
)
from chatfold.eventlog.files.disk import Disk
from chatfold.projections.text import text_of
from tests.support.disk.faulty_disk import DyingDisk
from tests.support.processes.children import ready, tell

CHAT = "chat"
NOON = 1_738_713_600_000
MEMO = "the memo: rates are in euros"
MUCH = "a page that is read in full. " * 110


class Said(NamedTuple):
    id: str
    text: str


FIRST = Said("tg-1", "what is due in March?")
SECOND = Said("tg-2", "and what in April?")  # arrives while tools are at work
LATE = Said("tg-3", "and then?")  # arrives while the model says its last words

SCRIPT: dict[int, list[tuple[str, Json]]] = {
    1: [("look", {"page": 3}), ("pay", {"amount": 7}), ("order", {}), ("book", {}), ("stumble", {})],
    2: [("remember", {}), ("hear", {})],
    3: [("chat_send", {"text": "I am looking into it."})],
    4: [("read", {})],
    5: [("chat_context_new", {"title": "fresh"})],
    6: [("remember", {}), ("pay", {"amount": 9})],
}
"""The calls of each step; then come the words. Before step 5 a compaction is due, before step 6 the model fails once."""

TALK = 24  # entries that are there before
STEPS = len(SCRIPT) + 2  # the last two: words, and words again, for ``LATE``
POLICY = Policy(keep=6, budget=3_000, summary=400)
AGAIN = {"look", "order", "remember", "hear", "read"}
"""The tools whose calls may be executed more than once; ``order`` because ``World.what_now`` says so."""


class World:
    """All that is outside of the log. ``happened`` is told of every event, and of everything that is done out here."""

    def __init__(self, folder: Path, happened: Callable[[], None] = lambda: None) -> None:
        self.folder = folder
        self.happened = happened
        self.deliver: Callable[[Said], Awaitable[object]] | None = None  # None: nobody says anything else

    def write(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())
        self.happened()

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def did(self) -> None:
        """A tool was executed, for this call."""
        self.write("deeds", call_id())

    async def send(self, chat: str, send: str, parts: tuple[Part, ...]) -> None:
        self.write("outbox", f"{chat} {send} {text_of(parts)}")

    async def arrives(self, said: Said) -> None:
        if self.deliver is not None:
            await self.deliver(said)

    async def what_now(self, call: ToolCall) -> Literal["again", "interrupted"]:
        return "again" if call.name == "order" else "interrupted"


# --- the model: what it says depends on what it is shown, whichever process asks ----------------------------------


class ByHeart:
    name, provider = "by heart", "test"
    can_summarise = False

    def __init__(self, world: World) -> None:
        self.world = world

    def payload(self, request: Request) -> dict[str, Any]:
        payload: dict[str, Any] = msgspec.to_builtins(request)
        return payload

    async def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        messages = payload["messages"]
        assert messages[-1]["role"] != "assistant", "a model is not asked about its own last words"
        visible = [int(call["id"][1]) for message in messages for call in message["calls"]]
        step = 1 + max(visible, default=0)
        if step == 6 and not self.world.lines("overloaded"):
            self.world.write("overloaded", "once")
            raise ModelFailed("overloaded", again=True, after=0.0)
        if step in SCRIPT:
            calls = [ToolCall(f"s{step}-{name}", name, args) for name, args in SCRIPT[step]]
            yield ModelReply(calls=tuple(calls), usage={"output": 5}, stop="tool_calls")
            return
        seen = [said.text for said in (FIRST, SECOND, LATE) if said.text in str(messages)]
        if LATE.text not in seen:
            await self.world.arrives(LATE)
        yield Piece("All ")
        yield ModelReply((Text("All of this: " + " ".join(seen)),), usage={"output": 9}, stop="stop")


# --- the tools ---------------------------------------------------------------------------------------------------


def tools(world: World) -> list[Tool]:
    @tool(after_crash="again")
    async def look(page: int) -> str:
        world.did()
        await asyncio.sleep(0)
        return f"page {page} says: rent"

    @tool
    async def pay(amount: int) -> dict[str, Any]:
        world.did()
        return {"success": True, "paid": amount}

    @tool(after_crash=world.what_now)
    def order() -> str:
        world.did()
        return "ordered"

    @tool(after_crash=world.what_now)
    async def book() -> str:
        await asyncio.sleep(0)
        world.did()
        return "booked"

    @tool
    async def stumble() -> str:
        world.did()
        raise LookupError("there is no page 12")

    @tool(after_crash="again")
    async def remember() -> str:
        world.did()
        await inject_assistant_once(MEMO, fingerprint="memo", source="memory")
        return "it is in mind"

    @tool(after_crash="again")
    async def hear() -> str:
        world.did()
        await world.arrives(SECOND)
        return "heard"

    @tool(after_crash="again")
    async def read() -> str:
        world.did()
        return MUCH

    own = [one for one in CHAT_TOOLS if one.name in ("chat_send", "chat_context_new")]
    return [look, pay, order, book, stumble, remember, hear, read, *own]


# --- the agent ---------------------------------------------------------------------------------------------------


def agent_in(world: World, storage: Storage, *, alone: bool = False) -> Agent:
    """``alone``: nobody says anything while it is at work."""
    made = Agent(
        model=ByHeart(world),
        tools=tools(world),
        store=storage,
        policy=POLICY,
        send=world.send,
        limits=Limits(steps=STEPS, retries=1),
    )
    log = made.store.log
    append = log.append

    async def watched(*args: Any, **options: Any) -> Any:
        entries = await append(*args, **options)
        world.happened()
        return entries

    setattr(log, "append", watched)  # noqa: B010 (a method, says mypy)
    if not alone:
        world.deliver = lambda said: made.submit(said.text, chat=CHAT, id=said.id)
    return made


def on_disk(folder: Path, disk: Disk | None = None) -> FileStorage:
    """It is always noon, and segments roll often."""
    return FileStorage(folder / "root", disk=disk, clock=lambda: NOON, segment_bytes=6_000)


def in_database(folder: Path, *, read_only: bool = False) -> Storage:
    """Who dies keeps others out for two seconds."""
    from chatfold.eventlog.postgres.storage import PostgresStorage

    address = (folder / "database").read_text()
    return PostgresStorage(address, read_only=read_only, clock=lambda: NOON, lease_seconds=2)


def storage_in(folder: Path, disk: Disk | None = None) -> Storage:
    return in_database(folder) if (folder / "database").exists() else on_disk(folder, disk)


def in_memory() -> MemoryStorage:
    return MemoryStorage(clock=lambda: NOON)


async def talk(store: Store) -> None:
    """What is there before: long enough for a compaction to have something to hide."""
    chat = await store.chat(CHAT)
    for number in range(TALK // 4):
        words = f"old answer {number} " + "and so on " * 200
        asked = user(f"old question {number}"), ModelCalled("earlier", "")
        await chat.record(*asked, ModelReturned(), assistant(words), run="earlier")


async def begin(agent: Agent) -> None:
    await agent.run(FIRST.text, chat=CHAT, id=FIRST.id)


async def resume(agent: Agent) -> None:
    await agent.resume(CHAT)


VERBS = {"begin": begin, "resume": resume}


# --- dying -------------------------------------------------------------------------------------------------------


def _after(nth: int) -> Callable[[], None]:
    """Kills right after the ``nth`` thing that happened."""
    count = 0

    def happened() -> None:
        nonlocal count
        count += 1
        if count == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    return happened


async def _do(verb: str, folder: Path, moment: str, nth: int) -> None:
    disk = DyingDisk(nth, torn=moment == "torn") if moment in ("disk", "torn") else None
    world = World(folder, _after(nth if disk is None else 0))
    async with agent_in(world, storage_in(folder, disk)) as agent:
        await VERBS[verb](agent)


def killed(verb: str, folder: Path, moment: str, nth: int) -> str:
    pid = os.fork()
    if not pid:
        try:
            asyncio.run(_do(verb, folder, moment, nth))
            os._exit(0)
        except BaseException:  # noqa: BLE001 (whoever waits sees that it did not get through)
            traceback.print_exc()
        finally:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return "killed"
    return "raised" if os.waitstatus_to_exitcode(status) else "through"


if __name__ == "__main__":
    ready()
    for line in sys.stdin:
        what, place, when, number = line.rstrip("\n").split("\t")
        tell(killed(what, Path(place), when, int(number)))
