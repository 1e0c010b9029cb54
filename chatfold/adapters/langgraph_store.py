"""A thread of LangGraph in a log: puts checkpoints and writes, and reads them, as serialised values. On one event loop."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from chatfold.adapters.langgraph_draft import Draft, item_of
from chatfold.adapters.langgraph_thread import CUT, Item, Items, Key, Row, Thread, note_of, places_of
from chatfold.adapters.langgraph_values import (
    OWN,
    Said,
    Value,
    cell_of,
    header,
    message_of,
    said_in,
    value_of,
)
from chatfold.eventlog import ChatDeleted, Conflict, Entry, Event, Json, Log, Noted

_SEEK = 128  # a longer chat is opened from its end
_NEAR = 4  # entries that are read along rather than passed over
_NOTES, _LISTS, _MESSAGES = 256, 8, 8192  # how many are remembered


class Stored(NamedTuple):
    """A checkpoint as it was put, each value serialised."""

    row: Row
    versions: dict[str, Json]
    header: Value
    metadata: Value
    values: dict[str, Value]
    writes: list[tuple[str, str, Value]]  # task, channel, value


class ThreadLog:
    """``messages``: the channel whose messages are the chat's."""

    def __init__(self, log: Log, key: str, messages: str) -> None:
        self.log, self.key, self.channel = log, key, messages
        self.lock = asyncio.Lock()
        self._forget()

    def _forget(self) -> Thread:
        self.thread = Thread()
        self._notes: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._lists: OrderedDict[tuple[int, str], Items] = OrderedDict()
        self._messages: OrderedDict[Said, bytes | None] = OrderedDict()
        return self.thread

    # --- the index -----------------------------------------------------------------------------------------

    async def refresh(self, *, whole: bool = False) -> Thread:
        """What is known now, with what other processes have put; of the ``whole`` chat, or from a place near its end."""
        head = await self.log.head(self.key)
        thread = self.thread
        is_other = head != thread.head and head.seq <= thread.head.seq
        if is_other or thread.is_stale or (whole and not thread.is_whole):
            thread = self._forget()
        is_fresh = not thread.head.seq  # then what it reads is what was left by an erasure
        if is_fresh and head.seq > _SEEK and not whole:
            await self._seek()
        elif head != thread.head:
            async for page in self.log.pages(self.key, thread.head.seq + 1):
                if page[0].prev != thread.head.link:
                    self._forget()
                    return await self.refresh(whole=whole)
                self._take(page)
        self.thread.is_stale &= not is_fresh
        return await self.refresh(whole=whole) if self.thread.is_stale else self.thread

    async def _seek(self) -> None:
        """Opens the chat from the newest checkpoint of the root."""
        found: list[Entry] = []
        async with aclosing(self.log.storage.read_entries_back(self.key)) as pages:
            async for page in pages:
                found[:0] = page
                if any((note_of(entry.event, "put") or {}).get("ns") == "" for entry in page):
                    break
        thread = self.thread = Thread(found[0].seq if found else 1)
        self._take(found)
        newest = await self.put_note(thread.last_root)
        if newest is not None and (top := newest.get("top")) and (put := await self.put_note(top)):
            thread.put(top, put)

    def _take(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.thread.take(entry)

    async def find(self, ns: str, id: str | None) -> Row | None:
        """The checkpoint of this id, or the greatest."""
        async with self.lock:
            return await self._find(ns, id)

    async def _find(self, ns: str, id: str | None) -> Row | None:
        thread = await self.refresh()
        row = thread.rows.get((ns, id)) if id else thread.newest(ns)
        if not thread.is_whole and (row is None or (ns and not id)):
            thread = await self.refresh(whole=True)
            row = thread.rows.get((ns, id)) if id else thread.newest(ns)
        return row

    async def rows(self) -> list[Row]:
        """All checkpoints, the greatest id first."""
        async with self.lock:
            thread = await self.refresh(whole=True)
            return sorted(thread.rows.values(), key=lambda row: row.id, reverse=True)

    # --- reading -------------------------------------------------------------------------------------------

    async def read(self, row: Row) -> Stored | None:
        """None if it was erased."""
        async with self.lock:
            note = await self.put_note(row.seq)
            if note is None:
                return None
            values = {
                channel: value
                for channel, seq in places_of(row.seq, note).items()
                if (value := await self._value(seq, channel)) is not None
            }
            writes = await self._writes(row, note)
            metadata = await self._of_cell(note["metadata"])
            return Stored(
                row, note["versions"], await self._of_cell(note["header"]), metadata, values, writes
            )

    async def _writes(self, row: Row, note: dict[str, Any]) -> list[tuple[str, str, Value]]:
        for seq in note.get("writes", ()):
            if seq < self.thread.first and (early := await self._note(seq, "writes")):
                self.thread.write(seq, early)
        found = []
        for write in self.thread.pending_writes((row.ns, row.id)):
            if kept := await self._note(write.seq, "writes"):
                _, channel, cell = kept["writes"][write.place]
                found.append((write.task, channel, await self._of_cell(cell)))
        return found

    async def _value(self, seq: int, channel: str) -> Value | None:
        note = await self.put_note(seq)
        if note is None:
            return None
        cell = note["values"][channel]
        if "list" not in cell:
            return await self._of_cell(cell)
        items = await self.items(seq, channel)
        return "msgpack", header(len(items.items)) + items.body

    async def _of_cell(self, cell: Json) -> Value:
        return value_of(cell, await self._read_messages(said_in(cell.get("is"))))

    async def items(self, seq: int, channel: str) -> Items:
        """A list as the note of this seq has it."""
        if (known := self._lists.get((seq, channel))) is not None:
            self._lists.move_to_end((seq, channel))
            return known
        items, depth = await self._unread_items(seq, channel)
        messages = await self._read_messages(item for item in items if isinstance(item, Said))
        kept: list[Item] = []
        ends: list[int] = []
        pieces: list[bytes] = []
        at = 0
        for item in items:
            data = messages[item] if isinstance(item, Said) else await self._inline(item, channel)
            if data is None:
                depth = CUT
                continue
            at += len(data)
            kept.append(item)
            ends.append(at)
            pieces.append(data)
        return self._keep_list(seq, channel, Items(tuple(kept), b"".join(pieces), tuple(ends), depth))

    def _keep_list(self, seq: int, channel: str, items: Items) -> Items:
        self._lists[seq, channel] = items
        while len(self._lists) > _LISTS:
            self._lists.popitem(last=False)
        return items

    async def _unread_items(self, seq: int, channel: str) -> tuple[list[Item], int]:
        """Where the items of a list are, and over how many notes it is spread."""
        spread: list[tuple[int, dict[str, Any], int]] = []
        kept = CUT
        while seq and (note := await self.put_note(seq)) is not None:
            cell = note["values"][channel]
            spread.append((seq, cell, kept))
            seq, kept = cell.get("from", (0, 0))
        items: list[Item] = []
        for at, cell, kept in reversed(spread):
            items.extend(item_of(item, at, index) for index, item in enumerate(cell["list"]))
            del items[kept:]
        return items, len(spread)

    async def _inline(self, item: tuple[int, ...], channel: str) -> bytes | None:
        note = await self.put_note(item[0])
        if note is None:
            return None
        return (await self._of_cell(note["values"][channel]["list"][item[1]]))[1]

    async def _read_messages(self, some: Iterable[Said]) -> Mapping[Said, bytes | None]:
        """Their bytes; None for one that was erased."""
        wanted = list(some)
        missing = sorted({said for said in wanted if said not in self._messages})
        spans: list[tuple[int, int]] = []
        for said in missing:
            if spans and said.first <= spans[-1][1] + _NEAR:
                spans[-1] = spans[-1][0], max(spans[-1][1], said.last)
            else:
                spans.append((said.first, said.last))
        entries = {entry.seq: entry async for entry in self.log.spans(self.key, spans)}
        found = {said: self._messages[said] for said in wanted if said in self._messages}
        for said in missing:
            found[said] = self._messages[said] = _message(entries, said)
        while len(self._messages) > _MESSAGES:
            self._messages.popitem(last=False)
        return found

    async def put_note(self, seq: int) -> dict[str, Any] | None:
        return await self._note(seq, "put")

    async def _note(self, seq: int, kind: str) -> dict[str, Any] | None:
        """None if it was erased."""
        if (known := self._notes.get(seq)) is None:
            async for entry in self.log.read(self.key, seq, seq):
                if entry.was is None and (known := note_of(entry.event, kind)) is not None:
                    self._keep_note(seq, known)
        return known

    def _keep_note(self, seq: int, note: dict[str, Any]) -> None:
        self._notes[seq] = note
        while len(self._notes) > _NOTES:
            self._notes.popitem(last=False)

    # --- writing -------------------------------------------------------------------------------------------

    async def put(
        self,
        key: Key,
        parent: str | None,
        versions: Mapping[str, Json],
        header: Value,
        metadata: Value,
        values: Mapping[str, Value],
        unchanged: Mapping[str, Callable[[], Value]],
    ) -> None:
        """``values``: of the channels that are new; ``unchanged``: of those that the parent has, if its version is the same."""
        async with self.lock:
            while True:
                thread = self.thread if self.thread.head.seq else await self.refresh()
                row = await self._find(key[0], parent) if parent else None
                before = await self.put_note(row.seq) if row else None
                places = {} if row is None or before is None else places_of(row.seq, before)
                known = {} if before is None else before["versions"]
                at = {
                    one: places[one]
                    for one in unchanged
                    if one in places and known.get(one) == versions.get(one)
                }
                more = {channel: value() for channel, value in unchanged.items() if channel not in at}
                draft = Draft(self, thread, self.key, self.channel)
                note: dict[str, Any] = {"ns": key[0], "id": key[1]} | (
                    {} if parent is None else {"parent": parent}
                )
                note |= {"versions": dict(versions), "header": cell_of(header), "metadata": cell_of(metadata)}
                await draft.put(note, {**values, **more}, places, at)
                if await self._append(draft.events):
                    self._keep_note(self.thread.head.seq, note)
                    for channel, items in draft.lists.items():
                        self._keep_list(self.thread.head.seq, channel, items)
                    return

    async def put_writes(
        self, key: Key, task: str, path: str, writes: Sequence[tuple[int, str, Value]]
    ) -> None:
        async with self.lock:
            while True:
                thread = self.thread if self.thread.head.seq else await self.refresh()
                known = thread.writes.get(key, {})
                new = [write for write in writes if write[0] < 0 or (task, write[0]) not in known]
                if not new:
                    return
                draft = Draft(self, thread, self.key, self.channel)
                draft.writes(key, task, path, new)
                if await self._append(draft.events):
                    return

    async def erase(self, rows: Sequence[Row]) -> None:
        """These checkpoints, their writes, and the messages that no other refers to."""
        async with self.lock:
            thread = await self.refresh(whole=True)
            gone, kept = set[int](), set[int]()
            for row in thread.rows.values():
                await self._refer(row, gone if row in rows else kept)
            if not rows:
                return
            pruned = [[row.ns, row.id] for row in rows]
            await self.log.append(self.key, Noted(OWN, {"pruned": pruned}))
            await self.log.redact(self.key, *(gone - kept), reason="pruned")
            self._forget()

    async def _refer(self, row: Row, seqs: set[int]) -> None:
        """Adds the entries that a checkpoint needs."""
        note = await self.put_note(row.seq)
        seqs |= {row.seq, *(write.seq for write in self.thread.pending_writes((row.ns, row.id)))}
        said: list[Said] = []
        for channel, seq in places_of(row.seq, note).items() if note else ():
            place: int = seq
            while place and (holder := await self.put_note(place)):
                seqs.add(place)
                cell = holder["values"][channel]
                said.extend(said_in(cell.get("is")))
                for item in cell.get("list", ()):
                    if type(item) is list:
                        said.append(Said(*item))
                    elif "in" in item:
                        seqs.add(item["in"][0])
                    else:
                        said.extend(said_in(item.get("is")))
                place = cell.get("from", (0, 0))[0]
        for write in self.thread.pending_writes((row.ns, row.id)):
            if kept := await self._note(write.seq, "writes"):
                said.extend(said_in(kept["writes"]))
        seqs.update(seq for one in said for seq in range(one.first, one.last + 1))

    async def _append(self, events: Sequence[Event]) -> bool:
        """False if another process was quicker: then what was built is not right any more."""
        head = self.thread.head
        try:
            self._take(await self.log.append(self.key, *events, after=head.seq, known=head))
        except (Conflict, ChatDeleted):
            await self.refresh()
            return False
        return True


def _message(entries: Mapping[int, Entry], said: Said) -> bytes | None:
    some = [entries[seq] for seq in range(said.first, said.last + 1) if seq in entries]
    if len(some) <= said.last - said.first or any(entry.was is not None for entry in some):
        return None
    return message_of([entry.event for entry in some], said.id)
