"""Searching: how soon the first hits are there, by a scan from the end and without an index."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter, process_time

from benchmarks.eventlog_store import chat_folder
from benchmarks.measure import Row, at_most, limited, progress
from benchmarks.projections_store import CHAT, SHOWN, Built
from chatfold.eventlog import Entry, FileStorage, Log, scan
from chatfold.eventlog.search_text import text_of

_HITS = 20
_QUERIES = 12  # of each kind
_SAMPLE = 2_000  # entries from which they are taken
_CJK = re.compile("[\u4e00-\u9fff]{6,}")
_WORD = re.compile("[a-z]{4,}")
_ID = re.compile('id="([0-9a-f]{16})"')
_COMMON, _NONE = "common word", "no hit"


def rows(root: Path, rounds: int, built: Built) -> Iterator[Row]:
    progress("search")
    queries = _queries([entry for entry in scan(chat_folder(root, CHAT)) if isinstance(entry.event, SHOWN)])
    times, busy = asyncio.run(_find(root, queries, rounds))
    name = f"search in {built.messages:,} messages, first {_HITS} hits"
    for kind, of_kind in times.items():
        target = at_most(5) if kind == _COMMON else None
        yield limited(f"{name}, {kind}", "ms", of_kind, "the limit" if target else "", target)
    name = f"search in {built.messages:,} messages, {_NONE}, processor time"
    yield limited(name, "ms", busy[_NONE], "the limit", at_most(260))


async def _find(
    root: Path, queries: dict[str, list[str]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Milliseconds of each query, by the clock and of the processor: the medians of its rounds."""
    taken: dict[str, list[list[float]]] = {kind: [[] for _ in some] for kind, some in queries.items()}
    busy: dict[str, list[list[float]]] = {kind: [[] for _ in some] for kind, some in queries.items()}
    async with Log(FileStorage(root, read_only=True)) as log:
        for _ in range(rounds):
            for kind, some in queries.items():
                for number, query in enumerate(some):
                    start, begun = perf_counter(), process_time()
                    hits = await log.search(CHAT, query, limit=_HITS)
                    taken[kind][number].append((perf_counter() - start) * 1e3)
                    busy[kind][number].append((process_time() - begun) * 1e3)
                    assert bool(hits) == (kind != _NONE), query
    return _medians(taken), _medians(busy)


def _medians(taken: dict[str, list[list[float]]]) -> dict[str, list[float]]:
    return {kind: list(map(median, of_kind)) for kind, of_kind in taken.items()}


def _queries(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """Taken from the chat's own texts."""
    random = Random(7)
    texts = [text_of(entry) for entry in random.sample(entries, min(_SAMPLE, len(entries)))]
    counts = Counter(word for text in texts for word in _WORD.findall(text))
    words = sorted(counts, key=lambda word: (-counts[word], word))
    ids = sorted({one for text in texts for one in _ID.findall(text)})
    runs = sorted({one for text in texts for one in _CJK.findall(text)})
    wordy = [found for found in map(_WORD.findall, texts) if len(found) > 10]
    pairs = [random.sample(found, 2) for found in random.sample(wordy, _QUERIES)]
    return {
        "rare word": random.sample(ids, _QUERIES),
        _COMMON: words[:_QUERIES],
        "two CJK characters": [run[2:4] for run in random.sample(runs, _QUERIES)],
        "two words": [" ".join(pair) for pair in pairs],
        _NONE: [f"{word}qqx" for word in words[:_QUERIES]],
    }
