"""Writes a golden store: ``python -m tests.golden.make v1-keys``.

A golden store is what one released format looks like on disk. It is made once, by the version that introduced
the format, and read by a test for ever. So this refuses to write where a store is: never run it over an existing
version, and never delete one to make it again. A format that cannot read its golden files has lost chats.
"""

import asyncio
import hashlib
import itertools
import json
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from chatfold import eventlog
from chatfold.eventlog import (
    ChatStarted,
    CheckpointSet,
    Compacted,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextRecalled,
    ContextSwitched,
    Data,
    Entry,
    Event,
    File,
    FileStorage,
    Injected,
    Log,
    Lost,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Reasoning,
    Rewound,
    RunFinished,
    RunStarted,
    SendConfirmed,
    SendFailed,
    SendRequested,
    SkillActivated,
    SkillDeactivated,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
    scan,
)

HERE = Path(__file__).parent
CHAT, FORK, LONG_KEY = "Golden/Chat é", "golden-fork", "k" * 300

LONG = "A line of a file that is read twice.\n" * 30
LARGE, LARGE_BYTES = "large text " * 800, bytes(range(256)) * 34
ODD = {
    "lone surrogates": "\ud83d and \udcff",
    "escape character": "\x7f, \x7f007f, \x7fnan, \x7fb64:AA==, \x7fref:1:2:3",
    "\x7fkey\udc80": [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308],
    "bytes": [b"", b"\x00\xff", b"{}"],
    "integers": [0, -1, 2**53 + 1, 2**64, -(10**40)],
    "text": 'controls \x00\x1b[31m\x1f, quotes "\\/, line ends \n\r\u2028, astral \U0001f600, CJK 日本語',
    "empty": ["", [], {}, None, True, False],
}
SECRET = MessageAdded("system", (Text("secret"),), "internal")
UNKNOWN = Unknown("from_the_future", b'{"type":"from_the_future", "n":1.50,"\\u00e9":[ ]}')

BATCHES: tuple[tuple[Event, ...], ...] = (
    (ChatStarted(CHAT, "Golden", {"made": "once"}), RunStarted("agent", {"n": 1})),
    (MessageAdded("user", (Text("Read it."), File("image/png", b"\x89PNG", "p.png", "file:p"))),),
    (SkillActivated("skill", "0" * 32, "how to"), Injected("developer", "1" * 32, (Text("today"),), "clock")),
    (ModelCalled("m-1", "2" * 32, {"temperature": 0.5}, ("read",), "p"), ModelReturned({"in": 7}, "tool")),
    (ToolCalled("c1", "read", {"path": "a"}, {"k": []}), ToolReturned("c1", (Text(LONG),), meta={"ms": 3})),
    (ToolCalled("c2", "read"), ToolReturned("c2", (Text(LONG), Data("d", {"x": LONG})), failed=True)),
    (Noted("odd", ODD, 2),),
    (UNKNOWN,),
    (MessageAdded("assistant", (Reasoning("hm", "p", "m-1", "sig"), Text("Done.")), "audit", {"a": 1}),),
    (SendRequested("s1", (Text("Done."),), {"to": "user"}), SendConfirmed("s1", {"id": "9"})),
    (SendRequested("s2", ()), SendFailed("s2", "gone"), RunFinished("failed", "error", {"steps": 2})),
    (
        CheckpointSet("here"),
        ContextOpened("x1", "title", "reason", (2,)),
        ContextSwitched("x2", (2, 3), "why"),
    ),
    (ContextRecalled("x1", "full", "recalled"), ContextCleared("tidy", (1,)), SkillDeactivated("skill")),
    (Compacted(1, 9, 9, "summary", "auto", {"keep": 2}, {"before": 90}), CompactionReverted(23, "wrong")),
    (Rewound(3, "again"), SECRET, Lost("as repair writes it")),
    (Noted("large", [LARGE, LARGE_BYTES] * 60),),
)


def ticking(start: int = 1_738_713_600_000) -> Callable[[], int]:
    ticks = itertools.count(start, 1000)
    return lambda: next(ticks)


async def write(store: Path) -> None:
    async with Log(FileStorage(store, clock=ticking(), segment_bytes=2500)) as log:
        secret = 0
        for index, events in enumerate(BATCHES):
            entries = await log.append(CHAT, *events, id=f"id {index}\x7f", run="r1" if index else None)
            secret = next((entry.seq for entry in entries if entry.event == SECRET), secret)
        await log.fork(CHAT, FORK, at=secret)  # in the middle of a batch
        await log.append(FORK, MessageAdded("user", (Text("on my own"),)), ToolReturned("c3", (Text(LONG),)))
        await log.append(LONG_KEY, ChatStarted(LONG_KEY))
        await log.redact(CHAT, secret, reason="asked to")


