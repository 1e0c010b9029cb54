"""OpenAI's rules for the ``input`` of the Responses API, as the API enforces them.

Where the rules come from: see ``rules_openai``. Of the many types of items these four are known here, because a
history of a chat needs no others: messages, function calls, their outputs, and reasoning.
"""

import re

from tests.support.oracles.rules_openai import need_function, need_image
from tests.support.oracles.rules_shared import (
    Kinds,
    Object,
    has_one_of,
    is_in,
    is_list,
    is_text,
    is_web_url,
    media_type_of,
    need,
    need_json,
    need_keys,
)

# OpenAPI, FunctionToolParam: maxLength 128, pattern ^[a-zA-Z0-9_-]+$
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")

# The API says: "Expected an ID that contains letters, numbers, underscores, or dashes, but this value contained additional
# characters.", "Invalid 'input[2].id': string too long. Expected a string with maximum length 64"
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

# The API says: "Invalid 'input[1].id': 'call_...'. Expected an ID that begins with 'fc'.", and so for 'msg' and 'rs'
_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fc", "reasoning": "rs"}

_STATUSES = ("in_progress", "completed", "incomplete")
_LONGEST = 10_485_760  # OpenAPI, InputTextContentParam and FunctionCallOutputItemParam: maxLength


def check_openai_responses(items: list[Object]) -> None:
    """Raises an AssertionError if the Responses API would refuse these items.

    They are taken to be all that the API is told: no ``previous_response_id``, and nothing that it has stored.
    """
    # The API says: "Invalid 'input': empty array. Expected an array with minimum length 1" (seen in practice)
    need(is_list(items), 0, "there is an item", items)
    calls: set[str] = set()
    waiting: set[str] = set()
    ids: set[str] = set()
    kinds = [_kind(index, item) for index, item in enumerate(items)]
    for index, (kind, item) in enumerate(zip(kinds, items, strict=True)):
        need_json(index, item)
        _id(index, kind, item, ids)
        if kind == "message":
            _message(index, item)
        elif kind == "function_call":
            _call(index, item, calls, waiting)
        elif kind == "function_call_output":
            _output(index, item, calls, waiting)
        else:
            _reasoning(index, item, items)
    # The API says: "No tool output found for function call call_..."
    need(not waiting, len(items) - 1, "function calls have an output", sorted(waiting))


def _kind(index: int, item: Object) -> str:
    need(type(item) is dict, index, "an item is an object", item)
    kind = item.get("type", "message")  # OpenAPI, EasyInputMessage: type is not required
    need(is_in(kind, _PREFIXES), index, "the type of an item is known", kind)
    return str(kind)


def _id(index: int, kind: str, item: Object, ids: set[str]) -> None:
    if "id" not in item:
        return
    name = item["id"]
    fits = type(name) is str and _ID.fullmatch(name) is not None
    need(fits, index, "an id is 1 to 64 letters, digits, _ and -", name)
    need(name.startswith(_PREFIXES[kind]), index, "an id begins as the ids of its type do", name)
    # The API says: "Duplicate item found with id msg_... Remove duplicate items from your input and try again."
    need(name not in ids, index, "no two items share an id", name)
    ids.add(name)


def _message(index: int, item: Object) -> None:
    role = item.get("role")
    # OpenAPI, EasyInputMessage, InputMessage and OutputMessage
    need(role in ("user", "assistant", "system", "developer"), index, "the role is known", role)
    if role != "assistant":
        need_keys(index, item, {"role", "content"}, {"type"})
        _parts(index, item["content"], _INPUT)
        return
    if type(item.get("content")) is str:  # EasyInputMessage
        need_keys(index, item, {"role", "content"}, {"type", "phase"})
        need(item["content"] != "", index, "an answer is not empty", item)  # seen in practice
    else:  # OutputMessage
        need_keys(index, item, {"type", "role", "id", "status", "content"}, {"phase"})
        _status(index, item)
    # OpenAPI, MessagePhase
    phase = item.get("phase")
    need(phase in (None, "commentary", "final_answer"), index, "the phase of an answer is known", phase)
    # The API says: "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'."
    _parts(index, item["content"], _SAID)


def _call(index: int, item: Object, calls: set[str], waiting: set[str]) -> None:
    need_keys(index, item, {"type", "call_id", "name", "arguments"}, {"id", "status"})
    called = item["call_id"]
    # The API says: "Invalid 'input[95].call_id': string too long. Expected a string with maximum length 64", and "empty string.
    # Expected a string with minimum length 1"
    need(is_text(called, 1, 64), index, "the id of a call has 1 to 64 characters", called)
    # "Duplicate 'call_id': ...", as an endpoint says that is made to be like OpenAI's (seen in practice)
    need(called not in calls, index, "no two calls share an id", called)
    need_function(index, {"name": item["name"], "arguments": item["arguments"]}, _NAME)
    _status(index, item)
    calls.add(called)
    waiting.add(called)


def _output(index: int, item: Object, calls: set[str], waiting: set[str]) -> None:
    need_keys(index, item, {"type", "call_id", "output"}, {"id", "status"})
    called = item["call_id"]
    # The API says: "No tool call found for function call output with call_id call_..."
    need(is_in(called, calls), index, "an output is that of a call before it", called)
    need(called in waiting, index, "a call has one output", called)  # seen in practice
    waiting.remove(called)
    _status(index, item)
    # OpenAPI, FunctionCallOutputItemParam: a string, or InputTextContentParam, InputImageContentParamAutoParam and
    # InputFileContentParam
    _parts(index, item["output"], _OUTPUT)


