"""from_ui_messages: messages of the AI SDK (npm ``ai``, versions 5 and 6) as the events to append.

    await log.append("chat-42", *from_ui_messages(messages))

- Nothing is lost: ``ui_messages`` of the entries gives the same messages again, with their ids, whatever the SDK, an
  app or a later version put into them. What events have no place for is under ``ui`` in their meta: see there.
- What they have a place for is there: texts, reasoning with its signature, files with their bytes, calls and results,
  and ``metadata`` as the meta of the message's first event. The results of a step come after all its calls.
- A call whose input was still arriving is no call yet, and a second one of the same id cannot be told from the first:
  both are kept as they are. A preliminary output is no result. A denied call is one that failed.
- What is not a list of messages is refused with a ``ValueError`` that says where and why; nothing is half imported.

``metadata.origin`` means what it does in ``ui_messages``: a message for the audit alone is shown with ``audit=True``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from chatfold.eventlog import (
    Data,
    Event,
    File,
    Json,
    MessageAdded,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.reading import Given, decoded, each, string, wrong
from chatfold.projections.to_ui import (
    OF_RESULT,
    RESERVED,
    STEP,
    Object,
    answered,
    call_part,
    error_text,
    is_content,
    is_part,
    output_of,
    to_ui,
)

_ROLES: dict[Json, Role] = {"user": "user", "system": "system", "assistant": "assistant"}
_ASKED = ("input-available", "approval-requested", "approval-responded")
_ANSWERED = ("output-available", "output-error", "output-denied")
_DENIED = "Tool call execution denied."  # what the SDK tells the model
_SIGNATURES = ("signature", "redactedData", "reasoningEncryptedContent", "thoughtSignature")

_Said: TypeAlias = MessageAdded | ToolCalled
_Call: TypeAlias = tuple[ToolCalled, ToolReturned | None]
_Notes: TypeAlias = dict[str, Object]
"""``metadata.chatfold``."""
_E = TypeVar("_E", bound=MessageAdded | ToolCalled | ToolReturned)


class _Item(NamedTuple):
    """A part, where it was, and what it is as events or as part of one, if it has a name there."""

    at: int
    part: Object
    read: Part | _Call | None


def from_ui_messages(messages: Iterable[Mapping[str, Any]]) -> list[Event]:
    calls: set[str] = set()
    read = each(messages, "messages", lambda message: _message(message, calls), "a list of UIMessages")
    return [event for events in read for event in events]


def _message(message: Given, calls: set[str]) -> list[Event]:
    string(message, "id")
    role, parts, metadata = message.get("role"), message.get("parts"), message.get("metadata")
    if not isinstance(role, str) or role not in _ROLES:
        raise wrong(".role", "'system', 'user' or 'assistant'", role)
    if not isinstance(parts, list):
        raise wrong(".parts", "a list", parts)
    known = metadata if isinstance(metadata, dict) else {}
    notes = _notes(known.get("chatfold"))
    items = [_item(at, part, role, calls, notes) for at, part in enumerate(parts)]
    if role == "system" and known.get("role") == "developer":
        events: list[Event] = [_said("developer", items, notes)]
    else:
        events = _turn(items, notes) if role == "assistant" else [_said(_ROLES[role], items, notes)]
    return _headed(events, message, known)


def _headed(events: list[Event], message: Mapping[str, Any], known: Object) -> list[Event]:
    """The events, the first of them with what is about the whole message."""
    head = {key: value for key, value in message.items() if key not in ("role", "parts")}
    if isinstance(head.get("metadata"), dict):
        head["metadata"] = {key: value for key, value in known.items() if key in RESERVED}
    first = events[0]
    assert isinstance(first, MessageAdded | ToolCalled)
    meta = {key: value for key, value in known.items() if key not in RESERVED}
    meta |= {key: value for key, value in first.meta.items() if key in RESERVED}
    if isinstance(first, MessageAdded) and len(events) == 1 and known.get("origin") in ("internal", "audit"):
        first = replace(first, origin=known["origin"])
    return [_with_ui(replace(first, meta=meta), message=head), *events[1:]]


# --- the steps of the assistant --------------------------------------------------------------------------


def _turn(items: list[_Item], notes: _Notes) -> list[Event]:
    events: list[Event] = []
    begins = True  # would ``ui_messages`` begin a step here?
    for before, step in _steps(items):
        said, results = _step(step, notes)
        if before != ([STEP] if begins else []) or not step:  # a message of nothing but steps says so
            said[0] = _with_ui(said[0], before=before)
        events += said
        events += results
        begins = bool(results)
    return events


def _steps(items: list[_Item]) -> Iterator[tuple[list[Object], list[_Item]]]:
    """The step-starts before a step, and the step; the last may be empty."""
    before: list[Object] = []
    step: list[_Item] = []
    for item in items:
        if item.part["type"] != "step-start":
            step.append(item)
            continue
        if step:
            yield before, step
            before, step = [], []
        before.append(item.part)
    yield before, step


def _step(items: list[_Item], notes: _Notes) -> tuple[list[_Said], list[ToolReturned]]:
    """What was said and called, if only an empty message, and the results."""
    said: list[_Said] = []
    results: list[ToolReturned] = []
    words: list[_Item] = []
    for item in items:
        if words and (isinstance(item.read, tuple) or str(item.at) in notes):
            said.append(_said("assistant", words, notes))
            words = []
        if isinstance(item.read, tuple):
            said.append(item.read[0])
            results += [item.read[1]] if item.read[1] else []
        else:
            words.append(item)
    if words or not said:
        said.append(_said("assistant", words, notes))
    return said, results


def _said(role: Role, items: list[_Item], notes: _Notes) -> MessageAdded:
    parts: list[Part] = []
    patches: Object = {}
    for number, item in enumerate(items):
        if item.read is None or isinstance(item.read, tuple):
            parts.append(Data("ui", item.part))
            patches[str(number)] = None
        else:
            parts.append(item.read)
            if patch := _difference(to_ui(item.read), item.part):
                patches[str(number)] = patch
    event = MessageAdded(role, tuple(parts), meta=_noted(notes, items[0].at, "meta") if items else {})
    return _with_ui(event, parts=patches) if patches else event


# --- parts -----------------------------------------------------------------------------------------------


def _item(at: int, part: Any, role: str, calls: set[str], notes: _Notes) -> _Item:
    try:
        if not isinstance(part, Mapping):
            raise wrong("", "an object", part)
        part = dict(part)
        kind = string(part, "type")
        is_tool = role == "assistant" and (kind == "dynamic-tool" or kind.startswith("tool-"))
        return _Item(at, part, _call(at, part, calls, notes) if is_tool else _part(part))
    except ValueError as error:
        raise ValueError(f".parts[{at}]{error}") from None


def _part(part: Object) -> Part | None:
    match part["type"]:
        case "text":
            return Text(string(part, "text"))
        case "reasoning":
            return _reasoning(string(part, "text"), part.get("providerMetadata"))
        case "file":
            return _file(string(part, "mediaType"), string(part, "url"), part.get("filename", ""))
        case str() as kind if kind.startswith("data-"):
            return Data(kind[5:], part.get("data"))
    return None


def _file(media_type: str, url: str, name: Json) -> File:
    """With the bytes of a data URL, if it can be made from them again."""
    file = File(media_type, name=name if isinstance(name, str) else "", url=url)
    data = decoded(url.partition(",")[2])
    held = replace(file, data=data, url="") if data else file
    return held if to_ui(held).get("url") == url else file


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


def _call(at: int, part: Object, calls: set[str], notes: _Notes) -> _Call | None:
    call_id, state = string(part, "toolCallId"), string(part, "state")
    name = string(part, "toolName") if part["type"] == "dynamic-tool" else part["type"][5:]
    if not call_id or call_id in calls or state not in (*_ASKED, *_ANSWERED):
        return None
    calls.add(call_id)
    call = ToolCalled(call_id, name, part.get("input"), _noted(notes, at, "meta"))
    if state in _ASKED or part.get("preliminary") is True:
        return _patched(call, call_part(call, call_id), part), None
    asked = {key: value for key, value in part.items() if key not in OF_RESULT}
    call = _patched(call, call_part(call, call_id), {**asked, "state": "input-available"})
    failed = state != "output-available"
    result = ToolReturned(call_id, _result(part, notes.get(str(at), {})), failed, _noted(notes, at, "result"))
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
            parts = tuple(part for item in output["value"] if (part := _part(item)))
        except ValueError:
            parts = ()
        if output_of(parts) == output:
            return parts
    return (Data("json", output),)


# --- what is kept for the way back -----------------------------------------------------------------------


def _notes(value: Json) -> _Notes:
    return (
        {key: note for key, note in value.items() if isinstance(note, dict)}
        if isinstance(value, dict)
        else {}
    )


def _noted(notes: _Notes, at: int, name: str) -> Object:
    meta = notes.get(str(at), {}).get(name)
    return {key: value for key, value in meta.items() if key != "ui"} if isinstance(meta, dict) else {}


def _patched(event: _E, shown: Object, part: Object) -> _E:
    """The event with the difference between the part it would be shown as and this one."""
    patch = _difference(shown, part)
    return _with_ui(event, parts={"0": patch}) if patch else event


def _difference(shown: Object, part: Object) -> Object:
    values = {key: value for key, value in part.items() if key not in shown or shown[key] != value}
    cut = [key for key in shown if key not in part]
    return {"set": values, "cut": cut} if values or cut else {}


def _with_ui(event: _E, **values: Json) -> _E:
    return replace(event, meta={**event.meta, "ui": {**event.meta.get("ui", {}), **values}})
