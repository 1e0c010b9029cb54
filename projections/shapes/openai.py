"""The prompt as OpenAI's Chat Completions take it, ``messages``, and the way back.

``from_openai`` is the way back: ``messages`` of Chat Completions as the events to append.

    await log.append("chat-42", *from_openai(request["messages"]))

- What came in goes out: ``to_openai`` of the events gives the same messages again, whatever OpenAI, or a server that
  speaks its language, has sent: with ``name``, ``reasoning_content``, ``extra_content`` and fields that nobody here
  knows. Only how arguments are spaced is lost, and fields that are null or empty. What no provider takes is left out.
- What events have no place for is under ``openai`` in their meta, and no other shape looks at it: the fields of the
  ``message`` at its first event, those of its ``parts`` by index, those of a ``call``; ``form``, if a list came where a
  text would do; ``at``, if results came in another order than the calls. A part of a type that events have no word for
  is ``Data("openai")``.
- Arguments are decoded. If they are not JSON that a log can hold, they stay the string that they are.
- Results are paired with calls by ``prompt``, in order; one without a call is kept and not shown. The calls and
  results of the deprecated ``function_call`` have no ids: they are numbered.
- What is not a list of messages is refused with a ``ValueError`` that says where and why; nothing is half converted.

What this shape does not tell is lost. A failed result is one that says "Error: …", not marked as failed; a call that
was answered as interrupted has that answer as its result; a summary, or what was injected, was said. An address tells
the type of an image by its ending; without one it is taken for a PNG.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from chatfold.eventlog import (
    Data,
    Event,
    File,
    MessageAdded,
    Part,
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
    arguments_of,
    content,
    decode_base64,
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
    with_head,
    wrong,
)
from chatfold.projections.shapes.values import (
    arguments,
    call_ids,
    data_url,
    fields,
    file_label,
    give_back,
    in_given_order,
    is_web,
    json_text,
    kept_fields,
    of_part,
    only_text,
    pdf_name,
    replace_surrogates,
    text_with_files,
    to_json_value,
    tool_name,
    user_parts,
)

_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_NOTHING = "(no output)"

Shape = dict[str, Any]


# --- the prompt as messages ------------------------------------------------------------------------------------


def to_openai(messages: Sequence[Message]) -> list[Shape]:
    """Reasoning is left out: this interface does not take it back."""
    ids = call_ids(messages, 40)
    shapes: list[Shape] = []
    for message in messages:
        if message.role == "tool":
            shapes += _answers(message, ids)
        elif shape := _spoken(message, ids):
            shapes.append(shape)
    return shapes


def _answers(message: Message, ids: dict[int, str]) -> Iterator[Shape]:
    for result in in_given_order(message.results, "openai"):
        own = kept_fields(result, "openai")
        content = (own and _text_list(result.parts, own)) or output_text(result)
        shape = {"role": "tool", "tool_call_id": ids[result.call], "content": content}
        yield give_back(shape, _message_fields(own)) if own else shape


def _spoken(message: Message, ids: dict[int, str]) -> Shape | None:
    """None if it says nothing."""
    own = kept_fields(message, "openai")
    if message.role == "user":
        content = _user_content(message, own)
        return give_back({"role": "user", "content": content}, _message_fields(own)) if content else None
    shape = _said_and_called(message, own, ids)
    first = message.calls[0] if message.calls else message  # without words, it is with the first call
    unread = _message_fields(own) or _message_fields(kept_fields(first, "openai"))
    return give_back(shape, unread) if len(shape) > 1 else None


def _user_content(message: Message, own: Shape) -> str | list[Shape]:
    """A single text is sent as a string, as most clients do, unless it came as a list."""
    if "form" not in own and (text := only_text(message.parts)) is not None:
        return text
    parts = enumerate(user_parts(message))
    listed = [shape for at, part in parts if (shape := _chat_part(part, of_part(own, at)))]
    alone = "form" not in own and len(listed) == 1 and listed[0].keys() == {"type", "text"}
    return str(listed[0]["text"]) if alone else listed


def _said_and_called(message: Message, own: Shape, ids: dict[int, str]) -> Shape:
    """What an assistant or an embedder says, and the calls."""
    shape: Shape = {"role": message.role}
    if not own:
        if text := text_with_files(message.parts):
            shape["content"] = text
        if message.calls:
            shape["tool_calls"] = [_call_shape(call, ids) for call in message.calls]
        return shape
    refused = [] if "form" in own else [at for at in range(len(message.parts)) if "type" in of_part(own, at)]
    said = tuple(part for at, part in enumerate(message.parts) if at not in refused)
    if content := _text_list(message.parts, own) or text_with_files(said):
        shape["content"] = content
    if refusal := text_with_files(tuple(message.parts[at] for at in refused)):
        shape["refusal"] = refusal
    if message.calls:
        shape["tool_calls"] = [_call_shape(call, ids) for call in message.calls]
    return shape


def _call_shape(call: Call, ids: dict[int, str]) -> Shape:
    if not call.meta:
        return {"id": ids[call.seq], "type": "function", "function": function_shape(call.name, call.args)}
    unread = fields(kept_fields(call, "openai"), "call")
    if unread.get("type") == "custom" and isinstance(call.args, str):
        custom = {"name": tool_name(call.name), "input": replace_surrogates(call.args)}
        return give_back({"id": ids[call.seq], "type": "custom", "custom": custom}, unread)
    return give_back(
        {"id": ids[call.seq], "type": "function", "function": function_shape(call.name, call.args)}, unread
    )


def function_shape(name: str, args: Any) -> Shape:
    return {"name": tool_name(name), "arguments": json_text(arguments(args))}


def output_text(result: Result) -> str:
    text = text_with_files(result.parts, data=True) or _NOTHING
    return f"Error: {text}" if result.failed else text


def _message_fields(own: Shape) -> Shape:
    """A name that OpenAI would refuse is made one that it takes."""
    if not own:
        return own
    unread = fields(own, "message")
    name = unread.get("name")
    return {**unread, "name": tool_name(name)} if isinstance(name, str) else unread


def _text_list(parts: tuple[Part, ...], own: Shape) -> list[Shape]:
    """The content as a list, if it came as one: of texts, since no more is taken where no user speaks."""
    if own.get("form") != "list" or not all(isinstance(part, Text) for part in parts):
        return []
    return [shape for at, part in enumerate(parts) if (shape := _chat_part(part, of_part(own, at)))]


def _chat_part(part: Part, unread: Shape) -> Shape | None:
    match part:
        case Text(text=text) if unread.get("type") == "refusal":
            return give_back({"type": "refusal", "refusal": replace_surrogates(text)}, unread)
        case Text(text=text) if text.strip():
            return give_back({"type": "text", "text": replace_surrogates(text)}, unread)
        case File() if shape := _chat_file(part):
            return give_back(shape, unread)
        case File():
            return {"type": "text", "text": file_label(part)}
        case Data(name="openai", data=dict() as given) if isinstance(given.get("type"), str):
            return dict(to_json_value(given))  # of a type that only the provider knows
    return None


def _chat_file(file: File) -> Shape | None:
    match file.media_type:
        case media if media in IMAGES and (file.data or is_web(file.url)):
            return {"type": "image_url", "image_url": {"url": data_url(file) if file.data else file.url}}
        case media if media in _AUDIO and file.data:
            sound = {"data": data_url(file).partition(",")[2], "format": _AUDIO[media]}
            return {"type": "input_audio", "input_audio": sound}
        case "application/pdf" if file.data:
            return {"type": "file", "file": {"filename": pdf_name(file), "file_data": data_url(file)}}
    return None


# --- the way back: Chat Completions as events --------------------------------------------------------------


_ROLES: dict[str, Role] = {"system": "system", "developer": "developer", "user": "user"}
_SOUNDS = {"mp3": "audio/mpeg"}  # others are called what they are


def from_openai(messages: Iterable[Mapping[str, Any]]) -> list[Event]:
    functions: list[str] = []
    turns = each(messages, "messages", lambda message: _message(message, functions), "a list of messages")
    return numbered_results(separate_steps(turns), "openai")


def _message(message: Given, functions: list[str]) -> list[Event]:
    """``functions``: the names of those that were called without an id so far."""
    match message.get("role"):
        case "system" | "developer" | "user" as role:
            return _told(_ROLES[role], message)
        case "assistant":
            return _assistant(message, functions)
        case "tool":
            return _result(string(message, "tool_call_id"), message, "tool_call_id")
        case "function":
            return _result(_function_id(string(message, "name"), functions), message, "name")
        case role:
            raise wrong(".role", "'system', 'developer', 'user', 'assistant', 'tool' or 'function'", role)


def _told(role: Role, message: Given) -> list[Event]:
    parts, more = parts_of(_content(message))
    would_do = role != "user" or (len(parts) == 1 and isinstance(parts[0], Text))
    form = _form(message) if would_do else ""
    said = MessageAdded(role, parts, meta=meta_of("openai", parts=more, form=form))
    return with_head([said], "openai", unread_fields(message, "role", "content"))


def _form(message: Given) -> str:
    """``list``, if the content is one where a text would do."""
    content = message.get("content")
    return "list" if content and not isinstance(content, str) else ""


def _assistant(message: Given, functions: list[str]) -> list[Event]:
    read = _content(message, required=False)
    if message.get("refusal") is not None:
        read.append(_refusal(message))
    asked = message.get("tool_calls")
    calls = list(each(asked, ".tool_calls", _call)) if asked is not None else []
    if message.get("function_call") is not None:
        calls.append(_function_call(message, functions))
    events: list[Said] = [*calls]
    if read or not calls:
        parts, more = parts_of(read)
        events.insert(
            0, MessageAdded("assistant", parts, meta=meta_of("openai", parts=more, form=_form(message)))
        )
    return with_head(
        events, "openai", unread_fields(message, "role", "content", "refusal", "tool_calls", "function_call")
    )


def _result(call: str, message: Given, id_field: str) -> list[Event]:
    parts, more = parts_of(_content(message, required=id_field == "tool_call_id"))
    returned = ToolReturned(call, parts, meta=meta_of("openai", parts=more, form=_form(message)))
    return with_head([returned], "openai", unread_fields(message, "role", "content", id_field))


# --- calls -----------------------------------------------------------------------------------------------


def _call(call: Given) -> ToolCalled:
    match call.get("type"):
        case "function" | None:
            name, args = string(call, "function", "name"), arguments_of(string(call, "function", "arguments"))
            more = unread_fields(call, "id", "type", function=("name", "arguments"))
        case "custom":
            name, args = string(call, "custom", "name"), string(call, "custom", "input")
            more = unread_fields(call, "id", custom=("name", "input"))
        case other:
            raise wrong(".type", "'function' or 'custom'", other)
    return ToolCalled(string(call, "id"), name, args, meta_of("openai", call=more))


def _function_call(message: Given, functions: list[str]) -> ToolCalled:
    name = string(message, "function_call", "name")
    args = arguments_of(string(message, "function_call", "arguments"))
    functions.append(name)
    more = unread_fields(message["function_call"], "name", "arguments")
    return ToolCalled(_function_id(name, functions), name, args, meta_of("openai", call=more))


def _function_id(name: str, functions: list[str]) -> str:
    """That of the last call of this function; if there was none, its name has to do."""
    numbers = range(len(functions), 0, -1)
    return next((f"function_{number}" for number in numbers if functions[number - 1] == name), name)


# --- parts -----------------------------------------------------------------------------------------------


def _content(message: Given, *, required: bool = True) -> list[Read]:
    given = message.get("content")
    return content(given, ".content", _part) if required or given is not None else []


def _part(part: Given) -> Read:
    match string(part, "type"):
        case "text":
            return Text(string(part, "text")), unread_fields(part, "type", "text")
        case "refusal":
            said, more = _refusal(part)
            return said, more | unread_fields(part, "type", "refusal")
        case "image_url":
            return image(string(part, "image_url", "url")), unread_fields(part, "type", image_url=("url",))
        case "input_audio" if sound := _sound(part):
            return sound, unread_fields(part, "type", input_audio=("data", "format"))
        case "file" if file := _attachment(part):
            return file, unread_fields(part, "type", file=("file_data", "filename"))
    return unknown("openai", part)


def _refusal(given: Given) -> Read:
    return Text(string(given, "refusal")), {"type": "refusal"}


def _sound(part: Given) -> File | None:
    data, kind = decode_base64(string(part, "input_audio", "data")), string(part, "input_audio", "format")
    return File(_SOUNDS.get(kind, f"audio/{kind}"), data) if data else None


def _attachment(part: Given) -> File | None:
    """None: it is named by an id only, or its bytes cannot be read."""
    match part:
        case {"file": {"file_id": str(), **more}} if more.get("file_data") is None:
            return None
    written = string(part, "file", "file_data")
    name = string(part, "file", "filename") if "filename" in part["file"] else ""
    if file := of_data_url(written):
        return replace(file, name=name)
    media_type = "application/pdf" if name.lower().endswith(".pdf") else "application/octet-stream"
    data = decode_base64(written)
    return File(media_type, data, name) if data else None
