"""Telling that a provider refused a prompt as too long, from the very errors that the providers' libraries raise."""

from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from chatfold.agent import Chat, Policy, PromptTooLarge, assistant, user
from chatfold.agent.models.errors import is_too_long
from chatfold.eventlog import Compacted
from tests.support.chats import a_chat, a_store, texts, turns  # noqa: F401

Ask = Callable[[int, Any], Exception]
"""What a request raises that is answered with this status and body."""


def transport(status: int, body: Any) -> httpx2.Client:
    stream = isinstance(body, str)
    kind = {"content-type": "text/event-stream" if stream else "application/json"}
    content = body.encode() if stream else None

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers=kind, content=content, json=None if stream else body)

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def of_openai(status: int, body: Any) -> Exception:
    client = openai.OpenAI(api_key="none", max_retries=0, http_client=transport(status, body))
    try:
        answer = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=isinstance(body, str)
        )
        list(answer)
    except openai.APIError as error:
        return error
    raise AssertionError("the request was answered")


def of_anthropic(status: int, body: Any) -> Exception:
    client = anthropic.Anthropic(api_key="none", max_retries=0, http_client=transport(status, body))
    try:
        with client.messages.stream(
            model="m", max_tokens=1, messages=[{"role": "user", "content": "hi"}]
        ) as answer:
            answer.until_done()
    except anthropic.APIError as error:
        return error
    raise AssertionError("the request was answered")


def openai_body(message: str, code: str | None = None, kind: str = "invalid_request_error") -> Any:
    return {"error": {"message": message, "type": kind, "param": "messages", "code": code}}


def anthropic_body(message: str, kind: str = "invalid_request_error") -> Any:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


LONG = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. "
    "Please reduce the length of the messages."
)
PER_MINUTE = (
    "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 60000. The "
    "input or output tokens must be reduced in order to run successfully."
)
STREAM = 'event: error\ndata: {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 > 1"}}\n\n'

