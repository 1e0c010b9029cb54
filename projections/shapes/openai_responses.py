"""The prompt as OpenAI's Responses take it, ``input``, and the way back.

    await log.append("chat-42", *from_openai_responses(request["input"], model=request["model"]))

- What came in goes out: ``to_openai_responses`` of the events, for the same model, gives the same items again, with
  encrypted reasoning, calls of custom tools, what the provider's own tools did, and fields that nobody here knows.
- The ids and states of items are not sent, but for those of reasoning: they name what the provider has stored. What an
  assistant said is sent as its text, an item a part; a string is written out as a part.
- All that a model said and called up to the next input is one step: words first, then calls. ``at`` keeps their order.
- What events have no place for is under ``openai_responses`` in their meta; an item or a part of a type that events
  have no word for is ``Data("openai_responses")``.
- What is not a list of items is refused with a ``ValueError`` that says where and why; nothing is half converted.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from chatfold.eventlog import Data, Event, File, MessageAdded, Part, Reasoning, Text, ToolCalled, ToolReturned
from chatfold.projections.prompt import Call, Message, Result
from chatfold.projections.shapes.openai import IMAGES, Shape, function_shape, output_text
from chatfold.projections.shapes.parse import (
    Given,
    Read,
    arguments_of,
    content,
    each,
    image,
    meta_of,
    numbered_results,
    of_data_url,
    parts_of,
    separate_steps,
    string,
    unknown,
    unread_fields,
    with_kept,
    wrong,
)
from chatfold.projections.shapes.values import (
    call_ids,
    data_url,
    fields,
    file_label,
    give_back,
    in_given_order,
    is_web,
    kept_fields,
    of_part,
    pdf_name,
    replace_surrogates,
    text_with_files,
    to_json_value,
    tool_name,
    user_parts,
)

Spoken: TypeAlias = Read | ToolCalled

_OWN = "openai_responses"
_STORED = ("id", "status")  # of what the provider keeps itself: an id without what belongs to it is refused
_OF_MESSAGE = ("type", "role", "content", *_STORED)
_KNOWN = frozenset(
    {
        *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
        *("custom_tool_call_output", "input_text", "output_text", "input_image", "input_file", "refusal"),
    }
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
    own = kept_fields(message, _OWN)
    match message.role:
        case "user":
            parts = enumerate(user_parts(message))
            content = [shape for at, part in parts if (shape := _input_part(part, of_part(own, at)))]
            if content:
                yield give_back(
                    {"type": "message", "role": "user", "content": content}, fields(own, "message")
                )
        case "assistant":
            yield from _output_items(message, ids, provider, model)
        case "tool":
            for result in in_given_order(message.results, _OWN):
                yield _output_item(result, ids)
        case role:
            if text := text_with_files(message.parts):
                alone = of_part(own, 0) if len(message.parts) == 1 else {}
                content = [give_back({"type": "input_text", "text": text}, alone)]
                yield give_back({"type": "message", "role": role, "content": content}, fields(own, "message"))


def _output_items(message: Message, ids: dict[int, str], provider: str, model: str) -> Iterator[Shape]:
    own = kept_fields(message, _OWN)
    items: list[Shape] = []
    for at, part in enumerate(message.parts):
        if isinstance(part, Reasoning):
            whose = part.provider, part.model
            if _ID.fullmatch(part.id) and part.signature and whose == (provider, model):
                items.append(_reasoning(part, of_part(own, at)))
        elif raw := _raw(part):
            items.append(raw)
        elif text := text_with_files((part,)):
            said = {"type": "message", "role": "assistant", "content": text}
            items.append(said if isinstance(part, File) else give_back(said, of_part(own, at)))
    for call in message.calls:
        place = kept_fields(call, _OWN).get("at")
        at = place if type(place) is int and place >= 0 else len(items)
        items.insert(at, _call_item(call, ids))
    while items and items[-1]["type"] == "reasoning":  # it is refused without what it led to
        items.pop()
    yield from items


def _call_item(call: Call, ids: dict[int, str]) -> Shape:
    unread = fields(kept_fields(call, _OWN), "call")
    if unread.get("type") == "custom_tool_call" and isinstance(call.args, str):
        written = {"name": tool_name(call.name), "input": replace_surrogates(call.args)}
        return give_back({"type": "custom_tool_call", "call_id": ids[call.seq], **written}, unread)
    written = function_shape(call.name, call.args)
    return give_back({"type": "function_call", "call_id": ids[call.seq], **written}, unread)


def _output_item(result: Result, ids: dict[int, str]) -> Shape:
    own = kept_fields(result, _OWN)
    unread = fields(own, "result")
    kind = (
        "custom_tool_call_output"
        if unread.get("type") == "custom_tool_call_output"
        else "function_call_output"
    )
    output: Any = output_text(result)
    if own.get("form") == "list":
        parts = enumerate(result.parts)
        listed = [shape for at, part in parts if (shape := _input_part(part, of_part(own, at)))]
        output = listed or output
    return give_back({"type": kind, "call_id": ids[result.call], "output": output}, unread)


def _raw(part: Part) -> Shape | None:
    """An item, or a part of one, of a type that only the provider knows: what its own tools did, for one."""
    match part:
        case Data(name="openai_responses", data={"type": str(kind), **more}) if kind not in _KNOWN:
            return dict(to_json_value({"type": kind, **more}))
        case Data(name="openai_responses", data={"type": "input_image" | "input_file", "file_id": str()}):
            return dict(to_json_value(part.data))
    return None


def _without_repeats(items: Iterable[Shape]) -> Iterator[Shape]:
    """Reasoning that comes twice is refused."""
    seen: set[str] = set()
    for item in items:
        if item["type"] == "reasoning":
            if item["id"] in seen:
                continue
            seen.add(item["id"])
        yield item


def _reasoning(part: Reasoning, unread: Shape) -> Shape:
    summary = [{"type": "summary_text", "text": replace_surrogates(part.text)}] if part.text.strip() else []
    shape = {
        "type": "reasoning",
        "id": part.id,
        "summary": to_json_value(unread.get("summary", summary)),
        "encrypted_content": replace_surrogates(part.signature),
    }
    return give_back(shape, unread)


def _input_part(part: Part, unread: Shape) -> Shape | None:
    match part:
        case Text(text=text) if text.strip():
            return give_back({"type": "input_text", "text": replace_surrogates(text)}, unread)
        case File(media_type=media) if media in IMAGES and (part.data or is_web(part.url)):
            url = data_url(part) if part.data else part.url
            return give_back({"type": "input_image", "image_url": url}, {"detail": "auto", **unread})
        case File(media_type="application/pdf") if part.data:
            file = {"type": "input_file", "filename": pdf_name(part), "file_data": data_url(part)}
            return give_back(file, unread)
        case File(media_type="application/pdf") if is_web(part.url):
            return give_back({"type": "input_file", "file_url": part.url}, unread)
        case File():
            return {"type": "input_text", "text": file_label(part)}
    return _raw(part)


# --- the way back: items as events -------------------------------------------------------------------------


def from_openai_responses(
    items: Iterable[Mapping[str, Any]], *, model: str = "", provider: str = "openai"
) -> list[Event]:
    """``model`` and ``provider``: whose thoughts these are, as in ``to_openai_responses``."""
    whose = Reasoning("", provider, model)
    events: list[list[Event]] = []
    spoken: list[Spoken] = []
    for item in each(items, "input", lambda item: _item(item, whose), "a list of items"):
        if isinstance(item, MessageAdded | ToolReturned):
            events += [_turn(spoken), [item]] if spoken else [[item]]
            spoken = []
        else:
            spoken += item
    events += [_turn(spoken)] if spoken else []
    return numbered_results(separate_steps(events), _OWN)


def _turn(spoken: list[Spoken]) -> list[Event]:
    """All that a model said and called up to the next input."""
    read = [one for one in spoken if not isinstance(one, ToolCalled)]
    last = max((at for at, one in enumerate(spoken) if not isinstance(one, ToolCalled)), default=0)
    calls = [
        with_kept(one, _OWN, at=at) if at < last else one
        for at, one in enumerate(spoken)
        if isinstance(one, ToolCalled)
    ]
    if not read:
        return [*calls]
    parts, more = parts_of(read)
    return [MessageAdded("assistant", parts, meta=meta_of(_OWN, parts=more)), *calls]


def _item(item: Given, whose: Reasoning) -> MessageAdded | ToolReturned | list[Spoken]:
    match item.get("type", "message"):
        case "message" if item.get("role") == "assistant":
            return [
                (part, more | unread_fields(item, *_OF_MESSAGE))
                for part, more in _read(item, ".content", _said_part)
            ]
        case "message":
            return _told(item)
        case "reasoning":
            return [_thought(item, whose)]
        case "function_call":
            more = unread_fields(item, "type", "call_id", "name", "arguments", *_STORED)
            args = arguments_of(string(item, "arguments"))
            return [ToolCalled(string(item, "call_id"), string(item, "name"), args, meta_of(_OWN, call=more))]
        case "custom_tool_call":
            more = unread_fields(item, "call_id", "name", "input", *_STORED)
            name, text = string(item, "name"), string(item, "input")
            return [ToolCalled(string(item, "call_id"), name, text, meta_of(_OWN, call=more))]
        case "function_call_output" | "custom_tool_call_output" as kind:
            parts, more = parts_of(_read(item, ".output", _part))
            read = ("call_id", "output", *_STORED, *(["type"] if kind == "function_call_output" else []))
            form = "" if isinstance(item.get("output"), str) else "list"
            meta = meta_of(_OWN, parts=more, result=unread_fields(item, *read), form=form)
            return ToolReturned(string(item, "call_id"), parts, meta=meta)
    string(item, "type")
    return [unknown(_OWN, item)]


def _told(item: Given) -> MessageAdded:
    role = item.get("role")
    if role not in ("user", "system", "developer"):
        raise wrong(".role", "'user', 'assistant', 'system' or 'developer'", role)
    parts, more = parts_of(_read(item, ".content", _part))
    return MessageAdded(
        role, parts, meta=meta_of(_OWN, parts=more, message=unread_fields(item, *_OF_MESSAGE))
    )


def _read(item: Given, where: str, read: Callable[[Given], Read]) -> list[Read]:
    return content(item.get(where[1:]), where, read)


def _thought(item: Given, whose: Reasoning) -> Read:
    summary = [*each(item.get("summary") or [], ".summary", lambda part: string(part, "text"))]
    signature = item.get("encrypted_content") or ""
    thought = replace(whose, text="\n\n".join(summary), id=string(item, "id"), signature=str(signature))
    more = unread_fields(item, "type", "id", "summary", "encrypted_content", "status")
    return thought, more | ({"summary": item["summary"]} if len(summary) > 1 else {})


def _said_part(part: Given) -> Read:
    match string(part, "type"):
        case "output_text":
            return Text(string(part, "text")), {}
        case "refusal":
            return Text(string(part, "refusal")), {}
    return unknown(_OWN, part)


def _part(part: Given) -> Read:
    match string(part, "type"):
        case "input_text" | "output_text":
            return Text(string(part, "text")), unread_fields(part, "type", "text")
        case "input_image" if isinstance(part.get("image_url"), str):
            return image(string(part, "image_url")), unread_fields(part, "type", "image_url")
        case "input_file" if isinstance(part.get("file_url"), str):
            return File("application/pdf", url=string(part, "file_url")), unread_fields(
                part, "type", "file_url"
            )
        case "input_file" if file := of_data_url(str(part.get("file_data") or "")):
            name = part.get("filename")
            named = replace(file, name=name if isinstance(name, str) else "")
            return named, unread_fields(part, "type", "file_data", "filename")
    return unknown(_OWN, part)
