"""After a compaction the prompt fits, or ``PromptTooLarge`` was raised; and nothing else changed: whatever the history."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Chat, Moment, Policy, PromptTooLarge, Store, assistant, system, user
from chatfold.eventlog import (
    Compacted,
    Entry,
    Event,
    MessageAdded,
    ModelReturned,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections import Message, contexts
from chatfold.projections.cutting import tokens_of
from tests.support.profile import searched

# --- what happens before ---------------------------------------------------------------------------------

Move = Callable[[Chat], Awaitable[Any]]

words = st.sampled_from(
    ("", "ok", "why is that?", "a sentence of some words. " * 6, "请改用另一种做法。" * 12)
)
policies = st.builds(
    Policy,
    keep=st.integers(0, 8),
    budget=st.none() | st.integers(40, 400) | st.integers(200, 3000),
    summary=st.integers(20, 60),
)


call_ids = st.sampled_from(("c1", "c2", "c3", "c4"))


def recorded(*events: Event) -> Move:
    return lambda chat: chat.record(*events)


@st.composite
def spoken(draw: st.DrawFn) -> Move:
    says = draw(st.sampled_from((user, user, assistant, assistant, system)))
    origin = draw(st.sampled_from(("exec",) * 5 + ("internal", "audit")))
    return recorded(says(draw(words), origin=origin))


@st.composite
def talked(draw: st.DrawFn) -> Move:
    """Some turns."""
    return recorded(*(say(draw(words)) for _ in range(draw(st.integers(1, 5))) for say in (user, assistant)))


@st.composite
def worked(draw: st.DrawFn) -> Move:
    """A step with tools: results in any order, some missing, some after what was said meanwhile."""
    ids = draw(st.lists(call_ids, min_size=1, max_size=3))
    results = [ToolReturned(call, (Text(draw(words)),)) for call in ids if draw(st.integers(0, 3))]
    meanwhile = [user(text) for text in draw(st.lists(words, max_size=1))]
    answers: list[Event] = draw(st.permutations([*results, *meanwhile]))
    return recorded(*(ToolCalled(call, "read", {"path": draw(words)}) for call in ids), *answers)


@st.composite
def moved(draw: st.DrawFn) -> Move:
    """To another context, back, or into the past."""
    which, back = draw(st.sampled_from(("new", "clear", "load", "rewind", "revert"))), draw(st.integers(0, 9))

    async def move(chat: Chat) -> None:
        shelf = [row.context_id for row in await chat.contexts()]
        compactions = [one.seq for one in chat[contexts].active.compactions]
        match which:
            case "new":
                await chat.new_context()
            case "clear":
                await chat.clear_context()
            case "load" if shelf:
                await chat.load_context(context_id=shelf[back % len(shelf)])
            case "rewind":
                await chat.rewind(max(0, chat.seq - back))
            case "revert" if compactions:
                await chat.revert_compaction(compactions[back % len(compactions)])

    return move


@st.composite
def summed_up(draw: st.DrawFn) -> Move:
    policy = draw(policies)

    async def compact(chat: Chat) -> None:
        with suppress(PromptTooLarge):
            await chat.compact(policy)

    return compact


reported = st.builds(
    lambda tokens: recorded(ModelReturned({"input_tokens": tokens, "output_tokens": 10})),
    st.integers(1, 2000),
)
late = st.builds(lambda call, text: recorded(ToolReturned(call, (Text(text),))), call_ids, words)
injected = st.builds(lambda text: lambda chat: chat.inject(f"{chat.seq} {text}"), words)
estimated = st.one_of(*(talked(), worked()) * 3, spoken(), spoken(), moved(), summed_up(), injected, late)


@st.composite
def histories(draw: st.DrawFn, moves: st.SearchStrategy[Move] = estimated | reported) -> list[Move]:
    return [draw(moves) for _ in range(draw(st.integers(1, 20)))]


async def lived(history: list[Move]) -> Chat:
    chat = await Store.memory().chat("chat")
    for move in history:
        await move(chat)
    return chat


MANY = searched(2.5)  # these are cheap, and what they look for is rare


# --- what must be true afterwards ------------------------------------------------------------------------


def size(messages: tuple[Message, ...]) -> int:
    return sum(tokens_of(message) for message in messages)


def compactions(entries: list[Entry]) -> list[Compacted]:
    return [entry.event for entry in entries if isinstance(entry.event, Compacted)]


async def asked(chat: Chat) -> Message | None:
    """The last message that the user really said, of those that the model sees."""
    real = {
        entry.seq
        for entry in await chat.context_entries()
        if isinstance(entry.event, MessageAdded) and entry.event.origin == "exec"
    }
    said = [message for message in await chat.messages() if message.role == "user" and message.kind == "said"]
    return next((message for message in reversed(said) if message.seqs[0] in real), None)


def stands_for(chat: Moment, message: Message) -> set[int]:
    """The entries that a message is about: those of a summary are the ends of its range, of results their calls."""
    ends = {top.seq: {top.first, top.last} for top in chat.window().summaries}
    if message.kind == "summary":
        return ends[message.seqs[0]]
    return {result.call for result in message.results} or set(message.seqs)


async def hidden_by(chat: Chat, done: Compacted) -> int:
    """How many messages of users and assistants its range hides."""
    seen = {seq for message in await chat.messages() for seq in message.seqs}
    entries = [entry for entry in await chat.context_entries() if done.first <= entry.seq <= done.last]
    said = [
        entry
        for entry in entries
        if isinstance(entry.event, MessageAdded)
        and entry.event.origin != "audit"
        and entry.event.role in ("user", "assistant")
    ]
    return sum(entry.seq not in seen for entry in said)


@MANY
@given(histories(), policies)
def test_afterwards_the_prompt_fits_or_it_is_told_by_how_much_it_does_not(
    history: list[Move], policy: Policy
) -> None:
    async def check() -> None:
        chat = await lived(history)
        before, seq, refused = await chat.messages(), chat.seq, None
        try:
            await chat.compact(policy)
        except PromptTooLarge as error:
            refused = error
        if refused is None:
            assert policy.budget is None or size(await chat.messages()) <= policy.budget
        else:
            assert refused.tokens > refused.budget == policy.budget
            assert (await chat.messages(), chat.seq) == (before, seq)

    asyncio.run(check())


@MANY
@given(histories(estimated), policies)
def test_a_prompt_that_fits_is_never_refused(history: list[Move], policy: Policy) -> None:
    async def check() -> None:
        chat = await lived(history)
        if policy.budget is not None and size(await chat.messages()) <= policy.budget:
            await chat.compact(policy)

    asyncio.run(check())


@MANY
@given(histories(), policies)
def test_what_the_user_asked_last_stays_and_what_stays_is_as_it_was(
    history: list[Move], policy: Policy
) -> None:
    async def check() -> None:
        chat = await lived(history)
        then, question = await chat.now(), await asked(chat)
        try:
            done = await chat.compact(policy)
        except PromptTooLarge:
            return
        after = await chat.messages()
        assert question is None or question in after
        summaries = {entry.seq for entry in done}
        kept = [message for message in after if summaries.isdisjoint(message.seqs)]
        assert len(after) - len(kept) == len(done)
        ranges = [range(event.first, event.last + 1) for event in compactions(done)]
        assert kept == [
            message
            for message in await then.messages()
            if not any(stands_for(then, message) <= set(one) for one in ranges)
        ]

    asyncio.run(check())


@MANY
@given(histories(), policies)
def test_what_is_hidden_is_counted_and_can_be_shown_again(history: list[Move], policy: Policy) -> None:
    async def check() -> None:
        chat = await lived(history)
        before, entries = await chat.messages(), [entry async for entry in chat.entries()]
        try:
            done = await chat.compact(policy)
        except PromptTooLarge:
            return
        for event in compactions(done):
            assert event.count == await hidden_by(chat, event)
        assert [entry async for entry in chat.entries(last=len(entries))] == entries
        for entry in done:
            await chat.revert_compaction(entry.seq)
        assert await chat.messages() == before

    asyncio.run(check())


@MANY
@given(histories(), policies)
def test_compacting_again_does_nothing(history: list[Move], policy: Policy) -> None:
    async def check() -> None:
        chat = await lived(history)
        try:
            await chat.compact(policy)
        except PromptTooLarge:
            return
        after = await chat.messages()
        assert await chat.compact(policy) == []
        assert await chat.messages() == after

    asyncio.run(check())
