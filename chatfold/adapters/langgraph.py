"""Checkpoints of LangGraph in a ``Store``: ``pip install chatfold[langgraph]``.

    graph = builder.compile(checkpointer=LangGraphSaver(store))

A thread is a chat. A checkpoint is one append: the messages that are new in the root's state as events, then a note with the rest, each
value as the graph's serialiser made it. A list is stored as what is new of it, so a thread takes as much room as what was said in it.
The chat shows what the newest checkpoint of the root holds: going on from an earlier one is ``rewound``, a list that lost messages
``context_cleared``. What a serialiser has encrypted stays encrypted: then there are notes and no messages.

Calls may come from any thread and any event loop, in any order: the log is read and written on the loop of ``chatfold.sync``, values are
serialised where the call came from.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from chatfold import sync
from chatfold.adapters.langgraph_store import Stored, ThreadLog
from chatfold.adapters.langgraph_thread import Row
from chatfold.adapters.langgraph_values import OWN, Value
from chatfold.agent import Store
from chatfold.bridge import async_of, call, call_from
from chatfold.eventlog import NoSuchChat

_APART = frozenset({"channel_values", "channel_versions"})
_THREADS = 64  # that are remembered


class LangGraphSaver(BaseCheckpointSaver[int]):
    """``store``: where the threads are, by their ids; it stays yours to close. ``serde``: as for any saver.

    ``messages``: the channel of the root whose messages are the chat's.
    """

    def __init__(
        self,
        store: Store | sync.Store,
        *,
        serde: SerializerProtocol | None = None,
        messages: str = "messages",
    ) -> None:
        super().__init__(serde=serde)
        self.store: Store = async_of(store)
        self.messages = messages
        self._threads: OrderedDict[str, ThreadLog] = OrderedDict()

    def get_next_version(self, current: int | str | None, channel: None) -> int:  # noqa: ARG002
        """Counted from 1. Values are found by where they are, not by their versions, so branches may have the same."""
        return 1 + (int(current.partition(".")[0]) if isinstance(current, str) else current or 0)

    # --- one checkpoint ------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._tuple(*call(self._get, config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._tuple(*await call_from(self._get, config))

    async def _get(self, config: RunnableConfig) -> tuple[str, Stored | None]:
        thread = self._thread(config)
        row = await thread.find(_namespace(config), get_checkpoint_id(config))
        return thread.key, None if row is None else await thread.read(row)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        call(self._put, config, checkpoint["id"], *self._values(config, checkpoint, metadata, new_versions))
        return _config(config["configurable"]["thread_id"], _namespace(config), checkpoint["id"])

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        values = self._values(config, checkpoint, metadata, new_versions)
        await call_from(self._put, config, checkpoint["id"], *values)
        return _config(config["configurable"]["thread_id"], _namespace(config), checkpoint["id"])

    async def _put(self, config: RunnableConfig, id: str, *values: Any) -> None:
        await self._thread(config).put((_namespace(config), id), get_checkpoint_id(config), *values)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        call(self._put_writes, config, self._serialised(writes), task_id, task_path)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await call_from(self._put_writes, config, self._serialised(writes), task_id, task_path)

    async def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[int, str, Value]], task: str, path: str
    ) -> None:
        key = _namespace(config), config["configurable"]["checkpoint_id"]
        await self._thread(config).put_writes(key, task, path, writes)

    # --- many ----------------------------------------------------------------------------------------------

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        for thread, row in call(self._rows, config, before):
            if limit is not None and limit <= 0:
                return
            found = self._tuple(thread.key, call(thread.read, row))
            if found is not None and _fits(found, filter):
                limit = None if limit is None else limit - 1
                yield found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for thread, row in await call_from(self._rows, config, before):
            if limit is not None and limit <= 0:
                return
            found = self._tuple(thread.key, await call_from(thread.read, row))
            if found is not None and _fits(found, filter):
                limit = None if limit is None else limit - 1
                yield found

    async def _rows(
        self, config: RunnableConfig | None, before: RunnableConfig | None
    ) -> Sequence[tuple[ThreadLog, Row]]:
        """The checkpoints that are asked for, the greatest id first."""
        wanted = config["configurable"] if config else {}
        threads = [self._thread(config)] if config and "thread_id" in wanted else await self._all_threads()
        last = get_checkpoint_id(before) if before else None
        found = [(thread, row) for thread in threads for row in await thread.rows()]
        return sorted(
            (
                (thread, row)
                for thread, row in found
                if ("checkpoint_ns" not in wanted or row.ns == wanted["checkpoint_ns"])
                and (not wanted.get("checkpoint_id") or row.id == wanted["checkpoint_id"])
                and (last is None or row.id < last)
            ),
            key=lambda one: one[1].id,
            reverse=True,
        )

    # --- whole threads -------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        call(self._delete, thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        await call_from(self._delete, thread_id)

    async def _delete(self, thread_id: str) -> None:
        await self.store.delete(str(thread_id))
        self._threads.pop(str(thread_id), None)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """A fork: it costs nothing, however long the thread is. Raises ``ChatExists`` if the target has anything."""
        call(self._copy, source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await call_from(self._copy, source_thread_id, target_thread_id)

    async def _copy(self, source: str, target: str) -> None:
        try:
            await self.store.log.fork(str(source), str(target))
        except NoSuchChat:  # nothing is copied, as from an empty table
            return

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Erases all but the newest checkpoint of each namespace, or the threads. What a checkpoint that stays refers to stays."""
        call(self._prune, thread_ids, strategy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await call_from(self._prune, thread_ids, strategy)

    async def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"no such strategy: {strategy!r}; there are: keep_latest, delete")
        for thread_id in thread_ids:
            if strategy == "delete":
                await self._delete(thread_id)
            else:
                thread = self._of(str(thread_id))
                rows = await thread.rows()
                newest = {row.ns: row for row in reversed(rows)}
                await thread.erase([row for row in rows if newest[row.ns] is not row])

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erases the checkpoints of these runs in all threads. What another checkpoint refers to stays. It reads every thread."""
        call(self._delete_for_runs, run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await call_from(self._delete_for_runs, run_ids)

    async def _delete_for_runs(self, run_ids: Sequence[str]) -> None:
        wanted = set(run_ids)
        for thread in await self._all_threads() if wanted else ():
            gone = []
            for row in await thread.rows():
                found = await thread.read(row)
                if found is not None and self._load(found.metadata).get("run_id") in wanted:
                    gone.append(row)
            await thread.erase(gone)

    # --- threads, and values -------------------------------------------------------------------------------

    def _thread(self, config: RunnableConfig) -> ThreadLog:
        return self._of(str(config["configurable"]["thread_id"]))

    def _of(self, key: str) -> ThreadLog:
        """On the loop's thread, so that there is one of each."""
        thread = self._threads.get(key)
        if thread is None:
            thread = self._threads[key] = ThreadLog(self.store.log, key, self.messages)
            while len(self._threads) > _THREADS:
                if next(iter(self._threads.values())).lock.locked():
                    break
                self._threads.popitem(last=False)
        self._threads.move_to_end(key)
        return thread

    async def _all_threads(self) -> Sequence[ThreadLog]:
        return [self._of(chat.key) async for chat in self.store.chats(where={"adapter": OWN})]

    def _values(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> tuple[dict[str, Any], Value, Value, dict[str, Value], dict[str, Callable[[], Value]]]:
        dump = self.serde.dumps_typed
        header = {name: value for name, value in checkpoint.items() if name not in _APART}
        values = checkpoint["channel_values"]
        return (
            dict(checkpoint.get("channel_versions") or {}),
            dump(header),
            dump(get_checkpoint_metadata(config, metadata)),
            {name: dump(value) for name, value in values.items() if name in new_versions},
            {name: partial(dump, value) for name, value in values.items() if name not in new_versions},
        )

    def _serialised(self, writes: Sequence[tuple[str, Any]]) -> Sequence[tuple[int, str, Value]]:
        return [
            (WRITES_IDX_MAP.get(channel, index), channel, self.serde.dumps_typed(value))
            for index, (channel, value) in enumerate(writes)
        ]

    def _load(self, value: Value) -> Any:
        return self.serde.loads_typed(value)

    def _tuple(self, key: str, found: Stored | None) -> CheckpointTuple | None:
        if found is None:
            return None
        row = found.row
        checkpoint = self._load(found.header)
        checkpoint["channel_versions"] = dict(found.versions)
        checkpoint["channel_values"] = {name: self._load(value) for name, value in found.values.items()}
        return CheckpointTuple(
            _config(key, row.ns, row.id),
            checkpoint,
            self._load(found.metadata),
            _config(key, row.ns, row.parent) if row.parent else None,
            [(task, channel, self._load(value)) for task, channel, value in found.writes],
        )


def _namespace(config: RunnableConfig) -> str:
    return str(config["configurable"].get("checkpoint_ns", ""))


def _config(thread_id: str, ns: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id}}


def _fits(found: CheckpointTuple, filter: dict[str, Any] | None) -> bool:
    metadata: Any = found.metadata
    return all(name in metadata and metadata[name] == value for name, value in (filter or {}).items())
