"""The prompt as Anthropic takes it: ``client.messages.create(**anthropic(prompt, model=m), model=m, …)``.

System and developer messages at the beginning become ``system``. Later ones would change the beginning of the
request, and with it what is cached; they are said by the user, labelled. Turns of one role may follow each other: the
provider joins them. If the assistant speaks first, the user is given a word before it.
"""

import base64
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from eventlog import Data, File, Part, Reasoning, Text
from projections.prompt import Message, Result
from projections.wire import arguments, call_ids, clean, described, is_web, json_text, tool_name, words

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_BEGIN = "(The conversation begins here.)"
_SYSTEM = "[system] "

Block = dict[str, Any]


def anthropic(messages: Sequence[Message], *, model: str = "", provider: str = "anthropic") -> dict[str, Any]:
    """Reasoning goes back to the ``model`` of the ``provider`` it came from, and to no other."""
    ids = call_ids(messages, 64)
    first = list(takewhile(_is_system, messages))
    system = [_text(text) for message in first if (text := words(message.parts))]
    turns = []
    for message in messages[len(first) :]:
        content = _content(message, ids, provider, model)
        if content:
            turns.append({"role": "assistant" if message.role == "assistant" else "user", "content": content})
    if turns and turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [_text(_BEGIN)]})
    return {"system": system, "messages": turns} if system else {"messages": turns}


def _is_system(message: Message) -> bool:
    return message.role in ("system", "developer")


def _content(message: Message, ids: dict[int, str], provider: str, model: str) -> list[Block]:
    match message.role:
        case "assistant":
            blocks = [block for part in message.parts if (block := _said(part, provider, model))]
            calls = [
                {"type": "tool_use", "id": ids[c.seq], "name": tool_name(c.name), "input": arguments(c.args)}
                for c in message.calls
            ]
            return [*blocks, *calls] if calls or any(_shows(block) for block in blocks) else []
        case "tool":
            return [_result(result, ids) for result in message.results]
        case "user":
            return [block for part in message.parts if (block := _input(part))]
    text = words(message.parts)
    return [_text(_SYSTEM + text)] if text else []


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _shows(block: Block) -> bool:
    """A turn of nothing but thinking says nothing, and is refused."""
    return block["type"] not in ("thinking", "redacted_thinking")


def _said(part: Part, provider: str, model: str) -> Block | None:
    if isinstance(part, Reasoning):
        if not part.signature or (part.provider, part.model) != (provider, model):
            return None
        if not part.text:
            return {"type": "redacted_thinking", "data": clean(part.signature)}
        return {"type": "thinking", "thinking": clean(part.text), "signature": clean(part.signature)}
    text = words((part,)).rstrip()  # white space at the end of what the assistant said last is refused
    return _text(text) if text else None


def _result(result: Result, ids: dict[int, str]) -> Block:
    content = [block for part in result.parts if (block := _input(part, data=True))]
    shape: Block = {"type": "tool_result", "tool_use_id": ids[result.call]}
    if content:
        shape["content"] = content
    return {**shape, "is_error": True} if result.failed else shape


def _input(part: Part, *, data: bool = False) -> Block | None:
    match part:
        case Text(text=text) if text.strip():
            return _text(clean(text))
        case Data(data=value) if data:
            return _text(json_text(value))
        case File():
            return _file(part)
    return None


def _file(file: File) -> Block:
    encoded = {"type": "base64", "media_type": file.media_type, "data": base64.b64encode(file.data).decode()}
    match file.media_type:
        case media if media in _IMAGES and file.data:
            return {"type": "image", "source": encoded}
        case media if media in _IMAGES and is_web(file.url):
            return {"type": "image", "source": {"type": "url", "url": file.url}}
        case "application/pdf" if file.data:
            return {"type": "document", "source": encoded}
        case "application/pdf" if is_web(file.url):
            return {"type": "document", "source": {"type": "url", "url": file.url}}
    return _text(described(file))
