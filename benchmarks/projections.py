"""Projections: listing, opening, folding, going back, rebuilding, searching."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from benchmarks import projections_fold, projections_listing, projections_open, projections_search
from benchmarks.eventlog_store import remove
from benchmarks.measure import QUICK_ROUNDS, Row, progress
from benchmarks.projections_store import Built, build

_FEW = 1_000
_SEED = 8


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    rounds = QUICK_ROUNDS if quick else 15
    many = 10_000 if quick else 1_000_000
    yield from projections_listing.rows(folder, rounds, 300 if quick else 10_000)
    small, middling, large = folder / "small", folder / "middling", folder / "large"
    _build(small, _FEW)
    talk = _build(middling, 6_000 if quick else 150_000)  # two entries in three are messages
    yield from projections_search.rows(middling, 5, talk)
    remove(middling)
    built = _build(large, many)
    yield from projections_open.against_small(large, small, rounds, many, _FEW)
    yield from projections_open.behind(large, small, rounds, many, _FEW)
    yield from projections_fold.one_more(large, small, rounds, many, _FEW)
    yield from projections_fold.any_seq(large, 20 if quick else 100, built)
    yield from projections_fold.rebuilt(large, 5, built)
    remove(large)
    yield from projections_fold.rebuilt_plain(
        folder, QUICK_ROUNDS if quick else 5, 5_000 if quick else 100_000
    )


def _build(root: Path, entries: int) -> Built:
    progress(f"building a chat of {entries:,} entries")
    return asyncio.run(build(root, _SEED, entries))
