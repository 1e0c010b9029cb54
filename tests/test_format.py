"""docs/format.md against the engine: its example is decoded by a reader written from the document alone."""

import base64
import itertools
import json
import math
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from xxhash import xxh3_64_hexdigest, xxh3_128_hexdigest

from chatfold import eventlog
from chatfold.eventlog import (
    FileStorage,
    Log,
    MessageAdded,
    Noted,
    RunFinished,
    Text,
    ToolCalled,
    ToolReturned,
    check,
    scan,
)

DOCUMENT = (Path(__file__).parent.parent / "docs" / "format.md").read_text()
DEL = "\x7f"
TEXT = "x" * 1024
SAID_AT = 1_738_713_540_000
ODD = {"ratio": math.nan, "raw": b"\x00\xff", "half": "\ud83d", "del": DEL}
EVENTS: tuple[tuple[eventlog.Event, ...], ...] = (
    (MessageAdded("user", (Text("Read a.txt twice."),)),),
    (ToolCalled("c1", "read", {"path": "a.txt"}), ToolReturned("c1", (Text(TEXT),))),
    (ToolReturned("c2", (Text(TEXT),)),),
    (Noted("odd", ODD),),
    (RunFinished("done"),),
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)


def example() -> dict[str, bytes]:
    """The files of the worked example, by name, as the document shows them."""
    [block] = blocks("jsonl")
    text = re.sub(r"⟪(\d+) \* (.)⟫", lambda match: match[2] * int(match[1]), block).replace("␡", DEL)
    parts = re.split(r"^# (\S+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.encode() for part in parts[2::2]), strict=True))


async def recorded(store: Path) -> Path:
    clock = itertools.count(1_738_713_600_000, 1000)
    async with Log(FileStorage(store, clock=lambda: next(clock), segment_bytes=2000)) as log:
        for index, events in enumerate(EVENTS):
            if index:
                await log.append("example", *events, run="r1")
            else:
                await log.append("example", *events, id="m-1", keys=("telegram:17",), said_at=(SAID_AT,))
    return store / "chats" / "example"


# --- a reader in another language would look like this ---------------------------------------------------


def verified(line: bytes) -> bytes:
    """Its sum, if it is right."""
    body, total = line[:-26], line[-26:]
    assert total == b',"sum":"%b"}' % xxh3_64_hexdigest(body).encode()
    return total[8:24]


def whole(line: bytes, lines: dict[int, bytes]) -> bytes:
    def put_back(match: re.Match[bytes]) -> bytes:
        seq, at, size = map(int, match.groups())
        return lines[seq][at : at + size]

    return re.sub(rb'"\x7fref:(\d+):(\d+):(\d+)"', put_back, line)


def unescaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {unescaped(key): unescaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unescaped(item) for item in value]
    if not isinstance(value, str) or DEL not in value:
        return value
    if value.startswith(DEL + "b64:"):
        return base64.b64decode(value[5:])
    if value in (DEL + "nan", DEL + "inf", DEL + "-inf"):
        return float(value[1:])
    return re.sub(DEL + "([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), value)


def read(files: dict[str, bytes]) -> list[dict[str, Any]]:
    lines: dict[int, bytes] = {}
    entries: list[dict[str, Any]] = []
    link = b"0" * 16
    for name, data in files.items():
        header, *rest = data.splitlines(keepends=True)
        assert all(line.endswith(b"\n") for line in (header, *rest))
        assert json.loads(header) | {"sum": ""} == {
            "chatfold": 1, "reader": 1, "first": len(lines) + 1, "prev": link.decode(), "sum": ""
        }  # fmt: skip
        assert name == f"{len(lines) + 1:016d}.jsonl"
        verified(header[:-1])
        offset = len(header)
        for line in rest:
            total = verified(line[:-1])
            assert json.loads(line)["prev"] == link.decode()
            if line.startswith(b'{"seal":'):
                seal = json.loads(line)["seal"]
                assert seal.pop("xxh3", None) in (None, xxh3_128_hexdigest(data[:offset]))
                assert seal == {
                    "count": len(rest) - 1,
                    "bytes": offset,
                    "sha256": sha256(data[:offset]).hexdigest(),
                }
            else:
                lines[len(lines) + 1] = line
                entries.append(unescaped(json.loads(whole(line, lines))))
                link = total
            offset += len(line)
    return entries


# --- the example -----------------------------------------------------------------------------------------


async def test_the_example_is_what_the_engine_writes(tmp_path: Path) -> None:
    chat = await recorded(tmp_path)
    assert {path.name: path.read_bytes() for path in sorted(chat.glob("*.jsonl"))} == example()


async def test_the_head_in_the_document_is_what_the_engine_writes(tmp_path: Path) -> None:
    chat = await recorded(tmp_path)
    head = (chat / "head").read_bytes()
    assert len(head) == 200
    assert blocks("head") == [head.rstrip().decode() + "\n"]


async def test_the_export_in_the_document_is_what_the_engine_writes_and_takes(tmp_path: Path) -> None:
    await recorded(tmp_path)
    first, second = example().values()
    seal = first.splitlines(keepends=True)[-1]
    entries = first.removesuffix(seal) + second.partition(b"\n")[2]
    [closing] = blocks("export")
    async with FileStorage(tmp_path) as storage:
        export = b"".join([piece async for piece in storage.export("example")])
        assert export == entries + closing.encode()
        await storage.import_chat("copy", storage.export("example"))
    assert check(tmp_path / "chats" / "copy").problems == []
    assert len(read({"0000000000000001.jsonl": export})) == 6  # it is a segment, too, if it has no blobs


def test_the_example_reads_by_the_document_alone() -> None:
    entries = read(example())
    assert [entry["seq"] for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert [entry.get("batch") for entry in entries] == [None, "1/2", "2/2", None, None, None]
    assert (entries[0]["id"], entries[0]["key"]) == ("m-1", "telegram:17")
    assert [entry.get("said_at", entry["ts"]) for entry in entries[:2]] == [SAID_AT, 1_738_713_601_000]
    assert entries[3]["event"]["parts"] == entries[2]["event"]["parts"] == [{"type": "text", "text": TEXT}]
    odd = entries[4]["event"]["data"]
    assert math.isnan(odd.pop("ratio"))
    assert odd == {name: value for name, value in ODD.items() if name != "ratio"}


def test_the_example_holds_what_it_is_there_for() -> None:
    data = b"".join(example().values())
    for piece in (
        b'"said_at":',
        b'"key":"',
        b'"batch":"2/2"',
        b'"\x7fref:3:',
        b'"\x7fnan"',
        b'"\x7fb64:',
        b"\x7fd83d",
        b"\x7f007f",
        b'{"seal":',
    ):
        assert piece in data


def test_the_example_reads_with_the_engine(tmp_path: Path) -> None:
    for name, data in example().items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o600)
    assert check(tmp_path).problems == []
    events = [entry.event for entry in scan(tmp_path)]
    assert repr(events) == repr([event for batch in EVENTS for event in batch])  # NaN is not equal to itself


@pytest.mark.parametrize("place", range(0, 3000, 37))
def test_a_changed_byte_of_the_example_does_not_read(place: int) -> None:
    [(name, data), second] = example().items()
    place %= len(data)
    changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    with pytest.raises((AssertionError, ValueError)):
        read({name: changed, second[0]: second[1]})


# --- the rest of the document ----------------------------------------------------------------------------


def test_every_event_and_part_is_in_the_document() -> None:
    """Its row gives every field, in order, and the defaults: a reader needs them, since they are left out on disk."""
    [section] = re.findall(r"^## Vocabulary\n(.*?)^## ", DOCUMENT, re.DOTALL | re.MULTILINE)
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) \|$", section, re.MULTILINE))
    kinds = [
        kind for kind in (*eventlog.Event.__args__, *eventlog.Part.__args__) if kind is not eventlog.Unknown
    ]
    assert rows == {str(kind.__struct_config__.tag): kept_fields(kind) for kind in kinds}


def kept_fields(kind: Any) -> str:
    """As the document writes them: ``name`` if it must be there, ``name = default`` if it may be left out."""
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    fields = [f"`{name}`" for name in kind.__struct_fields__[:required]]
    for name, default in zip(kind.__struct_fields__[required:], kind.__struct_defaults__, strict=True):
        value = default.factory() if hasattr(default, "factory") else default
        shown = json.dumps("" if value == b"" else value)  # no bytes are written as an empty string
        fields.append(f"`{name}` = `{shown}`")
    return ", ".join(fields)


def test_limits_in_the_document_are_those_of_the_code() -> None:
    from chatfold.eventlog import codec, keys, line, transfer, values
    from chatfold.eventlog.files import segment, watermark

    for number in (codec.MAX_EVENT, line.MAX_LINE, 2 * line.MAX_LINE, transfer._MOST, values.LONG, values.MAX_DEPTH, codec.MAX_NAME,
                   keys._LIMIT, segment.SEGMENT_BYTES, watermark._WIDTH + 1):  # fmt: skip
        assert f"{number:,}" in DOCUMENT, number


def test_every_file_of_a_chat_is_in_the_document() -> None:
    from chatfold.eventlog.files.check import _OURS

    assert all(f"`{name}`" in DOCUMENT for name in _OURS)
