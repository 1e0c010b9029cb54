"""OpenAIModel: OpenAI's Chat Completions, and every server that speaks them. Wants the extra ``chatfold[openai]``.

    model = OpenAIModel("gpt-5", temperature=0.2)
    model = OpenAIModel("qwen3", base_url="http://localhost:8000/v1", api_key="none", extra_body={"top_k": 20})

What is sent is the payload, as it is: the parameters with every request, as the package's ``create`` takes them. The
answer is streamed. Reasoning is shown and kept where a server tells it, and not sent back: see ``to_openai``. Failures: see
``errors``. A stream that ends without a ``finish_reason`` has failed.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from chatfold.agent.messages import ToolCall
from chatfold.agent.models import ModelReply, Piece, Request
from chatfold.agent.models.common import (
    GO_ON,
    SdkModel,
    add_params,
    claim_id,
    decode_args,
    first_text,
    keep_counts,
    offer_tools,
    params_of,
    real_names,
)
from chatfold.eventlog import Part, Reasoning, Text
from chatfold.projections import Message, to_openai
from chatfold.projections.shapes.values import json_text

Kind: TypeAlias = Literal["text", "reasoning"]


class OpenAIModel(SdkModel):
    """A model that is asked by OpenAI's Chat Completions.

        OpenAIModel("gpt-5", temperature=0.2)
        OpenAIModel("qwen3", base_url="http://localhost:8000/v1", api_key="none")

    ``client``: an ``AsyncOpenAI`` of yours, or one for Azure, …; you close it. Else ``aclose`` closes ours. ``timeout``: seconds.
    All other names are sent with every request. ImportError without ``pip install 'chatfold[openai]'``.
    """

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
        super().__init__(
            name, "AsyncOpenAI", client=client, base_url=base_url, api_key=api_key, timeout=timeout
        )
        self.payload_settings = params_of(params)

    def payload(self, request: Request) -> dict[str, Any]:
        """Exactly what is sent, as JSON."""
        return openai_payload(request, self.name, self.payload_settings)

    def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        """Sends it; yields the answer as it comes and, last, the whole ``ModelReply``. Raises ``ModelFailed``."""
        names = real_names((tool["function"] for tool in payload.get("tools", ())), "parameters")
        return self._stream(self._client.chat.completions.create, payload, _Heard(), names)


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
        offered = offer_tools(request.tools, "parameters")
        payload["tools"] = [{"type": "function", "function": function} for function in offered]
    return add_params(payload, params, tools=bool(request.tools))


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
        self._calls = _Calls()
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
                self._calls.take(call)
            self.stop = first_text(choice, "finish_reason") or self.stop

    def parts(self, provider: str, model: str) -> tuple[Part, ...]:
        thought, text = ("".join(words) for words in self._words.values())
        parts: list[Part] = [Reasoning(thought, provider, model)] if thought else []
        return (*parts, Text(text)) if text else tuple(parts)

    def calls(self, names: Mapping[str, str]) -> tuple[ToolCall, ...]:
        return self._calls.finish(names)


def _pieces(delta: Any) -> Iterator[Piece]:
    """The words of a delta, under whatever name; what the model says when it refuses is said to the user, too."""
    if thought := first_text(delta, "reasoning_content", "reasoning"):
        yield Piece(thought, "reasoning")
    content = getattr(delta, "content", None)
    yield from _texts(content if isinstance(content, list) else [content])
    yield from _texts([first_text(delta, "refusal")])


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
    return keep_counts(
        {
            "prompt_tokens": getattr(usage, "prompt_tokens", None),
            "completion_tokens": getattr(usage, "completion_tokens", None),
            "cached_tokens": cached or getattr(usage, "prompt_cache_hit_tokens", cached),  # DeepSeek's
            "reasoning_tokens": getattr(written, "reasoning_tokens", None),
        }
    )


# --- calls -----------------------------------------------------------------------------------------------


class _Call(msgspec.Struct):
    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""

    def add(self, fragment: "_Call") -> None:
        self.id = _longer(self.id, fragment.id)
        self.name = _longer(self.name, fragment.name)
        self.arguments += fragment.arguments

    def ends_before(self, fragment: "_Call") -> bool:
        if not fragment.name:
            return False
        if fragment.id and fragment.id != self.id:
            return fragment.index is None or bool(self.arguments)
        return bool(fragment.arguments) and _is_complete(self.arguments)


class _Calls:
    """Tool calls of Chat Completions, put together from the fragments in which they are streamed.

    A fragment has the ``index`` of its call, says id and name at first, and then ever more of the arguments. So it is at
    OpenAI. Others leave out the index or say 0 for all, repeat the id or the name in every fragment, have no ids or the
    same one for all. A fragment goes on with the call it names, by index, else by id, else with the last one; it begins
    another if it has a name and either another id, after arguments or without an index, or arguments after complete ones.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def take(self, delta: Any) -> None:
        """One element of ``delta.tool_calls``."""
        fragment = _fragment(delta)
        call = self._of(fragment)
        if call is None or call.ends_before(fragment):
            self._calls.append(fragment)
        else:
            call.add(fragment)

    def _of(self, fragment: _Call) -> _Call | None:
        """The call that the fragment names: the newest, if there are more."""
        newest = self._calls[::-1]
        if fragment.index is not None:
            return next((call for call in newest if call.index == fragment.index), None)
        same = (call for call in newest if fragment.id and call.id == fragment.id)
        return next(same, newest[0] if newest else None)

    def finish(self, names: Mapping[str, str]) -> tuple[ToolCall, ...]:
        """All of them, complete, by the names that the tools really have, each with an id of its own."""
        taken: set[str] = set()
        return tuple(
            ToolCall(claim_id(call.id, taken), names.get(call.name, call.name), decode_args(call.arguments))
            for call in self._calls
        )


def _fragment(delta: Any) -> _Call:
    index, function = getattr(delta, "index", None), getattr(delta, "function", None)
    arguments = getattr(function, "arguments", None)
    return _Call(
        index if isinstance(index, int) else None,
        first_text(delta, "id"),
        first_text(function, "name"),
        arguments if isinstance(arguments, str) else "" if arguments is None else json_text(arguments),
    )


def _longer(so_far: str, more: str) -> str:
    """Said again, or said on?"""
    return so_far if more == so_far else so_far + more


def _is_complete(arguments: str) -> bool:
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
