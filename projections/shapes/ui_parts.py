"""The parts of a UIMessage, both ways: what ``ui`` puts together and takes apart."""

import re
from collections.abc import Iterator
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from chatfold.eventlog import (
    Data,
    Event,
    File,
    Json,
    MessageAdded,
    Part,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.shapes.parse import decode_base64, string
from chatfold.projections.shapes.values import data_url, file_label, is_web, json_text
from chatfold.projections.text import text_of

Object: TypeAlias = dict[str, Any]

STEP = {"type": "step-start"}
RESERVED = frozenset({"ts", "chatKey", "runId", "kind", "sourceRange", "origin", "role", "chatfold", "ui"})
"""The keys of ``metadata`` that mean something here. All others are the meta of the message's first event."""
OF_RESULT = frozenset({"state", "output", "errorText", "preliminary", "resultProviderMetadata", "approval"})
"""The fields of a tool part that change when the call is answered."""

_MEDIA_TYPE = re.compile(r"([a-z]+/[a-zA-Z0-9.+-]+)\s*(;.*)?", re.DOTALL)
_SIGNATURE = {
    "openai": "reasoningEncryptedContent",
    "azure": "reasoningEncryptedContent",
    "google": "thoughtSignature",
}
_ASKED = ("input-available", "approval-requested", "approval-responded")
_ANSWERED = ("output-available", "output-error", "output-denied")
_DENIED = "Tool call execution denied."  # what the SDK tells the model
_SIGNATURES = ("signature", "redactedData", "reasoningEncryptedContent", "thoughtSignature")

CallRead: TypeAlias = tuple[ToolCalled, ToolReturned | None]
Notes: TypeAlias = dict[str, Object]
"""``metadata.chatfold``."""
E = TypeVar("E", bound=MessageAdded | ToolCalled | ToolReturned)


# --- what an import kept ---------------------------------------------------------------------------------


def ui_of(meta: dict[str, Json]) -> Object:
    """What is under ``ui``, as far as it has the form that an import gives it."""
    ui = meta.get("ui")
    found: Object = {}
    if isinstance(ui, dict):
        if isinstance(head := ui.get("message"), dict) and isinstance(head.get("id"), str):
            found["message"] = head
        if isinstance(before := ui.get("before"), list) and all(map(is_part, before)):
            found["before"] = before
        if isinstance(patches := ui.get("parts"), dict):
            found["parts"] = patches
    return found


def without_ui(meta: dict[str, Json]) -> Object:
    return {key: value for key, value in meta.items() if key != "ui"}


def is_part(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def patched(part: Object, ui: Object, index: int = 0) -> Object:
    match ui.get("parts", {}).get(str(index)):
        case {"set": dict() as values, "cut": list() as cut}:
            return {key: value for key, value in part.items() if key not in cut} | values
    return part


# --- parts, calls and results ----------------------------------------------------------------------------


def shown_parts(parts: tuple[Part, ...], ui: Object) -> Iterator[Object]:
    patches = ui.get("parts", {})
    for index, part in enumerate(parts):
        if isinstance(part, Data) and is_part(part.data) and patches.get(str(index), {}) is None:
            yield part.data
        else:
            yield patched(write_part(part), ui, index)


def write_part(part: Part) -> Object:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Reasoning(text=text):
            metadata = _provider_metadata(part)
            return {"type": "reasoning", "text": text} | ({"providerMetadata": metadata} if metadata else {})
        case File():
            return write_file(part)
        case Data(name=name, data=data):
            return {"type": f"data-{name or 'unnamed'}", "data": data}


def write_file(file: File) -> Object:
    """What is neither here nor on the web cannot be shown: it is described."""
    media_type = _MEDIA_TYPE.fullmatch(file.media_type)
    if media_type is None or not (file.data or is_web(file.url)):
        return write_part(Text(file_label(file)))
    url = data_url(replace(file, media_type=media_type[1])) if file.data else file.url
    named = {"filename": file.name} if file.name else {}
    return {"type": "file", "mediaType": media_type[1], "url": url, **named}


def _provider_metadata(part: Reasoning) -> Object:
    """As the SDK's own providers write it; what they have no name for is under ``chatfold``."""
    name = _SIGNATURE.get(part.provider, "redactedData" if part.redacted else "signature")
    own: Object = {"itemId": part.id} if part.id else {}
    if part.signature or (part.id and name == "reasoningEncryptedContent"):
        own[name] = part.signature or None
    rest = {"model": part.model} if part.model else {}
    if own and part.provider:
        return {part.provider: own} | ({"chatfold": rest} if rest else {})
    rest |= own | ({"provider": part.provider} if part.provider else {})
    return {"chatfold": rest} if rest else {}


def call_part(event: ToolCalled, call_id: str) -> Object:
    kind = f"tool-{event.name or 'unnamed'}"
    part = {"type": kind, "toolCallId": call_id, "state": "input-available", "input": event.args}
    return patched(part, ui_of(event.meta))


def answered(part: Object, event: ToolReturned) -> Object:
    """The part of a call with its result. Of an approval only a yes is left: the SDK takes nothing else here."""
    approval = part.get("approval")
    part = {key: value for key, value in part.items() if key not in OF_RESULT}
    if isinstance(approval, dict) and approval.get("approved") is True:
        part["approval"] = approval
    if event.failed:
        part |= {"state": "output-error", "errorText": error_text(event.parts)}
    else:
        part |= {"state": "output-available", "output": output_of(event.parts)}
    return patched(part, ui_of(event.meta))


def error_text(parts: tuple[Part, ...]) -> str:
    texts = [part.text for part in parts if isinstance(part, Text)]
    return "\n".join(texts) if texts or not parts else json_text(output_of(parts))


def output_of(parts: tuple[Part, ...]) -> Json:
    """One text is a string, one ``Data("json")`` its value, and anything else ``content``: a list of parts."""
    match parts:
        case (Text(text=text),):
            return text
        case (Data(name="json", data=value),) if not isinstance(value, str) and not is_content(value):
            return value
    return {"type": "content", "value": [write_part(part) for part in parts]}


def is_content(output: Json) -> bool:
    return isinstance(output, dict) and output.keys() == {"type", "value"} and output["type"] == "content"


# --- parts -----------------------------------------------------------------------------------------------


def read_part(part: Object) -> Part | None:
    match part["type"]:
        case "text":
            return Text(string(part, "text"))
        case "reasoning":
            return _reasoning(string(part, "text"), part.get("providerMetadata"))
        case "file":
            return read_file(string(part, "mediaType"), string(part, "url"), part.get("filename", ""))
        case str() as kind if kind.startswith("data-"):
            return Data(kind[5:], part.get("data"))
    return None


def read_file(media_type: str, url: str, name: Json) -> File:
    """With the bytes of a data URL, if it can be made from them again."""
    file = File(media_type, name=name if isinstance(name, str) else "", url=url)
    data = decode_base64(url.partition(",")[2])
    held = replace(file, data=data, url="") if data else file
    return held if write_part(held).get("url") == url else file


def _reasoning(text: str, metadata: Json) -> Reasoning:
    given = metadata if isinstance(metadata, dict) else {}
    given = {key: value for key, value in given.items() if isinstance(value, dict)}
    rest = given.pop("chatfold", {})
    provider, own = next(iter(given.items()), (rest.get("provider"), rest))
    signature = next((own[name] for name in _SIGNATURES if isinstance(own.get(name), str)), "")
    named = (provider, rest.get("model"), own.get("itemId"))
    provider, model, item = (name if isinstance(name, str) else "" for name in named)
    redacted = isinstance(own.get("redactedData"), str) and not isinstance(own.get("signature"), str)
    return Reasoning(text, provider, model, signature, item, redacted)


def read_call(at: int, part: Object, calls: set[str], notes: Notes) -> CallRead | None:
    call_id, state = string(part, "toolCallId"), string(part, "state")
    name = string(part, "toolName") if part["type"] == "dynamic-tool" else part["type"][5:]
    if not call_id or call_id in calls or state not in (*_ASKED, *_ANSWERED):
        return None
    calls.add(call_id)
    call = ToolCalled(call_id, name, part.get("input"), noted(notes, at, "meta"))
    if state in _ASKED or part.get("preliminary") is True:
        return _patched(call, call_part(call, call_id), part), None
    asked = {key: value for key, value in part.items() if key not in OF_RESULT}
    call = _patched(call, call_part(call, call_id), {**asked, "state": "input-available"})
    failed = state != "output-available"
    result = ToolReturned(call_id, _result(part, notes.get(str(at), {})), failed, noted(notes, at, "result"))
    return call, _patched(result, answered(call_part(call, call_id), result), part)


def _result(part: Object, note: Object) -> tuple[Part, ...]:
    match part:
        case {"state": "output-available"}:
            return _parts_of(part.get("output"))
        case {"state": "output-denied", "approval": {"reason": str() as reason}}:
            return (Text(reason),)
        case {"state": "output-denied"}:
            return (Text(_DENIED),)
    text = string(part, "errorText")
    if "output" in note and error_text(whole := _parts_of(note["output"])) == text:
        return whole
    return (Text(text),)


def _parts_of(output: Json) -> tuple[Part, ...]:
    """The parts that ``output_of`` makes this from, as long as there are any."""
    if isinstance(output, str):
        return (Text(output),)
    if is_content(output) and isinstance(output["value"], list) and all(map(is_part, output["value"])):
        try:
            parts = tuple(part for item in output["value"] if (part := read_part(item)))
        except ValueError:
            parts = ()
        if output_of(parts) == output:
            return parts
    return (Data("json", output),)


# --- what is kept for the way back -----------------------------------------------------------------------


def notes_of(value: Json) -> Notes:
    return (
        {key: note for key, note in value.items() if isinstance(note, dict)}
        if isinstance(value, dict)
        else {}
    )


def noted(notes: Notes, at: int, name: str) -> Object:
    meta = notes.get(str(at), {}).get(name)
    return {key: value for key, value in meta.items() if key != "ui"} if isinstance(meta, dict) else {}


def _patched(event: E, shown: Object, part: Object) -> E:
    """The event with the difference between the part it would be shown as and this one."""
    patch = difference(shown, part)
    return with_ui(event, parts={"0": patch}) if patch else event


def difference(shown: Object, part: Object) -> Object:
    values = {key: value for key, value in part.items() if key not in shown or shown[key] != value}
    cut = [key for key in shown if key not in part]
    return {"set": values, "cut": cut} if values or cut else {}


def with_ui(event: E, **values: Json) -> E:
    return replace(event, meta={**event.meta, "ui": {**event.meta.get("ui", {}), **values}})


# --- summaries -------------------------------------------------------------------------------------------


class Summary(Struct, frozen=True):
    """What stands in the place of messages ``first`` … ``last``, each named by its id and the place of the event in it."""

    text: str
    count: int
    first: tuple[str, int]
    last: tuple[str, int]


def message_id(event: Event) -> str:
    """Of the message that the event begins; empty if it begins none."""
    found = (
        ui_of(event.meta).get("message", {}).get("id", "")
        if isinstance(event, MessageAdded | ToolCalled)
        else ""
    )
    return str(found)


def summary_of(event: Event) -> Summary | None:
    """What a message of ``from_ui`` says, if it is the summary of a compaction and nobody's words."""
    if not isinstance(event, MessageAdded):
        return None
    match ui_of(event.meta).get("message", {}).get("metadata"):
        case {"kind": "summary", "sourceRange": {"fromId": str(first), "toId": str(last), **more}, **others}:
            notes = others.get("chatfold")
            hides = notes.get("hides") if isinstance(notes, dict) else None
            count = more.get("count")
            places = (
                hides
                if isinstance(hides, list) and [type(at) for at in hides] == [int, int]
                else [0, 1 << 62]
            )
            text = text_of(event.parts)
            return Summary(text, count if type(count) is int else 0, (first, places[0]), (last, places[1]))
    return None
