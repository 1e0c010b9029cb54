"""Stories: short histories that break storages, each a plain function of a ``Backend``."""

import asyncio
import unittest
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from chatfold.eventlog import (
    ChatDeleted,
    ChatfoldError,
    Conflict,
    Event,
    Head,
    IdConflict,
    LeaseLost,
    Log,
    Noted,
    Redacted,
    Storage,
)
from chatfold.eventlog.line import has_valid_sum
from chatfold.eventlog.search import parse_exact, parse_words
from chatfold.testing import listing_stories  # noqa: F401 (these are stories, too)
from chatfold.testing.backend import Backend
from chatfold.testing.races import judge_race, run_race
from chatfold.testing.strategies import HOSTILE_TEXTS, LARGE_TEXT, LONG_TEXTS
from chatfold.testing.telling import STORIES, Story, all_of, amid, is_whole, opened, refused, said, story


def stories(backend: type[Backend], *, patience: float = 60) -> type[unittest.TestCase]:
    """A test case with one test for each story, each on a new place. ``patience``: seconds that one may take."""
    tests = {f"test_{name}": _test_of(backend, function, patience) for name, function in STORIES.items()}
    return type("Stories", (unittest.TestCase,), tests)


def _test_of(backend: type[Backend], function: Story, patience: float) -> Callable[[unittest.TestCase], None]:
    def test(_: unittest.TestCase) -> None:
        place = backend()
        try:
            asyncio.run(asyncio.wait_for(function(place), patience))
        finally:
            place.remove()

    test.__doc__ = function.__doc__
    return test


# --- forking ---------------------------------------------------------------------------------------------


