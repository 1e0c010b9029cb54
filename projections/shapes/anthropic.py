"""The prompt as Anthropic takes it: ``client.messages.create(**to_anthropic(prompt, model=m), model=m, …)``.

System and developer messages at the beginning become ``system``. Later ones would change the beginning of the
request, and with it what is cached; they are said by the user, labelled. Turns of one role may follow each other: the
provider joins them. If the assistant speaks first, or thinks where the provider would join that to something it said
before without thinking, the user is given a word in front of it.

``from_anthropic`` is the way back: ``messages`` and ``system`` as the events to append.

    await log.append("chat-42", *from_anthropic(request["messages"], request.get("system"), model=request["model"]))

- What came in goes out: ``to_anthropic`` of the events, for the same model, gives the same request again, whatever
  Anthropic or a client of it has sent: with ``cache_control``, ``citations``, what its own tools were asked and found,
  and fields that nobody here knows. Shorthands are written out: a string as a block. White space at the end of what the
  assistant said is lost. Of ``cache_control`` the newest four are left, since more are refused.
- What events have no place for is under ``anthropic`` in their meta, and no other shape looks at it: the fields of the
  ``message`` at its first event, which are not sent, those of its ``parts`` by index, of a ``call`` and a ``result``;
  ``at``, the place of a call that words follow, or of a result that came in another order than the calls. A block of a
  type that events have no word for is ``Data("anthropic")``.
- Every block of ``system`` is a message, and comes first. Thoughts are those of ``model``.
- Of a turn of the assistant all that was said is recorded before all calls. In a turn of the user, results and words
  keep their order.
- Results are paired with calls by ``prompt``, in order; one without a call is kept and not shown.
- What is not a list of messages is refused with a ``ValueError`` that says where and why; nothing is half converted.

What this shape does not tell is lost. What ``to_anthropic`` had the user say ("[system] …", "(The conversation begins
here.)") was said by the user; a call that was answered as interrupted has that answer as its result; a summary, or
what was injected, was said. An address tells the type of an image by its ending; without one it is taken for a PNG.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from chatfold.eventlog import (
    Data,
    Event,
    File,
    MessageAdded,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.prompt import Call, Message, Result
from chatfold.projections.shapes.parse import (
    Given,
    Read,
    Said,
    content,
    decode_base64,
    each,
    image,
    meta_of,
    numbered_results,
    parts_of,
    separate_steps,
    string,
    unknown,
    unread_fields,
    with_head,
    with_kept,
    wrong,
)
from chatfold.projections.shapes.values import (
    arguments,
    call_ids,
    fields,
    file_label,
    give_back,
    in_given_order,
    is_web,
    json_text,
    kept_fields,
    of_part,
    replace_surrogates,
    text_with_files,
    to_json_value,
    tool_name,
    user_parts,
)
from chatfold.projections.text import text_of_file

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_BEGIN = "(The conversation begins here.)"
_GO_ON = "(The conversation goes on here.)"
_SYSTEM = "[system] "
_OF_DOCUMENTS = ("title", "context", "citations")
_MOST_MARKS = 4  # of what is to be cached
_KNOWN = frozenset({"text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"})

Block = dict[str, Any]


def to_anthropic(
    messages: Sequence[Message], *, model: str = "", provider: str = "anthropic"
) -> dict[str, Any]:
    """Reasoning goes back to the ``model`` of the ``provider`` it came from, and to no other."""
    ids = call_ids(messages, 64)
    first = list(takewhile(lambda message: message.is_system, messages))
    system = [block for message in first if (block := _system_block(message))]
    turns: list[Block] = []
    for message in messages[len(first) :]:
        content = _blocks(message, ids, provider, model)
        if not content:
            continue
        turn = {"role": "assistant" if message.role == "assistant" else "user", "content": content}
        if _needs_a_word(turns, turn):
            turns.append({"role": "user", "content": [_text(_GO_ON if turns else _BEGIN)]})
        turns.append(turn)
    limit_marks(system, turns)
    return {"system": system, "messages": turns} if system else {"messages": turns}


def limit_marks(system: list[Block], turns: list[Block]) -> None:
    """Takes the oldest ``cache_control`` away: clients mark the newest turn each time, and no more than four are taken."""
    blocks = [*system, *(block for turn in reversed(turns) for block in reversed(turn["content"]))]
    nested = [inner for block in blocks for inner in (block, *_inner(block))]
    for block in [block for block in nested if "cache_control" in block][_MOST_MARKS:]:
        del block["cache_control"]


def _inner(block: Block) -> list[Block]:
    content = block.get("content")
    return [inner for inner in content if isinstance(inner, dict)] if isinstance(content, list) else []


def _system_block(message: Message) -> Block | None:
    text = text_with_files(message.parts)
    own = kept_fields(message, "anthropic") if len(message.parts) == 1 else {}
    return give_back(_text(text), of_part(own, 0)) if text else None


def _needs_a_word(turns: list[Block], turn: Block) -> bool:
    """Whether this turn is refused right after these: a user begins, and a joined turn with thoughts begins with one."""
    if turn["role"] == "user":
        return False
    if not turns:
        return True
    joined = turns[-1]["role"] == "assistant"
    return joined and not _shows(turn["content"][0]) and _shows(turns[-1]["content"][0])


def _blocks(message: Message, ids: dict[int, str], provider: str, model: str) -> list[Block]:
    own = kept_fields(message, "anthropic")
    match message.role:
        case "assistant":
            said = [
                block if isinstance(part, File) else give_back(block, of_part(own, at))
                for at, part in enumerate(message.parts)
                if (block := _assistant_part(part, provider, model))
            ]
            return _in_order(
                said,
                [
                    (_call_block(call, ids), kept_fields(call, "anthropic").get("at"))
                    for call in message.calls
                ],
            )
        case "tool":
            return [_result(result, ids) for result in in_given_order(message.results, "anthropic")]
        case "user":
            parts = enumerate(user_parts(message))
            return [block for at, part in parts if (block := _input(part, of_part(own, at)))]
    text = text_with_files(message.parts)
    return [_text(_SYSTEM + text)] if text else []


def _call_block(call: Call, ids: dict[int, str]) -> Block:
    block = {
        "type": "tool_use",
        "id": ids[call.seq],
        "name": tool_name(call.name),
        "input": to_json_value(arguments(call.args)),
    }
    return give_back(block, fields(kept_fields(call, "anthropic"), "call"))


def _in_order(blocks: list[Block], calls: list[tuple[Block, Any]]) -> list[Block]:
    """Thoughts are refused if a turn does not begin with one, or ends with one. Calls come last, but for those that did not."""
    if blocks and _shows(blocks[0]):
        blocks = [block for block in blocks if _shows(block)]
    while blocks and not calls and not _shows(blocks[-1]):
        blocks.pop()
    for call, place in calls:
        blocks.insert(place if type(place) is int and place >= 0 else len(blocks), call)
    return blocks


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _shows(block: Block) -> bool:
    """It is no thought."""
    return block["type"] not in ("thinking", "redacted_thinking")


def _assistant_part(part: Part, provider: str, model: str) -> Block | None:
    if isinstance(part, Reasoning):
        if not part.signature or (part.provider, part.model) != (provider, model):
            return None
        if part.redacted:
            return {"type": "redacted_thinking", "data": replace_surrogates(part.signature)}
        return {
            "type": "thinking",
            "thinking": replace_surrogates(part.text),
            "signature": replace_surrogates(part.signature),
        }
    if raw := _raw(part):
        return raw
    text = text_with_files(
        (part,)
    ).rstrip()  # white space at the end of what the assistant said last is refused
    return _text(text) if text else None


def _result(result: Result, ids: dict[int, str]) -> Block:
    own = kept_fields(result, "anthropic")
    content = [
        block
        for at, part in enumerate(result.parts)
        if (block := _input(part, of_part(own, at), data=True, files=not result.failed))
    ]
    shape: Block = {"type": "tool_result", "tool_use_id": ids[result.call]}
    if content:
        shape["content"] = content
    if result.failed:
        shape["is_error"] = True
    return give_back(shape, fields(own, "result"))


def _input(part: Part, unread: Block, *, data: bool = False, files: bool = True) -> Block | None:
    """``files``: whether they may be more than a description here; the result of a failure is refused with them."""
    match part:
        case Text(text=text) if text.strip():
            return give_back(_text(replace_surrogates(text)), unread)
        case Data() if raw := _raw(part):
            return raw
        case Data(data=value) if data:
            return _text(json_text(value))
        case File() if files and (block := _file_block(part, unread)):
            others = () if block["type"] == "document" else _OF_DOCUMENTS
            return give_back(block, {name: value for name, value in unread.items() if name not in others})
        case File():
            return _text(file_label(part))
    return None


def _raw(part: Part) -> Block | None:
    """A block of a type that only the provider knows, as it came: what its own tools were asked and found, for one."""
    match part:
        case Data(
            name="anthropic", data={"type": "image" | "document", "source": {"type": "file" | "content"}}
        ):
            return dict(to_json_value(part.data))
        case Data(name="anthropic", data={"type": str(kind)}) if kind not in _KNOWN:
            return dict(to_json_value(part.data))
    return None


def _file_block(file: File, unread: Block) -> Block | None:
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
    if fields(unread, "source").get("type") == "text" and (text := text_of_file(file)) is not None:
        return {
            "type": "document",
            "source": {"type": "text", "media_type": file.media_type, "data": replace_surrogates(text)},
        }
    return None


# --- the way back: turns as events -------------------------------------------------------------------------


def from_anthropic(
    messages: Iterable[Mapping[str, Any]],
    system: str | Iterable[Mapping[str, Any]] | None = None,
    *,
    model: str = "",
    provider: str = "anthropic",
) -> list[Event]:
    """``model`` and ``provider``: whose thoughts these are, as in ``to_anthropic``."""
    first = [] if system is None else content(system, "system", _block)
    events: list[Event] = [_said("system", [read]) for read in first]
    whose = Reasoning("", provider, model)
    turns = each(messages, "messages", lambda message: _message(message, whose), "a list of messages")
    return [*events, *numbered_results(separate_steps(turns), "anthropic")]


def _message(message: Given, whose: Reasoning) -> list[Event]:
    match message.get("role"):
        case "assistant":
            events = _assistant(message, whose)
        case "user":
            events = _user(message)
        case "system":  # which newer models take
            events = [_said("system", content(message.get("content"), ".content", _block))]
        case role:
            raise wrong(".role", "'user', 'assistant' or 'system'", role)
    return with_head(events, "anthropic", unread_fields(message, "role", "content"))


def _assistant(message: Given, whose: Reasoning) -> list[Said]:
    blocks = content(message.get("content"), ".content", lambda block: _spoken(block, whose))
    last = max((at for at, block in enumerate(blocks) if not isinstance(block, ToolCalled)), default=0)
    calls = [
        with_kept(block, "anthropic", at=at) if at < last else block
        for at, block in enumerate(blocks)
        if isinstance(block, ToolCalled)
    ]
    read = [block for block in blocks if not isinstance(block, ToolCalled)]
    return [_said("assistant", read), *calls] if read or not calls else [*calls]


def _user(message: Given) -> list[Said]:
    events: list[Said] = []
    words: list[Read] = []
    for block in content(message.get("content"), ".content", _given):
        if not isinstance(block, ToolReturned):
            words.append(block)
            continue
        if words:
            events.append(_said("user", words))
            words = []
        events.append(block)
    if words or not events:
        events.append(_said("user", words))
    return events


def _said(role: Role, read: list[Read]) -> MessageAdded:
    parts, more = parts_of(read)
    return MessageAdded(role, parts, meta=meta_of("anthropic", parts=more))


# --- blocks ----------------------------------------------------------------------------------------------


def _spoken(block: Given, whose: Reasoning) -> Read | ToolCalled:
    """A block of the assistant."""
    match block.get("type"):
        case "thinking":
            signature = string(block, "signature") if block.get("signature") is not None else ""
            thought = replace(whose, text=string(block, "thinking"), signature=signature)
            return thought, unread_fields(block, "type", "thinking", "signature")
        case "redacted_thinking":
            hidden = replace(whose, signature=string(block, "data"), redacted=True)
            return hidden, unread_fields(block, "type", "data")
        case "tool_use":
            more = unread_fields(block, "type", "id", "name", "input")
            name, meta = string(block, "name"), meta_of("anthropic", call=more)
            return ToolCalled(string(block, "id"), name, block.get("input"), meta)
    return _block(block)


def _given(block: Given) -> Read | ToolReturned:
    """A block of the user."""
    if block.get("type") != "tool_result":
        return _block(block)
    told, failed = block.get("content"), block.get("is_error")
    if not isinstance(failed, bool | None):
        raise wrong(".is_error", "true or false", failed)
    parts, more = parts_of(content(told, ".content", _block) if told is not None else [])
    meta = meta_of(
        "anthropic", result=unread_fields(block, "type", "tool_use_id", "content", "is_error"), parts=more
    )
    return ToolReturned(string(block, "tool_use_id"), parts, failed is True, meta)


def _block(block: Given) -> Read:
    match string(block, "type"):
        case "text":
            return Text(string(block, "text")), unread_fields(block, "type", "text")
        case "image" | "document" as kind:
            if file := _file(block, kind):
                is_text = string(block, "source", "type") == "text"
                source = ("media_type", "data", "url", *(() if is_text else ("type",)))
                read = ("type",) if kind == "document" and file.name.strip() else ("type", "title")
                return file, unread_fields(block, *read, source=source)
    return unknown("anthropic", block)


def _file(block: Given, kind: str) -> File | None:
    """None: it is named by an id, made of blocks, or its bytes cannot be read."""
    name = string(block, "title") if block.get("title") is not None else ""
    match string(block, "source", "type"):
        case "base64":
            data = decode_base64(string(block, "source", "data"))
            return File(string(block, "source", "media_type"), data, name) if data else None
        case "url":
            url = string(block, "source", "url")
            return replace(image(url) if kind == "image" else File("application/pdf", url=url), name=name)
        case "text":
            data = string(block, "source", "data").encode("utf-8", "surrogatepass")
            return File(string(block, "source", "media_type"), data, name)
    return None
