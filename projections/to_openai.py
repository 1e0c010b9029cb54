"""The prompt as OpenAI takes it: ``messages`` of Chat Completions, ``input`` of Responses."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from chatfold.eventlog import File, Part, Reasoning, Text
from chatfold.projections.prompt import Message, Result
from chatfold.projections.wire import (
    arguments,
    call_ids,
    clean,
    data_url,
    described,
    is_web,
    json_text,
    only_text,
    pdf_name,
    told,
    tool_name,
    words,
)

_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ID = re.compile(r"rs[a-zA-Z0-9_-]{0,62}")  # of reasoning; any other is refused
_NOTHING = "(no output)"

Shape = dict[str, Any]


# --- Chat Completions ------------------------------------------------------------------------------------


def openai_chat(messages: Sequence[Message]) -> list[Shape]:
    """Reasoning is left out: this interface does not take it back."""
    ids = call_ids(messages, 40)
    shapes: list[Shape] = []
    for message in messages:
        if message.role == "tool":
            shapes += [
                {"role": "tool", "tool_call_id": ids[result.call], "content": _output(result)}
                for result in message.results
            ]
        elif message.role == "user":
            content: Any = only_text(message.parts)
            if content is None:
                content = _simple([part for part in map(_chat_part, told(message)) if part])
            if content:
                shapes.append({"role": "user", "content": content})
        else:
            shape: Shape = {"role": message.role}
            if text := words(message.parts):
                shape["content"] = text
            if message.calls:
                shape["tool_calls"] = [
                    {"id": ids[call.seq], "type": "function", "function": _function(call.name, call.args)}
                    for call in message.calls
                ]
            if len(shape) > 1:
                shapes.append(shape)
    return shapes


def _function(name: str, args: Any) -> Shape:
    return {"name": tool_name(name), "arguments": json_text(arguments(args))}


def _output(result: Result) -> str:
    text = words(result.parts, data=True) or _NOTHING
    return f"Error: {text}" if result.failed else text


def _simple(content: list[Shape]) -> str | list[Shape]:
    """A single text is sent as a string, as most clients do."""
    return content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content


def _chat_part(part: Part) -> Shape | None:
    match part:
        case Text(text=text) if text.strip():
            return {"type": "text", "text": clean(text)}
        case File(media_type=media) if media in _IMAGES and (part.data or is_web(part.url)):
            return {"type": "image_url", "image_url": {"url": data_url(part) if part.data else part.url}}
        case File(media_type=media) if media in _AUDIO and part.data:
            sound = {"data": data_url(part).partition(",")[2], "format": _AUDIO[media]}
            return {"type": "input_audio", "input_audio": sound}
        case File(media_type="application/pdf") if part.data:
            return {"type": "file", "file": {"filename": pdf_name(part), "file_data": data_url(part)}}
        case File():
            return {"type": "text", "text": described(part)}
    return None


# --- Responses -------------------------------------------------------------------------------------------


def openai_responses(
    messages: Sequence[Message], *, model: str = "", provider: str = "openai"
) -> list[Shape]:
    """Reasoning goes back to the ``model`` of the ``provider`` it came from, and to no other."""
    ids = call_ids(messages, 64)
    items = (item for message in messages for item in _items(message, ids, provider, model))
    return list(_without_repeats(items))


def _items(message: Message, ids: dict[int, str], provider: str, model: str) -> Iterator[Shape]:
    match message.role:
        case "user":
            content = [part for part in map(_input_part, told(message)) if part]
            if content:
                yield {"type": "message", "role": "user", "content": content}
        case "assistant":
            yield from _output_items(message, ids, provider, model)
        case "tool":
            for result in message.results:
                yield {"type": "function_call_output", "call_id": ids[result.call], "output": _output(result)}
        case role:
            if text := words(message.parts):
                yield {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def _output_items(message: Message, ids: dict[int, str], provider: str, model: str) -> Iterator[Shape]:
    items: list[Shape] = []
    for part in message.parts:
        if isinstance(part, Reasoning):
            whose = part.provider, part.model
            if _ID.fullmatch(part.id) and part.signature and whose == (provider, model):
                items.append(_reasoning(part))
        elif text := words((part,)):
            items.append({"type": "message", "role": "assistant", "content": text})
    items += [
        {"type": "function_call", "call_id": ids[call.seq], **_function(call.name, call.args)}
        for call in message.calls
    ]
    while items and items[-1]["type"] == "reasoning":  # it is refused without what it led to
        items.pop()
    yield from items


def _without_repeats(items: Iterable[Shape]) -> Iterator[Shape]:
    """Reasoning that comes twice is refused."""
    seen: set[str] = set()
    for item in items:
        if item["type"] == "reasoning":
            if item["id"] in seen:
                continue
            seen.add(item["id"])
        yield item


def _reasoning(part: Reasoning) -> Shape:
    summary = [{"type": "summary_text", "text": clean(part.text)}] if part.text.strip() else []
    return {
        "type": "reasoning",
        "id": part.id,
        "summary": summary,
        "encrypted_content": clean(part.signature),
    }


def _input_part(part: Part) -> Shape | None:
    match part:
        case Text(text=text) if text.strip():
            return {"type": "input_text", "text": clean(text)}
        case File(media_type=media) if media in _IMAGES and (part.data or is_web(part.url)):
            url = data_url(part) if part.data else part.url
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case File(media_type="application/pdf") if part.data:
            return {"type": "input_file", "filename": pdf_name(part), "file_data": data_url(part)}
        case File(media_type="application/pdf") if is_web(part.url):
            return {"type": "input_file", "file_url": part.url}
        case File():
            return {"type": "input_text", "text": described(part)}
    return None
