"""The vocabulary: what can happen in a chat, one frozen struct a fact, in the past tense.

An event is a plain value: no id, no clock, equal when its fields are equal. What the log adds (seq, time, run, id,
checksums) wraps it in an ``Entry``. The name of an event on disk is its ``tag``, never derived from the class name. A tag that
is not known here is read as ``Unknown``, byte for byte; a field that is not is skipped. A later field has a default.
"""

from typing import Any, Literal, TypeAlias

import msgspec

__all__ = [
    "ChatStarted",
    "CheckpointSet",
    "Compacted",
    "CompactionReverted",
    "ContextCleared",
    "ContextOpened",
    "ContextRecalled",
    "ContextSwitched",
    "Data",
    "Entry",
    "Event",
    "File",
    "Forked",
    "Head",
    "Injected",
    "Json",
    "Lost",
    "MessageAdded",
    "ModelCalled",
    "ModelReturned",
    "Noted",
    "Origin",
    "Part",
    "Reasoning",
    "Redacted",
    "Rewound",
    "Role",
    "RunFinished",
    "RunStarted",
    "SendConfirmed",
    "SendFailed",
    "SendRequested",
    "SkillActivated",
    "SkillDeactivated",
    "Text",
    "ToolCalled",
    "ToolReturned",
    "Unknown",
]

Json: TypeAlias = Any
"""None, bool, int, float, str, bytes, list and dict with str keys, nested at most ``MAX_DEPTH`` deep."""

Role: TypeAlias = Literal["user", "assistant", "system", "developer"]
Origin: TypeAlias = Literal["exec", "audit", "internal"]
"""exec: the model sees it; audit: recorded only; internal: the model sees it, the user never said it."""


