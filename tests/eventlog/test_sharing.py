"""What ``append`` returns is what was written: it shares nothing that can change with what was passed in."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import given

from chatfold.eventlog import Data, Event, Log, MemoryStorage, MessageAdded, Noted, Text, ToolCalled
from chatfold.eventlog.events import ModelReturned
from chatfold.testing.strategies import events, same


def mutable(value: Any) -> Iterator[dict[Any, Any] | list[Any]]:
    """Every dict and list in an event, the inner ones first."""
    match value:
        case dict():
            for item in value.values():
                yield from mutable(item)
            yield value
        case list():
            for item in value:
                yield from mutable(item)
            yield value
        case tuple():
            for item in value:
                yield from mutable(item)
        case msgspec.Struct():
            for name in value.__struct_fields__:
                yield from mutable(getattr(value, name))


def change(event: Event) -> None:
    for one in mutable(event):
        if isinstance(one, dict):
            one["changed"] = 1
        else:
            one.append("changed")


async def check_is_apart(event: Event) -> None:
    log = Log(MemoryStorage())
    [returned] = await log.append("chat", event, id="x")
    change(event)
    [read] = [entry async for entry in log.read("chat")]
    assert same(returned, read)
    change(returned.event)
    [again] = [entry async for entry in log.read("chat")]
    assert same(again, read)


@given(event=events())
def test_what_is_changed_after_the_append_changes_nothing(event: Event) -> None:
    asyncio.run(check_is_apart(event))


async def test_every_kind_of_event_that_holds_a_dict_is_copied() -> None:
    for event in (
        MessageAdded("user", (Text("t"),)),  # its meta is a dict, too
        MessageAdded("user", (Text("t"), Data("d", {"x": [{}]})), meta={"m": [1]}),
        ToolCalled("c", "t", {"x": [{"y": []}], "n": 1.5}),
        ToolCalled("c", "t", {"odd": [b"\0", "\x7f", float("nan")], "x": {}}),
        ModelReturned({"in": 1, "out": 2**70}),
        Noted("n", [[], {}]),
    ):
        assert [*mutable(event)]
        await check_is_apart(event)


async def test_what_is_changed_while_the_append_waits_changes_nothing() -> None:
    log = Log(MemoryStorage())
    args = {"path": "a"}
    appended = asyncio.ensure_future(log.append("chat", ToolCalled("c", "read", args)))
    await asyncio.sleep(0)
    args["path"] = "b"
    [returned] = await appended
    [read] = [entry async for entry in log.read("chat")]
    assert returned == read
    assert isinstance(read.event, ToolCalled)
    assert read.event.args == {"path": "a"}
