"""The history of a chat, in chapters of any size, against a look at every entry."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import Entry, Event, MessageAdded, ModelCalled, RunStarted
from chatfold.projections import history as module
from chatfold.projections.history import (
    ANSWERED,
    ASKED,
    CALLED,
    INTERNAL,
    RUN,
    Chapter,
    History,
    changes,
    of_entries,
)
from chatfold.testing.strategies import events
from tests.support.histories import entries, talks, user

KINDS = (ASKED, INTERNAL, ANSWERED, RUN, CALLED)
MIXED = st.lists(
    st.one_of(
        events(),
        st.sampled_from((user(), RunStarted(), ModelCalled("m", "f"))),
        st.builds(
            MessageAdded,
            st.sampled_from(("user", "assistant", "system")),
            st.just(()),
            st.sampled_from(("exec", "audit", "internal")),
        ),
    ),
    max_size=25,
)


@contextmanager
def chapters_of(size: int) -> Iterator[None]:
    with patch.object(module, "CHAPTER", size):
        yield


def kind_of(entry: Entry) -> bytes | None:
    match entry.event:
        case MessageAdded(origin="audit"):
            return None
        case MessageAdded(role="assistant"):
            return ANSWERED
        case MessageAdded(role="user", origin=origin):
            return INTERNAL if origin == "internal" else ASKED
        case RunStarted():
            return RUN
        case ModelCalled():
            return CALLED
    return None


@given(MIXED, st.integers(1, 9))
def test_whatever_is_counted_and_found_is_what_a_look_at_every_entry_says(
    some: list[Event], size: int
) -> None:
    log = entries(some)
    with chapters_of(size):
        known = of_entries(log)
    assert (known.seq, known.began) == (len(log), log[0].time if log else 0)
    for kind in KINDS:
        seqs = [entry.seq for entry in log if kind_of(entry) == kind]
        assert [known.find(kind, number) for number in range(-1, len(seqs) + 2)] == [0, 0, *seqs, 0]
        for seq in range(len(log) + 2):
            assert known.count(kind, seq) == sum(one <= seq for one in seqs)
            assert known.find_last(kind, seq, 3) == max((one for one in seqs if 3 <= one <= seq), default=0)


@given(MIXED, st.integers(1, 9), st.integers(1, 25), st.integers(0, 25))
def test_the_messages_of_a_span_are_told_from_the_newest_on(
    some: list[Event], size: int, first: int, last: int
) -> None:
    log = entries(some)
    with chapters_of(size):
        known = of_entries(log)
    said = [
        (entry.seq, kind_of(entry) == ANSWERED)
        for entry in reversed(log)
        if first <= entry.seq <= last and kind_of(entry) in (ASKED, INTERNAL, ANSWERED)
    ]
    assert list(known.messages_back((first, last))) == said
    assert known.messages(((first, last),) if first <= last else ()) == len(said)
    assert known.last_answer(((first, last),)) == next((seq for seq, answers in said if answers), 0)


@given(talks(), st.integers(1, 9), st.data())
def test_it_goes_on_and_back_to_any_entry(talk: list[Event], size: int, data: st.DataObject) -> None:
    log = entries(talk)
    at = data.draw(st.integers(0, len(log)), label="at")
    with chapters_of(size):
        before, whole = of_entries(log[:at]), of_entries(log)
        assert before.then(log[at:]).chapters == whole.chapters
        assert whole.until(at).chapters == before.chapters
    assert [chapter.prev for chapter in whole.chapters] == [log[one.first - 1].prev for one in whole.chapters]


@given(talks(), st.integers(1, 9))
def test_chapters_are_the_same_after_they_were_kept(talk: list[Event], size: int) -> None:
    with chapters_of(size):
        known = of_entries(entries(talk))
    loaded = History([one for one in (Chapter.load(chapter.dump()) for chapter in known.chapters) if one])
    assert loaded.chapters == known.chapters
    assert list(changes(loaded)) == list(changes(known))


def test_what_is_no_chapter_is_none() -> None:
    chapter = of_entries(entries([user()])).chapters[0]
    newer = Chapter(chapter.first, chapter.prev, chapter.began, chapter.kinds, chapter.controls, 99)
    assert [Chapter.load(data) for data in (b"", b"\0", chapter.dump()[:-3], newer.dump())] == [None] * 4
