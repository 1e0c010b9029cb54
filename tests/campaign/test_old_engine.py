"""The old engine as an oracle: whatever one of the two writes, says or refuses, the other does in the same way.

The programs are drawn by hypothesis and run by both engines, with the same clock and the same ids, in two folders. See
``one_engine`` for what a step is, ``all_there_is`` for what is compared, and ``WANTED`` for what may differ.
"""

import asyncio
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.engines.agent_talks import Talk, judge, record, talks
from tests.support.engines.all_there_is import all_of, files
from tests.support.engines.old_engine import NOT_HERE, Engine, is_here, new_engine, old_engine
from tests.support.engines.one_engine import Step, Work
from tests.support.engines.plain_values import differences, plain
from tests.support.engines.refusing import REFUSED, refuse
from tests.support.engines.step_programs import TOLD_ELSEWHERE, programs
from tests.support.profile import searched

pytestmark = pytest.mark.skipif(not is_here(), reason=NOT_HERE)


class Wanted(NamedTuple):
    """A difference that is meant: the new engine is better there. ``where``: matched with the place of the difference."""

    where: str  # a pattern, such as r"/steps/\d+/check/.*/message"
    why: str  # and in which issue


WANTED: tuple[Wanted, ...] = (
    Wanted(
        r"/files/<root>/chats/[^/]*/erased(/.*)?",
        "an erasure is told to all writers by a file of the chat: the old engine compared the times of its segments",
    ),
    Wanted(
        r"/chats/.*/states/(contexts|turn|calls|sends|skills|lineage|outline)",
        "these states are packed otherwise: what they say is compared as contexts, messages, calls and points (issue 21)",
    ),
    Wanted(
        r"/chats/.*/states/(executions|usage)",
        "where runs and requests began is in no state any more, but in the history: what runs did is compared as runs (issue 21)",
    ),
    Wanted(
        r"/chats/.*/contexts/2(/.*)?",
        "a rewind to an open call leaves it open: the old engine forgot it (issue 21, finding 9.1)",
    ),
    Wanted(
        r"/listed/\d+/is_open",
        "after a rewind to the question the model is to be asked again: the old engine did nothing (issue 21, finding 9.2)",
    ),
    Wanted(
        r"/.*/(messages|messages neutral)/\d+(/(calls|results)/\d+)?/meta",
        "issue 21: a message carries the meta of its event, in which its provider's shape finds what it alone understands",
    ),
    Wanted(r"/.*/event/rules", "issue 21: a call of the model records the number of the prompt rules"),
    Wanted(r"/.*/other_rules", "issue 21: a verdict names the prompt rules whose requests it cannot prove"),
    Wanted(
        r"/.*/(ui/\d+/metadata/(chatfold|keys)|exported ui)(/.*)?",
        "issue 21: a summary says which events it hides, so that a copy made from an export has the same prompt",
    ),
    Wanted(
        r"/(other agent|without tools|changed/\d+)/entries",
        "issue 22: what a run begins with is one append, and what diverges in it leaves nothing of it rehearsed",
    ),
    Wanted(
        r"/chats/.*/contexts/0/\d+/type|/results/\d+/usage/type", "issue 21: the two classes have other names"
    ),
    Wanted(
        r"/chats/.*/contexts/0/\d+/title",
        "issue 23: an archived context without a title goes by its first question",
    ),
    Wanted(
        r"/verdict/snapshots",
        "a snapshot that the old engine kept is none of the new one's, which counts its windows",
    ),
)


@pytest.fixture(autouse=True)
def old_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old engine's lines have no number of prompt rules, which is 1: with another, no line after a request is the same."""
    for module in (
        "agent.request",
        "projections.prompt",
        "replay.verify.requests",
        "replay.verify.verdict",
        "replay.verify.rehearsal",
    ):
        monkeypatch.setattr(f"chatfold.{module}.PROMPT_RULES", 1)


def agree(old: Any, new: Any) -> None:
    """The one place where what the engines did is compared."""
    if old == new:
        return
    found = [
        f"{where}\n  old {_short(one)}\n  new {_short(other)}"
        for where, one, other in differences(old, new)
        if not any(re.fullmatch(wanted.where, where) for wanted in WANTED)
    ]
    assert not found, "\n".join(["the engines differ", *found[:8]])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 600 else f"{text[:300]} … {text[-300:]}"


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder: in memory, where there is such a place."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as path:
        yield Path(path)


