"""Seed 003, scenario by scenario: two messages that continue each other, a new context, an old one taken up again, another chat."""

from pathlib import Path
from typing import Any

import pytest

from chatfold.agent import CHAT_TOOLS, Agent, Chat, ModelFailed, Store
from chatfold.agent.models import Line, ModelReply
from chatfold.eventlog import (
    ContextCleared,
    ContextOpened,
    ContextSwitched,
    IdConflict,
    MessageAdded,
    RunStarted,
    Text,
)
from chatfold.projections import contexts, transcript
from chatfold.projections.shapes.legacy import active_lines, archive_file, index_file
from tests.support.acting import Paused, is_whole, key_of, said, users, words
from tests.support.agent_runs import Outbox, agent, events, returned, step
from tests.support.chats import a_store, files  # noqa: F401
from tests.support.storages import Opener, lasting

PRIVATE = "telegram-chat-8444574557"
TOPICS = ("telegram-chat--1003761993516-topic-3", "telegram-chat--1003761993516-topic-33")
LEXER = "Why does the lexer drop newlines?"


async def lines(chat: Chat) -> list[dict[str, Any]]:
    """What ``contexts/active.jsonl`` would hold."""
    return active_lines(await chat.context_entries())


async def talk(store: Store, key: str, *turns: tuple[str, str]) -> Chat:
    """Questions and their answers, each by a run."""
    made, _ = agent(store, [answer for _, answer in turns], CHAT_TOOLS)
    for question, _ in turns:
        assert (await made.run(question, chat=key)).outcome == "done"
    return await store.chat(key)


def sending(*texts: str) -> ModelReply:
    return step(*(("chat_send", {"text": text}) for text in texts))


# --- A: two messages continue each other -----------------------------------------------------------------


async def test_the_second_message_of_a_chat_continues_the_first(store: Store) -> None:
    made, model = agent(store, ["Because of strip().", "In line 3."], [])
    await made.run(LEXER, chat=PRIVATE)
    await made.run("And where?", chat=PRIVATE)
    assert words(model.payloads[0]) == [("user", LEXER)]
    assert words(model.payloads[1]) == [
        ("user", LEXER),
        ("assistant", "Because of strip()."),
        ("user", "And where?"),
    ]


async def test_a_message_is_in_the_transcript_before_its_run_begins(store: Store) -> None:
    made, _ = agent(store, ["Because of strip()."], [])
    await made.run(LEXER, chat=PRIVATE)
    chat = await store.chat(PRIVATE)
    assert [type(event) for event in await events(chat, MessageAdded, RunStarted)] == [
        MessageAdded,
        RunStarted,
        MessageAdded,
    ]
    [row, _] = transcript([entry async for entry in chat.entries()])
    assert (row["seq"], row["role"], row["text"], row["via"]) == (1, "user", LEXER, "message")


async def test_the_active_context_grows_by_a_question_and_an_answer_with_each_turn(store: Store) -> None:
    made, _ = agent(store, [f"answer {number}" for number in range(4)], [])
    before: list[dict[str, Any]] = []
    for number in range(4):
        await made.run(f"question {number}", chat=PRIVATE)
        now = await lines(await store.chat(PRIVATE))
        assert now[: len(before)] == before  # times and texts stay what they were
        assert [(line["v"], line["role"], line["content"]) for line in now[len(before) :]] == [
            (1, "user", f"question {number}"),
            (1, "assistant", f"answer {number}"),
        ]
        assert [line["ts"] for line in now] == sorted(line["ts"] for line in now)
        before = now


async def test_a_turn_with_tools_and_several_words_is_still_two_lines_and_no_tool_is_among_them(
    store: Store,
) -> None:
    looking = ModelReply((Text("Let me look."),), step(("chat_context_list", {})).calls)
    made, _ = agent(store, [looking, "Found it."], CHAT_TOOLS)
    await made.run(LEXER, chat=PRIVATE)
    kept = await lines(await store.chat(PRIVATE))
    assert [(line["role"], line["content"]) for line in kept] == [("user", LEXER), ("assistant", "Found it.")]


