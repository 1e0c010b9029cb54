"""What a page asks of the values: windows, deltas, a chart that is kept, bodies by range, an end that follows a live chat."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import user
from chatfold.eventlog import Compacted, Event, ModelCalled, RunStarted
from chatfold.replay.inspect.compaction import compaction_of
from chatfold.replay.inspect.context import context_delta, context_of, context_page
from chatfold.replay.inspect.cursor import Replay
from chatfold.replay.inspect.entries import body_of, describe
from chatfold.replay.inspect.listing import list_rows, page_of
from chatfold.replay.inspect.sizes import Sizes, chart_of
from chatfold.replay.inspect.why import trace
from tests.support.debugger.told import memory, told
from tests.support.histories import talks


@given(talks(), st.data())
def test_a_page_is_a_part_of_the_context(talk: list[Event], data: st.DataObject) -> None:
    async def check() -> None:
        async with memory() as store:
            chat = await told(store, talk)
            whole = await context_of(chat)
            first, most = data.draw(st.integers(-5, 12)), data.draw(st.integers(1, 6))
            page = await context_page(chat, first=first, most=most)
            start = max(0, len(whole.items) + first) if first < 0 else first
            assert page.items == whole.items[start : start + most]
            assert (page.count, page.tokens, page.by_kind) == (len(whole.items), whole.tokens, whole.by_kind)
            assert (page.compactions, page.shelved) == (whole.compactions, whole.shelved)

    asyncio.run(check())


@given(talks(), st.data())
def test_a_delta_leads_from_one_list_of_items_to_the_other(talk: list[Event], data: st.DataObject) -> None:
    async def check() -> None:
        async with memory() as store:
            chat = await told(store, talk)
            one, other = (data.draw(st.integers(0, chat.seq)) for _ in "ab")
            before, after = await chat.at(one), await chat.at(other)
            delta = await context_delta(before, after)
            old, new = (await context_of(before)).items, await context_of(after)
            assert (*old[: delta.at], *delta.added, *old[delta.at + delta.removed :]) == new.items
            assert (delta.count, delta.tokens, delta.by_kind) == (len(new.items), new.tokens, new.by_kind)

    asyncio.run(check())


async def test_a_delta_of_one_message_is_one_item() -> None:
    async with memory() as store:
        chat = await store.chat("chat")
        await chat.record(*(user(f"message {number}") for number in range(50)))
        delta = await context_delta(await chat.at(49), chat)
    assert (delta.at, delta.removed, [item.text for item in delta.added]) == (49, 0, ["message 49"])


@given(talks(), st.data())
def test_sizes_that_are_carried_on_are_those_of_one_reading(talk: list[Event], data: st.DataObject) -> None:
    async def check() -> None:
        async with memory() as store:
            chat = await told(store, talk)
            sizes = Sizes()
            for seq in sorted(data.draw(st.lists(st.integers(0, chat.seq), max_size=4))):
                moment = await chat.at(seq)
                await sizes.read_on(moment)
                assert sizes.chart(await moment.history(), 7) == await chart_of(moment, width=7)
            await sizes.read_on(chat)
            assert sizes.chart(await chat.history(), 7) == await chart_of(chat, width=7)
            first, last = sorted(data.draw(st.integers(1, max(1, chat.seq))) for _ in "ab")
            part = sizes.chart(await chat.history(), 1000, first=first, last=last)
            whole = sizes.chart(await chat.history(), 1000)
            assert [one.end for one in part.buckets] == [one.end for one in whole.buckets][first - 1 : last]

    asyncio.run(check())


async def test_a_chart_reads_only_what_is_new() -> None:
    async with memory() as store:
        chat = await store.chat("chat")
        await chat.record(*(user("some words") for _ in range(9)))
        replay = Replay(await store.chat("chat"))
        assert (await replay.chart(3)).buckets[-1].last == 9
        read: list[int] = []
        pages = replay.log.pages

        def counted(key: str, first: int, last: int):  # type: ignore[no-untyped-def]
            read.append(first)
            return pages(key, first, last)

        replay.log.pages = counted  # type: ignore[method-assign, assignment]
        await chat.record(user("more"))
        assert (await replay.chart(3)).buckets[-1].last == 10
    assert read == [10]


async def test_a_body_comes_in_ranges() -> None:
    async with memory() as store:
        chat = await store.chat("chat")
        text = "".join(f"line {number}\n" for number in range(1000))
        [entry] = await chat.record(user(text))
        pieces = [body_of(entry, at, 1000).text for at in range(0, len(text), 1000)]
        assert "".join(pieces) == describe(entry.event) == text
        assert body_of(entry, 5, 10).total == len(text)
        assert body_of(entry, len(text) + 5).text == ""


async def test_a_seek_behind_the_end_looks_at_what_was_written_since() -> None:
    async with memory() as store:
        replay = Replay(await store.chat("chat"))
        other = await store.chat("chat")
        await other.record(user("one"), user("two"))
        await replay.seek(2)
        assert (replay.seq, replay.end) == (2, 2)


async def test_the_end_follows_what_others_write() -> None:
    async with memory() as store:
        replay = Replay(await store.chat("chat"))
        other = await store.chat("chat")
        ends: list[int] = []

        async def watch() -> None:
            async for end in replay.follow():
                ends.append(end)
                if end == 2:
                    return

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        await other.record(user("one"))
        await other.record(user("two"))
        await asyncio.wait_for(watching, 10)
        assert ends[-1] == 2
        assert replay.seq == 0


async def test_a_card_of_a_compaction_says_what_the_summary_kept_of_each() -> None:
    async with memory() as store:
        chat = await store.chat("chat")
        await chat.record(user("alpha beta"), user("gamma delta"), user("stays"))
        await chat.record(Compacted(1, 2, 2, "They said alpha and beta.", "manual"))
        card = await compaction_of(chat, 4)
        assert (card.number, card.kept, card.revert) == (1, 1, "await chat.revert_compaction(4)")
        assert [(one.item.seq, one.kept.share, one.kept.words) for one in card.left] == [
            (2, 0.0, ()),
            (1, 1.0, ("alpha", "beta")),
        ]


async def test_why_names_the_requests_that_carried_a_text() -> None:
    async with memory() as store:
        chat = await store.chat("chat")
        await chat.record(RunStarted("a"), run="r")
        await chat.record(ModelCalled("m", "1"), run="r")
        await chat.record(user("alpha"))  # 3
        await chat.record(ModelCalled("m", "2"), run="r")
        await chat.record(ModelCalled("m", "3"), run="r")
        await chat.record(Compacted(1, 3, 1, "nothing", "manual"))
        await chat.record(ModelCalled("m", "4"), run="r")
        await chat.record(user("omega"))
        [there] = (await trace(chat, "alpha")).traces
        assert [visit.requests for visit in there.visits] == [(2, 3)]
        [late] = (await trace(chat, "omega")).traces
        assert [visit.requests for visit in late.visits] == [None]


async def test_chats_are_listed_in_pages() -> None:
    async with memory() as store:
        for name in ("ant", "bee", "cat"):
            await (await store.chat(name)).record(user(f"hello {name}"))
        rows = await list_rows(store, order="key")
        assert [row.key for row in page_of(rows, 1, 1).rows] == ["bee"]
        assert page_of(rows, 1, 1).count == 3
        assert [row.key for row in await list_rows(store, query="HELLO C")] == ["cat"]
