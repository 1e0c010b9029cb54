"""The events people record most, in a word, and the messages of providers and their SDKs as events.

    user("hi"), assistant("hello", File("image/png", data)), system("Be brief.")
    events_of([{"role": "user", "content": "hi"}, reply.choices[0].message])

Wherever a message is taken, an event, the dict of a provider or the object of its SDK is one. The shapes are those that
``chatfold.projections.shapes.recognise`` knows. Anything else is refused here, in words, before anything is written.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol, TypeAlias, cast, get_args

import msgspec
from xxhash import xxh3_128_hexdigest

from chatfold import projections  # whose readers are imported when they are used
from chatfold.eventlog import (
    Data,
    Event,
    Injected,
    InvalidEvent,
    Json,
    MessageAdded,
    Origin,
    Part,
    Role,
    Text,
    ToolReturned,
)
from chatfold.eventlog.codec import encode_event


class SdkObject(Protocol):
    """An object of the OpenAI or the Anthropic SDK, or any other that pydantic makes."""

    def model_dump(self, *args: Any, **kwargs: Any) -> dict[str, Any]: ...


Content: TypeAlias = str | Part | Mapping[str, Any] | SdkObject
"""What a message holds: text, a part, or a part as a provider or its SDK writes it."""
Given: TypeAlias = Event | Mapping[str, Any] | SdkObject
"""A message: an event, the dict of a provider, or the object of its SDK."""

EVENTS = frozenset(get_args(Event))
_PARTS = get_args(Part)


def new_id(kind: str) -> str:
    """A name that nobody else has: ``ctx_…``, ``call_…``, ``run_…``."""
    return f"{kind}_{os.urandom(8).hex()}"


# --- making events -------------------------------------------------------------------------------------------


def user(*content: Content, origin: Origin = "exec", meta: Mapping[str, Json] | None = None) -> MessageAdded:
    """An event: what the user says, in text, parts, or parts as a provider writes them. ``chat.record(user("hi"))`` records it.

    ``origin``: "exec" is sent to the model; "audit" is only recorded; "internal" is sent, and nobody said it. ``meta`` is kept with it
    and never sent. Raises ``InvalidEvent`` for what is no content.
    """
    return _make_message("user", content, origin, meta)


def assistant(
    *content: Content, origin: Origin = "exec", meta: Mapping[str, Json] | None = None
) -> MessageAdded:
    """An event: what the assistant says."""
    return _make_message("assistant", content, origin, meta)


def system(
    *content: Content, origin: Origin = "exec", meta: Mapping[str, Json] | None = None
) -> MessageAdded:
    """An event: a rule of the application."""
    return _make_message("system", content, origin, meta)


def _make_message(
    role: Role, content: Sequence[Content], origin: Origin, meta: Mapping[str, Json] | None
) -> MessageAdded:
    parts, kept = _read(role, content)
    return MessageAdded(role, parts, origin, {**kept, **(meta or {})})


def make_injection(role: Role, content: Sequence[Content], fingerprint: str | None, source: str) -> Injected:
    """Without a ``fingerprint``, it has that of its role and content."""
    parts, meta = _read(role, content)
    known = fingerprint or xxh3_128_hexdigest(encode_event(MessageAdded(role, parts)).raw)
    return Injected(role, known, parts, source, meta)


def _read(role: Role, content: Sequence[Content]) -> tuple[tuple[Part, ...], dict[str, Json]]:
    """The parts, and what providers' parts say besides."""
    parts: list[Part] = []
    meta: dict[str, Any] = {}
    for one in content:
        match plain(one):
            case str(text):
                parts.append(Text(text))
            case part if isinstance(part, _PARTS):
                parts.append(part)
            case Mapping() as given:
                [said] = _messages([given if "role" in given else {"role": role, "content": [given]}])
                if not isinstance(said, MessageAdded) or said.role != role:
                    raise InvalidEvent(
                        f"this is no content of a message of role {role!r}: {_describe(given)}"
                    )
                for provider, kept in said.meta.items():
                    meta[provider] = {**meta.get(provider, {}), **_shift(cast("Any", kept), len(parts))}
                parts += said.parts
            case other:
                raise InvalidEvent(
                    f"{_describe(other)} is no content: give text, a part, or File(media, data)"
                )
    return tuple(parts), meta


