"""Searching: how fast entries are indexed, and how soon the first hits are there."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter

from benchmarks.eventlog_store import chat_folder
from benchmarks.measure import Row, at_least, at_most, interleave, limited, progress
from benchmarks.projections_store import CHAT, SHOWN, Built
from chatfold.eventlog import Entry, scan
from chatfold.eventlog.codec import decode
from chatfold.eventlog.files.disk import Disk
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.search_files import StoredSearchIndex
from chatfold.eventlog.search_text import text_of

_BATCH = 1_000
_HITS = 20
_QUERIES = 12  # of each kind
_SAMPLE = 2_000  # entries from which they are taken
_CJK = re.compile("[\u4e00-\u9fff]{6,}")
_WORD = re.compile("[a-z]{4,}")
_ID = re.compile('id="([0-9a-f]{16})"')


def rows(root: Path, folder: Path, rounds: int, built: Built) -> Iterator[Row]:
    progress("search")
    entries = list(scan(chat_folder(root, CHAT)))
    made = [StoredSearchIndex(folder / "search" / str(index) / "search") for index in range(rounds)]
    unused = iter(made)

    def fill() -> float:
        """Messages a second. What lies between them is indexed, too, and not counted."""
        index = next(unused)
        start = perf_counter()
        for first in range(0, len(entries), _BATCH):
            index.add(entries[first : first + _BATCH])
        return built.messages / (perf_counter() - start)

    rates = interleave(rounds, {"index": fill}, warm_up=False)["index"]
    assert made[0].head.seq == built.entries
    name = f"search index of {built.messages:,} messages, in batches of {_BATCH:,}"
    yield limited(name, "messages/s", rates, "the limit", at_least(20_000))
    queries = _queries([entry for entry in entries if isinstance(entry.event, SHOWN)])
    times = _find(made[0], _reader(root), queries, rounds)
    name = f"search in {built.messages:,} messages, first {_HITS} hits"
    every = [one for of_kind in times.values() for one in of_kind]
    yield limited(f"{name}, median of {len(every)} queries", "ms", every, "the limit", at_most(20))
    for kind, of_kind in times.items():
        yield limited(f"{name}, {kind}", "ms", of_kind, "the limit", at_most(20))
    yield limited(f"{name}, the slowest query", "ms", [max(every)], "")


def _find(
    index: StoredSearchIndex, read: Callable[[int], Entry], queries: dict[str, list[str]], rounds: int
) -> dict[str, list[float]]:
    """Milliseconds of each query, the median of its rounds."""
    taken: dict[str, list[list[float]]] = {kind: [[] for _ in some] for kind, some in queries.items()}
    for _ in range(rounds):
        for kind, some in queries.items():
            for query, times in zip(some, taken[kind], strict=True):
                start = perf_counter()
                hits = index.find(query, read, limit=_HITS)
                times.append((perf_counter() - start) * 1e3)
                assert bool(hits) == (kind != "no hit"), query
    return {kind: [median(times) for times in of_kind] for kind, of_kind in taken.items()}


def _reader(root: Path) -> Callable[[int], Entry]:
    """From the disk, as the log has it: a hit is shown as it stands there now."""
    folder = LogReader(chat_folder(root, CHAT), CHAT, Disk())
    return lambda seq: decode(folder.resolve_line(folder.line(seq)))


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
        "common word": words[:_QUERIES],
        "two CJK characters": [run[2:4] for run in random.sample(runs, _QUERIES)],
        "two words": [" ".join(pair) for pair in pairs],
        "no hit": [f"{word}qqx" for word in words[:_QUERIES]],
    }
