"""OpenAIModel: OpenAI's Chat Completions, and every server that speaks them. Wants the extra ``chatfold[openai]``.

    model = OpenAIModel("gpt-5", temperature=0.2)
    model = OpenAIModel("qwen3", base_url="http://localhost:8000/v1", api_key="none", extra_body={"top_k": 20})

What is sent is the payload, as it is: the parameters with every request, as the package's ``create`` takes them. The
answer is streamed. Reasoning is shown and kept where a server tells it, and not sent back: see ``to_openai``. The
package's own retries are off, since the run's are events; failures: see ``providers``. A stream that ends without a
``finish_reason`` has failed.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, TypeAlias

from chatfold.agent.models import Answer, Piece, Request
from chatfold.agent.openai_calls import Calls
from chatfold.agent.providers import (
    GO_ON,
    counts,
    cut_short,
    failures,
    offers,
    package,
    params_of,
    real_names,
    said,
    sent,
)
from chatfold.eventlog import Part, Reasoning, Text
from chatfold.projections import Message, to_openai

Kind: TypeAlias = Literal["text", "reasoning"]


class OpenAIModel:
    """``client``: an ``AsyncOpenAI`` of yours, or one for Azure, …; you close it. Else ``aclose`` closes ours."""

    provider = "openai"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: Any = None,
        timeout: float | None = None,
        **params: Any,
    ) -> None:
        openai = package("openai")
        options: dict[str, Any] = {"max_retries": 0} | ({} if timeout is None else {"timeout": timeout})
        self.name = name
        self.payload_settings = params_of(params)
        self._is_ours = client is None
        if client is None:
            self._client = openai.AsyncOpenAI(base_url=base_url, api_key=api_key, **options)
        else:
            self._client = client.with_options(**options)

    async def aclose(self) -> None:
        if self._is_ours:
            await self._client.close()

    def payload(self, request: Request) -> dict[str, Any]:
        return openai_payload(request, self.name, self.payload_settings)

    async def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | Answer]:
        names = real_names((tool["function"] for tool in payload.get("tools", ())), "parameters")
        heard = _Heard()
        with failures(TypeError):  # of a parameter that ``create`` does not know
            stream = await self._client.chat.completions.create(**payload)
        with failures():
            async with stream:
                async for chunk in stream:
                    for piece in heard.take(chunk):
                        yield piece
        if not heard.stop:
            raise cut_short()
        parts = heard.parts(self.provider, self.name)
        yield Answer(parts, heard.calls.asked(names), heard.usage, heard.stop)


def openai_payload(request: Request, name: str, params: dict[str, Any]) -> dict[str, Any]:
    """What a model of this name, set up like this, is sent. Needs neither the package nor a key."""
    system = Message("system", (), (Text(request.system),))
    payload: dict[str, Any] = {
        "model": name,
        "messages": _ending_with_a_question(to_openai((system, *request.messages))),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        offered = offers(request.tools, "parameters")
        payload["tools"] = [{"type": "function", "function": function} for function in offered]
    return sent(payload, params, tools=bool(request.tools))


def _ending_with_a_question(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some servers refuse a conversation in which it is not the model's turn."""
    roles = [message["role"] for message in messages if message["role"] not in ("system", "developer")]
    if not roles or roles[-1] == "assistant":
        return [*messages, {"role": "user", "content": GO_ON}]
    return messages


# --- what is heard ---------------------------------------------------------------------------------------


class _Heard:
    """An answer, as far as it has come. Nothing is taken for granted of a chunk: servers leave out what they like."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.usage: dict[str, int] = {}
        self.stop = ""
        self._words: dict[str, list[str]] = {"reasoning": [], "text": []}

    def take(self, chunk: Any) -> Iterator[Piece]:
        self.usage = _usage(getattr(chunk, "usage", None)) or self.usage
        for choice in getattr(chunk, "choices", None) or ():
            if getattr(choice, "index", 0):
                continue  # another answer to the same question
            delta = getattr(choice, "delta", None)
            for piece in _pieces(delta):
                self._words[piece.kind].append(piece.text)
                yield piece
            for call in getattr(delta, "tool_calls", None) or ():
                self.calls.take(call)
            self.stop = said(choice, "finish_reason") or self.stop

    def parts(self, provider: str, model: str) -> tuple[Part, ...]:
        thought, text = ("".join(words) for words in self._words.values())
        parts: list[Part] = [Reasoning(thought, provider, model)] if thought else []
        return (*parts, Text(text)) if text else tuple(parts)


def _pieces(delta: Any) -> Iterator[Piece]:
    """The words of a delta, under whatever name; what the model says when it refuses is said to the user, too."""
    if thought := said(delta, "reasoning_content", "reasoning"):
        yield Piece(thought, "reasoning")
    content = getattr(delta, "content", None)
    yield from _texts(content if isinstance(content, list) else [content])
    yield from _texts([said(delta, "refusal")])


def _texts(parts: list[Any], kind: Kind = "text") -> Iterator[Piece]:
    """Mistral's thinking models answer in parts."""
    for part in parts:
        match part:
            case str(text) | {"type": "text", "text": str(text)} if text:
                yield Piece(text, kind)
            case {"type": "thinking", "thinking": list(thoughts)}:
                yield from _texts(thoughts, "reasoning")


def _usage(usage: Any) -> dict[str, int]:
    read = getattr(usage, "prompt_tokens_details", None)
    written = getattr(usage, "completion_tokens_details", None)
    cached = getattr(read, "cached_tokens", None)
    return counts(
        {
            "prompt_tokens": getattr(usage, "prompt_tokens", None),
            "completion_tokens": getattr(usage, "completion_tokens", None),
            "cached_tokens": cached or getattr(usage, "prompt_cache_hit_tokens", cached),  # DeepSeek's
            "reasoning_tokens": getattr(written, "reasoning_tokens", None),
        }
    )
