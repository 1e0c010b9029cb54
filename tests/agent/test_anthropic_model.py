"""AnthropicModel against a server that speaks the Messages API, as Anthropic does and as others do."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from chatfold.agent import Policy, Store, assistant, user
from chatfold.agent.agent import Agent
from chatfold.agent.messages import ToolCall
from chatfold.agent.models import Piece, Request
from chatfold.agent.models.anthropic import MAX_TOKENS, AnthropicModel
from chatfold.agent.models.errors import is_too_long
from chatfold.agent.summary import summarise_by_rules
from chatfold.eventlog import Compacted, Entry, ModelReturned, Reasoning, Text
from chatfold.projections import Message
from chatfold.projections.prompt import Call, Result
from chatfold.projections.usage import TokenCounts, read_counts
from tests.support.wire_server import (
    AWKWARD,
    Reply,
    Server,
    asking,
    begun,
    block,
    check_anthropic,
    counting,
    ended,
    events,
    failure,
    heard,
    left_alone,
    offered,
    serving,
    story,
)

Connect = Callable[..., AnthropicModel]


def problem(kind: str, message: str = "") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def text(index: int, *words: str) -> list[dict[str, Any]]:
    deltas = ({"type": "text_delta", "text": word} for word in words)
    return block(index, {"type": "text", "text": ""}, *deltas)


def use(index: int, id: str, name: str, *fragments: str, **input: Any) -> list[dict[str, Any]]:
    deltas = ({"type": "input_json_delta", "partial_json": fragment} for fragment in fragments)
    return block(index, {"type": "tool_use", "id": id, "name": name, "input": input}, *deltas)


HELLO = events(begun(), *text(0, "Hel", "lo"), *ended())
TOO_LONG = problem("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")


@pytest.fixture(name="connect")
async def a_connection() -> AsyncIterator[Connect]:
    """Makes models, and closes them."""
    models: list[AnthropicModel] = []

    def connect(server: Server, **params: Any) -> AnthropicModel:
        models.append(AnthropicModel("claude", base_url=server.host, api_key="k", **params))
        return models[-1]

    yield connect
    for model in models:
        await model.aclose()


# --- what is heard ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(4096,), (1,), AWKWARD])
async def test_thoughts_text_calls_and_usage_are_heard_however_the_stream_is_torn(
    connect: Connect, sizes: tuple[int, ...]
) -> None:
    thoughts = ({"type": "thinking_delta", "thinking": word} for word in ("思", "考🎈"))
    signed = ({"type": "signature_delta", "signature": some} for some in ("sig", "ned"))
    body = events(
        begun(cache_creation_input_tokens=100, cache_read_input_tokens=1000, output_tokens=1),
        *block(0, {"type": "thinking", "thinking": "", "signature": ""}, *thoughts, *signed),
        *block(1, {"type": "redacted_thinking", "data": "hidden=="}),
        *text(2, "日本", "語\u2028"),
        *use(3, "toolu_1", "read", "", '{"pa', 'th": "é"}'),
        *use(4, "toolu_2", "read"),
        *ended("tool_use", output_tokens=30, output_tokens_details={"thinking_tokens": 20}, input_tokens=0),
    )
    async with serving(Reply.sse(body, sizes=sizes)) as server:
        pieces, answer = await heard(connect(server), asking("?", *offered("read")))
    thought = [Piece("思", "reasoning"), Piece("考🎈", "reasoning")]
    assert pieces == [*thought, Piece("日本"), Piece("語\u2028")]
    assert answer.parts == (
        Reasoning("思考🎈", "anthropic", "claude", "signed"),
        Reasoning("", "anthropic", "claude", "hidden==", redacted=True),
        Text("日本語\u2028"),
    )
    assert answer.calls == (ToolCall("toolu_1", "read", {"path": "é"}), ToolCall("toolu_2", "read", {}))
    assert answer.stop == "tool_use"
    assert read_counts(answer.usage, failed=False) == TokenCounts(1, 0, 9 + 1100, 30, 1000, 20)


async def test_a_request_obeys_the_rules_and_thoughts_go_back_to_the_model_that_had_them(
    connect: Connect,
) -> None:
    async with serving(Reply.sse(HELLO)) as server:
        thinking = {"type": "enabled", "budget_tokens": 2000}
        model = connect(server, thinking=thinking)
        thoughts = (
            Reasoning("hm", "anthropic", "claude", "signed"),
            Reasoning("", "anthropic", "claude", "hidden==", redacted=True),
            Reasoning("not mine", "openai", "gpt", "other"),
        )
        called = Message("assistant", (2,), thoughts, (Call(2, "c1", "files:read", {"path": "a"}),))
        returned = Message("tool", (3,), results=(Result(2, "files:read", 3, (Text("text"),), failed=False),))
        messages = (*asking().messages, called, returned)
        await heard(model, Request("Be brief.", messages, offered("files:read")))
    [request] = server.requests
    assert server.paths == ["/v1/messages"]
    check_anthropic({name: request[name] for name in ("system", "messages")}, prefill=False)
    assert (request["model"], request["max_tokens"], request["stream"]) == ("claude", MAX_TOKENS, True)
    assert request["thinking"] == thinking
    blocks = request["messages"][1]["content"]
    assert [one["type"] for one in blocks] == ["thinking", "redacted_thinking", "tool_use"]
    assert blocks[0]["signature"] == "signed"
    assert blocks[2]["name"] == request["tools"][0]["name"]


async def test_a_tool_is_called_by_its_own_name_whatever_it_was_offered_as(connect: Connect) -> None:
    request = asking("?", *offered("files:read.text", "files_read_text", "x" * 80, "検索", "plain"))
    shown = [tool["name"] for tool in AnthropicModel("m", api_key="k").payload(request)["tools"]]
    uses = [use(index, f"c{index}", name) for index, name in enumerate([*shown, "made up"])]
    body = events(begun(), *(event for one in uses for event in one), *ended("tool_use"))
    async with serving(Reply.sse(body)) as server:
        _, answer = await heard(connect(server), request)
    assert [tool["name"] for tool in server.requests[0]["tools"]] == shown
    assert [asked.name for asked in answer.calls] == [*(tool.name for tool in request.tools), "made up"]


async def test_what_only_some_servers_send_is_understood(connect: Connect) -> None:
    body = events(
        {"type": "message_start"},
        {"type": "not_yet_invented", "index": 0},
        *block(
            0, {"type": "text", "text": "at "}, {"type": "text_delta", "text": "once"}, {"type": "new_delta"}
        ),
        *block(1, {"type": "not_yet_invented_either"}, {"type": "text_delta", "text": "not told"}),
        {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "of nothing"}},
        *use(2, "same", "read", path="whole"),
        *use(3, "same", "read", '{"path": "cut o'),
        *use(4, "", "read", "[" * 200 + "]" * 200),
        *ended("max_tokens", input_tokens=12)[:1],
    )
    async with serving(Reply.sse(body)) as server:
        pieces, answer = await heard(connect(server), asking())
    assert pieces == [Piece("at "), Piece("once")]
    assert answer.parts == (Text("at once"),)
    assert [asked.args for asked in answer.calls] == [
        *({"path": "whole"}, '{"path": "cut o', "[" * 200 + "]" * 200),  # deeper than a log holds
    ]
    ids = [asked.call for asked in answer.calls]
    assert ids[0] == "same"
    assert len({*ids, ""}) == 4
    assert (answer.stop, answer.usage) == ("max_tokens", {"input_tokens": 12, "output_tokens": 7})


# --- what fails ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "again", "after"),
    [
        (Reply.error(400, problem("invalid_request_error", "max_tokens: required")), False, None),
        (Reply.error(401, problem("authentication_error", "invalid x-api-key")), False, None),
        (Reply.error(403, problem("permission_error")), False, None),
        (Reply.error(404, problem("not_found_error", "model: claude")), False, None),
        (Reply.error(408, {}), True, None),
        (Reply.error(409, {}), True, None),
        (Reply.error(429, problem("rate_limit_error"), retry_after="3"), True, 3.0),
        (Reply.error(429, problem("rate_limit_error"), retry_after_ms="250"), True, 0.25),
        (Reply.error(429, problem("rate_limit_error"), x_should_retry="false"), False, None),
        (Reply.error(500, problem("api_error")), True, None),
        (Reply(b"<html>" + b"x" * 9000, 502), True, None),
        (Reply.error(529, problem("overloaded_error", "Overloaded"), retry_after="0.5"), True, 0.5),
    ],
)
async def test_a_refusal_says_whether_to_try_again_and_when(
    connect: Connect, reply: Reply, again: bool, after: float | None
) -> None:
    async with serving(reply) as server:
        error = await failure(connect(server), asking())
    assert (error.again, error.after) == (again, after)
    assert len(server.requests) == 1  # the package itself does not try again
    assert len(str(error)) < 2500
    assert not is_too_long(error)


@pytest.mark.parametrize(
    "reply",
    [
        Reply.error(400, TOO_LONG),
        Reply.sse(events(TOO_LONG)),
        Reply.error(413, problem("request_too_large", "Request exceeds the maximum size")),
    ],
)
async def test_a_prompt_that_is_too_long_is_told_as_such(connect: Connect, reply: Reply) -> None:
    async with serving(reply) as server:
        error = await failure(connect(server), asking())
    assert is_too_long(error)
    assert not error.again


@pytest.mark.parametrize(
    ("reply", "again"),
    [
        (Reply.sse(HELLO, cut=len(HELLO) // 2, end="closed"), True),
        (Reply.sse(HELLO, cut=0, end="closed"), True),
        (Reply.sse(events(begun(), *text(0, "Hel"))), True),
        (Reply.sse(events(begun(), *text(0, "Hel"), *ended(None))), True),
        (Reply.sse(b""), True),
        (Reply.sse(b'event: message_start\ndata: {"broken\n\n'), True),
        (Reply.sse(b"event: message_start\ndata: \xff\n\n"), True),
        (Reply.sse(events(begun(), *text(0, "Hel"), problem("overloaded_error", "Overloaded"))), True),
        (Reply.sse(b"event: error\ndata: not JSON\n\n"), True),
        (Reply.sse(events(begun(), problem("invalid_request_error", "bad"))), False),
    ],
)
async def test_an_answer_that_breaks_off_has_failed(connect: Connect, reply: Reply, again: bool) -> None:
    async with serving(reply) as server:
        error = await failure(connect(server), asking())
    assert error.again == again


async def test_a_server_that_is_not_there_or_says_nothing_may_be_asked_again(connect: Connect) -> None:
    import anthropic

    silent = Reply.sse(HELLO, cut=len(events(begun())) + 10, end="silent")
    async with serving(Reply.sse(b"", end="mute"), silent, Reply.sse(HELLO)) as server:
        async with anthropic.AsyncAnthropic(base_url=server.host, api_key="k") as client:
            mine = AnthropicModel("m", client=client, timeout=0.5)
            slow = [await failure(mine, asking()) for _ in range(2)]
            await mine.aclose()
            patient = AnthropicModel("m", client=client)
            _, answer = await heard(patient, asking())  # a client that was given stays open
        model = connect(server)
    gone = await failure(model, asking())
    assert [error.again for error in (*slow, gone)] == [True, True, True]
    assert answer.parts == (Text("Hello"),)
    assert len(str(gone)) > len("APIConnectionError: Connection error.")  # it says what happened


async def test_what_was_not_set_up_is_told_of(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as server:
        unknown = await failure(connect(server, top_p_p=3), asking())
        with pytest.raises(TypeError, match="tools"):
            connect(server, tools=[])
    assert not unknown.again
    assert "top_p_p" in str(unknown)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'chatfold[anthropic]'")):
        AnthropicModel("m")


@pytest.mark.parametrize(
    ("how", "end"), [("closed", "silent"), ("cancelled", "silent"), ("unanswered", "mute")]
)
async def test_an_answer_that_nobody_waits_for_is_hung_up_on(connect: Connect, how: str, end: str) -> None:
    async with serving(Reply.sse(events(begun(), *text(0, "Hel")[:3]), end=end)) as server:
        await left_alone(connect(server), how)
        await asyncio.wait_for(server.left.wait(), 60)


# --- a whole run -----------------------------------------------------------------------------------------


async def test_a_run_waits_and_compacts_and_uses_no_tool_twice(connect: Connect) -> None:
    read, used = counting()
    name = AnthropicModel("m", api_key="k").payload(asking("?", read.spec))["tools"][0]["name"]
    signed = {"type": "thinking", "thinking": "hm", "signature": "signed"}
    wants = [*block(0, signed), *use(1, "toolu_1", name, '{"path": "lexer.py"}')]
    replies = (
        Reply.error(429, problem("rate_limit_error", "Slow down"), retry_after_ms="10"),
        Reply.sse(events(begun(input_tokens=4000), *wants, *ended("tool_use")), sizes=AWKWARD),
        Reply.error(400, TOO_LONG),
        Reply.sse(events(begun(), *text(0, "Because of strip()."), *ended())),
    )
    async with serving(*replies) as server, Store.memory() as store:
        chat = await store.chat("c")
        for number in range(12):
            await chat.record(user(f"question {number} " + "long " * 200), assistant(f"answer {number}"))
        agent = Agent(
            model=connect(server),
            tools=[read],
            store=store,
            policy=Policy(summary=100),
            summarise=summarise_by_rules,
        )
        result = await agent.run("Why does the lexer drop newlines?", chat="c")
        entries: list[Entry] = [entry async for entry in (await store.chat("c")).entries(1)]
    assert (result.outcome, result.text) == ("done", "Because of strip().")
    assert used == ["lexer.py"]
    assert story(entries) == [
        *("asked", "again: 1", "asked", "tool_use", "files:read.text"),
        *("asked", "again: compacted", "asked", "end_turn"),
    ]
    metas = [entry.event.meta for entry in entries if isinstance(entry.event, ModelReturned)]
    assert [meta for meta in metas if "wait" in meta] == [{"retry": 1, "wait": 0.01}]
    assert any(isinstance(entry.event, Compacted) for entry in entries)
    for request in server.requests:
        check_anthropic({name: request[name] for name in ("system", "messages")}, prefill=False)
    assert len(server.requests[3]["messages"]) < len(server.requests[2]["messages"])
    kinds = [one["type"] for one in server.requests[3]["messages"][-2]["content"]]
    assert kinds == ["thinking", "tool_use"]  # the thought went back with its signature
