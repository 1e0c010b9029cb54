"""The events people record most, in a word: ``user("hi")``, ``assistant("hello", File(…))``."""

import os
from collections.abc import Iterable, Mapping

import msgspec
from xxhash import xxh3_128_hexdigest

from chatfold.eventlog import Injected, Json, MessageAdded, Origin, Part, Role, Text, ToolReturned
from chatfold.eventlog.codec import encode_event

Content = str | Part


def new_id(kind: str) -> str:
    """A name that nobody else has: ``ctx_…``, ``call_…``, ``run_…``."""
    return f"{kind}_{os.urandom(8).hex()}"


def parts(content: Iterable[Content]) -> tuple[Part, ...]:
    return tuple(Text(part) if isinstance(part, str) else part for part in content)


def user(*content: Content, origin: Origin = "exec", meta: Mapping[str, Json] | None = None) -> MessageAdded:
    return _said("user", content, origin, meta)


def assistant(
    *content: Content, origin: Origin = "exec", meta: Mapping[str, Json] | None = None
) -> MessageAdded:
    return _said("assistant", content, origin, meta)


def system(
    *content: Content, origin: Origin = "exec", meta: Mapping[str, Json] | None = None
) -> MessageAdded:
    return _said("system", content, origin, meta)


def _said(
    role: Role, content: Iterable[Content], origin: Origin, meta: Mapping[str, Json] | None
) -> MessageAdded:
    return MessageAdded(role, parts(content), origin, dict(meta or {}))


def injected(role: Role, content: Iterable[Content], fingerprint: str | None, source: str) -> Injected:
    said = parts(content)
    return Injected(
        role, fingerprint or xxh3_128_hexdigest(encode_event(MessageAdded(role, said)).raw), said, source
    )


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a tool, under the provider's id ``call``. ``call.result("…")`` is the event that answers it.

    ``seq``: the entry that recorded it; 0 if none has.
    """

    call: str
    name: str
    args: Json = None
    seq: int = 0

    def result(self, *content: Content, failed: bool = False) -> ToolReturned:
        return ToolReturned(self.call, parts(content), failed)