@story
async def what_a_fork_shares_stays_when_its_origin_is_deleted(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("origin", said(LONG_TEXTS[0]), said(LARGE_TEXT), Noted("three"))
        await log.fork("origin", "fork", 2)
        await log.fork("fork", "fork of the fork", 3)
        before = [await all_of(log, chat) for chat in ("fork", "fork of the fork")]
        await log.delete("origin")
        for reader in (log, other):
            assert [await all_of(reader, chat) for chat in ("fork", "fork of the fork")] == before
            assert await all_of(reader, "origin") == []
        await other.append("fork", said(LONG_TEXTS[0]), said(LARGE_TEXT))
        assert is_whole(await all_of(log, "fork"))


@story
async def what_is_redacted_is_redacted_in_forks_too(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("origin", said(LONG_TEXTS[0]), Noted("two"))
        await log.fork("origin", "fork", 1)
        await other.append("fork", said(LONG_TEXTS[0]))
        erased = await log.redact("origin", 1)
        assert erased == {"origin": [1], "fork": [1, 3]}
        for chat in ("origin", "fork"):
            text = repr(await all_of(other, chat))
            assert LONG_TEXTS[0] not in text
        assert (await all_of(other, "origin"))[1].event == Noted("two")


@story
async def a_fork_ends_at_its_point(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("origin", *(Noted(f"entry {seq}") for seq in range(1, 4)))
        for at in (1, 2, 3):
            forked = await log.fork("origin", f"fork {at}", at)
            entries = await all_of(other, f"fork {at}")
            assert entries[:-1] == (await all_of(other, "origin"))[:at]
            assert (entries[-1], entries[-1].seq) == (forked, at + 1)
            assert is_whole(entries)


# --- erasing ---------------------------------------------------------------------------------------------


@story
async def an_erased_text_can_be_said_again(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("chat", said(LONG_TEXTS[0]))
        await other.append("chat", said(LONG_TEXTS[0]))  # knows the first one now
        await log.redact("chat", 1)
        assert LONG_TEXTS[0] not in repr(await all_of(other, "chat"))
        for writer in (other, log):
            [entry] = await writer.append("chat", said(LONG_TEXTS[0]))
            for reader in (log, other):
                assert (await reader.last("chat", 1))[0].event == said(LONG_TEXTS[0]) == entry.event


@story
async def a_window_is_given_back_until_something_is_erased(backend: Backend) -> None:
    """Or never: a storage need not have any."""
    async with opened(backend) as log, opened(backend) as other:
        entries = await log.append("chat", said("one"), said("two"), said("three"))
        heads = [Head(entry.seq, entry.link) for entry in entries]
        epoch = await log.storage.erasure_epoch("chat")
        for head, data in ((heads[0], b"a longer one, \0 in it"), (heads[2], b"the last")):
            await log.storage.store_window("chat", head, data, epoch)
            for reader in (log, other):
                found = await reader.storage.load_opening("chat")
                assert found.head == heads[2]
                assert found.window in (None, (head, data))
                assert await reader.storage.load_window("chat") == found.window
                assert (await reader.storage.load_opening("chat", 2)).window is None
        await log.fork("chat", "fork", 2)
        await log.redact("chat", 1)
        await log.storage.store_window("chat", heads[2], b"of what was known before", epoch)
        for chat in ("chat", "fork", "none"):
            assert await other.storage.load_window(chat) is None
            assert (await other.storage.load_opening(chat)).window is None


@story
async def chapters_are_given_back_until_something_is_erased(backend: Backend) -> None:
    """Or never: a storage need not have any."""
    async with opened(backend) as log, opened(backend) as other:
        entries = await log.append("chat", said("one"), said("two"), said("three"))
        heads = [Head(entry.seq, entry.link) for entry in entries]
        epoch = await log.storage.erasure_epoch("chat")
        kept = {1: (heads[0], b"the first, \0 in it"), 2: (heads[1], b"the second"), 3: (heads[2], b"")}
        for first, (head, data) in kept.items():
            await log.storage.store_chapter("chat", first, head, b"an earlier one", epoch)
            await log.storage.store_chapter("chat", first, head, data, epoch)
        for reader in (log, other):
            for first in (1, 2, 3):
                for last in (1, 2, 3):
                    meant = {begin: one for begin, one in kept.items() if first <= begin <= last}
                    assert await reader.storage.load_chapters("chat", first, last) in ({}, meant)
        await log.fork("chat", "fork", 2)
        found = await other.storage.load_chapters("fork", 1, 3)
        assert all(kept[begin] == one and one[0].seq <= 2 for begin, one in found.items())
        await log.redact("chat", 1)
        await log.storage.store_chapter("chat", 1, heads[0], b"of what was known before", epoch)
        for chat in ("chat", "fork", "none"):
            assert await other.storage.load_chapters(chat, 1, 3) == {}


@story
async def a_text_erased_while_an_append_refers_to_it_is_not_missed(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        for turn in range(1 if backend.can_interrupt else 10):
            chat = f"chat {turn}"
            await log.append(chat, said(LONG_TEXTS[0]), Noted("two"))
            outcome = await amid(
                backend,
                log,
                lambda chat=chat: log.append(chat, said(LONG_TEXTS[0])),  # type: ignore[misc]
                lambda chat=chat: other.storage.redact(chat, [1]),  # type: ignore[misc]
            )
            assert isinstance(outcome, list), outcome
            for reader in (log, other):
                entries = await all_of(reader, chat)  # else: the text that an entry refers to is not there
                assert is_whole(entries)
                assert entries[0].was


# --- appending -------------------------------------------------------------------------------------------


@story
async def the_expected_head_is_compared(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("chat", Noted("one"))
        outcome = await amid(
            backend,
            log,
            lambda: log.append("chat", Noted("mine"), after=1),
            lambda: _or_conflict(other.append("chat", Noted("theirs"), after=1)),
        )
        entries = await all_of(other, "chat")
        assert len(entries) == 2
        assert is_whole(entries)
        assert isinstance(outcome, Conflict) == (entries[1].event == Noted("theirs"))
        await refused(Conflict, log.append("chat", Noted("late"), after=1))
        await refused(Conflict, log.append("new", Noted("late"), after=1))


@story
async def two_appends_that_expect_nothing_are_both_kept(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("chat", Noted("one"))
        outcome = await amid(
            backend,
            log,
            lambda: log.append("chat", Noted("mine"), Noted("mine, too")),
            lambda: other.append("chat", Noted("theirs")),
        )
        entries = await all_of(other, "chat")
        assert is_whole(entries)
        assert len(entries) == 4
        assert isinstance(outcome, list)
        assert entries[outcome[0].seq - 1 : outcome[-1].seq] == outcome


@story
async def another_chat_in_the_place_of_the_known_one_is_not_appended_to(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        [known] = await log.append("chat", Noted("one"))
        await other.delete("chat")
        await other.append("chat", Noted("another"), Noted("chat"))
        await refused(ChatDeleted, log.append("chat", Noted("two"), known=Head(known.seq, known.link)))
        assert len(await all_of(log, "chat")) == 2


@story
async def a_retry_after_a_lost_answer_gives_the_first_entries(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("chat", Noted("one"))
        first = await log.append("chat", said(LARGE_TEXT), said(LONG_TEXTS[0]), id="mine")
        for number in range(20):
            await log.append("chat", Noted(f"more {number}"))
        for writer in (log, other):
            again = await writer.append("chat", said(LARGE_TEXT), said(LONG_TEXTS[0]), id="mine", after=1)
            assert again == first
            await refused(IdConflict, writer.append("chat", Noted("other content"), id="mine"))
            assert await writer.storage.find("chat", id="mine") == 2
            assert await writer.storage.find("chat", id="nobody's") is None
        assert len(await all_of(log, "chat")) == 23


@story
async def a_key_stands_for_its_first_entry(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        [first] = await log.append("chat", said(LARGE_TEXT), keys=["large"])
        await log.append("chat", *(Noted(f"more {number}") for number in range(20)))
        again = await other.append("chat", Noted("new"), said(LARGE_TEXT), keys=["new", "large"])
        assert again == [(await all_of(log, "chat"))[-1], first]
        await refused(IdConflict, other.append("chat", Noted("other content"), keys=["large"]))
        assert [await other.storage.find("chat", key=key) for key in ("large", "new", "old")] == [1, 22, None]


@story
async def an_id_used_meanwhile_is_found(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("chat", Noted("one"))
        outcome = await amid(
            backend,
            log,
            lambda: log.append("chat", Noted("two"), id="mine"),
            lambda: other.append("chat", Noted("two"), id="mine"),
        )
        assert outcome == (await all_of(other, "chat"))[1:]


@story
async def every_byte_comes_back(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        events = [said(text) for text in (*HOSTILE_TEXTS, *LONG_TEXTS, LARGE_TEXT, *LONG_TEXTS)]
        appended = await log.append("chat", *events)
        for reader in (log, other):
            entries = await all_of(reader, "chat")
            assert entries == appended
            assert [entry.event for entry in entries] == events
            async for page in reader.storage.read("chat"):
                assert all(has_valid_sum(line) for line in page.lines())


@story
async def a_search_finds_what_a_look_at_every_entry_does(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        texts = (
            "Needle",
            "hay",
            "\uff4e\u0065edle",
            "n\u0301eedle",
            *HOSTILE_TEXTS,
            LARGE_TEXT,
            *LONG_TEXTS,
            *LONG_TEXTS,
        )
        await log.append("chat", *map(said, texts))
        await log.fork("chat", "fork", 3)
        await log.redact("chat", 1)
        wanted = [parse_words("NEEDLE"), parse_words("needle e"), parse_exact("needle"), parse_exact("\n")]
        wanted += [parse_exact(text[len(text) // 2 :][:9]) for text in (*LONG_TEXTS, LARGE_TEXT)]
        for reader in (log, other):
            for chat in ("chat", "fork", "none"):
                for query in wanted:
                    for without in ((), ((2, 4),)):
                        law = [entry async for entry in Storage.search(reader.storage, chat, query, without)]
                        assert [entry async for entry in reader.storage.search(chat, query, without)] == law


@story
async def a_blob_is_there_before_its_line(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("chat", said(LARGE_TEXT))
        await log.fork("chat", "fork", 1)
        await log.delete("chat")
        assert (await all_of(other, "fork"))[0].event == said(LARGE_TEXT)


@story
async def racers_neither_lose_nor_repeat_anything(backend: Backend) -> None:
    for kind in backend.races:
        async with opened(backend) as log:
            await log.delete("chat")
            answers = await asyncio.to_thread(run_race, backend, kind)
            await judge_race(log, answers)


@story
async def a_lease_keeps_others_out_and_passes(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        if type(log.storage).lease is Storage.lease:
            return  # it has none
        await log.append("chat", Noted("one"))
        order: list[str] = []

        async def enter(who: Log, name: str) -> None:
            async with who.storage.lease("chat") as epoch:
                order.append(f"{name} in")
                for _ in range(5):
                    await who.append("chat", Noted(name), lease=epoch)
                order.append(f"{name} out")
            if epoch:
                await refused(LeaseLost, who.append("chat", Noted("too late"), lease=epoch))

        await asyncio.gather(enter(log, "a"), enter(other, "b"), enter(log, "c"))
        assert [step.split()[1] for step in order] == ["in", "out"] * 3
        assert all(one.split()[0] == two.split()[0] for one, two in zip(order[::2], order[1::2], strict=True))
        assert len(await all_of(log, "chat")) == 16


@story
async def deltas_pass_and_are_gone(backend: Backend) -> None:
    async with opened(backend) as log:
        await log.append("chat", Noted("one"))
        await log.storage.pass_delta("chat", b"The")
        follower = log.storage.follow_deltas("chat")
        assert await anext(follower) == b"The"
        waiting = asyncio.ensure_future(anext(follower))
        await log.storage.pass_delta("chat", b" answer")
        assert await waiting == b" answer"
        await log.storage.end_deltas("chat")
        assert [piece async for piece in follower] == []
        assert [piece async for piece in log.storage.follow_deltas("chat")] == []
        assert len(await all_of(log, "chat")) == 1


# --- whole chats -----------------------------------------------------------------------------------------


@story
async def a_chat_is_imported_whole_or_not_at_all(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("chat", said(LONG_TEXTS[0]), said(LARGE_TEXT), said(LONG_TEXTS[0]))
        await log.redact("chat", 3)
        data = b"".join([piece async for piece in log.storage.export("chat")])
        for cut in (0, 1, len(data) // 2, len(data) - 2):
            await refused(ChatfoldError, other.storage.import_chat("copy", _pieces(data[:cut])))
            assert await log.head("copy") == Head()
            assert [key async for key in log.chats()] == ["chat"]
        await other.storage.import_chat("copy", _pieces(data))
        assert await all_of(log, "copy") == await all_of(log, "chat")
        assert b"".join([piece async for piece in log.storage.export("copy")]) == data
        await refused(ChatfoldError, other.storage.import_chat("copy", _pieces(data)))


@story
async def a_follower_of_a_deleted_chat_hears_of_it(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        await log.append("chat", Noted("one"), Noted("two"))
        for reader in (log, other):
            follower = reader.follow("chat")
            assert [(await anext(follower)).seq for _ in range(2)] == [1, 2]
            waiting = asyncio.ensure_future(anext(follower))
            await other.head("chat")  # the follower waits by now, or will find the chat gone
            await log.delete("chat")
            await refused(ChatDeleted, waiting)
            await log.delete("chat")  # quiet: it is gone
            await log.append("chat", Noted("one"), Noted("two"))


@story
async def a_reader_of_a_chat_that_is_deleted_or_erased_meanwhile_is_told_the_truth(backend: Backend) -> None:
    async with opened(backend) as log, opened(backend) as other:
        for change in (other.delete, lambda chat: other.redact(chat, 1)):
            await log.append("chat", *(said(LONG_TEXTS[0]) for _ in range(200)), said(LARGE_TEXT))
            events: list[Event] = []
            try:
                async for page in log.pages("chat"):
                    events += [entry.event for entry in page if not entry.was]
                    await change("chat")
            except ChatDeleted:
                assert change == other.delete
            assert all(
                event in (said(LONG_TEXTS[0]), said(LARGE_TEXT))
                for event in events
                if not isinstance(event, Redacted)
            )
            await log.delete("chat")


async def _or_conflict(work: Awaitable[object]) -> None:
    with suppress(Conflict):
        await work


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data
