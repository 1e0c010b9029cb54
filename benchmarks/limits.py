"""What the machine allows: ``python -m benchmarks.limits NAME COUNT SEED`` prints ``[messages a second, bytes a second]``.

Nothing here stores anything. Who stores messages has to encode them, who checks them has to read them once, and all of them go
through memory.
"""

import sys
from collections.abc import Callable
from itertools import islice
from time import perf_counter

import msgspec
from xxhash import xxh3_64_intdigest

from benchmarks.workload import events as workload
from chatfold.eventlog import Event


def encode(events: list[Event], lines: list[bytes]) -> Callable[[], object]:
    encode = msgspec.json.Encoder().encode
    assert lines
    return lambda: [len(encode(event)) for event in events]


def decode(events: list[Event], lines: list[bytes]) -> Callable[[], object]:
    decode = msgspec.json.Decoder(Event).decode
    assert events
    return lambda: [None for line in lines if decode(line) is None]


def xxh3(events: list[Event], lines: list[bytes]) -> Callable[[], object]:
    assert events
    return lambda: [xxh3_64_intdigest(line) for line in lines]


def copy(events: list[Event], lines: list[bytes]) -> Callable[[], object]:
    whole = b"".join(lines)
    assert events
    return lambda: bytearray(whole)


LIMITS = {"msgspec encode": encode, "msgspec decode": decode, "xxh3 of each line": xxh3, "memory copy": copy}


def main() -> None:
    name, count, seed = sys.argv[1:]
    events = list(islice(workload(int(seed)), int(count)))
    lines = [msgspec.json.encode(event) for event in events]
    work = LIMITS[name](events, lines)
    work()
    start = perf_counter()
    work()
    elapsed = perf_counter() - start
    print([len(events) / elapsed, sum(map(len, lines)) / elapsed])


if __name__ == "__main__":
    main()
