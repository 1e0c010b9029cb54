"""OpenAIModel against a server that speaks Chat Completions, as OpenAI does and as others do."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from chatfold.agent import Policy, Store, assistant, user
from chatfold.agent.agent import Agent
from chatfold.agent.models import Piece
from chatfold.agent.models.errors import is_too_long
from chatfold.agent.models.openai import OpenAIModel
from chatfold.agent.summary import summarise_by_rules
from chatfold.eventlog import Compacted, Entry, ModelReturned, Reasoning, Text
from chatfold.projections.usage import TokenCounts
from chatfold.projections.usage import read_counts as cost_of
from tests.support.wire_server import (
    AWKWARD,
    Reply,
    Server,
    asking,
    check_openai_chat,
    chunk,
    counting,
    data,
    failure,
    heard,
    left_alone,
    offered,
    serving,
    spent,
    story,
)

TOO_LONG = {
    "error": {
        "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}
HELLO = data(
    chunk(role="assistant", content=""), chunk(content="Hel"), chunk(content="lo"), chunk(stop="stop")
)

Connect = Callable[..., OpenAIModel]


@pytest.fixture(name="connect")
async def a_connection() -> AsyncIterator[Connect]:
    """Makes models, and closes them."""
    models: list[OpenAIModel] = []

    def connect(server: Server, **params: Any) -> OpenAIModel:
        models.append(OpenAIModel("m", base_url=server.url, api_key="k", **params))
        return models[-1]

    yield connect
    for model in models:
        await model.aclose()


def call(index: int | None = None, id: str | None = None, name: str | None = None, args: Any = None) -> Any:
    fields = {"index": index, "id": id, "function": {"name": name, "arguments": args}}
    return {key: value for key, value in fields.items() if value is not None}


# --- what is heard ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(4096,), (1,), AWKWARD])
async def test_text_reasoning_and_usage_are_heard_however_the_stream_is_torn(
    connect: Connect, sizes: tuple[int, ...]
) -> None:
    body = data(
        chunk(role="assistant", reasoning_content="思考"),
        chunk(reasoning_content="🎈"),
        chunk(content="日本語"),
        chunk(content=" é\u2028"),
        chunk(stop="stop"),
        spent(
            prompt_tokens=20,
            completion_tokens=5,
            total_tokens=25,
            prompt_tokens_details={"cached_tokens": 16},
            completion_tokens_details={"reasoning_tokens": 3},
        ),
    )
    async with serving(Reply.sse(body, sizes=sizes)) as server:
        pieces, answer = await heard(connect(server), asking())
    assert pieces == [
        *(Piece("思考", "reasoning"), Piece("🎈", "reasoning"), Piece("日本語"), Piece(" é\u2028")),
    ]
    assert answer.parts == (Reasoning("思考🎈", "openai", "m"), Text("日本語 é\u2028"))
    assert (answer.calls, answer.stop) == ((), "stop")
    assert cost_of(answer.usage, failed=False) == TokenCounts(1, 0, 20, 5, 16, 3)


async def test_a_request_says_what_the_rules_ask_for_and_where_it_goes(connect: Connect) -> None:
    async with serving(Reply.sse(HELLO)) as server:
        model = connect(server, temperature=0.5, extra_body={"top_k": 3}, tool_choice="auto")
        await heard(model, asking())
    [request] = server.requests
    assert server.paths == ["/v1/chat/completions"]
    check_openai_chat(request["messages"])
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert request["stream"] is True
    assert request["stream_options"] == {"include_usage": True}
    assert (request["temperature"], request["top_k"]) == (0.5, 3)
    assert not request.keys() & {"tools", "tool_choice"}


@pytest.mark.parametrize(
    ("fragments", "whole"),
    [
        pytest.param(
            [
                [call(0, "c1", "read", ""), call(1, "c2", "wri", "")],
                [call(1, None, "te", '{"a":'), call(0, None, None, '{"p": ')],
                [call(1, None, None, "1}"), call(0, None, None, '"é"}')],
            ],
            [("c1", "read", {"p": "é"}), ("c2", "write", {"a": 1})],
            id="by index, in turns",
        ),
        pytest.param(
            [[call(None, "c1", "read", "{}")], [call(None, "c2", "read", '{"a"')], [call(args=": 1}")]],
            [("c1", "read", {}), ("c2", "read", {"a": 1})],
            id="without index",
        ),
        pytest.param(
            [[call(0, "c1", "read", '{"a"'), call(0, "c2", "write", "{")], [call(0, args="}")]],
            [("c1", "read", '{"a"'), ("c2", "write", {})],
            id="all of index 0",
        ),
        pytest.param(
            [[call(0, "c1", "read", "{")], [call(0, "c1", "read", "}")], [call(0, "c1", "read", "")]],
            [("c1", "read", {})],
            id="id and name in every fragment",
        ),
        pytest.param(
            [[call(0, "call_", "re", None)], [call(0, "1", "ad", None)], [call(0, None, None, "[1]")]],
            [("call_1", "read", [1])],
            id="id and name in fragments",
        ),
        pytest.param(
            [[call(name="read", args="{}")], [call(name="read", args='{"a": 2}')]],
            [(None, "read", {}), (None, "read", {"a": 2})],
            id="neither index nor id",
        ),
        pytest.param(
            [[call(0, "same", "read", "{}"), call(1, "same", "write", {"a": 1})], [call(2, "", "stop")]],
            [("same", "read", {}), (None, "write", {"a": 1}), (None, "stop", {})],
            id="the same id, arguments that are no string, none at all",
        ),
    ],
)
async def test_calls_are_put_together_whatever_a_server_leaves_out(
    connect: Connect, fragments: list[list[Any]], whole: list[tuple[str | None, str, Any]]
) -> None:
    body = data(*(chunk(tool_calls=some) for some in fragments), chunk(stop="tool_calls"))
    async with serving(Reply.sse(body, sizes=AWKWARD)) as server:
        _, answer = await heard(connect(server), asking("?", *offered("read", "write", "stop")))
    assert [(asked.name, asked.args) for asked in answer.calls] == [(name, args) for _, name, args in whole]
    ids = [asked.call for asked in answer.calls]
    assert all(wanted in (None, given) for given, (wanted, _, _) in zip(ids, whole, strict=True))
    assert len({*ids}) == len(ids)
    assert all(ids)
    assert answer.stop == "tool_calls"


async def test_a_tool_is_called_by_its_own_name_whatever_it_was_offered_as(connect: Connect) -> None:
    request = asking("?", *offered("files:read.text", "files_read_text", "x" * 80, "検索", "plain"))
    shown = [tool["function"]["name"] for tool in OpenAIModel("m", api_key="k").payload(request)["tools"]]
    calls = [call(index, f"c{index}", name, "{}") for index, name in enumerate([*shown, "made up"])]
    async with serving(Reply.sse(data(chunk(tool_calls=calls), chunk(stop="tool_calls")))) as server:
        _, answer = await heard(connect(server), request)
    assert [tool["function"]["name"] for tool in server.requests[0]["tools"]] == shown
    assert [asked.name for asked in answer.calls] == [*(tool.name for tool in request.tools), "made up"]


async def test_what_only_some_servers_send_is_understood(connect: Connect) -> None:
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    other = {**chunk(content="another answer"), "choices": [{"index": 1, "delta": {"content": "no"}}]}
    body = data(
        {},
        {"choices": None},
        {"choices": [{"delta": None}]},
        chunk(content=thinking),
        chunk(reasoning="so"),
        other,
        chunk(content=[{"type": "text", "text": "yes"}]),
        chunk(refusal=" but no"),
        {**chunk(stop="stop"), "usage": {"prompt_tokens": 3, "prompt_cache_hit_tokens": 2}},
        done=False,
    )
    async with serving(Reply.sse(body)) as server:
        _, answer = await heard(connect(server), asking())
    assert answer.parts == (Reasoning("hmso", "openai", "m"), Text("yes but no"))
    assert answer.usage == {"prompt_tokens": 3, "cached_tokens": 2}


# --- what fails ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "again", "after"),
    [
        (Reply.error(400, {"error": {"message": "no such parameter", "code": None}}), False, None),
        (Reply.error(401, {"error": {"message": "wrong key", "code": "invalid_api_key"}}), False, None),
        (Reply.error(403, {"error": "not for you"}), False, None),
        (Reply.error(404, {"error": {"message": "no such model"}}), False, None),
        (Reply.error(408, {}), True, None),
        (Reply.error(409, {}), True, None),
        (Reply.error(429, {"error": {"message": "Rate limit"}}, retry_after="1.5"), True, 1.5),
        (Reply.error(429, {}, retry_after_ms="250", retry_after="9"), True, 0.25),
        (Reply.error(429, {}, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), True, 0.0),
        (Reply.error(429, {}, retry_after="soon"), True, None),
        (Reply.error(429, {"error": {"message": "pay", "code": "insufficient_quota"}}), False, None),
        (Reply.error(429, {}, x_should_retry="false", retry_after="1"), False, None),
        (Reply.error(500, {"error": {"message": "oops"}}), True, None),
        (Reply(b"<html>" + b"x" * 9000, 502), True, None),
        (Reply.error(503, {"error": {"message": "overloaded"}}, retry_after="2"), True, 2.0),
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
    "reply", [Reply.error(400, TOO_LONG), Reply.sse(data(TOO_LONG)), Reply.error(413, {"error": {}})]
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
        (Reply.sse(data(chunk(content="Hel"))), True),
        (Reply.sse(b""), True),
        (Reply.sse(b'data: {"broken\n\n'), True),
        (Reply.sse(b"data: \xff\n\n"), True),
        (Reply.sse(data(chunk(content="Hel"), {"error": {"message": "upstream", "code": 502}})), True),
        (Reply.sse(data({"error": {"message": "lost"}})), True),
        (Reply.sse(data({"error": {"message": "bad", "type": "invalid_request_error"}})), False),
        (Reply.sse(data({"error": {"message": "no", "code": 403}})), False),
    ],
)
async def test_an_answer_that_breaks_off_has_failed(connect: Connect, reply: Reply, again: bool) -> None:
    async with serving(reply) as server:
        error = await failure(connect(server), asking())
    assert error.again == again


async def test_a_server_that_is_not_there_or_says_nothing_may_be_asked_again(connect: Connect) -> None:
    import openai

    silent = Reply.sse(HELLO, cut=40, end="silent")
    async with serving(Reply.sse(b"", end="mute"), silent, Reply.sse(HELLO)) as server:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k") as client:
            mine = OpenAIModel("m", client=client, timeout=0.5)
            slow = [await failure(mine, asking()) for _ in range(2)]
            await mine.aclose()
            patient = OpenAIModel("m", client=client)
            _, answer = await heard(patient, asking())  # a client that was given stays open
        model = connect(server)
    gone = await failure(model, asking())
    assert [error.again for error in (*slow, gone)] == [True, True, True]
    assert answer.parts == (Text("Hello"),)
    assert len(str(gone)) > len("APIConnectionError: Connection error.")  # it says what happened


async def test_a_parameter_that_nobody_knows_is_told_of(connect: Connect) -> None:
    async with serving() as server:
        error = await failure(connect(server, top_k=3), asking())
        with pytest.raises(TypeError, match="messages"):
            connect(server, messages=[])
        with pytest.raises(TypeError):
            connect(server, user=object())
    assert not error.again
    assert "top_k" in str(error)


@pytest.mark.parametrize(
    ("how", "end"), [("closed", "silent"), ("cancelled", "silent"), ("unanswered", "mute")]
)
async def test_an_answer_that_nobody_waits_for_is_hung_up_on(connect: Connect, how: str, end: str) -> None:
    async with serving(Reply.sse(data(chunk(content="Hel"), done=False), end=end)) as server:
        await left_alone(connect(server), how)
        await asyncio.wait_for(server.left.wait(), 60)


# --- the package -----------------------------------------------------------------------------------------


def test_the_package_is_imported_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys, chatfold.agent, chatfold.agent.models.openai, chatfold.agent.models.anthropic; print({'openai', 'anthropic'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'chatfold[openai]'")):
        OpenAIModel("m")


# --- a whole run -----------------------------------------------------------------------------------------


async def test_a_run_waits_and_compacts_and_uses_no_tool_twice(connect: Connect) -> None:
    read, used = counting()
    name = OpenAIModel("m", api_key="k").payload(asking("?", read.spec))["tools"][0]["function"]["name"]
    wants = data(chunk(tool_calls=[call(0, "c1", name, '{"path": "lexer.py"}')]), chunk(stop="tool_calls"))
    replies = (
        Reply.error(429, {"error": {"message": "Rate limit reached"}}, retry_after_ms="10"),
        Reply.sse(wants, sizes=AWKWARD),
        Reply.error(400, TOO_LONG),
        Reply.sse(data(chunk(content="Because of strip()."), chunk(stop="stop"))),
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
        *("asked", "again: 1", "asked", "tool_calls", "files:read.text"),
        *("asked", "again: compacted", "asked", "stop"),
    ]
    [waited] = [
        e.event.meta for e in entries if isinstance(e.event, ModelReturned) and "wait" in e.event.meta
    ]
    assert waited == {"retry": 1, "wait": 0.01}
    assert sum(isinstance(entry.event, Compacted) for entry in entries) >= 1
    for request in server.requests:
        check_openai_chat(request["messages"])
        assert [tool["function"]["name"] for tool in request["tools"]] == [name]
    assert len(server.requests[3]["messages"]) < len(server.requests[2]["messages"])