KEYED, PADDED = "keyed", "padded"
KEYED_SECRET = MessageAdded("user", (Text("keyed secret"),), meta={"m": 1})
KEYED_BATCHES: tuple[tuple[tuple[Event, str | None, int | None], ...], ...] = (
    ((MessageAdded("user", (Text("When was this said?"),)), "m-1", 1_700_000_000_000),),
    (
        (MessageAdded("assistant", (Text("Yesterday."),)), "m-2", 1_700_000_060_000),
        (MessageAdded("user", (Text("When was this said?"),)), "m-1", None),  # known: not written again
        (Noted("without a key"), None, None),
        (ToolReturned("c1", (Text(LONG),)), "m-3", -1),
    ),
    ((Injected("developer", "1" * 32, (Text("today"),), "clock", {"zone": "UTC"}), "i \x7f\ud83d", None),),
    ((SendRequested("s1", (Text(LONG),), {"to": "user"}), "s-1", 1_700_000_120_000),),  # a reference
    ((UNKNOWN, "u-1", 0), (Noted("odd", ODD), "o-1", 1_700_000_180_000)),
    ((KEYED_SECRET, "secret", 1_700_000_240_000),),
    ((Noted("after"), "k" * 1024, 10**18 - 1),),
)


async def write_keyed(store: Path) -> None:
    """Keys and times of single entries, tombstones that have them, and newlines after the last line."""
    async with Log(FileStorage(store, clock=ticking(), segment_bytes=2500)) as log:
        secret = 0
        for index, batch in enumerate(KEYED_BATCHES):
            events, keys, said_at = zip(*batch, strict=True)
            run = "r1" if index else None
            entries = await log.append(KEYED, *events, id=f"id {index}", run=run, keys=keys, said_at=said_at)
            secret = next((entry.seq for entry in entries if entry.event == KEYED_SECRET), secret)
        await log.fork(KEYED, "keyed-fork", at=secret)
        await log.redact(KEYED, secret, reason="asked to")
        await log.append(PADDED, Noted("last"), keys=("last",), said_at=(1_700_000_300_000,))
    pad(store / "chats" / PADDED)


def pad(chat: Path) -> None:
    """As a writer may that makes room for what comes next."""
    last = max(chat.glob("*.jsonl"))
    last.write_bytes(last.read_bytes() + b"\n" * 300)


WRITERS = {"v1": write, "v1-keys": write_keyed}


def plain(value: Any) -> Any:
    """A value in JSON that any reader can compare with: odd ones spelled out, long ones by length and sha256."""
    match value:
        case float() if not math.isfinite(value):
            return {"$float": repr(value)}
        case bytes():
            return {"$bytes": value.hex()} if len(value) <= 80 else _digest("$bytes", value)
        case str() if len(value) > 400:
            return _digest("$text", value.encode())
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return value


def _digest(kind: str, data: bytes) -> dict[str, Any]:
    return {kind: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}


def told(entry: Entry) -> Any:
    if isinstance(entry.event, Unknown):
        event: Any = {"unknown": entry.event.name, "raw": entry.event.raw.decode()}
    else:
        event = msgspec.to_builtins(entry.event, builtin_types=(bytes,))
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__ if name != "event"}
    return plain({**{name: value for name, value in fields.items() if value is not None}, "event": event})


def decoded(store: Path) -> dict[str, Any]:
    """Every entry of every chat of a store, by the name of the chat's folder."""
    return {folder.name: [told(e) for e in scan(folder)] for folder in sorted((store / "chats").iterdir())}


def main(version: str) -> None:
    store = HERE / version
    if store.exists():
        sys.exit(f"{store} exists: golden files are never made again")
    asyncio.run(WRITERS[version](store))
    if version == "v1":
        vocabulary = {kind.__name__ for kind in eventlog.Event.__args__}
        used = {type(e.event).__name__ for folder in (store / "chats").iterdir() for e in scan(folder)}
        assert used == vocabulary, vocabulary - used
    for cache in [store / "trash", *store.glob("chats/*/cache"), *store.glob("chats/*/lock")]:
        shutil.rmtree(cache) if cache.is_dir() else cache.unlink()
    chats = (
        f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, entries)) + "\n]"
        for name, entries in decoded(store).items()
    )
    (store / "expected.json").write_text("{" + ",\n".join(chats) + "}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