@pytest.mark.parametrize(
    ("sends", "final", "kept"),
    [
        (["first"], "done", "first"),
        (["first", "second"], "done", "second"),
        (["first", "fails"], "done", "first"),
        (["fails"], "said by the model", "said by the model"),
        ([], "said by the model", "said by the model"),
    ],
)
async def test_what_is_kept_of_an_answer_is_what_was_delivered_last(
    store: Store, sends: list[str], final: str, kept: str
) -> None:
    async def send(_: str, __: str, parts: tuple[Any, ...]) -> None:
        if parts == (Text("fails"),):
            raise ConnectionError("no route")

    made, _ = agent(store, [*(sending(text) for text in sends), final], CHAT_TOOLS, send=send)
    result = await made.run(LEXER, chat=PRIVATE)
    assert result.text == kept
    assert [line["content"] for line in await lines(await store.chat(PRIVATE))] == [LEXER, kept]


async def test_a_successful_send_is_exactly_one_row_of_the_transcript_marked_as_sent(store: Store) -> None:
    outbox = Outbox()
    made, _ = agent(store, [sending("Because of strip()."), "done"], CHAT_TOOLS, send=outbox)
    await made.run(LEXER, chat=PRIVATE)
    rows = transcript([entry async for entry in (await store.chat(PRIVATE)).entries()])
    assert [row["text"] for row in rows if row["via"] == "send"] == ["Because of strip()."]
    assert [text for _, _, text in outbox.sent] == ["Because of strip()."]


@lasting
async def test_another_process_goes_on_where_the_last_one_was(storages: Opener) -> None:
    for number in range(4):
        async with Store(storages()) as store:
            made, model = agent(store, [f"answer {number}"], [])
            await made.run(f"question {number}", chat=PRIVATE)
            assert users(model.payloads[0]) == [f"question {n}" for n in range(number + 1)]
            assert len(await lines(await store.chat(PRIVATE))) == 2 * (number + 1)


async def test_a_question_whose_run_failed_is_there_when_the_next_one_is_asked(store: Store) -> None:
    made, model = agent(store, [ModelFailed("no credit"), "Both of them."], [])
    assert (await made.run("one?", chat=PRIVATE)).outcome == "failed"
    assert len(await lines(await store.chat(PRIVATE))) == 1
    await made.run("two?", chat=PRIVATE)
    assert words(model.payloads[1]) == [("user", "one?"), ("user", "two?")]
    kept = await lines(await store.chat(PRIVATE))
    assert [line["content"] for line in kept] == ["one?", "two?", "Both of them."]


async def test_nothing_but_a_tool_changes_the_context_however_far_off_the_questions_are(store: Store) -> None:
    chat = await talk(store, PRIVATE, *((f"about {word}", "well") for word in ("lexers", "猫", "tax", "")))
    assert await events(chat, ContextOpened, ContextSwitched, ContextCleared) == []
    assert len(await lines(chat)) == 8


# --- B: a new context ------------------------------------------------------------------------------------


async def test_after_chat_context_new_the_next_step_sees_the_system_text_and_the_current_question_only(
    store: Store,
) -> None:
    await talk(store, PRIVATE, (LEXER, "Because of strip()."), ("Where?", "In line 3."))
    question = "\ufeff completely\r\ndifferent:\t猫 👩‍🚀 "
    made, model = agent(store, [step(("chat_context_new", {"reason": "a mess"})), "ok"], CHAT_TOOLS)
    await made.run(question, chat=PRIVATE)
    before, after = model.payloads
    assert len(users(before)) == 3
    assert words(after) == [("user", question)]
    assert is_whole(after)
    assert [m["kind"] for m in after["messages"] if m["kind"] not in ("said", "runtime")] == []
    assert before["system"] == after["system"] != ""


