"""Sessions of the OpenAI Agents SDK in a ``Store``: ``pip install chatfold[openai-agents]``.

    session = OpenAIAgentsSession(store, "telegram-42")
    await Runner.run(agent, "Why does the lexer drop newlines?", session=session)

A session is a chat, and every item an event in it: durable when ``add_items`` returns, given back as it was. Nothing is deleted.
``pop_item`` goes back to before an item, ``clear_session`` puts the items on the shelf, compaction by the SDK replaces the end of the list
in one append; ``log`` and ``why`` show what was there. Items are what the model would be sent: what somebody else recorded in the chat is
among them, and in the place of what a compaction of chatfold's hides is its summary.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from agents.memory.session_settings import SessionSettings, coerce_session_settings

from chatfold.adapters.openai_agents_items import OWN, Item, events_of, is_item, item_of, plain
from chatfold.agent import Chat, Moment, Store
from chatfold.agent.chat import Point
from chatfold.eventlog import (
    ChatStarted,
    Closed,
    Compacted,
    Conflict,
    ContextCleared,
    ContextRecalled,
    Entry,
    Event,
    Head,
    Injected,
    MessageAdded,
    Noted,
    Rewound,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.contexts import in_place
from chatfold.projections.labels import RECALLED, SUMMARY, label_injected

_T = TypeVar("_T")
_PLAIN = (
    MessageAdded,
    ToolCalled,
    ToolReturned,
    Noted,
)  # they stand where they were recorded, and change nothing else


class Row(NamedTuple):
    """An item, and the entry that it begins with."""

    seq: int
    event: Event

    @property
    def item(self) -> Item:
        match self.event:
            case Compacted(summary=summary):
                return {"role": "assistant", "content": SUMMARY + summary}
            case Injected(role=role) as injected:
                return item_of(MessageAdded(role, label_injected(injected)))
            case ContextRecalled(id=id, mode=mode, text=text):
                return {"role": "user", "content": RECALLED.format(id=id, mode=mode) + text}
        return item_of(self.event)


class Snapshot(NamedTuple):
    """What the SDK's compaction looks at: ``replace_suffix(start, items)`` puts these in the place of the items from ``start`` on, if
    they still are the newest; and says whether it did."""

    items: list[Item]
    complete: bool
    replace_suffix: Callable[[int, list[Item]], Awaitable[bool]]


class OpenAIAgentsSession:
    """``session_settings``: its ``limit`` is how many items a run is given, if it does not say."""

    def __init__(
        self,
        store: Store,
        session_id: str,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.store = store
        self.session_id = session_id
        self.session_settings: SessionSettings = coerce_session_settings(session_settings or {})
        self._chat: Chat | None = None
        self._rows: list[Row] = []
        self._head = Head()  # what the rows are of
        self._is_closed = False

    async def chat(self) -> Chat:
        """The chat, to compact, search, fork or follow it."""
        self._check_open()
        if self._chat is None:
            self._chat = await self.store.chat(self.session_id)
        return self._chat

    # --- what the SDK calls ----------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The newest ``limit`` items, or all, in their order."""
        if limit is None:
            limit = self.session_settings.limit
        rows = await self._rows_of(await (await self.chat()).now())
        some = rows if limit is None or limit < 0 else rows[max(0, len(rows) - limit) :]
        return [row.item for row in some]

    async def add_items(self, items: Sequence[Any]) -> None:
        """All of them, or none. They are durable when this returns."""
        self._check_open()
        if items:
            await _settled(self._add([event for item in items for event in events_of(plain(item))]))

    async def pop_item(self) -> Any:
        """The newest item, or None; the session goes back to before it. No two calls are given the same."""
        self._check_open()
        return await _settled(self._pop())

    async def clear_session(self) -> None:
        """No items. What there was is on the shelf: ``chat.contexts()`` lists it, ``chat.load_context()`` brings it back."""
        self._check_open()
        await _settled(self._clear())

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Any], bool] | None = None
    ) -> Snapshot:
        rows = await self._rows_of(await (await self.chat()).now())
        newest = rows[max(0, len(rows) - limit) :]

        async def replace_suffix(start: int, items: list[Any]) -> bool:
            events = [event for item in items for event in events_of(plain(item))]
            return await _settled(self._replace(newest[start:], events, prune_prefix))

        return Snapshot([row.item for row in newest], newest == rows, replace_suffix)

    def close(self) -> None:
        """The session takes no more calls. The store stays open."""
        self._is_closed = True

    # --- beyond the SDK --------------------------------------------------------------------------------------

    async def fork(self, session_id: str, at: Point | None = None) -> "OpenAIAgentsSession":
        """A session of its own that has everything up to ``at`` (default: all). It costs nothing, however long this one is."""
        await (await self.chat()).fork(session_id, at)
        return OpenAIAgentsSession(self.store, session_id, session_settings=self.session_settings)

    # --- how -------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the session is closed", chat=self.session_id)

    async def _add(self, events: list[Event]) -> None:
        chat = await self.chat()
        if not chat.seq and not (await chat.refresh()).seq:
            try:
                await chat.record(ChatStarted(self.session_id, "", {"adapter": OWN}), *events, after=0)
            except Conflict:
                await chat.record(*events)
        else:
            await chat.record(*events)

    async def _pop(self) -> Any:
        chat, popped = await self.chat(), list[Item]()

        async def to_before(now: Moment) -> Iterable[Event]:
            rows = await self._rows_of(now)
            popped[:] = [row.item for row in rows[-1:]]
            return [Rewound(row.seq - 1, "pop_item") for row in rows[-1:]]

        await chat.append_if(to_before)
        return popped[-1] if popped else None

    async def _clear(self) -> None:
        async def events(now: Moment) -> Iterable[Event]:
            return (ContextCleared("clear_session"),) if await self._rows_of(now) else ()

        await (await self.chat()).append_if(events)

    async def _replace(
        self, expected: list[Row], events: list[Event], prune: Callable[[Any], bool] | None
    ) -> bool:
        is_replaced = False

        async def suffix(now: Moment) -> Iterable[Event]:
            nonlocal is_replaced
            rows = await self._rows_of(now)
            is_replaced = bool(expected) and rows[len(rows) - len(expected) :] == expected
            if not is_replaced:
                return ()
            before = rows[: len(rows) - len(expected)]
            kept = [*before]
            while prune is not None and kept and prune(kept[0].item):
                kept.pop(0)
            if len(kept) < len(before):
                return (ContextCleared("pruned", tuple(row.seq for row in kept)), *events)
            return (Rewound(expected[0].seq - 1, "compaction"), *events)

        await (await self.chat()).append_if(suffix)
        return is_replaced

    async def _rows_of(self, now: Moment) -> list[Row]:
        """The items at this moment: those that are known, and what came since, unless that changed more than the end."""
        head = now.view.head
        if head == self._head:
            return [*self._rows]
        rows: list[Row] | None = None
        if 0 < self._head.seq < head.seq:
            new = await now.read(((self._head.seq + 1, head.seq),))
            if new[0].prev == self._head.link and all(isinstance(entry.event, _PLAIN) for entry in new):
                rows = [*self._rows, *_rows(new)]
        if rows is None:
            window = now.window()
            rows = _rows(in_place(window, await now.read(window.entries)))
        self._rows, self._head = rows, head
        return [*rows]


def _rows(entries: Iterable[Entry]) -> list[Row]:
    shown = (Compacted, Injected, ContextRecalled)
    return [
        Row(entry.seq, entry.event)
        for entry in entries
        if is_item(entry.event) or isinstance(entry.event, shown)
    ]


async def _settled(work: Awaitable[_T]) -> _T:
    """What came of the work. It is done to its end, although whoever waits for it is cancelled, and then he is."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        task.exception()
        raise cancelled
    return task.result()
