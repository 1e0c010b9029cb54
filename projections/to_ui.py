"""ui_messages: a history as the AI SDK (npm ``ai``, versions 5 and 6) stores and shows it, a list of ``UIMessage``.

    ui_messages(entries)            # of a window or of a whole log
    from_ui_messages(messages)      # in ``from_ui``: the way back

- A message of a user or of the system is one message. All the assistant said and did up to the next one, or to the
  next run, is one message, in steps; a step begins with what is first said or called after results. What the SDK
  refuses is left out: messages without parts, parts of another role.
- A compaction is a message of kind ``summary`` in the place of what it hides, unless it was reverted.
- A result is shown with its call, wherever it came. One that answers no open call is left out.
- All is strict JSON that the SDK's validation takes. Ids are unique: one that is repeated gets a number.
- A message that was imported is shown as it was, with nothing added. Its events say how under the key ``ui`` of
  their meta, which is this module's: ``message`` (all but role and parts, at the message's first event), ``before``
  (the step-starts, if they are not those that would be shown anyway) and ``parts`` (by index, how a part differs from
  the one that would be shown; null: the part is of a type that events have no word for, kept as ``Data("ui")``).
- What a UIMessage has no place for is in its ``metadata.chatfold``, by the index of the part that an event begins
  with: the event's ``meta``, the ``result``'s meta, and the whole ``output`` that an errorText tells only in part.
"""

import re
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, TypeAlias

from msgspec.structs import replace

