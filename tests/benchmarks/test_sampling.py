"""Peers are asked in processes of their own: built two at a time, opened in new ones, and one that dies is named."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import children
from benchmarks.child import digest
from benchmarks.children import Children
from benchmarks.conversation import WINDOW, history
from benchmarks.peers import FULL, OURS, PEERS
from benchmarks.sampling import Bench, build, sample

SAID = [message for turn in history(3, 100) for message in turn]
JSONL = "naive JSONL"
LABELS = [OURS, FULL, JSONL]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Only with what is always there, and quick to import."""
    monkeypatch.setattr(children, "PEERS", {label: PEERS[label] for label in LABELS})
    with Children(quick=False) as running:
        yield Bench(running, tmp_path, rounds=2, quick=False)


def order(bench: Bench, label: str, job: str, **what: object) -> dict[str, Any]:
    place = str(bench.folder / str(LABELS.index(label)))
    return {"job": job, "place": place, "seed": 3, "count": 100, "window": WINDOW, **what}


@pytest.mark.campaign
def test_all_are_built_and_each_opens_in_a_new_process(bench: Bench) -> None:
    built = build(bench, LABELS, lambda label: order(bench, label, "build"))
    assert set(built.values) == set(LABELS)
    opened = sample(
        bench,
        LABELS,
        lambda label, _: order(bench, label, "next", new=True),
        digest=digest(SAID[-WINDOW:]),
    )
    assert not opened.failed
    assert {label: len(values) for label, values in opened.values.items()} == dict.fromkeys(LABELS, 2)
    assert not bench.children.spare


@pytest.mark.campaign
def test_who_cannot_be_built_is_named_and_the_others_are(bench: Bench) -> None:
    (bench.folder / str(LABELS.index(JSONL))).write_bytes(b"no folder")
    built = build(bench, LABELS, lambda label: order(bench, label, "build"))
    assert set(built.values) == {OURS, FULL}
    assert "FileExistsError" in built.failed[JSONL]


@pytest.mark.campaign
def test_a_process_that_died_is_named_and_the_others_go_on(bench: Bench) -> None:
    child = bench.children.running["jsonl"]
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    built = build(bench, LABELS, lambda label: order(bench, label, "build"))
    assert set(built.values) == {OURS, FULL}
    assert "process" in built.failed[JSONL]
    again = sample(bench, LABELS, lambda label, _: order(bench, label, "next"))
    assert set(again.values) == {OURS, FULL}
    assert "process" in again.failed[JSONL]