def _shift(kept: dict[str, Any], by: int) -> dict[str, Any]:
    """What is kept of parts, by their index, when there are others before them."""
    more = kept.get("parts", {})
    return kept | ({"parts": {str(int(at) + by): one for at, one in more.items()}} if more else {})


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a tool, under the provider's id ``call``. ``call.result(x)`` is the event that answers it.

    ``seq``: the entry that recorded it; 0 if none has.
    """

    call: str
    name: str
    args: Json = None
    seq: int = 0

    def result(self, *content: Any, failed: bool = False) -> ToolReturned:
        """The event that answers the call: text, parts, or any JSON. Raises ``InvalidEvent`` for what is none of these.

        ``failed``: the model is told that the tool failed.
        """
        return ToolReturned(self.call, tuple(part for one in content for part in result_parts(one)), failed)


def parse_args(args: Json) -> Json:
    """The arguments of a call: the text of a JSON object is taken for the object."""
    from chatfold.projections.shapes.parse import arguments_of  # noqa: PLC0415 (for those who have such calls)

    if isinstance(args, str) and isinstance(found := arguments_of(args), dict):
        return found
    return args


def is_empty(parts: Iterable[Part]) -> bool:
    """True if these parts say nothing at all. White space is something: it is sent as it is."""
    return all(isinstance(part, Text) and not part.text for part in parts)


def result_parts(value: Any) -> tuple[Part, ...]:
    """What a tool returned, as parts: text, parts, or anything that JSON can say."""
    match value:
        case None:
            return ()
        case str():
            return (Text(value),)
        case _ if isinstance(value, _PARTS):
            return (value,)
        case list() | tuple() if value and all(isinstance(part, _PARTS) for part in value):
            return tuple(value)
    try:
        return (Data("json", msgspec.to_builtins(plain(value))),)
    except (TypeError, RecursionError):
        raise InvalidEvent(f"{_describe(value)} is no result: give text, parts, or JSON") from None


# --- what providers write, as events -----------------------------------------------------------------------


def events_of(given: Iterable[Given]) -> list[Event]:
    """The events that these messages say, in order. Raises ``InvalidEvent`` for what is no message.

    Messages of a provider that follow each other are read together: a result finds the name of its call. A whole reply of a
    provider is taken for the message in it.
    """
    if isinstance(given, str | bytes | Mapping):
        raise InvalidEvent(f"expected a list of messages, got {_describe(given)}")
    some = groupby(map(plain, given), key=lambda one: type(one) in EVENTS)
    groups = [(is_event, [*group]) for is_event, group in some]
    read = (group if is_event else _messages(group) for is_event, group in groups)
    return [event for events in read for event in events]


def plain(value: object) -> Any:
    """An object of an SDK as the dict that the provider sent; anything else as it is."""
    if isinstance(value, type) or not callable(dump := getattr(value, "model_dump", None)):
        return value
    return dump(mode="json", by_alias=True, exclude_unset=True)


def _messages(given: list[Any]) -> list[Event]:
    for one in given:
        if isinstance(one, list | tuple):
            raise InvalidEvent("a list is no message: record(*messages), or merge(messages)")
        if not isinstance(one, Mapping):
            raise InvalidEvent(
                f"{_describe(one)} is no message: give an event, or a provider's dict or object"
            )
        if "content" in one and "role" not in one and one.get("type") != "reasoning":
            raise InvalidEvent(f"a message without a role: {_describe(one)}")
    try:
        groups = [(is_reply, [*some]) for is_reply, some in groupby(given, key=_is_reply)]
        read = (
            map(_reply, some) if is_reply else [projections.from_messages(some)] for is_reply, some in groups
        )
        return [event for replies in read for events in replies for event in events]
    except ValueError as error:
        raise InvalidEvent(str(error)) from None


def _is_reply(one: Mapping[str, Any]) -> bool:
    """All that a provider answered, with its usage and its stop reason, and not only the message."""
    return one.get("object") in ("response", "chat.completion") or "stop_reason" in one


def _reply(one: Mapping[str, Any]) -> list[Event]:
    model = str(one.get("model", ""))
    match one:
        case {"object": "response", "output": output}:
            return projections.from_openai_responses(output, model=model)
        case {"object": "chat.completion", "choices": [{"message": message}]}:
            return projections.from_messages([message])
        case {"role": role, "content": content}:
            return projections.from_anthropic([{"role": role, "content": content}], model=model)
    raise ValueError(f"a reply with no message, or with several: {_describe(one)}")


def _describe(value: object) -> str:
    """What it is, in a few words for an error."""
    if isinstance(value, Mapping):
        return f"a dict with {', '.join(sorted(map(repr, value))[:6]) or 'nothing in it'}"
    return f"a value of type {type(value).__name__}"
