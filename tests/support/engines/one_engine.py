"""One engine at work in one folder: does a step, and says as a plain value what came of it.

Everything that comes from outside is given: the time is the step's, ids are counted, and what the engine logs is kept as
part of the outcome. So two engines that do the same steps have no reason to say, or to write, anything else.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, tzinfo
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self
from unittest import mock

from tests.support.engines.breaking import BREAKING
from tests.support.engines.old_engine import Engine, new_engine, old_engine
from tests.support.engines.plain_values import plain, translate, without_chance

NOON = 1_738_713_600_000


class _Noon(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp(NOON / 1000, tz)


class Step(NamedTuple):
    """``point``: a seq, told as a number that is taken modulo what there is; see ``Work.seq``."""

    verb: str
    chat: str = "a"
    events: tuple[Any, ...] = ()
    id: str | None = None
    run: str | None = None
    text: str = ""
    other: str = "b"  # another chat, or another context
    point: int = 0
    second: int = 0
    tick: int = 1  # milliseconds since the step before


class Work:
    """``async with Work(engine, root) as work``, then ``await work.do(step)``."""

    def __init__(
        self, engine: Engine, root: Path, *, segment_bytes: int = 2000, durability: str = "full"
    ) -> None:
        self.engine = engine
        self.root = root
        self.time = NOON
        self._errors = tuple(one.eventlog.ChatfoldError for one in (old_engine(), new_engine()))
        self._how = {"segment_bytes": segment_bytes, "durability": durability}
        self._ids = 0
        self.store = self._opened()

    def _opened(self) -> Any:
        storage = self.engine.eventlog.FileStorage(self.root, clock=lambda: self.time, **self._how)
        return self.engine.agent.Store(storage)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()

    async def do(self, step: Step) -> Any:
        self.time += step.tick
        with self._listening() as logged, self.outside():
            outcome = await self._outcome(step)
        return {step.verb: outcome, "logged": [without_chance(line, self.root) for line in logged]}

    async def _outcome(self, step: Step) -> Any:
        """What it gives, or why it was refused. Any other exception is a bug, maybe of this very module."""
        try:
            done = await getattr(self, f"_{step.verb}")(step)
        except (*self._errors, ValueError, OSError) as error:
            done = error
        return plain(done, self.root)

    @contextmanager
    def _listening(self) -> Iterator[list[str]]:
        lines: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: lines.append(f"{record.levelname} {record.getMessage()}")  # type: ignore[method-assign]
        logger = logging.getLogger("chatfold")
        logger.addHandler(handler)
        try:
            yield lines
        finally:
            logger.removeHandler(handler)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Ids and the time of day, wherever in the engine they are asked for: counted, and always noon."""
        with ExitStack() as stack:
            for module in self.engine.modules("agent"):
                if hasattr(module, "new_id"):
                    stack.enter_context(mock.patch.object(module, "new_id", self._new_id))
                if getattr(module, "datetime", None) is datetime:
                    stack.enter_context(mock.patch.object(module, "datetime", _Noon))
            yield

    def _new_id(self, kind: str) -> str:
        self._ids += 1
        return f"{kind}_{self._ids}"

    # --- what is meant -----------------------------------------------------------------------------------

    def folder(self, chat: str) -> Path:
        return self.engine.chat_path(self.root, chat)

    def events(self, step: Step) -> tuple[Any, ...]:
        translated: tuple[Any, ...] = translate(step.events, self.engine.eventlog)
        return translated

    async def seq(self, step: Step, number: int) -> int:
        """From 0, which is none, to one that is not there yet; mostly one that is there."""
        end: int = (await self.store.log.head(step.chat)).seq
        return number % (end + 2)

    # --- the log -----------------------------------------------------------------------------------------

    async def _append(self, step: Step) -> Any:
        return await self.store.log.append(step.chat, *self.events(step), id=step.id, run=step.run)

    async def _append_after(self, step: Step) -> Any:
        after = await self.seq(step, step.point)
        return await self.store.log.append(step.chat, *self.events(step), after=after, id=step.id)

    async def _append_at_end(self, step: Step) -> Any:
        head = await self.store.log.head(step.chat)
        return await self.store.log.append(step.chat, *self.events(step), after=head.seq, known=head)

    async def _fork(self, step: Step) -> Any:
        return await self.store.log.fork(step.chat, step.other, await self.seq(step, step.point))

    async def _fork_at_end(self, step: Step) -> Any:
        return await self.store.log.fork(step.chat, step.other)

    async def _redact(self, step: Step) -> Any:
        if await self._has_damage_elsewhere(step.chat):
            return None  # the old engine refuses, even if that chat has nothing to do with this one
        seqs = {await self.seq(step, step.point), await self.seq(step, step.second)} - {0}
        return await self.store.log.redact(step.chat, *sorted(seqs), reason=step.text)

    async def _has_damage_elsewhere(self, chat: str) -> bool:
        try:
            async for other in self.store.log.chats():
                if other != chat:
                    await self.store.log.head(other)
                    [_ async for _ in self.store.log.read(other, last=1)]
        except self._errors:
            return True
        return False

    async def _delete(self, step: Step) -> Any:
        if (
            await self.store.log.head(step.chat)
        ).seq:  # else one engine refuses, and the other has nothing to do
            await self.store.delete(step.chat)

    async def _import(self, step: Step) -> Any:
        return (await self.store.import_chat(await self.store.chat(step.chat), step.other)).seq

    async def _reopen(self, step: Step) -> Any:
        await self.store.close()
        self.store = self._opened()

    async def _write_when_closed(self, step: Step) -> Any:
        await self.store.close()
        try:
            return await self.store.log.append(step.chat, *self.events(step))
        finally:
            self.store = self._opened()

    # --- the chat ----------------------------------------------------------------------------------------

    async def _user(self, step: Step) -> Any:
        return await (await self.store.chat(step.chat)).user(step.text or "hello", id=step.id)

    async def _assistant(self, step: Step) -> Any:
        return await (await self.store.chat(step.chat)).assistant(step.text, run=step.run)

    async def _call_tool(self, step: Step) -> Any:
        chat = await self.store.chat(step.chat)
        called = await chat.tool_call("read", {"path": step.text}, run=step.run)
        if step.point % 4:  # else it is not answered
            await chat.record(called.result(step.text, failed=step.point % 2 == 0), run=step.run)
        return called

    async def _inject(self, step: Step) -> Any:
        return await (await self.store.chat(step.chat)).inject(step.text, source="test")

    async def _new_context(self, step: Step) -> Any:
        return await (await self.store.chat(step.chat)).new_context(step.text, "a reason")

    async def _load_context(self, step: Step) -> Any:
        return await (await self.store.chat(step.chat)).load_context(step.text)

    async def _clear_context(self, step: Step) -> Any:
        return await (await self.store.chat(step.chat)).clear_context(step.text)

    async def _recall(self, step: Step) -> Any:
        chat = await self.store.chat(step.chat)
        shelf = [row.context_id for row in await chat.contexts()] or ["main"]
        mode = ("summary", "recent", "full")[step.second % 3]
        return await chat.recall(shelf[step.point % len(shelf)], mode)

    async def _compact(self, step: Step) -> Any:
        policy = self.engine.agent.Policy(keep=step.second % 4, budget=None if step.point % 3 else 300)
        return await (await self.store.chat(step.chat)).compact(policy)

    async def _revert(self, step: Step) -> Any:
        chat = await self.store.chat(step.chat)
        return await chat.revert_compaction(await self.seq(step, step.point), step.text)

    async def _checkpoint(self, step: Step) -> Any:
        return await (await self.store.chat(step.chat)).checkpoint(step.text)

    async def _rewind(self, step: Step) -> Any:
        chat = await self.store.chat(step.chat)
        return await chat.rewind(step.text if step.second % 3 == 0 else await self.seq(step, step.point))

    async def _receive(self, step: Step) -> Any:
        """A client sends what it has seen of the chat, and a question."""
        chat = await self.store.chat(step.chat)
        seen = (await chat.messages("openai"))[: step.point]
        history = self.engine.function(self.engine.projections, "from_openai")(
            [*seen, {"role": "user", "content": step.text}]
        )
        return await chat.merge(history)

    # --- what is wrong -----------------------------------------------------------------------------------

    async def _break(self, step: Step) -> Any:
        """What no engine does: both folders are broken in the same way, while nobody has them open."""
        await self.store.close()
        breaks: Callable[[Path, int, int], None] = BREAKING[step.text]
        breaks(self.folder(step.chat), step.point, step.second)
        self.store = self._opened()

    async def _check(self, step: Step) -> Any:
        return self.engine.eventlog.check(self.folder(step.chat), full=step.second % 4 > 0)

    async def _repair(self, step: Step) -> Any:
        """By the new engine in both folders: it keeps only what the chain proves, and leaves `lost` where the old one left a
        tombstone. What it leaves is then read, judged and written to by each."""
        await self.store.close()
        try:
            return new_engine().eventlog.repair(self.folder(step.chat))
        finally:
            self.store = self._opened()

    async def _salvage(self, step: Step) -> Any:
        """By both engines in both folders: the new one tells apart what the chain proves, but it leaves out nothing."""
        with TemporaryDirectory() as place:
            old, new = (
                self._salvage_by(engine, step.chat, Path(place)) for engine in (old_engine(), new_engine())
            )
        assert old["blobs"] == new["blobs"]
        missing = old["lines"] - new["lines"]
        assert not missing, f"salvaged by the old engine alone: {sorted(missing)}"

    def _salvage_by(self, engine: Engine, chat: str, place: Path) -> dict[str, Any]:
        target = place / engine.name
        engine.eventlog.salvage(self.folder(chat), target)
        return {
            "lines": {line for path in target.glob("*.jsonl") for line in path.read_bytes().splitlines()},
            "blobs": {path.name: path.read_bytes() for path in target.glob("blobs/*")},
        }

    async def _look(self, step: Step) -> Any:
        """Also makes caches, which are then there, or in the way, when the next steps are done."""
        listed = [one async for one in self.store.chats()]
        chat = await self.store.chat(step.chat)
        return {
            "listed": listed,
            "messages": await chat.messages("anthropic"),
            "hits": sorted(
                hit.seq for hit in await chat.search(step.text or "plan", limit=100_000, everything=True)
            ),
        }