def done(steps: Sequence[Step], root: Path, engines: Iterable[Engine], **how: Any) -> dict[str, Any]:
    """What came of the steps, and every file that is there then. After a step that reopens, the next engine goes on."""

    async def do() -> list[Any]:
        turns = iter(engines)
        async with Work(next(turns), root, **how) as work:
            outcomes = []
            for step in steps:
                if step.verb == "reopen":
                    work.engine = next(turns)
                outcomes.append(await work.do(step))
            return outcomes

    return {"steps": asyncio.run(do()), "files": files(root)}


def both(steps: Sequence[Step], folder: Path, **how: Any) -> None:
    """Each engine does the steps in its own folder, ``folder/old`` and ``folder/new``."""
    agree(*(done(steps, folder / one.name, cycle([one]), **how) for one in (old_engine(), new_engine())))


def read_crosswise(folder: Path) -> None:
    """Each engine says of the other's files, caches and all, what the other says of its own: the files are the same."""
    old, new = old_engine(), new_engine()
    by_old, by_new = all_of(old, folder / new.name), all_of(new, folder / old.name)
    agree(asyncio.run(by_old), asyncio.run(by_new))


durabilities = st.sampled_from(("full", "off"))


@searched(1 / 1)
@given(programs("healthy"), durabilities)
def test_both_write_the_same_bytes(steps: list[Step], durability: str) -> None:
    """The same steps by the same clock give the same answers, the same refusals and the same files."""
    with scratch() as folder:
        both(steps, folder, durability=durability)


@searched(1 / 3)
@given(programs("talking"))
def test_each_reads_what_the_other_wrote(steps: list[Step]) -> None:
    """Entries, messages of every shape, contexts, lists, searches and exports of a store are the same by both engines."""
    with scratch() as folder:
        both(steps, folder)
        read_crosswise(folder)


@searched(1 / 2)
@given(programs("healthy"), st.booleans())
def test_one_goes_on_where_the_other_stopped(steps: list[Step], old_first: bool) -> None:
    """Engines that take turns in one store, caches and all, write what one engine alone writes."""
    pair = (old_engine(), new_engine()) if old_first else (new_engine(), old_engine())
    turns = [Step("reopen") if at % 4 == 3 else step for at, step in enumerate(steps)]
    with scratch() as folder:
        alone = done(turns, folder / "alone", cycle([old_engine()]))
        agree(alone, done(turns, folder / "turns", cycle(pair)))


@searched(1 / 3)
@given(programs("erasing"))
def test_both_erase_the_same(steps: list[Step]) -> None:
    """What is erased in a chat is erased in its forks and copies, with the same bytes left, and reads the same."""
    with scratch() as folder:
        both(steps, folder)
        read_crosswise(folder)


@searched(1 / 2)
@given(programs("tearing"), durabilities)
def test_both_mend_the_same_torn_ends(steps: list[Step], durability: str) -> None:
    """What a crash left is cut off at the same byte, set aside whole, and told in the same words."""
    with scratch() as folder:
        both(steps, folder, durability=durability)


@searched(1 / 1)
@given(programs("mending"))
def test_both_judge_damage_the_same(steps: list[Step]) -> None:
    """check, repair and salvage say and do the same about any damage.

    Nothing is written between: whether a writer meets damage before the end depends on what it has to read for an id or a
    long text, and the new engine believes no cache of these that the log does not prove.
    """
    broken = next((at for at, step in enumerate(steps) if step.verb == "break"), len(steps))
    judging = [step for step in steps[broken:] if step.verb in ("break", "check", "repair", "salvage")]
    with scratch() as folder:
        both([*steps[:broken], *judging], folder)


@pytest.mark.parametrize("way", TOLD_ELSEWHERE)
def test_both_tell_of_what_they_tell_at_another_place(way: str) -> None:
    """Not in the same words, and not to the same verbs: so this damage is in no program."""
    texts = ["a plan " * 90] * 12
    steps = [Step("assistant", text=text) for text in texts] + [Step("break", text=way, second=1)]
    with scratch() as folder:
        for one in (old_engine(), new_engine()):
            done(steps, folder / one.name, cycle([one]))
            path = one.chat_path(folder / one.name, "a")
            assert len([*path.glob("*.jsonl")]) > 1
            assert not one.eventlog.check(path).ok
            with pytest.raises(one.eventlog.CorruptLog):
                list(one.eventlog.scan(path))


