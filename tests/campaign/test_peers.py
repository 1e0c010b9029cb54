"""Every peer that is installed keeps the same messages and gives them back: thirty of them, or a hundred where a summary is needed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.child import carry_out, digest
from benchmarks.conversation import SUMMARY, WINDOW, history, is_summary, short
from benchmarks.peers import OURS, PEERS, jobs_of

SAID = [message for turn in history(3, 100) for message in turn]
# LangGraph, ADK and the like take seconds to import, and their warnings are not ours: they are tried by ``benchmarks --quick``.
QUICK = ("chatfold", "bare", "sqlite", "jsonl", "lmdb_store", "eventsourcing_store")


def able(job: str) -> list[str]:
    found = []
    for peer in PEERS.values():
        if peer.module in QUICK:
            try:
                found += [peer.label] if job in jobs_of(peer) else []
            except ImportError:
                found += []  # not installed
    return found


def done(label: str, job: str, place: Path, **what: Any) -> Any:
    answer = carry_out({"peer": label, "job": job, "place": str(place), **what})
    assert not answer.get("error")
    assert not answer.get("wrong")
    return answer.get("digest")


@pytest.mark.parametrize("appenders", [1, 3])
@pytest.mark.parametrize("chats", [1, 3])
@pytest.mark.parametrize("label", able("append"))
def test_what_is_appended_is_kept(tmp_path: Path, label: str, appenders: int, chats: int) -> None:
    if chats <= appenders:
        what = {"appenders": appenders, "chats": chats, "seconds": 60, "turns": 6, "seed": 1}
        done(label, "append", tmp_path / "store", **what)


def test_something_is_appended_however_little_time_there_is(tmp_path: Path) -> None:
    what = {"appenders": 1, "chats": 1, "seconds": 0, "turns": 6, "seed": 1}
    answer = carry_out({"peer": "naive JSONL", "job": "append", "place": str(tmp_path / "store"), **what})
    assert answer["value"] > 0


@pytest.mark.smoke
@pytest.mark.parametrize("label", able("next"))
def test_a_long_chat_is_given_back(tmp_path: Path, label: str) -> None:
    place = tmp_path / "store"
    done(label, "build", place, seed=3, count=100)
    assert done(label, "next", place, window=WINDOW) == digest(SAID[-WINDOW:])
    assert done(label, "last", place, window=WINDOW, times=1) == digest(SAID[-WINDOW:])
    assert done(label, "replay", place, check=True) == digest(SAID)


@pytest.mark.parametrize("label", able("at"))
def test_time_travel_shows_what_was_seen_then(tmp_path: Path, label: str) -> None:
    ends = [sum(map(len, list(history(3, 100))[: at + 1])) for at in range(5)]
    assert not any(map(is_summary, SAID[: ends[-1]]))
    done(label, "build", tmp_path / "store", seed=3, count=100)
    points = [(end, end) for end in ends]
    seen = digest(message for end in ends for message in SAID[:end])
    assert done(label, "at", tmp_path / "store", window=WINDOW, points=points) == seen


@pytest.mark.parametrize("label", able("fork"))
def test_a_fork_has_what_the_chat_had(tmp_path: Path, label: str) -> None:
    done(label, "build", tmp_path / "store", seed=3, count=100)
    for _ in range(2):  # what was forgotten can be forked again
        assert done(label, "fork", tmp_path / "store", at=99, window=WINDOW) == digest(SAID[-WINDOW:-1])
    assert done(label, "next", tmp_path / "store", window=WINDOW) == digest(SAID[-WINDOW:])


@pytest.mark.parametrize("label", able("compact"))
def test_a_compaction_leaves_the_summary_and_the_end(tmp_path: Path, label: str) -> None:
    summary = {"role": "assistant", "content": f"{SUMMARY}in short"}
    done(label, "build", tmp_path / "store", seed=3, count=100)
    what = {"window": WINDOW, "keep": 1, "summary": summary}
    assert done(label, "compact", tmp_path / "store", **what) == digest([summary, SAID[-1]])


@pytest.mark.parametrize("label", able("small"))
def test_small_chats_are_given_back(tmp_path: Path, label: str) -> None:
    done(label, "build_small", tmp_path / "store", chats=3, count=10)
    said = digest(message for chat in range(3) for turn in short(chat, 10) for message in turn)
    assert done(label, "small", tmp_path / "store", chats=3, count=10) == said


@pytest.mark.parametrize("label", able("search"))
def test_a_word_that_was_said_is_found(tmp_path: Path, label: str) -> None:
    done(label, "build", tmp_path / "store", seed=3, count=100)
    word = next(word for word in SAID[-1]["content"].split() if word.isalpha() and len(word) > 3)
    done(label, "search", tmp_path / "store", queries=[word])


@pytest.mark.smoke
def test_a_loss_is_noticed(tmp_path: Path) -> None:
    assert digest(SAID) != digest(SAID[:-1])
    assert digest(SAID) != digest([*SAID[:-1], {**SAID[-1], "content": "other"}])
    assert digest(SAID) == digest(reversed(SAID))


def test_a_peer_that_fails_says_so(tmp_path: Path) -> None:
    answer = carry_out({"peer": OURS, "job": "next", "place": str(tmp_path / "nothing"), "window": WINDOW})
    assert answer["error"].startswith("AssertionError")


def test_the_process_answers_each_order_and_names_what_it_can(tmp_path: Path) -> None:
    orders = (
        b'{"peer":"naive JSONL","job":"build","seed":3,"count":100,"place":"%b"}\n' % str(tmp_path).encode()
    )
    top = Path(__file__).parents[2]
    for options in ([], ["--forks"]):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.child", "jsonl", *options],
            input=orders,
            cwd=top,
            env={**os.environ, "PYTHONPATH": str(top)},
            capture_output=True,
            check=True,
            timeout=60,
        )
        hello, answer = done.stdout.splitlines()
        assert b'"naive JSONL":["append"' in hello
        assert answer == b'{"value":0}'


@pytest.mark.parametrize("module", sorted({peer.module for peer in PEERS.values()} - set(QUICK)))
def test_a_framework_that_is_installed_gives_the_messages_back(tmp_path: Path, module: str) -> None:
    """In a process of its own: they are slow to import, and what they warn of is not ours."""
    labels = [peer.label for peer in PEERS.values() if peer.module == module]
    orders = [
        {
            "peer": label,
            "job": job,
            "place": str(tmp_path / str(at)),
            "seed": 3,
            "count": 100,
            "window": WINDOW,
        }
        for at, label in enumerate(labels)
        for job in ("build", "next")
    ]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.child", module],
        input=b"".join(msgspec.json.encode(order) + b"\n" for order in orders),
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=100,
    )
    hello, *answers = map(msgspec.json.decode, done.stdout.splitlines())
    if "jobs" not in hello:
        pytest.skip(hello["error"])
    assert [answer.get("error") for answer in answers] == [None] * len(orders)
    assert {answer["digest"] for answer in answers[1::2]} == {digest(SAID[-WINDOW:])}


def test_a_peer_that_is_not_there_is_named() -> None:
    top = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", "nowhere"],
        cwd=top,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert b"ModuleNotFoundError" in done.stdout
