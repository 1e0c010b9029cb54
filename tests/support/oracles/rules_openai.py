"""OpenAI's rules for the ``messages`` of Chat Completions, as its API enforces them.

Where the rules come from: the errors of the API, quoted as they were reported; the OpenAPI description that OpenAI
publishes (https://github.com/openai/openai-openapi, ``openapi.yaml``); and its guides. Two kinds of messages that
the API still takes are refused, because nothing new should make them: ``function_call`` and the role ``function``,
both deprecated in the description.
"""

import json
import re
from typing import Any

from tests.support.oracles.rules_shared import (
    IMAGES,
    Kinds,
    Object,
    has_one_of,
    is_base64,
    is_in,
    is_list,
    is_text,
    is_web_url,
    media_type_of,
    need,
    need_json,
    need_keys,
)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_KEYS = {  # OpenAPI, ChatCompletionRequest{System,Developer,User,Assistant,Tool}Message: required, optional
    "system": ({"role", "content"}, {"name"}),
    "developer": ({"role", "content"}, {"name"}),
    "user": ({"role", "content"}, {"name"}),
    "assistant": ({"role"}, {"content", "name", "refusal", "tool_calls"}),
    "tool": ({"role", "content", "tool_call_id"}, set[str]()),
}


def check_openai_chat(messages: list[Object]) -> None:
    """Raises an AssertionError if Chat Completions would refuse these messages."""
    # The API says: "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
    need(is_list(messages), 0, "there is a message", messages)
    calls: set[str] = set()
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        need_json(index, message)
        role = _role(index, message)
        if role == "tool":
            _answer(index, message, calls, waiting)
            _content(index, message, {"text": _text})
            continue
        # The API says: "An assistant message with 'tool_calls' must be followed by tool messages responding to each
        # 'tool_call_id'. The following tool_call_ids did not have response messages: call_..."
        need(not waiting, index, "tool calls are answered before anything else", sorted(waiting))
        if role == "assistant":
            _assistant(index, message, calls, waiting)
        else:
            _content(index, message, _USER if role == "user" else {"text": _text})
    need(not waiting, len(messages) - 1, "tool calls at the end are answered", sorted(waiting))


def _role(index: int, message: Object) -> str:
    need(type(message) is dict, index, "a message is an object", message)
    role = message.get("role")
    # The API says: "Invalid value: '...'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and
    # 'developer'."
    need(is_in(role, _KEYS), index, "the role is known", role)
    need_keys(index, message, *_KEYS[str(role)])
    name = message.get("name", "a")
    # The API says: "Invalid 'messages[1].name': string does not match pattern. Expected a string that matches the pattern
    # '^[a-zA-Z0-9_-]+$'." The 64 are those of functions (seen in practice).
    need(_is_name(name), index, "the name of a participant is letters, digits, _ and -", name)
    return str(role)


def _assistant(index: int, message: Object, calls: set[str], waiting: set[str]) -> None:
    if "tool_calls" in message:
        _tool_calls(index, message["tool_calls"], calls, waiting)
    # The description says: "The contents of the assistant message. Required unless `tool_calls` or `function_call` is specified."
    # The API says: "Invalid value for 'content': expected a string, got null."
    content = message.get("content")
    said = bool(content) or "tool_calls" in message or bool(message.get("refusal"))
    need(said, index, "an assistant that calls no tool says something", content)
    refusal = message.get("refusal")
    need(refusal is None or is_text(refusal), index, "a refusal is a text", refusal)
    if content is None:
        return
    _content(index, message, {"text": _text, "refusal": _refusal})
    # The description says: "Can be one or more of type `text`, or exactly one of type `refusal`."
    kinds = [part["type"] for part in content] if type(content) is list else []
    need("refusal" not in kinds or len(kinds) == 1, index, "a refusal stands alone", kinds)


def _tool_calls(index: int, tool_calls: object, calls: set[str], waiting: set[str]) -> None:
    # The API says: "Invalid 'messages[2].tool_calls': empty array. Expected an array with minimum length 1", and "array too
    # long. Expected an array with maximum length 128"
    many = len(tool_calls) if type(tool_calls) is list else 0
    need(1 <= many <= 128, index, "there are 1 to 128 tool calls, or no such key", tool_calls)
    for given in tool_calls:  # type: ignore[attr-defined]
        call = _as_function(given)
        need_keys(index, call, {"id", "type", "function"})
        need(call["type"] == "function", index, "a tool call is of type function", call)
        # The API says: "Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum length 40"
        need(is_text(call["id"], 1, 40), index, "the id of a tool call has 1 to 40 characters", call["id"])
        # The API says: "Duplicate value for 'tool_call_id' of 'call_...', in messages[7] and messages[8]."
        need(call["id"] not in calls, index, "no two tool calls share an id", call["id"])
        need_function(index, call["function"], _NAME)
        calls.add(call["id"])
        waiting.add(call["id"])