from chatfold.eventlog import (
    Compacted,
    CompactionReverted,
    Data,
    Entry,
    File,
    Json,
    MessageAdded,
    Part,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.wire import clean, data_url, described, is_web, json_text, plain

Object: TypeAlias = dict[str, Any]

STEP = {"type": "step-start"}
RESERVED = frozenset({"ts", "chatKey", "runId", "kind", "sourceRange", "origin", "role", "chatfold", "ui"})
"""The keys of ``metadata`` that mean something here. All others are the meta of the message's first event."""
OF_RESULT = frozenset({"state", "output", "errorText", "preliminary", "resultProviderMetadata", "approval"})
"""The fields of a tool part that change when the call is answered."""

_KINDS = {"user": (Text, File, Data), "assistant": (Text, Reasoning, File, Data), "system": (Text,)}
_MEDIA_TYPE = re.compile(r"([a-z]+/[a-zA-Z0-9.+-]+)\s*(;.*)?", re.DOTALL)
_SIGNATURE = {
    "openai": "reasoningEncryptedContent",
    "azure": "reasoningEncryptedContent",
    "google": "thoughtSignature",
}


def ui_messages(entries: Iterable[Entry], *, chat_key: str = "", audit: bool = False) -> list[Object]:
    """``audit``: with the messages that were recorded for the audit alone."""
    export = _Export(chat_key)
    for entry in entries:
        match entry.event:
            case MessageAdded() as event if audit or event.origin != "audit":
                export.said(entry, event)
            case ToolCalled() as event:
                export.called(entry, event)
            case ToolReturned() as event:
                export.returned(event)
            case Compacted() as event:
                export.compacted(entry, event)
            case CompactionReverted(seq=seq):
                export.messages.pop(export.summaries.get(seq, ""), None)
    return [plain(message) for _, message in sorted(export.messages.values(), key=itemgetter(0))]


class _Export:
    def __init__(self, chat_key: str) -> None:
        self.chat_key = chat_key
        self.messages: dict[str, tuple[tuple[int, bool], Object]] = {}  # by id: the place, the message
        self.summaries: dict[int, str] = {}  # the ids of those, by seq
        self.ids: set[str] = set()
        self.native: set[str] = set()  # the ids of messages that were not imported
        self.owners: dict[int, str] = {}  # the message each entry is in
        self.call_ids: set[str] = set()
        self.calls: dict[str, tuple[Object, int]] = {}  # not answered yet: the message, the index of the part
        self.turn: Object | None = None  # the message of the assistant that may go on
        self.began = 0  # the seq the turn begins with
        self.run: str | None = None  # the turn's
        self.step_begins = False
        self.speaking = False  # whether what the turn holds last is a message's

    def said(self, entry: Entry, event: MessageAdded) -> None:
        ui = ui_of(event.meta)
        role = "system" if event.role == "developer" else event.role
        if not ui:  # an import may have brought anything
            event = replace(
                event, parts=tuple(part for part in event.parts if isinstance(part, _KINDS[role]))
            )
        if event.parts or ui:
            goes_on = event.role == "assistant" and event.origin == "exec"  # all others stand alone
            message = self._place(entry, event, role, self.turn if goes_on else None)
            message["parts"] += _shown(event.parts, ui)
            self.turn, self.speaking = (message if goes_on else None), True

    def called(self, entry: Entry, event: ToolCalled) -> None:
        message = self.turn = self._place(entry, event, "assistant", self.turn)
        self.calls[event.call] = message, len(message["parts"])
        message["parts"].append(call_part(event, _unique(event.call or "call", self.call_ids)))
        self.speaking = False

    def returned(self, event: ToolReturned) -> None:
        if event.call not in self.calls:
            return
        message, index = self.calls.pop(event.call)
        message["parts"][index] = answered(message["parts"][index], event)
        self.step_begins = True
        if meta := _without_ui(event.meta):
            self._note(message, index, result=meta)
        if event.failed and not isinstance(output := output_of(event.parts), str):
            self._note(message, index, output=output)

    def compacted(self, entry: Entry, event: Compacted) -> None:
        hidden = [owner for seq, owner in self.owners.items() if event.first <= seq <= event.last]
        first, last = (hidden[0], hidden[-1]) if hidden else (f"m{event.first}", f"m{event.last}")
        source = {"fromId": first, "toId": last, "count": event.count}
        metadata = self._metadata(entry, "summary") | {"sourceRange": source}
        message = self._new(entry, "assistant", {"metadata": metadata}, (event.last, True))
        message["parts"].append(to_ui(Text(event.summary)))
        self.summaries[entry.seq] = message["id"]
        if self.began <= event.last:
            self.turn = None

    def _place(
        self, entry: Entry, event: MessageAdded | ToolCalled, role: str, turn: Object | None
    ) -> Object:
        """The message that the event goes to, with the step begun and the meta noted."""
        ui = ui_of(event.meta)
        meta = _without_ui(event.meta)
        if turn is None or entry.run != self.run or "message" in ui:
            turn = self._new(entry, role, self._head(entry, event, ui), (entry.seq, False))
            self.began, self.run, self.step_begins = entry.seq, entry.run, True
            meta = {key: value for key, value in meta.items() if key in RESERVED}
        if role == "assistant":
            turn["parts"] += ui.get("before", [STEP] if self.step_begins else [])
            self.step_begins = False
        # Two messages in one step would be read as one, if there were not even an empty note between them.
        joins = (
            self.speaking and isinstance(event, MessageAdded) and turn["parts"] and turn["parts"][-1] != STEP
        )
        if meta or joins:
            self._note(turn, len(turn["parts"]), meta=meta)
        self.owners[entry.seq] = turn["id"]
        return turn

    def _head(self, entry: Entry, event: MessageAdded | ToolCalled, ui: Object) -> Object:
        flat = {key: value for key, value in event.meta.items() if key not in RESERVED}
        if "message" in ui:
            metadata = ui["message"].get("metadata")
            return {**ui["message"], **({"metadata": flat | metadata} if isinstance(metadata, dict) else {})}
        if isinstance(event, MessageAdded):
            flat |= {"origin": event.origin} if event.origin != "exec" else {}
            flat |= {"role": event.role} if event.role == "developer" else {}
        return {"metadata": self._metadata(entry, "normal") | flat}

    def _metadata(self, entry: Entry, kind: str) -> Object:
        chat = {"chatKey": self.chat_key} if self.chat_key else {}
        run = {"runId": entry.run} if entry.run is not None else {}
        return {"ts": entry.ts, **chat, **run, "kind": kind}

    def _new(self, entry: Entry, role: str, head: Object, place: tuple[int, bool]) -> Object:
        unique = _unique(head.get("id", f"m{entry.seq}"), self.ids)
        if "id" not in head:
            self.native.add(unique)
        message = {**head, "id": unique, "role": role, "parts": []}
        self.messages[unique] = place, message
        return message

    def _note(self, message: Object, index: int, **values: Json) -> None:
        if message["id"] in self.native:
            message["metadata"].setdefault("chatfold", {}).setdefault(str(index), {}).update(values)


def _unique(wanted: str, taken: set[str]) -> str:
    wanted = free = clean(wanted)
    number = 1
    while free in taken:
        number += 1
        free = f"{wanted}-{number}"
    taken.add(free)
    return free


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


def _without_ui(meta: dict[str, Json]) -> Object:
    return {key: value for key, value in meta.items() if key != "ui"}


def is_part(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def patched(part: Object, ui: Object, index: int = 0) -> Object:
    match ui.get("parts", {}).get(str(index)):
        case {"set": dict() as values, "cut": list() as cut}:
            return {key: value for key, value in part.items() if key not in cut} | values
    return part


# --- parts, calls and results ----------------------------------------------------------------------------


def _shown(parts: tuple[Part, ...], ui: Object) -> Iterator[Object]:
    patches = ui.get("parts", {})
    for index, part in enumerate(parts):
        if isinstance(part, Data) and is_part(part.data) and patches.get(str(index), {}) is None:
            yield part.data
        else:
            yield patched(to_ui(part), ui, index)


def to_ui(part: Part) -> Object:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Reasoning(text=text):
            metadata = _provider_metadata(part)
            return {"type": "reasoning", "text": text} | ({"providerMetadata": metadata} if metadata else {})
        case File():
            return _file(part)
        case Data(name=name, data=data):
            return {"type": f"data-{name or 'unnamed'}", "data": data}


def _file(file: File) -> Object:
    """What is neither here nor on the web cannot be shown: it is described."""
    media_type = _MEDIA_TYPE.fullmatch(file.media_type)
    if media_type is None or not (file.data or is_web(file.url)):
        return to_ui(Text(described(file)))
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
    return {"type": "content", "value": [to_ui(part) for part in parts]}


def is_content(output: Json) -> bool:
    return isinstance(output, dict) and output.keys() == {"type", "value"} and output["type"] == "content"
