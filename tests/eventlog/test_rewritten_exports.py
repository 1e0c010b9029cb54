"""An export of entries that were changed: another chat, of which everything but the sums and the changes is the same."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import Entry, Event, Log, Lost, MemoryStorage, Noted, Unknown
from chatfold.eventlog.transfer import RedactedExport
from chatfold.testing.strategies import batches, names, same_entries
from tests.support.exporting import LARGE, adopt, read


def rewritten(entries: Iterable[Entry], size: int = 3) -> bytes:
    rewriting, some = RedactedExport(), list(entries)
    pages = [some[at : at + size] for at in range(0, len(some), size)]
    return b"".join([rewriting.begin(), *map(rewriting.page, pages), rewriting.end()])


async def through(entries: list[Entry]) -> list[Entry]:
    """As they are read after an import."""
    async with Log(MemoryStorage()) as log:
        await adopt(log.storage, "copy", rewritten(entries))
        return await read(log, "copy")


@given(
    st.lists(st.tuples(batches(), st.none() | names()), min_size=1, max_size=5),
    st.sets(st.integers(1, 8), max_size=2),
)
async def test_what_was_not_changed_is_the_same_and_can_be_imported(
    appends: list[tuple[tuple[Event, ...], str | None]], gone: set[int]
) -> None:
    async with Log(MemoryStorage(clock=lambda: 7)) as log:
        for number, (batch, name) in enumerate(appends):
            await log.append("chat", *batch, run=name, id=name and f"{name}{number}"[:1000])
        end = (await log.head("chat")).seq
        await log.redact("chat", *(seq for seq in gone if seq <= end))
        entries = await read(log, "chat")
    assert same_entries(await through(entries), entries, sums=False)


def test_what_stood_there_before_leaves_no_trace_in_the_sums() -> None:
    def changed(was: str) -> bytes:
        erased = Entry(2, 6, Noted("erased"), was=was, prev=was, sum=was)
        return rewritten([Entry(1, 5, Noted("x"), sum=was), erased, Entry(3, 7, Noted("last"), prev=was)])

    assert changed("a" * 16) == changed("b" * 16)


async def test_texts_that_are_too_large_for_a_line_go_along_once() -> None:
    entries = [Entry(seq, 1, LARGE, batch=f"{seq}/2") for seq in (1, 2)]
    assert [entry.event for entry in await through(entries)] == [LARGE, LARGE]
    assert rewritten(entries, 1).count(b'{"blob":') == 2  # a text and a picture


@pytest.mark.campaign
async def test_what_cannot_be_written_again_is_lost_and_says_so() -> None:
    no_longer_unknown = Unknown("lost", b'{"type":"lost"}')
    huge = Noted("n", [1] * 1_000_000)
    entries = [Entry(1, 1, no_longer_unknown), Entry(2, 1, huge), Entry(3, 1, Noted("after"))]
    assert [entry.event for entry in await through(entries)] == [
        *[Lost("it could not be written again")] * 2,
        Noted("after"),
    ]
