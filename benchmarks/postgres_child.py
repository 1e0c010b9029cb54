"""A writer in a process of its own: ``python -m benchmarks.postgres_child KIND ADDRESS CHAT BIG IDS``.

It says ``ready``, waits for a line with the seconds, writes for so long, and says how often, and how long each time took.
``bare``: one statement of the driver, an UPDATE and an INSERT of the same lines, prepared, binary, nothing compared, nothing
looked up. ``shared``: the same on one row for all such writers. ``storage``: PostgresStorage.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from itertools import count
from time import perf_counter

import msgspec
import psycopg
from psycopg.types.numeric import Int8

from chatfold.eventlog import MessageAdded, Text
from chatfold.eventlog.batch import AppendRequest
from chatfold.eventlog.codec import encode_event
from chatfold.eventlog.postgres.storage import PostgresStorage

TABLES = """CREATE SCHEMA IF NOT EXISTS bare;
CREATE TABLE IF NOT EXISTS bare.chat (id bigint PRIMARY KEY, head bigint NOT NULL) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS bare.line (chat bigint, seq bigint, data bytea NOT NULL, PRIMARY KEY (chat, seq))"""
_SHARED = b"""WITH h AS (UPDATE bare.chat SET head = head + %b WHERE id = %b RETURNING id, head)
INSERT INTO bare.line (chat, seq, data) SELECT h.id, h.head - %b + k, d FROM h, unnest(%b::bytea[]) WITH ORDINALITY AS u(d, k)"""
_BARE = b"""WITH h AS (UPDATE bare.chat SET head = %b WHERE id = %b RETURNING id)
INSERT INTO bare.line (chat, seq, data) SELECT h.id, %b + k, d FROM h, unnest(%b::bytea[]) WITH ORDINALITY AS u(d, k)"""


def requests(chat: str, *, big: bool, ids: bool) -> Iterator[AppendRequest]:
    """small: an entry of about 400 bytes; big: eight of 1750. No two texts are the same."""
    start = os.urandom(6).hex()
    for number in count():
        texts = [
            f"{start}-{number}-{part} ".ljust(1600 if big else 250, "x") for part in range(8 if big else 1)
        ]
        events = tuple(encode_event(MessageAdded("user", (Text(text),))) for text in texts)
        yield AppendRequest(chat, events, id=f"{start}-{number}" if ids else None)


async def write(storage: PostgresStorage, chat: str, seconds: float, *, big: bool, ids: bool) -> list[float]:
    took, end = list[float](), perf_counter() + seconds
    for request in requests(chat, big=big, ids=ids):
        began = perf_counter()
        if began > end:
            break
        await storage.append(request)
        took.append(perf_counter() - began)
    return took


def bare(address: str, chat: str, *, big: bool, is_shared: bool) -> None:
    number = 0 if is_shared else int.from_bytes(os.urandom(7), "big")
    with psycopg.connect(address.partition("?")[0], autocommit=True, prepare_threshold=0) as connection:
        connection.execute("INSERT INTO bare.chat VALUES (%s, 0) ON CONFLICT DO NOTHING", (number,))
        lines = [
            [bytes(event.raw).ljust(len(event.raw) + 130, b" ") for event in one.events]
            for one, _ in zip(requests(chat, big=big, ids=False), range(100), strict=False)
        ]

        def once(turn: int) -> None:
            some = lines[turn % len(lines)]
            if is_shared:
                connection.execute(_SHARED, (Int8(len(some)), Int8(number), Int8(len(some)), some))
                return
            seq = turn * len(some)
            connection.execute(_BARE, (Int8(seq + len(some)), Int8(number), Int8(seq), some))

        for turn in range(20):
            once(turn)
        end = _ready()
        took, turn = list[float](), 20
        while (began := perf_counter()) < end:
            once(turn)
            took.append(perf_counter() - began)
            turn += 1
        _answer(took)


async def storage(address: str, chat: str, *, big: bool, ids: bool) -> None:
    async with PostgresStorage(address) as opened:
        await write(opened, chat, 0.05, big=big, ids=ids)
        seconds = _ready() - perf_counter()
        _answer(await write(opened, chat, seconds, big=big, ids=ids))


def _ready() -> float:
    print("ready", flush=True)
    return perf_counter() + float(sys.stdin.readline())


def _answer(took: list[float]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(took) + b"\n")


def main() -> None:
    kind, address, chat, big, ids = sys.argv[1:]
    if kind in ("bare", "shared"):
        bare(address, chat, big=big == "1", is_shared=kind == "shared")
    else:
        asyncio.run(storage(address, chat, big=big == "1", ids=ids == "1"))


if __name__ == "__main__":
    main()
