"""The prompt as Anthropic takes it: ``client.messages.create(**anthropic(prompt, model=m), model=m, …)``.

System and developer messages at the beginning become ``system``. Later ones would change the beginning of the
request, and with it what is cached; they are said by the user, labelled. Turns of one role may follow each other: the
provider joins them. If the assistant speaks first, or thinks where the provider would join that to something it said
before without thinking, the user is given a word in front of it.
"""

import base64
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from chatfold.eventlog import Data, File, Part, Reasoning, Text
from chatfold.projections.prompt import Message, Result
from chatfold.projections.wire import (
    arguments,
    call_ids,
    clean,
    described,
    is_web,
    json_text,
    plain,
    told,
    tool_name,
    words,
)

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_BEGIN = "(The conversation begins here.)"
_GO_ON = "(The conversation goes on here.)"
_SYSTEM = "[system] "

Block = dict[str, Any]


def anthropic(messages: Sequence[Message], *, model: str = "", provider: str = "anthropic") -> dict[str, Any]:
    """Reasoning goes back to the ``model`` of the ``provider`` it came from, and to no other."""
    ids = call_ids(messages, 64)
    first = list(takewhile(lambda message: message.is_system, messages))
    system = [_text(text) for message in first if (text := words(message.parts))]
    turns: list[Block] = []
    for message in messages[len(first) :]:
        content = _content(message, ids, provider, model)
        if not content:
            continue
        turn = {"role": "assistant" if message.role == "assistant" else "user", "content": content}
        if _needs_a_word(turns, turn):
            turns.append({"role": "user", "content": [_text(_GO_ON if turns else _BEGIN)]})
        turns.append(turn)
    return {"system": system, "messages": turns} if system else {"messages": turns}


def _needs_a_word(turns: list[Block], turn: Block) -> bool:
    """Whether this turn is refused right after these: a user begins, and a joined turn with thoughts begins with one."""
    if turn["role"] == "user":
        return False
    if not turns:
        return True
    joined = turns[-1]["role"] == "assistant"
    return joined and not _shows(turn["content"][0]) and _shows(turns[-1]["content"][0])


def _content(message: Message, ids: dict[int, str], provider: str, model: str) -> list[Block]:
    match message.role:
        case "assistant":
            blocks = [block for part in message.parts if (block := _said(part, provider, model))]
            calls = [
                {
                    "type": "tool_use",
                    "id": ids[c.seq],
                    "name": tool_name(c.name),
                    "input": plain(arguments(c.args)),
                }
                for c in message.calls
            ]
            return _in_order(blocks, calls)
        case "tool":
            return [_result(result, ids) for result in message.results]
        case "user":
            return [block for part in told(message) if (block := _input(part))]
    text = words(message.parts)
    return [_text(_SYSTEM + text)] if text else []


def _in_order(blocks: list[Block], calls: list[Block]) -> list[Block]:
    """Thoughts are refused if a turn does not begin with one, or ends with one."""
    if blocks and _shows(blocks[0]):
        blocks = [block for block in blocks if _shows(block)]
    while blocks and not calls and not _shows(blocks[-1]):
        blocks.pop()
    return [*blocks, *calls]


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _shows(block: Block) -> bool:
    """It is no thought."""
    return block["type"] not in ("thinking", "redacted_thinking")


def _said(part: Part, provider: str, model: str) -> Block | None:
    if isinstance(part, Reasoning):
        if not part.signature or (part.provider, part.model) != (provider, model):
            return None
        if part.redacted:
            return {"type": "redacted_thinking", "data": clean(part.signature)}
        return {"type": "thinking", "thinking": clean(part.text), "signature": clean(part.signature)}
    text = words((part,)).rstrip()  # white space at the end of what the assistant said last is refused
    return _text(text) if text else None


def _result(result: Result, ids: dict[int, str]) -> Block:
    content = [block for part in result.parts if (block := _input(part, data=True, files=not result.failed))]
    shape: Block = {"type": "tool_result", "tool_use_id": ids[result.call]}
    if content:
        shape["content"] = content
    return {**shape, "is_error": True} if result.failed else shape


def _input(part: Part, *, data: bool = False, files: bool = True) -> Block | None:
    """``files``: whether they may be more than a description here; the result of a failure is refused with them."""
    match part:
        case Text(text=text) if text.strip():
            return _text(clean(text))
        case Data(data=value) if data:
            return _text(json_text(value))
        case File():
            return _file(part) if files else _text(described(part))
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
