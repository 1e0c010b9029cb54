"""chat_send: what is to reach the user is in the log before and after, and nothing is sent twice or lost in silence."""

import asyncio
from typing import Any

import pytest

from chatfold.agent import Chat, Store
from chatfold.agent.models import Line
from chatfold.agent.run_context import RunContext, enter
from chatfold.agent.tools.chat import CHAT_TOOLS
from chatfold.agent.tools.sending import UNKNOWN, send_tool
from chatfold.eventlog import Part, SendConfirmed, SendFailed, SendRequested, Text
from chatfold.projections import sends, transcript
from tests.support.agent_runs import Outbox, agent, events, interrupted, ran, returned, step
from tests.support.chats import a_chat, a_store  # noqa: F401

SENDING = (SendRequested, SendConfirmed, SendFailed)
HELLO = (Text("hello"),)


async def sent_rows(chat: Chat) -> list[str]:
    rows = transcript([entry async for entry in chat.entries()])
    return [row["text"] for row in rows if row["via"] == "send"]


async def test_what_is_sent_is_announced_before_and_confirmed_after_in_the_name_of_the_run(
    store: Store,
) -> None:
    outbox = Outbox()
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_send", {"text": "hello"})), send=outbox)
    assert outbox.sent == [("chat", "c1", "hello")]
    assert await events(chat, *SENDING) == [SendRequested("c1", HELLO), SendConfirmed("c1")]
    assert await returned(chat) == [{"success": True}]
    runs = {entry.run async for entry in chat.entries() if isinstance(entry.event, SENDING)}
    assert len(runs) == 1
    assert None not in runs
    assert await sent_rows(chat) == ["hello"]


async def test_the_intent_is_in_the_log_when_the_message_goes_out(store: Store) -> None:
    found: list[Any] = []

    async def send(key: str, _: str, parts: tuple[Part, ...]) -> None:
        found.extend(await events(await store.chat(key), *SENDING))

    await ran(store, CHAT_TOOLS, step(("chat_send", {"text": "hello"})), send=send)
    assert found == [SendRequested("c1", HELLO)]


async def test_a_send_that_fails_is_a_failed_result_and_no_row_of_the_transcript(store: Store) -> None:
    outbox = Outbox(ConnectionError("no route"))
    chat, model = await ran(store, CHAT_TOOLS, step(("chat_send", {"text": "hello"})), send=outbox)
    assert await events(chat, SendFailed) == [SendFailed("c1", "ConnectionError: no route")]
    assert await returned(chat) == [{"success": False, "error": "ConnectionError: no route"}]
    assert await sent_rows(chat) == []
    assert chat[sends].open == {}
    assert model.payloads[1]["messages"][-1]["results"][0]["failed"]


@pytest.mark.parametrize("text", ["", "  \n\t"])
async def test_nothing_is_not_sent(store: Store, text: str) -> None:
    outbox = Outbox()
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_send", {"text": text})), send=outbox)
    assert (outbox.sent, await events(chat, *SENDING)) == ([], [])
    assert (await returned(chat))[0]["success"] is False


async def test_an_agent_without_a_way_to_send_says_so_and_leaves_no_trace_of_a_send(store: Store) -> None:
    chat, _ = await ran(store, CHAT_TOOLS, step(("chat_send", {"text": "hello"})))
    assert await returned(chat) == [{"success": False, "error": "this agent has no way to send anything"}]
    assert await events(chat, *SENDING) == []


async def test_halves_of_surrogate_pairs_do_not_get_as_far_as_the_platform(chat: Chat) -> None:
    outbox, args = Outbox(), {"text": "a\ud83d"}
    await interrupted(chat, "chat_send", args)
    enter(RunContext(chat, "r1", send=outbox), "c1")
    assert await send_tool().call(args) == {"success": True}
    assert [text.encode() for _, _, text in outbox.sent] == ["a\ufffd".encode()]


async def test_the_answer_of_a_run_is_what_was_sent_last_even_if_a_later_send_failed(store: Store) -> None:
    outbox = Outbox()

    def break_down(_: dict[str, Any]) -> Any:
        outbox.fails = ConnectionError("down")
        return step(("chat_send", {"text": "three"}), ids=["c3"])

    script: list[Line] = [
        step(("chat_send", {"text": "one"})),
        step(("chat_send", {"text": "two"}), ids=["c2"]),
        break_down,
        "done",
    ]
    made, _ = agent(store, script, CHAT_TOOLS, send=outbox)
    result = await made.run("now this", chat="chat")
    assert (result.text, result.had_tool_failure) == ("two", True)


# --- ids -------------------------------------------------------------------------------------------------


