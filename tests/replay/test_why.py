"""Why it forgot: every entry that holds a text, each of its stays in the model's sight, and where it is now."""

import asyncio

import pytest
from hypothesis import given

from chatfold.agent import Chat, Moment, assistant, user
from chatfold.eventlog import (
    Compacted,
    Entry,
    Event,
    Injected,
    MessageAdded,
    NoSuchPoint,
    Noted,
    SkillActivated,
    Text,
    ToolReturned,
)
from chatfold.projections import contexts
from chatfold.projections.contexts import MAIN
from chatfold.projections.spans import includes
from chatfold.projections.tokens import of_event
from chatfold.replay.inspect.address import address
from chatfold.replay.inspect.points import seq_of
from chatfold.replay.inspect.why import Trace, survival, trace
from tests.support.debugger.told import long_talk, memory, told
from tests.support.histories import talks


def is_seen(moment: Moment, entry: Entry) -> bool:
    part = moment.window()
    if isinstance(entry.event, Compacted):
        return entry.seq in {top.seq for top in part.summaries}
    return includes(part.spans, entry.seq)


async def looked_at(chat: Chat, where: str) -> Moment:
    asked = address(where)
    assert asked.chat == chat.key
    assert asked.last is not None
    return await chat.at(await seq_of(chat, asked.last))


@given(talks())
def test_the_stays_are_those_of_every_moment_and_the_address_shows_it(talk: list[Event]) -> None:
    async def check() -> None:
        async with memory() as store:
            chat = await told(store, talk)
            moments = [await chat.at(seq) for seq in range(chat.seq + 1)]
            async for entry in chat.entries():
                [found] = (await trace(chat, f"e{entry.seq}")).traces
                if not of_event(entry.event):
                    assert (found.visits, found.now.where) == ((), "recorded")
                    continue
                for moment in moments[entry.seq :]:
                    stays = [v for v in found.visits if v.entered <= moment.seq]
                    here = any(v.left is None or moment.seq < v.left.seq for v in stays)
                    assert here == is_seen(moment, entry), (entry.seq, moment.seq)
                if not isinstance(entry.event, ToolReturned):
                    assert (found.now.where == "active") == is_seen(chat, entry)
                if found.visits:
                    assert is_seen(await looked_at(chat, found.now.address), entry)
                await check_place(chat, entry, found)

    async def check_place(chat: Chat, entry: Entry, found: Trace) -> None:
        state, now = chat[contexts], found.now
        known = {state.active.id: state.active, **dict(state.shelf.items())}
        if now.context:
            assert known[now.context].title == now.title
            assert (now.where == "archived") == (now.context != state.active.id)
        if now.where == "compacted" or (now.where == "archived" and now.seq):
            top = next(top for top in known[now.context].tops if top.seq == now.seq)
            assert isinstance(entry.event, Compacted) or top.first <= entry.seq <= top.last
        if now.where == "rewound" and not isinstance(entry.event, Compacted):
            assert not any(includes(state.spans(name, chat.seq), entry.seq) for name in known)

    asyncio.run(check())


async def test_a_text_that_a_compaction_took_away_is_told_with_the_compaction_and_its_summary() -> None:
    async with memory() as store:
        chat = await long_talk(store)
        found = await trace(chat, "must not touch vendor/")
        assert (found.exact, found.total) == (True, 1)
        [one] = found.traces
        assert (one.seq, one.turn, one.kind, one.role) == (2, 1, "message_added", "user")
        assert one.text == "You must not touch vendor/"
        [visit] = one.visits
        assert (visit.entered, visit.turn) == (2, 1)
        assert visit.left is not None
        assert (visit.left.seq, visit.left.cause, visit.left.number) == (14, "compacted", 1)
        assert visit.left.trigger == "manual"
        assert visit.left.survived == 0.5  # vendor and, in untouched, touch
        assert (one.now.where, one.now.number, one.now.address) == ("compacted", 2, "talk@c1^")
        then = (await trace(await chat.at(12), "must not touch vendor/")).traces[0]
        assert (then.visits[0].left, then.now.where) == (None, "active")
        assert (await trace(await chat.at(1), "must not touch vendor/")).traces == ()


async def test_what_is_elsewhere_is_said_to_be_there() -> None:
    async with memory() as store:
        chat = await long_talk(store)
        [archived] = (await trace(chat, "missing page")).traces
        assert (archived.now.where, archived.now.title) == ("archived", "docs build")
        assert archived.now.address == "talk@s2^"
        assert [(v.left.cause, v.left.to) for v in archived.visits if v.left] == [("switched", MAIN)]
        [rewound] = (await trace(chat, "leads nowhere")).traces
        assert (rewound.now.where, rewound.now.seq, rewound.now.address) == ("rewound", 30, "talk@29")
        assert [v.left.reason for v in rewound.visits if v.left] == ["a detour"]
        came_back = (await trace(chat, "answer 4 ")).traces[0]
        assert [v.left.cause for v in came_back.visits if v.left] == ["opened", "compacted"]
        assert [v.entered for v in came_back.visits] == [13, 20]
        first_summary = (await trace(chat, "Constraints:")).traces[0]
        assert (first_summary.seq, first_summary.now.where, first_summary.now.number) == (14, "compacted", 2)


async def test_what_no_model_is_shown_what_was_erased_and_what_has_no_call_is_told_apart() -> None:
    async with memory() as store:
        chat = await told(
            store,
            [
                MessageAdded("user", (Text("a secret"),), origin="audit"),
                Noted("kept", {"secret": 1}),
                ToolReturned("nobody", (Text("secret result"),)),
                SkillActivated("s", text="secret skill"),
                Injected("user", "f", (Text("secret once"),)),
                Injected("user", "f", (Text("secret twice"),)),
                user("gone secret"),
            ],
        )
        await chat.redact(7)
        found = await trace(chat, "secret")
        assert [(one.seq, one.now.where) for one in found.traces] == [
            (1, "recorded"),
            (2, "recorded"),
            (3, "away"),
            (4, "recorded"),
            (5, "active"),
            (6, "away"),
        ]
        [erased] = (await trace(chat, "e7")).traces
        assert erased.now.where == "erased"


async def test_words_are_looked_for_if_nothing_holds_the_very_text() -> None:
    async with memory() as store:
        chat = await told(store, [user("The Lexer drops newlines"), assistant("A lexer? newlines!")])
        found = await trace(chat, "NEWLINES lexer")
        assert (found.exact, found.total) == (False, 2)
        assert {one.seq for one in found.traces} == {1, 2}
        assert all("ewlines" in one.text for one in found.traces)
        assert (await trace(chat, "exer dr")).exact
        nothing = await trace(chat, "?!?!")
        assert (nothing.exact, nothing.total, nothing.traces) == (False, 0, ())
        assert len((await trace(chat, "e", limit=1)).traces) == 1
        with pytest.raises(ValueError, match="nothing to look for"):
            await trace(chat, "")
        with pytest.raises(NoSuchPoint, match="the chat ends at 2"):
            await trace(chat, "e3")


def test_how_much_of_a_text_survives_in_a_summary() -> None:
    assert survival("keep Vendor/ as it is", "KEEP vendor as it is, please").share == 1
    assert survival("keep keep vendor", "keep").share == 0.5
    assert survival("部署脚本", "部署脚本在哪里").share == 1
    assert survival("部署脚本", "脚本").share == pytest.approx(1 / 3)
    assert survival("…", "…").share == 0
