"""Another answer to the same question, and messages that are none."""

import pytest

from chatfold.agent import Agent, ScriptedModel, Store
from chatfold.eventlog import ChatStarted, NoSuchPoint, Rewound
from tests.support.agent_runs import events
from tests.support.chats import a_store  # noqa: F401


async def test_regenerating_takes_the_answer_back_and_asks_again(store: Store) -> None:
    model = ScriptedModel(["one", "two", "three"])
    agent = Agent(model, store=store)
    await agent.run("why?", chat="chat")
    assert (await agent.regenerate("chat")).text == "two"
    first, second = ([m["role"] for m in payload["messages"]] for payload in model.payloads)
    assert first == second  # the model does not see its first answer
    chat = await store.chat("chat")
    assert [m["content"] for m in await chat.messages("openai")][-2:] == ["why?", "two"]
    assert len(await events(chat, Rewound)) == 1
    assert (await agent.regenerate("chat")).text == "three"


async def test_a_question_that_was_not_answered_is_asked_as_it_is(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.user("why?")
    assert (await Agent(ScriptedModel(["one"]), store=store).regenerate("chat")).text == "one"
    assert not await events(await store.chat("chat"), Rewound)


async def test_after_a_rewind_to_the_question_a_resume_asks_again(store: Store) -> None:
    agent = Agent(ScriptedModel(["one", "two"]), store=store)
    await agent.run("why?", chat="chat")
    chat = await store.chat("chat")
    await chat.rewind(1)
    result = await agent.resume("chat")
    assert result is not None
    assert result.text == "two"
    assert [m["content"] for m in await (await store.chat("chat")).messages("openai")][-2:] == ["why?", "two"]


async def test_where_nothing_was_asked_there_is_nothing_to_regenerate(store: Store) -> None:
    chat = await store.chat("chat")
    await chat.assistant("good morning")
    with pytest.raises(NoSuchPoint, match="nothing was asked"):
        await Agent(ScriptedModel([]), store=store).regenerate(chat)


@pytest.mark.parametrize("content", [(), ("",), ("", "")])
async def test_an_empty_message_is_refused_and_nothing_is_recorded(
    store: Store, content: tuple[str, ...]
) -> None:
    agent = Agent(ScriptedModel([]), store=store)
    for verb in (agent.run, agent.submit):
        with pytest.raises(ValueError, match="the message is empty"):
            await verb(*content, chat="chat")
    assert (await store.chat("chat")).seq == 0


@pytest.mark.parametrize("word", ["imported", "adapter"])
async def test_chats_that_another_program_answers_are_not_resumed(store: Store, word: str) -> None:
    chat = await store.chat("theirs")
    await chat.record(ChatStarted("theirs", meta={word: "codex"}))
    await chat.user("a question")
    await (await store.chat("ours")).user("a question")
    async with Agent(ScriptedModel(["answer"]), store=store) as agent:
        assert await agent.resume_all() == ["ours"]


async def test_without_a_chat_the_current_conversation_goes_on() -> None:
    async with Agent(ScriptedModel(["one", "two"])) as agent:
        await agent.run("hello")
        chat = agent.conversation
        assert chat is not None
        assert (await agent.run("and?")).text == "two"
        assert len(await chat.messages()) == 6