def _reasoning(index: int, item: Object, items: list[Object]) -> None:
    # The API says: "Missing required parameter: 'input[2].summary'." and 'input[42].id'; "Unknown parameter: 'input[3].status'."
    need_keys(index, item, {"type", "id", "summary", "encrypted_content"}, {"content"})
    summary = item["summary"]
    need(type(summary) is list, index, "a summary is an array, empty or not", summary)
    for part in summary:
        # The API says: "Missing required parameter: 'input[1].summary[0].type'."
        need_keys(index, part, {"type", "text"})
        summarizes = part["type"] == "summary_text" and is_text(part["text"])
        need(summarizes, index, "a summary is made of summary_text", part)
    # The API says: "Invalid 'input[39].content': array too long. Expected an array with maximum length 0"
    need(item.get("content", []) == [], index, "the content of reasoning stays empty", item.get("content"))
    # The API says: "Item with id 'rs_...' not found. Items are not persisted when `store` is set to false."
    sealed = item["encrypted_content"]
    need(is_text(sealed, 1), index, "reasoning that the API did not store is encrypted", sealed)
    # The API says: "Item 'rs_...' of type 'reasoning' was provided without its required following item."
    after = (items[place] for place in range(index + 1, len(items)))
    belongs = next((other for other in after if other.get("type") != "reasoning"), {})
    follows = belongs.get("type") == "function_call" or belongs.get("role") == "assistant"
    need(follows, index, "reasoning is followed by what it led to", belongs)


def _status(index: int, item: Object) -> None:
    status = item.get("status", "completed")
    need(status in _STATUSES, index, "the status of an item is known", status)


def _parts(index: int, content: object, kinds: Kinds) -> None:
    if type(content) is str:
        need(len(content) <= _LONGEST, index, "a text is not longer than the API reads", len(content))
        return
    # OpenAPI, InputMessageContentList: "A list of one or many input items"
    need(is_list(content), index, "content is a text, or parts of which there is one at least", content)
    for part in content:  # type: ignore[attr-defined]
        kind = part.get("type") if type(part) is dict else None
        need(is_in(kind, kinds), index, "a part is of a type that may stand here", part)
        kinds[str(kind)](index, part)


def _text(index: int, part: Object) -> None:
    need_keys(index, part, {"type", "text"})
    need(is_text(part["text"], 0, _LONGEST), index, "the text of a part is a text", part)


def _output_text(index: int, part: Object) -> None:
    need_keys(index, part, {"type", "text", "annotations"}, {"logprobs"})  # OpenAPI, OutputTextContent
    need(is_text(part["text"]), index, "the text of an answer is a text", part)
    notes = part["annotations"]
    listed = type(notes) is list and all(type(note) is dict for note in notes)
    need(listed, index, "annotations are an array of objects", notes)


def _refusal(index: int, part: Object) -> None:
    need_keys(index, part, {"type", "refusal"})
    need(is_text(part["refusal"]), index, "the refusal of a part is a text", part)


def _image(index: int, part: Object) -> None:
    need_keys(index, part, {"type", "detail"}, {"image_url", "file_id"})  # OpenAPI, InputImageContent
    _image_of_output(index, part)


def _image_of_output(index: int, part: Object) -> None:
    need_keys(index, part, {"type"}, {"image_url", "file_id", "detail"})
    need(has_one_of(("image_url", "file_id"), part), index, "an image is a URL or an id", part)
    need(is_text(part.get("file_id", "a"), 1), index, "the id of an image is not empty", part)
    need_image(index, part.get("image_url", "https://id"), part.get("detail", "auto"))


def _file(index: int, part: Object) -> None:
    need_keys(index, part, {"type"}, {"file_data", "file_url", "file_id", "filename"})
    # Guide "File inputs" (https://developers.openai.com/api/docs/guides/file-inputs): data, an uploaded file, or a URL
    one = has_one_of(("file_data", "file_url", "file_id"), part)
    need(one, index, "a file is its data, a URL or an id", part)
    need(is_text(part.get("file_id", "a"), 1), index, "the id of a file is not empty", part)
    if "file_data" in part:
        # The API says: "Invalid input: Expected context stuffing file type to be a supported format: .pdf ... but got .png",
        # and so for audio. Which documents it reads, the guide lists by their extensions.
        kind = (media_type_of(part["file_data"]) or "").partition("/")[0]
        need(kind in ("application", "text"), index, "a file is a data URL of a document", part["file_data"])
        # The same error, "but got none", for a name without an extension; without a name: seen in practice.
        name = part.get("filename")
        need(is_text(name, 1) and "." in str(name)[1:], index, "a file has a name with an extension", part)
    if "file_url" in part:
        need(is_web_url(part["file_url"]), index, "the URL of a file is http", part["file_url"])


_INPUT: Kinds = {"input_text": _text, "input_image": _image, "input_file": _file}
_OUTPUT: Kinds = {**_INPUT, "input_image": _image_of_output}
_SAID: Kinds = {"output_text": _output_text, "refusal": _refusal}
