"""Messages in whatever shape they come: it is recognised by what only one of the shapes has.

    await log.append("chat-42", *from_messages(request["messages"]))

``parts`` are of the AI SDK. Items that name a type of Responses are of Responses. Blocks that name a type of Anthropic
are of Anthropic. All else, also what says nothing but a role and a text, is taken for Chat Completions.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from chatfold.eventlog import Event
from chatfold.projections.shapes.anthropic import from_anthropic
from chatfold.projections.shapes.openai import from_openai
from chatfold.projections.shapes.openai_responses import from_openai_responses
from chatfold.projections.shapes.ui import from_ui

ShapeName: TypeAlias = Literal["openai", "openai-responses", "anthropic", "ui"]

_BLOCKS = frozenset(
    {
        *("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"),
        *("server_tool_use", "web_search_tool_result"),
    }
)


def from_messages(messages: Iterable[Mapping[str, Any]], *, model: str = "") -> list[Event]:
    """``model``: whose thoughts these are."""
    given = messages if isinstance(messages, str | bytes | Mapping) else [*messages]
    match shape_name(given):
        case "ui":
            return from_ui(given)
        case "openai-responses":
            return from_openai_responses(given, model=model)
        case "anthropic":
            return from_anthropic(given, model=model)
    return from_openai(given)


def shape_name(messages: Iterable[Any]) -> ShapeName:
    for message in messages:
        if not isinstance(message, Mapping):
            break
        content = message.get("content")
        parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
        kinds = {kind for part in parts if isinstance(kind := part.get("type"), str)}
        if isinstance(message.get("parts"), list):
            return "ui"
        if isinstance(message.get("type"), str) and message.get("type") != "message":
            return "openai-responses"
        if kinds & {"input_text", "output_text", "input_image", "input_file"}:
            return "openai-responses"
        if kinds & _BLOCKS or any("cache_control" in part for part in parts):
            return "anthropic"
    return "openai"
