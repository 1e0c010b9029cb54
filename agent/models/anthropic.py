"""AnthropicModel: Anthropic's Messages API, and every server that speaks it. Wants the extra ``chatfold[anthropic]``.

    model = AnthropicModel("claude-sonnet-4-5", max_tokens=16_000, thinking={"type": "enabled", "budget_tokens": 8_000})

What is sent is the payload, as it is: the parameters with every request, as the package's ``create`` takes them. The
answer is streamed. Thoughts are kept with their signatures and sent back to the model that had them. With ``cache``, the
provider is told to cache up to the end of the system text and up to the last message. Failures: see ``errors``. A stream that ends
without a ``stop_reason`` has failed.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

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
from chatfold.eventlog import Json, Part, Reasoning, Text
from chatfold.projections import Message, to_anthropic
from chatfold.projections.shapes.anthropic import limit_marks
from chatfold.projections.shapes.values import json_text

MAX_TOKENS = 8_192
"""Of an answer: what every model of today can give. A call of a tool that is longer is cut off, and fails."""


class AnthropicModel(SdkModel):
    """A model that is asked by Anthropic's Messages API.

        AnthropicModel("claude-sonnet-4-5", max_tokens=16_000)

    ``client``: an ``AsyncAnthropic`` of yours, or one for Bedrock, …; you close it. Else ``aclose`` closes ours. ``timeout``: seconds.
    ``cache``: whether the provider is told to cache the prompt. All other names are sent with every request. ImportError without
    ``pip install 'chatfold[anthropic]'``.
    """

    provider = "anthropic"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: Any = None,
        timeout: float | None = None,
        max_tokens: int = MAX_TOKENS,
        cache: bool = True,
        **params: Any,
    ) -> None:
        super().__init__(
            name, "AsyncAnthropic", client=client, base_url=base_url, api_key=api_key, timeout=timeout
        )
        self.payload_settings = {"max_tokens": max_tokens, "cache": cache, **params_of(params)}

    def payload(self, request: Request) -> dict[str, Any]:
        """Exactly what is sent, as JSON."""
        return anthropic_payload(request, self.name, self.payload_settings)

    def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        """Sends it; yields the answer as it comes and, last, the whole ``ModelReply``. Raises ``ModelFailed``."""
        names = real_names(payload.get("tools", ()), "input_schema")
        return self._stream(self._client.messages.create, payload, _Heard(), names)


def anthropic_payload(request: Request, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """What a model of this name, set up like this, is sent. Needs neither the package nor a key."""
    params = {key: value for key, value in settings.items() if key not in ("max_tokens", "cache")}
    system = Message("system", (), (Text(request.system),))
    shape = to_anthropic((system, *request.messages), model=name, provider=AnthropicModel.provider)
    turns = shape["messages"]
    if not turns or turns[-1]["role"] == "assistant":  # which newer models refuse
        turns.append({"role": "user", "content": [{"type": "text", "text": GO_ON}]})
    if settings["cache"]:
        for blocks in filter(None, (shape.get("system"), turns[-1]["content"])):
            blocks[-1]["cache_control"] = {"type": "ephemeral"}
        limit_marks(shape.get("system", []), turns)
    payload = {"model": name, "max_tokens": settings["max_tokens"], **shape, "stream": True}
    payload |= _tools(request, turns)
    return add_params(payload, params, tools=bool(request.tools))


def _tools(request: Request, turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Those offered. If there are none, a history in which some were used is refused unless they are named."""
    if request.tools:
        return {"tools": list(offer_tools(request.tools, "input_schema"))}
    blocks = [block for turn in turns for block in turn["content"]]
    used = dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use")
    tools = [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in used]
    return {"tools": tools, "tool_choice": {"type": "none"}} if tools else {}


# --- what is heard ---------------------------------------------------------------------------------------


class _Block(msgspec.Struct):
    kind: str
    text: str = ""  # of a text, a thought, or a call's arguments as they are written
    signature: str = ""
    id: str = ""
    name: str = ""
    input: Json = None  # of a call, where a server tells it at once


class _Heard:
    """An answer, as far as it has come."""

    def __init__(self) -> None:
        self.usage: dict[str, int] = {}
        self.stop = ""
        self._blocks: dict[int, _Block] = {}

    def take(self, event: Any) -> Iterator[Piece]:
        index = getattr(event, "index", 0)
        match first_text(event, "type"):
            case "message_start":
                self._count(getattr(getattr(event, "message", None), "usage", None))
            case "content_block_start":
                self._blocks[index] = block = _block(getattr(event, "content_block", None))
                yield from _pieces(block.kind, block.text)
            case "content_block_delta" if index in self._blocks:
                yield from self._add(self._blocks[index], getattr(event, "delta", None))
            case "message_delta":
                self._count(getattr(event, "usage", None))
                self.stop = first_text(getattr(event, "delta", None), "stop_reason") or self.stop

    def _add(self, block: _Block, delta: Any) -> Iterator[Piece]:
        block.signature += first_text(delta, "signature")
        more = first_text(delta, "text", "thinking", "partial_json")
        block.text += more
        yield from _pieces(block.kind, more)

    def _count(self, usage: Any) -> None:
        """Counts are of the whole answer so far; some servers say 0 where they do not know yet, or no longer."""
        details = getattr(usage, "output_tokens_details", None)
        told = {
            "input_tokens": getattr(usage, "input_tokens", None),
            "output_tokens": getattr(usage, "output_tokens", None),
            "cache_creation_input_tokens": getattr(usage, "cache_creation_input_tokens", None),
            "cache_read_input_tokens": getattr(usage, "cache_read_input_tokens", None),
            "reasoning_tokens": getattr(details, "thinking_tokens", None),
        }
        for name, count in keep_counts(told).items():
            self.usage[name] = max(count, self.usage.get(name, 0))

    def parts(self, provider: str, model: str) -> tuple[Part, ...]:
        parts: list[Part] = []
        for block in self._blocks.values():
            match block.kind:
                case "text" if block.text:
                    parts.append(Text(block.text))
                case "thinking" if block.text or block.signature:
                    parts.append(Reasoning(block.text, provider, model, block.signature))
                case "redacted_thinking":
                    parts.append(Reasoning("", provider, model, block.signature, redacted=True))
        return tuple(parts)

    def calls(self, names: Mapping[str, str]) -> tuple[ToolCall, ...]:
        taken: set[str] = set()
        return tuple(
            ToolCall(
                claim_id(block.id, taken),
                names.get(block.name, block.name),
                decode_args(block.text or json_text(block.input or {})),
            )
            for block in self._blocks.values()
            if block.kind == "tool_use"
        )


def _block(start: Any) -> _Block:
    return _Block(
        first_text(start, "type"),
        first_text(start, "text", "thinking"),
        first_text(start, "data", "signature"),
        first_text(start, "id"),
        first_text(start, "name"),
        getattr(start, "input", None),
    )


def _pieces(kind: str, text: str) -> Iterator[Piece]:
    if text and kind == "text":
        yield Piece(text)
    elif text and kind == "thinking":
        yield Piece(text, "reasoning")