async def test_the_old_context_is_archived_up_to_its_last_answer_and_listed(store: Store) -> None:
    chat = await talk(store, PRIVATE, (LEXER, "Because of strip()."))
    old = await lines(chat)
    made, _ = agent(store, [step(("chat_context_new", {"title": "docs"})), "By make."], CHAT_TOOLS)
    await made.run("How are the docs built?", chat=PRIVATE)
    chat = await store.chat(PRIVATE)
    assert [line["content"] for line in await lines(chat)] == ["How are the docs built?", "By make."]
    [archived] = chat[contexts].shelf.values()
    entries = [entry async for entry in chat.entries()]
    file = archive_file(archived, entries)
    assert (file["status"], file["contextId"], file["messages"]) == ("archived", "main", old)
    [item] = index_file(await chat.contexts())["items"]
    assert (item["contextId"], item["messageCount"], item["summaryPreview"]) == (
        "main",
        2,
        "Because of strip().",
    )


async def test_the_next_message_goes_on_in_the_new_context(store: Store) -> None:
    await talk(store, PRIVATE, (LEXER, "Because of strip()."))
    made, model = agent(store, [step(("chat_context_new", {})), "By make.", "Yes."], CHAT_TOOLS)
    await made.run("How are the docs built?", chat=PRIVATE)
    await made.run("Every night?", chat=PRIVATE)
    assert users(model.payloads[-1]) == ["How are the docs built?", "Every night?"]
    assert LEXER not in users(model.payloads[-1])
    assert LEXER in await said(await store.chat(PRIVATE))  # the transcript is not touched


async def test_every_message_that_waits_for_an_answer_goes_along_into_the_new_context(store: Store) -> None:
    await talk(store, PRIVATE, (LEXER, "Because of strip()."))
    model = Paused()
    made = Agent(model=model, store=store, tools=CHAT_TOOLS)
    await made.submit("How are the docs built?", chat=PRIVATE)
    question = await model.asked()
    await made.submit("I mean the new ones.", chat=PRIVATE)
    question.answer(step(("chat_context_new", {})))
    question = await model.asked()
    assert users(question.payload) == ["How are the docs built?", "I mean the new ones."]
    question.answer("By make.")
    await made.wait_idle()


# --- C: an old context is taken up again -----------------------------------------------------------------


async def two_contexts(store: Store) -> Chat:
    await talk(store, PRIVATE, (LEXER, "Because of strip()."))
    made, _ = agent(store, [step(("chat_context_new", {"title": "docs"})), "By make."], CHAT_TOOLS)
    await made.run("How are the docs built?", chat=PRIVATE)
    return await store.chat(PRIVATE)


BACK = [("user", LEXER), ("assistant", "Because of strip()."), ("user", "back to the first one")]


async def test_the_model_lists_the_contexts_and_loads_the_one_it_means_by_its_id(store: Store) -> None:
    await two_contexts(store)

    def load(payload: dict[str, Any]) -> ModelReply:
        [result] = payload["messages"][-1]["results"]
        [row] = [row for row in result["parts"][0]["data"]["contexts"] if "strip" in row["summaryPreview"]]
        return step(("chat_context_load", {"contextId": row["contextId"]}))

    script: list[Line] = [step(("chat_context_list", {})), load, "Here we are."]
    made, model = agent(store, script, CHAT_TOOLS)
    await made.run("back to the first one", chat=PRIVATE)
    assert words(model.payloads[-1]) == BACK


@pytest.mark.parametrize("query", ["lexer", "LEXER newlines", "strip()", "newlines lexer"])
async def test_a_query_switches_at_once_and_the_run_goes_on_there(store: Store, query: str) -> None:
    left = (await two_contexts(store))[contexts].active.id
    made, model = agent(store, [step(("chat_context_load", {"query": query})), "Here."], CHAT_TOOLS)
    await made.run("back to the first one", chat=PRIVATE)
    chat = await store.chat(PRIVATE)
    assert words(model.payloads[1]) == BACK
    assert is_whole(model.payloads[1])
    assert [line["content"] for line in await lines(chat)] == [text for _, text in BACK] + ["Here."]
    assert [*chat[contexts].shelf] == [left]
    assert [item["title"] for item in index_file(await chat.contexts())["items"]] == ["docs"]


