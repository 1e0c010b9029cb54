"""The rules of the AI SDK for ``UIMessage``, in its versions 5 and 6.

Where the rules come from: the package ``ai`` of npm (https://github.com/vercel/ai), its files
``packages/ai/src/ui/validate-ui-messages.ts`` (a schema that is called the validator here), ``ui-messages.ts`` (the
types) and ``convert-to-model-messages.ts`` (the converter). The validator drops keys that it does not know; here they
are refused, because what is dropped is lost. It takes no null for what is optional: such keys stay away.
"""

import re
from collections.abc import Callable, Mapping

from tests.support.oracles.rules_shared import (
    Object,
    is_in,
    is_list,
    is_text,
    is_web_url,
    media_type_of,
    need,
    need_json,
    need_keys,
)

Fields = Mapping[str, Callable[[object], bool]]
"""What the values of keys look like."""

_MEDIA_TYPE = re.compile(r"[a-z]+/[a-zA-Z0-9.+*-]+")


def _is_any(_value: object) -> bool:
    return True


def _is_bool(value: object) -> bool:
    return type(value) is bool


def _is_state(value: object) -> bool:
    return value in ("streaming", "done")


def _is_metadata(value: object) -> bool:
    """Of providers (``packages/ai/src/types/provider-metadata.ts``): an object of objects."""
    return type(value) is dict and all(type(inner) is dict for inner in value.values())


def _is_media_type(value: object) -> bool:
    return type(value) is str and _MEDIA_TYPE.fullmatch(value) is not None


def _is_url(value: object) -> bool:
    """The types say: "either be a URL to a hosted file or a Data URL". The converter takes the rest for base64."""
    return is_web_url(value) or media_type_of(value) is not None


def _is_name(value: object) -> bool:
    return is_text(value, 1)


# Type, required and optional keys: those of the validator
_METADATA: Fields = {"providerMetadata": _is_metadata}
_PARTS: dict[str, tuple[Fields, Fields]] = {
    "text": ({"text": is_text}, {"state": _is_state, **_METADATA}),
    "reasoning": ({"text": is_text}, {"state": _is_state, "id": is_text, **_METADATA}),
    "source-url": ({"sourceId": _is_name, "url": is_text}, {"title": is_text, **_METADATA}),
    "source-document": (
        {"sourceId": _is_name, "mediaType": _is_media_type, "title": is_text},
        {"filename": is_text, **_METADATA},
    ),
    "file": ({"mediaType": _is_media_type, "url": _is_url}, {"filename": is_text, **_METADATA}),
    "step-start": ({}, {}),
}
_DATA: tuple[Fields, Fields] = ({"data": _is_any}, {"id": is_text})

# The same for the states of tools. The validator lets a missing input or output pass, as undefined; the types do not.
_CALLED: Fields = {"callProviderMetadata": _is_metadata}
_STATES: dict[str, tuple[Fields, Fields]] = {
    "input-streaming": ({}, {"input": _is_any, "rawInput": is_text}),
    "input-available": ({"input": _is_any}, _CALLED),
    "output-available": ({"input": _is_any, "output": _is_any}, {"preliminary": _is_bool, **_CALLED}),
    "output-error": ({"errorText": is_text}, {"input": _is_any, "rawInput": _is_any, **_CALLED}),
}
_RETURNED: Fields = {"resultProviderMetadata": _is_metadata}
_STATES_OF_6: dict[str, tuple[Fields, Fields]] = {
    "input-streaming": ({}, {**_STATES["input-streaming"][1], **_CALLED}),
    "input-available": _STATES["input-available"],
    "approval-requested": ({"input": _is_any, "approval": _is_any}, _CALLED),
    "approval-responded": ({"input": _is_any, "approval": _is_any}, _CALLED),
    "output-available": (
        _STATES["output-available"][0],
        {**_STATES["output-available"][1], **_RETURNED, "approval": _is_any},
    ),
    "output-error": (
        _STATES["output-error"][0],
        {**_STATES["output-error"][1], **_RETURNED, "approval": _is_any},
    ),
    "output-denied": ({"input": _is_any, "approval": _is_any}, _CALLED),
}