class Struct(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", gc=False):
    """The shared settings: immutable, tagged, defaults left out on disk, never part of a cycle."""


# --- parts: what a message or a tool result is made of ---------------------------------------------------


class Text(Struct, frozen=True, tag="text"):
    """What somebody said or a tool returned, in words."""

    text: str


class Reasoning(Struct, frozen=True, tag="reasoning"):
    """A model's thinking. ``id`` and ``signature`` are the provider's, sent back only to ``provider`` / ``model``.

    ``redacted``: the provider does not show it; what it gave instead is the ``signature``.
    """

    text: str
    provider: str = ""
    model: str = ""
    signature: str = ""
    id: str = ""
    redacted: bool = False


class File(Struct, frozen=True, tag="file"):
    """An attachment: its bytes, or a ``url`` where they are."""

    media_type: str
    data: bytes = b""
    name: str = ""
    url: str = ""

    def __repr__(self) -> str:
        where = f"url={self.url!r}" if self.url else f"{len(self.data)} bytes"
        return f"File({self.media_type!r}, {where}{f', name={self.name!r}' if self.name else ''})"


class Data(Struct, frozen=True, tag="data"):
    """Anything structured an embedder wants to show or keep next to the text."""

    name: str
    data: Json = None


Part: TypeAlias = Text | Reasoning | File | Data


# --- where a log begins ----------------------------------------------------------------------------------


class ChatStarted(Struct, frozen=True, tag="chat_started"):
    key: str = ""
    title: str = ""
    meta: dict[str, Json] = {}


class Forked(Struct, frozen=True, tag="forked"):
    """The first own event of a fork. Everything before it is the parent's, up to seq ``at``."""

    parent: str
    at: int


# --- what was said and done ------------------------------------------------------------------------------


class MessageAdded(Struct, frozen=True, tag="message_added"):
    role: Role
    parts: tuple[Part, ...]
    origin: Origin = "exec"
    meta: dict[str, Json] = {}


class ToolCalled(Struct, frozen=True, tag="tool_called"):
    """Written before the tool runs, so that a crash leaves a call without a result, never the reverse."""

    call: str
    name: str
    args: Json = None
    meta: dict[str, Json] = {}


class ToolReturned(Struct, frozen=True, tag="tool_returned"):
    call: str
    parts: tuple[Part, ...] = ()
    failed: bool = False
    meta: dict[str, Json] = {}


class ModelCalled(Struct, frozen=True, tag="model_called"):
    """``request`` is the fingerprint of the exact messages sent; ``rules``: the number of the prompt rules that made them."""

    model: str
    request: str
    params: dict[str, Json] = {}
    tools: tuple[str, ...] = ()
    provider: str = ""
    rules: int = 1


class ModelReturned(Struct, frozen=True, tag="model_returned"):
    usage: dict[str, int] = {}
    stop: str = ""
    error: str = ""
    meta: dict[str, Json] = {}


# --- contexts, compaction, time --------------------------------------------------------------------------


class ContextOpened(Struct, frozen=True, tag="context_opened"):
    """A new line of thought. ``carry``: seqs that go along, such as the question being asked."""

    id: str
    title: str = ""
    reason: str = ""
    carry: tuple[int, ...] = ()


class ContextSwitched(Struct, frozen=True, tag="context_switched"):
    to: str
    carry: tuple[int, ...] = ()
    reason: str = ""


class ContextRecalled(Struct, frozen=True, tag="context_recalled"):
    """An archived context was shown to the model for reference only; the active one stays."""

    id: str
    mode: Literal["summary", "recent", "full"] = "summary"
    text: str = ""


class ContextCleared(Struct, frozen=True, tag="context_cleared"):
    reason: str = ""
    carry: tuple[int, ...] = ()


class Compacted(Struct, frozen=True, tag="compacted"):
    """Entries ``first`` … ``last`` are shown to the model as ``summary``. A mark; nothing is deleted."""

    first: int
    last: int
    count: int
    summary: str
    trigger: str = "manual"
    policy: dict[str, Json] = {}
    tokens: dict[str, int] = {}


class CompactionReverted(Struct, frozen=True, tag="compaction_reverted"):
    seq: int
    reason: str = ""


class CheckpointSet(Struct, frozen=True, tag="checkpoint_set"):
    name: str


class Rewound(Struct, frozen=True, tag="rewound"):
    """The state is again what it was at seq ``to``. What lies between stays in the log."""

    to: int
    reason: str = ""


# --- what else shaped the prompt -------------------------------------------------------------------------


class SkillActivated(Struct, frozen=True, tag="skill_activated"):
    name: str
    fingerprint: str = ""
    text: str = ""


class SkillDeactivated(Struct, frozen=True, tag="skill_deactivated"):
    name: str


class Injected(Struct, frozen=True, tag="injected"):
    role: Role
    fingerprint: str
    parts: tuple[Part, ...]
    source: str = ""
    meta: dict[str, Json] = {}


class RunStarted(Struct, frozen=True, tag="run_started"):
    agent: str = ""
    meta: dict[str, Json] = {}


class RunFinished(Struct, frozen=True, tag="run_finished"):
    outcome: Literal["done", "failed", "cancelled", "limit"]
    error: str = ""
    meta: dict[str, Json] = {}


class SendRequested(Struct, frozen=True, tag="send_requested"):
    """Intent to show ``parts`` to the user; confirmed or failed by a later event with the same ``send``."""

    send: str
    parts: tuple[Part, ...]
    meta: dict[str, Json] = {}


class SendConfirmed(Struct, frozen=True, tag="send_confirmed"):
    send: str
    meta: dict[str, Json] = {}


class SendFailed(Struct, frozen=True, tag="send_failed"):
    send: str
    error: str = ""


# --- erasure, damage, and anything else ------------------------------------------------------------------


class Redacted(Struct, frozen=True, tag="redacted"):
    """The payloads of ``seqs`` were erased. Their lines stay, as tombstones (``Entry.was``)."""

    seqs: tuple[int, ...]
    reason: str = ""


class Lost(Struct, frozen=True, tag="lost"):
    """Written by ``repair`` in the place of an entry that no longer verified."""

    note: str = ""


class Noted(Struct, frozen=True, tag="noted"):
    """Anything an embedder wants to keep. ``ref``: the seq it is about."""

    name: str
    data: Json = None
    ref: int = 0


class Unknown(Struct, frozen=True, tag="\x7funknown"):  # on disk it has its own tag: see ``line``
    """An event of a type this version does not know: the type's name, and its JSON byte for byte."""

    name: str
    raw: bytes


Event: TypeAlias = (
    ChatStarted
    | Forked
    | MessageAdded
    | ToolCalled
    | ToolReturned
    | ModelCalled
    | ModelReturned
    | ContextOpened
    | ContextSwitched
    | ContextRecalled
    | ContextCleared
    | Compacted
    | CompactionReverted
    | CheckpointSet
    | Rewound
    | SkillActivated
    | SkillDeactivated
    | Injected
    | RunStarted
    | RunFinished
    | SendRequested
    | SendConfirmed
    | SendFailed
    | Redacted
    | Lost
    | Noted
    | Unknown
)


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One line of the log: an event and what the log says about it.

    ``seq`` is its identity within the chat and the only order; ``ts`` (epoch milliseconds) orders nothing. ``sum`` names
    this entry together with everything before it. ``was``, on a tombstone only: the sum of the line that stood here first,
    which the next ``prev`` still says. ``id`` names the append, on its first entry; ``key`` names this entry.
    ``said_at`` (epoch milliseconds): when it was said; None if it was said when it was written, at ``ts``.
    """

    seq: int
    ts: int
    event: Event
    run: str | None = None
    id: str | None = None
    batch: str | None = None
    synced: int | None = None
    was: str | None = None
    prev: str = ""
    sum: str = ""
    key: str | None = None
    said_at: int | None = None

    @property
    def link(self) -> str:
        """What the next entry's ``prev`` says."""
        return self.was or self.sum

    @property
    def time(self) -> int:
        """When it was said: the time to show."""
        return self.ts if self.said_at is None else self.said_at


class Head(msgspec.Struct, frozen=True):
    """The end of a log. ``(seq, sum)`` names the whole history up to there; an empty chat is ``Head()``."""

    seq: int = 0
    link: str = "0" * 16


def defaults_of(value: msgspec.Struct) -> tuple[Json, ...]:
    missing = len(value.__struct_fields__) - len(value.__struct_defaults__)
    return (msgspec.NODEFAULT,) * missing + value.__struct_defaults__