async def test_the_same_words_again_are_sent_again_even_by_a_provider_that_repeats_its_ids(
    store: Store,
) -> None:
    outbox = Outbox()
    again = step(("chat_send", {"text": "ok"}))
    await ran(store, CHAT_TOOLS, again, again, send=outbox)
    chat, _ = await ran(store, CHAT_TOOLS, again, send=outbox)
    assert [text for _, _, text in outbox.sent] == ["ok"] * 3
    assert len({send for _, send, _ in outbox.sent}) == 3
    assert await returned(chat) == [{"success": True}] * 3
    assert await sent_rows(chat) == ["ok"] * 3


async def test_two_sends_of_one_step_that_have_the_same_id_are_both_sent(store: Store) -> None:
    outbox = Outbox()
    both = step(("chat_send", {"text": "one"}), ("chat_send", {"text": "two"}), ids=["c1", "c1"])
    chat, _ = await ran(store, CHAT_TOOLS, both, send=outbox)
    assert {text for _, _, text in outbox.sent} == {"one", "two"}
    assert len({send for _, send, _ in outbox.sent}) == 2
    assert await returned(chat) == [{"success": True}] * 2


# --- after a crash ---------------------------------------------------------------------------------------


async def resumed(store: Store, outbox: Outbox, **options: Any) -> list[Any]:
    made, _ = agent(store, ["done"], [send_tool(**options)], send=outbox)
    result = await made.resume("chat")
    assert result is not None
    assert result.outcome == "done"
    return await returned(await store.chat("chat"))


async def test_what_was_confirmed_before_the_crash_is_not_sent_again(store: Store, chat: Chat) -> None:
    sent = SendRequested("c1", HELLO), SendConfirmed("c1")
    await interrupted(chat, "chat_send", {"text": "hello"}, *sent)
    outbox = Outbox()
    assert await resumed(store, outbox) == [{"success": True}]
    assert outbox.sent == []
    assert len(await events(await store.chat("chat"), *SENDING)) == 2


async def test_what_had_failed_before_the_crash_is_told_and_not_tried_again(store: Store, chat: Chat) -> None:
    await interrupted(
        chat, "chat_send", {"text": "hello"}, SendRequested("c1", HELLO), SendFailed("c1", "no route")
    )
    outbox = Outbox()
    assert await resumed(store, outbox) == [{"success": False, "error": "no route"}]
    assert outbox.sent == []


async def test_what_the_crash_kept_from_being_begun_is_sent(store: Store, chat: Chat) -> None:
    await interrupted(chat, "chat_send", {"text": "hello"})
    outbox = Outbox()
    assert await resumed(store, outbox) == [{"success": True}]
    assert outbox.sent == [("chat", "c1", "hello")]


async def test_if_nobody_knows_whether_it_arrived_the_model_is_told_so_and_it_stays_open(
    store: Store, chat: Chat
) -> None:
    await interrupted(chat, "chat_send", {"text": "hello"}, SendRequested("c1", HELLO))
    outbox = Outbox()
    assert await resumed(store, outbox) == [{"success": False, "error": UNKNOWN}]
    assert outbox.sent == []
    assert [*(await store.chat("chat"))[sends].open] == ["c1"]


async def test_an_embedder_who_delivers_each_id_once_gets_it_again_by_the_same_id(
    store: Store, chat: Chat
) -> None:
    await interrupted(chat, "chat_send", {"text": "hello"}, SendRequested("c1", HELLO))
    outbox = Outbox()
    assert await resumed(store, outbox, after_crash="again") == [{"success": True}]
    assert outbox.sent == [("chat", "c1", "hello")]
    assert await events(await store.chat("chat"), *SENDING) == [
        SendRequested("c1", HELLO),
        SendConfirmed("c1"),
    ]


async def test_a_send_of_an_earlier_call_with_the_same_id_is_not_taken_for_this_one(
    store: Store, chat: Chat
) -> None:
    await chat.record(SendRequested("c1", HELLO), SendConfirmed("c1"))
    await interrupted(chat, "chat_send", {"text": "hello"})
    outbox = Outbox()
    assert await resumed(store, outbox) == [{"success": True}]
    assert len(outbox.sent) == 1


async def test_a_run_that_is_cancelled_while_it_sends_leaves_a_send_that_nobody_knows_of(
    store: Store,
) -> None:
    begun = asyncio.Event()

    async def send(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    made, _ = agent(store, [step(("chat_send", {"text": "hello"})), "done"], CHAT_TOOLS, send=send)
    run = asyncio.create_task(made.run("now this", chat="chat"))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    chat = await store.chat("chat")
    assert [*chat[sends].open] == ["c1"]
    assert await sent_rows(chat) == []