async def test_what_is_said_after_loading_is_there_when_it_is_left_and_loaded_again(store: Store) -> None:
    await two_contexts(store)
    there, back = (step(("chat_context_load", {"query": query})) for query in ("lexer", "docs"))
    made, model = agent(store, [there, "one", back, "two", there, "three"], CHAT_TOOLS)
    for question in ("to the lexer", "to the docs", "and to the lexer"):
        assert (await made.run(question, chat=PRIVATE)).outcome == "done"
    assert users(model.payloads[-1]) == [LEXER, "to the lexer", "and to the lexer"]
    chat = await store.chat(PRIVATE)
    assert len(chat[contexts].shelf) == 1
    assert [line["content"] for line in await lines(chat)][-1] == "three"


# --- D: why two messages look like two conversations -----------------------------------------------------


@pytest.mark.parametrize("others", [TOPICS[:1], TOPICS, ("qq-group-42", "feishu-chat-42", PRIVATE.upper())])
async def test_chats_of_other_keys_share_nothing(store: Store, others: tuple[str, ...]) -> None:
    keys = [PRIVATE, *others]
    made, model = agent(store, ["noted"] * 2 * len(keys), CHAT_TOOLS)
    for turn in ("first", "second"):
        for key in keys:
            await made.run(f"{turn} in {key}", chat=key, id=f"message {turn}")
    for payload in model.payloads[len(keys) :]:
        key = key_of(payload)
        assert users(payload) == [f"first in {key}", f"second in {key}"]
    for key in keys:
        chat = await store.chat(key)
        assert len(await lines(chat)) == 4
        assert await said(chat) == [f"first in {key}", f"second in {key}"]
        assert len(await chat.search("second", everything=True)) == 1
        assert len(await chat.runs()) == 2


async def test_the_same_topic_is_the_same_chat_and_another_thread_is_another(store: Store) -> None:
    made, model = agent(store, ["one", "two", "three"], [])
    for key in (TOPICS[0], TOPICS[1], TOPICS[0]):
        await made.run(f"in {key}", chat=key)
    assert [len(users(payload)) for payload in model.payloads] == [1, 1, 2]


async def test_another_root_knows_nothing_and_the_same_root_everything(tmp_path: Path) -> None:
    async with files(tmp_path / "one") as one, files(tmp_path / "two") as two:
        await talk(one, PRIVATE, (LEXER, "Because of strip()."))
        assert await lines(await two.chat(PRIVATE)) == []
        made, model = agent(two, ["What first one?"], [])
        await made.run("back to the first one", chat=PRIVATE)
        assert words(model.payloads[0]) == [("user", "back to the first one")]
    async with files(tmp_path / "one") as one:
        made, model = agent(one, ["Here."], [])
        await made.run("back to the first one", chat=PRIVATE)
        assert words(model.payloads[0]) == BACK


async def test_a_cleared_context_looks_like_a_new_conversation_and_can_be_taken_up_again(
    store: Store,
) -> None:
    await talk(store, PRIVATE, (LEXER, "Because of strip()."))
    made, model = agent(store, [step(("chat_context_clear_active", {})), "Gone."], CHAT_TOOLS)
    await made.run("forget it", chat=PRIVATE)
    assert words(model.payloads[1]) == [("user", "forget it")]
    made, model = agent(store, [step(("chat_context_load", {"query": "lexer"})), "Here."], CHAT_TOOLS)
    await made.run("back to the first one", chat=PRIVATE)
    assert words(model.payloads[1]) == BACK


async def test_an_inbound_id_counts_within_its_chat_only(store: Store) -> None:
    made, model = agent(store, ["one", "two"], [])
    await made.run("hello", chat=TOPICS[0], id="tg-1")
    await made.run("hello", chat=TOPICS[1], id="tg-1")
    assert len(model.payloads) == 2
    with pytest.raises(IdConflict):
        await made.run("something else", chat=TOPICS[0], id="tg-1")
    assert await said(await store.chat(TOPICS[0])) == ["hello"]
    assert await returned(await store.chat(TOPICS[0])) == []