# What ``approved`` of an approval may be; None: not there
_APPROVED: dict[str, tuple[bool | None, ...]] = {
    "approval-requested": (None,),
    "approval-responded": (True, False),
    "output-available": (True,),
    "output-error": (True,),
    "output-denied": (False,),
}


def check_ui_messages(messages: list[Object], version: int = 6) -> None:
    """Raises an AssertionError if this version of the AI SDK would refuse these messages, or not keep all of them."""
    # The validator says: "Messages array must not be empty"
    need(is_list(messages), 0, "there is a message", messages)
    ids: set[str] = set()
    calls: set[str] = set()
    for index, message in enumerate(messages):
        need_json(index, message)
        need_keys(index, message, {"id", "role", "parts"}, {"metadata"})
        # The types say: "A unique identifier for the message."
        need(is_text(message["id"], 1), index, "the id of a message is not empty", message["id"])
        need(message["id"] not in ids, index, "no two messages share an id", message["id"])
        ids.add(message["id"])
        need(is_in(message["role"], _ROLES), index, "the role is known", message["role"])
        # The validator says: "Message must contain at least one part"; of assistants only older ones do
        need(is_list(message["parts"]), index, "there is a part", message["parts"])
        for part in message["parts"]:
            _part(index, message["role"], part, calls, version)


def _part(index: int, role: str, part: Object, calls: set[str], version: int) -> None:
    kind = part.get("type") if type(part) is dict else None
    family, _, name = str(kind).partition("-")
    if not is_in(kind, _PARTS) and kind != "dynamic-tool":
        # The validator: z.string().startsWith("data-"), and "tool-". A name behind it: the types.
        named = type(kind) is str and family in ("data", "tool") and name != ""
        need(named, index, "the type of a part is known", part)
        kind = family
    # The types say: "System messages [...] can have text parts. User messages can have text parts and file parts."
    # The converter leaves out what a role does not have; data is the application's own.
    need(
        kind in _ROLES[role] or _ROLES[role] == (), index, "a part is of a type that its role may have", part
    )
    if kind in ("tool", "dynamic-tool"):
        _tool(index, part, calls, version)
    else:
        _fields(index, part, *(_DATA if kind == "data" else _PARTS[str(kind)]))


def _tool(index: int, part: Object, calls: set[str], version: int) -> None:
    states = _STATES if version == 5 else _STATES_OF_6
    state = part.get("state")
    need(is_in(state, states), index, "the state of a tool is known", part)
    required, optional = states[str(state)]
    common: dict[str, Callable[[object], bool]] = {"state": _is_any, "toolCallId": _is_name}
    if part["type"] == "dynamic-tool":
        common["toolName"] = _is_name
    _fields(index, part, {**common, **required}, {"providerExecuted": _is_bool, **optional})
    if "approval" in part:
        _approval(index, str(state), part["approval"])
    # The converter makes a call of each part; providers refuse two calls of one id.
    need(part["toolCallId"] not in calls, index, "no two parts are of one call", part["toolCallId"])
    calls.add(part["toolCallId"])


def _approval(index: int, state: str, approval: Object) -> None:
    need_keys(index, approval, {"id"}, {"approved", "reason"})
    need(is_text(approval["id"], 1), index, "the id of an approval is not empty", approval)
    # The validator: z.never(), z.boolean(), z.literal(true) or z.literal(false), by the state
    approved = approval.get("approved")
    fits = any(approved is known for known in _APPROVED[state]) and ("approved" in approval) == _is_bool(
        approved
    )
    need(fits, index, "a tool was approved as its state says", (state, approval))
    reason = approval.get("reason", "")
    told = is_text(reason) and (approved is not None or "reason" not in approval)
    need(told, index, "a reason is a text, and that of a response", approval)


def _fields(index: int, part: Object, required: Fields, optional: Fields) -> None:
    need_keys(index, part, {"type", *required}, optional.keys())
    for key, value in part.items():
        if key != "type":
            fits = (required.get(key) or optional[key])(value)
            need(fits, index, "the value of a key is of its type", (key, value))


_ROLES: dict[str, tuple[str, ...]] = {"system": ("text",), "user": ("text", "file", "data"), "assistant": ()}
"""What parts a role may have; assistants have all of them."""