@searched(1 / 4)
@given(programs("mending"))
def test_each_reads_what_the_other_repaired(steps: list[Step]) -> None:
    """After a repair by one engine, both say the same of what is left; and of what is still damaged, where and why."""
    mended = [*steps, Step("repair", "a"), Step("repair", "b")]
    with scratch() as folder:
        both(mended, folder)
        read_crosswise(folder)


@searched(1 / 12)
@given(programs("large", most=8))
def test_both_keep_large_texts_the_same(steps: list[Step]) -> None:
    """What does not fit into a line is kept, forked, erased, lost and repaired as the same blobs."""
    with scratch() as folder:
        both(steps, folder)
        read_crosswise(folder)


@searched(1 / 3)
@given(talks(), st.integers(0, 40))
def test_both_record_and_replay_the_same_runs(talk: Talk, place: int) -> None:
    """A run of an agent is the same events by both, and the new engine's replays judge the old one's recording as its own.

    It is not the same lines: what a run begins with is one append now, with notes that are found by their keys (issue 22), so
    the old engine's replays find no run in them.
    """
    old, new = old_engine(), new_engine()
    with scratch() as folder:
        agree(*(_recorded(one, folder / one.name, talk) for one in (old, new)))
        of_old, of_new = (judge(new, folder / one.name, place) for one in (old, new))
        agree(asyncio.run(of_old), asyncio.run(of_new))


def _recorded(engine: Engine, root: Path, talk: Talk) -> dict[str, Any]:
    results = asyncio.run(record(engine, root, talk))
    chats = sorted(root.glob("chats/*"))
    lines = {
        chat.name: b"".join(file.read_bytes() for file in sorted(chat.glob("*.jsonl"))) for chat in chats
    }
    events = {
        name: [line["event"] for line in map(json.loads, some.splitlines()) if "event" in line]
        for name, some in lines.items()
    }
    return {"results": results, "events": events}


@pytest.mark.parametrize("case", REFUSED)
def test_both_refuse_in_the_same_words(case: str) -> None:
    """What is refused is refused by both: the same error, its place and the next step told in the same words, no trace left."""
    with scratch() as folder:
        agree(*(_refused(one, folder / one.name, case) for one in (old_engine(), new_engine())))


def _refused(engine: Engine, root: Path, case: str) -> dict[str, Any]:
    error = asyncio.run(refuse(engine, root, case))
    assert error is not None
    return {"refused": plain(error, root), "files": files(root)}


def test_the_old_engine_reads_keys_and_times() -> None:
    """It skips the fields that it does not know, shows the rest as it is, and goes on after it."""
    old, new = old_engine(), new_engine()
    golden = Path(__file__).parent.parent / "golden" / "v1-keys" / "chats"
    for chat in ("keyed", "keyed-fork"):
        with scratch() as folder:
            shutil.copytree(golden / chat, folder / "chats" / chat)
            for path in folder.rglob("*"):
                path.chmod(0o700 if path.is_dir() else 0o600)
            path = folder / "chats" / chat
            by_old, by_new = ([*one.eventlog.scan(path)] for one in (old, new))
            assert any(entry.key for entry in by_new)
            without = [_without_later(entry) for entry in by_new]
            agree(*([plain(entry, folder) for entry in some] for some in (by_old, without)))
            assert old.eventlog.check(path).problems == []
            asyncio.run(_go_on(old, folder, chat))
            assert new.eventlog.check(path).problems == []


def _without_later(entry: Any) -> Any:
    event = entry.event
    if type(event).__name__ == "Injected":
        event = replace(event, meta={})
    return replace(entry, event=event, key=None, said_at=None)


async def _go_on(engine: Engine, root: Path, chat: str) -> None:
    async with engine.eventlog.Log(engine.eventlog.FileStorage(root)) as log:
        await log.append(chat, engine.eventlog.Noted("more"))
