"""What readers of clients' messages share: how they refuse, what bytes and files are, what has no place in an event.

What is wrong is a ``ValueError`` that says where: ``messages[3].content[0].text: expected a string, got None``. It is
raised with the innermost place, and what is around puts its own in front.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from chatfold.eventlog import (
    Data,
    Event,
    File,
    InvalidEvent,
    Json,
    MessageAdded,
    Part,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.values import validate_event

_IMAGES = {"jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}

Object: TypeAlias = dict[str, Any]
Given: TypeAlias = Mapping[str, Any]
Read: TypeAlias = tuple[Part, Object]
"""A part, and what it has no place for."""
Said: TypeAlias = MessageAdded | ToolCalled | ToolReturned

T = TypeVar("T")
S = TypeVar("S", ToolCalled, ToolReturned)


# --- what is refused -------------------------------------------------------------------------------------


def wrong(where: str, expected: str, value: object) -> ValueError:
    got = repr(value) if isinstance(value, str | None) else type(value).__name__
    return ValueError(f"{where}: expected {expected}, got {got if len(got) < 99 else 'a long text'}")


def string(given: Given, *path: str) -> str:
    """The string at this path of fields."""
    value: Any = given
    where = ""
    for field in path:
        if not isinstance(value, Mapping):
            raise wrong(where, "an object", value)
        value = value.get(field)
        where += f".{field}"
    if not isinstance(value, str):
        raise wrong(where, "a string", value)
    return value


def each(value: Any, where: str, read: Callable[[Given], T], expected: str = "a list") -> Iterator[T]:
    """What ``read`` makes of every object in a list."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise wrong(where, expected, value)
    for at, item in enumerate(value):
        try:
            if not isinstance(item, Mapping):
                raise wrong("", "an object", item)
            made = read(item)
        except ValueError as error:
            raise ValueError(f"{where}[{at}]{error}") from None
        yield made


def content(value: Any, where: str, read: Callable[[Given], T]) -> list[T | Read]:
    """What a content is made of. It may be a mere string; an empty one says nothing."""
    if isinstance(value, str):
        return [(Text(value), {})] if value else []
    return [*each(value, where, read, "a string or a list of parts")]


# --- bytes and files -------------------------------------------------------------------------------------


def decode_base64(text: str) -> bytes | None:
    """The bytes that are written like this in base64; None if there are none, or if they would be written otherwise."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return data if data and base64.b64encode(data).decode() == text else None


def of_data_url(url: str) -> File | None:
    """The file that a data URL holds in base64."""
    head, _, body = url.partition(";base64,")
    data = decode_base64(body)
    return File(head[5:], data) if head.startswith("data:") and data else None


def image(url: str) -> File:
    """Of an address only the ending tells the type; without one, it is called a PNG, so that it is sent as an image."""
    if url.startswith("data:image/jpg;"):  # which is no type, but what many write
        url = url.replace("jpg", "jpeg", 1)
    if url.startswith("data:"):
        return of_data_url(url) or File(url[5:].partition(",")[0].partition(";")[0], url=url)
    ending = url.partition("#")[0].partition("?")[0].rpartition(".")[2].lower()
    return File(_IMAGES.get(ending, "image/png"), url=url)


# --- what has no place -----------------------------------------------------------------------------------


def unread_fields(given: Given, *read: str, **within: tuple[str, ...]) -> Object:
    """The fields that were not read, also ``within`` others. One that is null or empty says nothing."""
    left = {key: value for key, value in given.items() if key not in read}
    left |= {field: unread_fields(given[field], *names) for field, names in within.items()}
    return {key: value for key, value in left.items() if value not in (None, [], {})}


def meta_of(provider: str, **kept: Json) -> dict[str, Json]:
    """The meta of an event under whose ``provider`` is what else was said, as far as there is something."""
    kept = {name: value for name, value in kept.items() if value}
    return {provider: kept} if kept else {}


def parts_of(read: Iterable[Read]) -> tuple[tuple[Part, ...], Object]:
    """The parts, and what they have no place for by their index."""
    read = list(read)
    return tuple(part for part, _ in read), {str(at): more for at, (_, more) in enumerate(read) if more}


def with_head(events: list[Said], provider: str, more: Object) -> list[Event]:
    """The events of a message; what else it says is with the first."""
    first, *others = events
    if more:
        first = replace(first, meta={provider: {**first.meta.get(provider, {}), "message": more}})
    return [first, *others]


def unknown(provider: str, part: Given) -> Read:
    """A part of a type that events have no word for, as it is."""
    return Data(provider, dict(part)), {}


# --- steps -----------------------------------------------------------------------------------------------


def separate_steps(turns: Iterable[list[Event]]) -> list[Event]:
    """The events of all messages, each message a step of its own.

    Calls without words would go with the assistant's message before them, or with calls whose results never came
    although somebody spoke since. There, an empty message of the assistant stands between.
    """
    events: list[Event] = []
    waiting: list[str] = []
    for turn in turns:
        if turn and isinstance(turn[0], ToolCalled) and _goes_on(events, bool(waiting)):
            events.append(MessageAdded("assistant", ()))
            waiting.clear()
        for event in turn:
            match event:
                case MessageAdded(role="assistant"):
                    waiting.clear()
                case ToolCalled(call=call):
                    waiting.append(call)
                case ToolReturned(call=call) if call in waiting:
                    waiting.remove(call)
        events += turn
    return events


def _goes_on(events: list[Event], waiting: bool) -> bool:
    last = events[-1] if events else None
    return isinstance(last, MessageAdded) and (waiting or last.role == "assistant")


def numbered_results(events: list[Event], provider: str) -> list[Event]:
    """The events, results that came in another order than their calls with their place: ``at``."""
    calls: list[str] = []
    results: list[int] = []
    for at, event in enumerate([*events, None]):
        if isinstance(event, ToolReturned) and event.call in calls:
            results.append(at)
            continue
        if isinstance(event, ToolReturned):
            continue
        if results:
            given = [
                event.call for event in map(events.__getitem__, results) if isinstance(event, ToolReturned)
            ]
            if len({*given}) == len(given) and given != [call for call in calls if call in given]:
                for place, index in enumerate(results):
                    result = events[index]
                    assert isinstance(result, ToolReturned)
                    events[index] = with_kept(result, provider, at=place)
            calls, results = [], []
        if isinstance(event, ToolCalled):
            calls.append(event.call)
        else:
            calls = []
    return events


def with_kept(event: S, provider: str, **kept: Json) -> S:
    """The event with more under the provider in its meta."""
    return replace(event, meta={**event.meta, provider: {**event.meta.get(provider, {}), **kept}})


def arguments_of(written: str) -> Json:
    """Of a call, as they are written; if that is not JSON that a log can hold, they stay the string that they are."""
    if not written.strip():  # what some servers write for none
        return None
    try:
        args = msgspec.json.decode(written)
        validate_event(ToolCalled("", "", args), [])
    except (msgspec.DecodeError, InvalidEvent, RecursionError, ValueError):
        return written
    return args