def _as_function(call: object) -> Any:
    """OpenAPI, ChatCompletionMessageCustomToolCall: like a call of a function, with a text in the place of arguments."""
    match call:
        case {"id": called, "type": "custom", "custom": {"name": name, "input": str()}}:
            return {"id": called, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return call


def need_function(
    index: int, function: Object, names: re.Pattern[str], more: frozenset[str] = frozenset()
) -> None:
    """Promises a name and arguments that a model can have written."""
    need_keys(index, function, {"name", "arguments"})
    name, arguments = function["name"], function["arguments"]
    # OpenAPI, FunctionObject: "Must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of
    # 64." The API says: "Invalid 'messages[9].tool_calls[0].function.name': string does not match pattern."
    fits = type(name) is str and names.fullmatch(name) is not None
    need(fits, index, "the name of a function is letters, digits, _ and -, and not too long", name)
    # OpenAPI, ChatCompletionMessageToolCall: "The arguments to call the function with, as generated by the model in
    # JSON format". The API does not parse them, but templates and proxies do (seen in practice).
    need(type(_parsed(arguments)) is dict, index, "arguments are the JSON of an object", arguments)
    need_json(index, _parsed(arguments))


def _parsed(arguments: object) -> object:
    try:
        return json.loads(arguments) if type(arguments) is str else None
    except ValueError:
        return None


def _answer(index: int, message: Object, calls: set[str], waiting: set[str]) -> None:
    called = message["tool_call_id"]
    # The API says: "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with
    # 'tool_calls'."
    need(is_in(called, calls), index, "a tool message answers a call before it", called)
    # The API says: "Invalid parameter: Duplicate value for 'tool_call_id' of 'call_...', in messages[7] and messages[8]."
    need(called in waiting, index, "a tool call is answered once", called)
    waiting.remove(called)


def _content(index: int, message: Object, kinds: Kinds) -> None:
    content = message["content"]
    if type(content) is str:
        return
    # The description says: minItems: 1. The API says: "Invalid value for 'content': expected a string, got null."
    need(is_list(content), index, "content is a text, or parts of which there is one at least", content)
    for part in content:
        kind = part.get("type") if type(part) is dict else None
        # The description says: "For tool messages, only type `text` is supported." The API says: "Image URLs are only allowed for messages
        # with role 'user', but this message with role 'tool' contains an image URL."
        need(is_in(kind, kinds), index, "a part is of a type that this role may have", part)
        kinds[str(kind)](index, part)


def _text(index: int, part: Object) -> None:
    need_keys(index, part, {"type", "text"})
    need(is_text(part["text"]), index, "the text of a part is a text", part)


def _refusal(index: int, part: Object) -> None:
    need_keys(index, part, {"type", "refusal"})
    need(is_text(part["refusal"]), index, "the refusal of a part is a text", part)


def _image(index: int, part: Object) -> None:
    need_keys(index, part, {"type", "image_url"})
    image = part["image_url"]
    need_keys(index, image, {"url"}, {"detail"})
    need_image(index, image["url"], image.get("detail", "auto"))


def need_image(index: int, url: object, detail: object) -> None:
    """Promises an image that is fetched from the web or lies in a data URL."""
    # The API says: "Expected a base64-encoded data URL with an image MIME type (e.g. 'data:image/png;base64,
    # aW1nIGJ5dGVzIGhlcmU='), but got unsupported MIME type 'application/pdf'."
    need(is_web_url(url) or media_type_of(url) in IMAGES, index, "an image is an http or a data URL", url)
    # OpenAPI, ImageDetail
    need(detail in ("auto", "low", "high", "original"), index, "the detail of an image is known", detail)


def _audio(index: int, part: Object) -> None:
    need_keys(index, part, {"type", "input_audio"})
    audio = part["input_audio"]
    need_keys(index, audio, {"data", "format"})
    # OpenAPI, ChatCompletionRequestMessageContentPartAudio: "Base64 encoded audio data.", enum wav, mp3
    need(audio["format"] in ("wav", "mp3"), index, "audio is wav or mp3", audio)
    need(is_base64(audio["data"]), index, "audio is base64, without data:", audio)


def _file(index: int, part: Object) -> None:
    need_keys(index, part, {"type", "file"})
    file = part["file"]
    need_keys(index, file, set(), {"file_data", "file_id", "filename"})
    # OpenAPI, ChatCompletionRequestMessageContentPartFile: either the data or an id
    need(has_one_of(("file_data", "file_id"), file), index, "a file is its data or an id", file)
    need(is_text(file.get("file_id", "a"), 1), index, "the id of a file is not empty", file)
    if "file_data" in file:
        # Guide "File inputs" (https://developers.openai.com/api/docs/guides/file-inputs): "Chat Completions accepts
        # only PDF files as file content parts." The API says: "Expected a base64-encoded data URL with an application/pdf
        # MIME type". That the name must be there: seen in practice.
        pdf = media_type_of(file["file_data"]) == "application/pdf"
        need(pdf, index, "a file is a data URL of a PDF", file["file_data"])
        need(is_text(file.get("filename"), 1), index, "a file has a name", file)


def _is_name(value: object) -> bool:
    return type(value) is str and _NAME.fullmatch(value) is not None


_USER: Kinds = {"text": _text, "image_url": _image, "input_audio": _audio, "file": _file}
