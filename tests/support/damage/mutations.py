"""Mutations that know the structure of what they change: bytes of lines, and JSON-like values of messages."""

import copy
import math
import random
from typing import Any

from chatfold.eventlog.line import add_checksum

FRAGMENTS = (
    b'"', b"}", b"{", b"]", b"[", b",", b":", b"\\", b"\n", b"\r\n", b"\x7f", b"\\u007f", b"\xff", b"\0", b" ", b"null",
    b"-1", b"0", b"1e999", b"NaN", b"9" * 30, b"9" * 4_400, b"[" * 150 + b"]" * 150, b"[" * 3_000, b'"seq":2,', b'{"seq":1,',
    b'{"seq":', b'{"seal":', b'{"chatfold":1,', b'"event":{"type":"lost"}', b',"batch":"1/2"', b',"batch":"0/0"',
    b',"synced":9', b',"was":"0123456789abcdef"', b',"prev":"0123456789abcdef"', b',"sum":"0123456789abcdef"}', b'"\x7fnan"',
    b'"\x7fb64:A"', b'"\x7fref:1:40:9"', b'"\x7fref:0:0:1"', b'"\x7fref:99999:1:1"', b'"\x7ftext:%b"' % (b"0" * 64),
    b'"type":"lost"', b'"type":7', b'"id":"x",', b'"run":"",', b"\xed\xa0\x80", b"\xc0\xaf", b"\xef\xbb\xbf", "\u2028".encode(),
)  # fmt: skip


def mutated(chance: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """One to three changes: bits, pieces left out, said again, put in, exchanged, or taken from another one."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        start = chance.randint(0, len(data))
        end = min(len(data), start + chance.choice((0, 1, 1, 2, 8, 40, 400)))
        match chance.randrange(7):
            case 0 if data:
                at = chance.randrange(len(data))
                data = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
            case 1:
                data = data[:start] + data[end:]
            case 2:
                data = data[:end] + data[start:end] + data[end:]
            case 3:
                data = data[:start] + data[end:] + data[start:end]
            case 4:
                other = chance.choice(others)
                at = chance.randint(0, len(other))
                data = data[:start] + other[at : at + end - start] + data[end:]
            case 5:
                data = data[:start] + chance.randbytes(end - start) + data[end:]
            case _:
                data = data[:start] + chance.choice(FRAGMENTS) + data[end:]
    return data


def forged(chance: random.Random, line: bytes, others: list[bytes]) -> bytes:
    """Changed by somebody who knows how sums are made."""
    body, mark, _ = line.rpartition(b',"sum":"')
    kept, mark, prev = body.rpartition(b',"prev":"') if chance.random() < 0.8 else (body, b"", b"")
    return add_checksum(mutated(chance, kept, others) + mark + prev)


HOSTILE: tuple[Any, ...] = (
    None, True, 0, -1, 2**64, 10**30, 1.5, math.nan, math.inf, "", "x", "\0", "\ud800", "\x7fnan", "\u2028", "data:,", "data:x/y;base64,*",
    "https://x", "{}", "[", '{"a":', [], {}, [[]], [None], {"": None}, {"type": "text"}, {"type": "nonsense"}, {"type": None},
    {"type": "text", "text": 7}, {"role": "user"}, {"id": 7}, b"bytes", (1, 2), "tool_use", "tool_result", "assistant",
)  # fmt: skip


def mutated_value(chance: random.Random, value: Any) -> Any:
    """One to three places in it hold something else, are gone, or are there twice."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return chance.choice(HOSTILE)
        holder, key = chance.choice(places)
        match chance.randrange(5):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 2:
                other, at = chance.choice(places)
                holder[key] = copy.deepcopy(other[at])
            case 3 if isinstance(holder, dict):
                holder[chance.choice(("", "type", "role", "content", "id", "\ud800", key))] = chance.choice(
                    HOSTILE
                )
            case _:
                holder[key] = copy.deepcopy(chance.choice(HOSTILE))
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(list or dict, index or key) of everything inside."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        holder = todo.pop()
        keys = (
            range(len(holder))
            if isinstance(holder, list)
            else list(holder)
            if isinstance(holder, dict)
            else ()
        )
        for key in keys:
            found.append((holder, key))
            todo.append(holder[key])
    return found