TOO_LONG: dict[str, tuple[Ask, int, Any]] = {
    "openai": (of_openai, 400, openai_body(LONG, "context_length_exceeded")),
    "openai, by its code alone": (of_openai, 400, openai_body("Bad request", "context_length_exceeded")),
    "openai, newer models": (
        of_openai,
        400,
        openai_body(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650."
        ),
    ),
    "openai responses": (
        of_openai,
        400,
        openai_body(
            "Your input exceeds the context window of this model. Please adjust your input and try again."
        ),
    ),
    "openai, while streaming": (
        of_openai,
        200,
        'data: {"error":{"message":"Bad request","type":"invalid","code":"context_length_exceeded"}}\n\n',
    ),
    "openrouter": (of_openai, 400, openai_body("This endpoint's maximum context length is 128000 tokens.")),
    "gemini": (
        of_openai,
        400,
        openai_body(
            "The input token count (2845475) exceeds the maximum number of tokens allowed (1048576)."
        ),
    ),
    "bedrock": (of_openai, 400, openai_body("Input is too long for requested model.")),
    "groq": (of_openai, 400, openai_body("Please reduce the length of the messages or completion.")),
    "llama.cpp": (
        of_openai,
        400,
        openai_body("the request exceeds the available context size, try increasing it"),
    ),
    "xai": (
        of_openai,
        400,
        openai_body("This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    ),
    "kimi": (of_openai, 400, openai_body("Invalid request: Your request exceeded model token limit: 8192")),
    "anthropic": (of_anthropic, 400, anthropic_body("prompt is too long: 212000 tokens > 200000 maximum")),
    "anthropic, with its output": (
        of_anthropic,
        400,
        anthropic_body(
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, "
            "decrease input length or `max_tokens` and try again"
        ),
    ),
    "anthropic, in bytes": (
        of_anthropic,
        413,
        anthropic_body("Request exceeds the maximum size", "request_too_large"),
    ),
    "anthropic, while streaming": (of_anthropic, 200, STREAM),
}

SOMETHING_ELSE: dict[str, tuple[Ask, int, Any]] = {
    "openai, tokens per minute": (of_openai, 429, openai_body(PER_MINUTE, "rate_limit_exceeded", "tokens")),
    "openai, quota": (
        of_openai,
        429,
        openai_body(
            "You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota",
        ),
    ),
    "openai, output": (
        of_openai,
        400,
        openai_body("max_tokens is too large: 200000. This model supports at most 16384 completion tokens."),
    ),
    "openai, a name": (
        of_openai,
        400,
        openai_body(
            "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64."
        ),
    ),
    "openai, down": (of_openai, 500, openai_body("The server had an error while processing your request.")),
    "anthropic, tokens per minute": (
        of_anthropic,
        429,
        anthropic_body(
            "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
            "rate_limit_error",
        ),
    ),
    "anthropic, a picture": (
        of_anthropic,
        400,
        anthropic_body(
            "messages.1.content.0.image: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"
        ),
    ),
    "anthropic, output": (
        of_anthropic,
        400,
        anthropic_body(
            "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for m"
        ),
    ),
    "anthropic, overloaded": (of_anthropic, 529, anthropic_body("Overloaded", "overloaded_error")),
}


def raised(name: str) -> Exception:
    ask, status, body = (TOO_LONG | SOMETHING_ELSE)[name]
    return ask(status, body)


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_prompt_that_is_too_long_is_told(name: str) -> None:
    assert is_too_long(raised(name))


@pytest.mark.parametrize("name", SOMETHING_ELSE)
def test_another_limit_is_not_meant(name: str) -> None:
    assert not is_too_long(raised(name))


def test_errors_that_are_nobodys_prompt_are_not_meant() -> None:
    request = httpx2.Request("POST", "https://api.example.org")
    for error in (
        openai.APIConnectionError(request=request),
        openai.APITimeoutError(request),
        anthropic.APIConnectionError(request=request),
        KeyError("context"),
        TimeoutError(),
    ):
        assert not is_too_long(error)


# --- wrapped ---------------------------------------------------------------------------------------------


def chained(
    outer: BaseException, *, cause: BaseException | None = None, context: BaseException | None = None
) -> Any:
    outer.__cause__, outer.__context__ = cause, context
    return outer


def test_the_error_may_be_the_cause_of_another_or_one_of_a_group() -> None:
    long = raised("anthropic")
    for wrapped in (
        chained(RuntimeError("No output generated."), cause=chained(ValueError("stream"), cause=long)),
        chained(RuntimeError("No output generated."), context=long),
        ExceptionGroup("two tasks failed", [KeyError("x"), long]),
        BaseExceptionGroup("", [ExceptionGroup("", [chained(RuntimeError("x"), cause=long)])]),
    ):
        assert is_too_long(wrapped)


def test_errors_that_lead_back_to_themselves_are_looked_at_once() -> None:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__context__ = other, one
    assert not is_too_long(one)


def test_what_was_raised_last_decides() -> None:
    long, busy = raised("openai"), raised("openai, tokens per minute")
    assert is_too_long(
        chained(raised("openai"), context=busy)
    )  # too long, when it was tried again after a pause
    assert not is_too_long(chained(raised("openai, tokens per minute"), context=long))


# --- what is done about it -------------------------------------------------------------------------------


async def test_after_such_an_error_the_prompt_is_half_as_large(chat: Chat) -> None:
    for number in range(40):
        await chat.record(user(f"question {number}"), assistant("word " * 100))
    before = (await chat.cut()).tokens.count
    [entry] = await chat.compact_after(raised("openai"))
    assert isinstance(entry.event, Compacted)
    assert entry.event.trigger == "provider_error"
    assert (await chat.cut()).tokens.count <= before // 2
    await chat.compact_after(raised("anthropic"))  # it was still too long
    assert (await chat.cut()).tokens.count <= before // 4
    assert (await texts(chat))[-2] == "question 39"


async def test_any_other_error_is_raised_as_it_is_and_nothing_is_done(chat: Chat) -> None:
    await turns(chat, 5)
    error = raised("openai, tokens per minute")
    with pytest.raises(openai.RateLimitError) as caught:
        await chat.compact_after(error)
    assert caught.value is error
    assert chat.seq == 10


async def test_what_cannot_be_made_smaller_is_told(chat: Chat) -> None:
    await chat.user("word " * 1_000)
    with pytest.raises(PromptTooLarge):
        await chat.compact_after(raised("openai"), Policy(summary=100))
    assert chat.seq == 1


async def test_calls_that_were_made_are_not_made_again_after_a_compaction(chat: Chat) -> None:
    await turns(chat, 20)
    await chat.user("send the mail")
    call = await chat.tool_call("send_mail")
    await chat.record(call.result("sent"))
    await chat.compact_after(raised("openai"), Policy(summary=50))
    assert await chat.open_calls() == []
    assert (await texts(chat))[-3:] == ["send the mail", "…", "sent"]
