"""The prompt as OpenAI's Responses take it: ``input``."""

import re
from collections.abc import Iterable, Iterator, Sequence

from chatfold.eventlog import File, Part, Reasoning, Text
from chatfold.projections.prompt import Message
from chatfold.projections.shapes.openai import IMAGES, Shape, function_shape, output_text
from chatfold.projections.shapes.values import (
    call_ids,
    clean,
    data_url,
    described,
    is_web,
    pdf_name,
    told,
    words,
)

_ID = re.compile(r"rs[a-zA-Z0-9_-]{0,62}")  # of reasoning; any other is refused


def to_openai_responses(
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
                yield {
                    "type": "function_call_output",
                    "call_id": ids[result.call],
                    "output": output_text(result),
                }
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
        {"type": "function_call", "call_id": ids[call.seq], **function_shape(call.name, call.args)}
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
        case File(media_type=media) if media in IMAGES and (part.data or is_web(part.url)):
            url = data_url(part) if part.data else part.url
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case File(media_type="application/pdf") if part.data:
            return {"type": "input_file", "filename": pdf_name(part), "file_data": data_url(part)}
        case File(media_type="application/pdf") if is_web(part.url):
            return {"type": "input_file", "file_url": part.url}
        case File():
            return {"type": "input_text", "text": described(part)}
    return None
