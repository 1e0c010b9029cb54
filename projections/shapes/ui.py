"""to_ui: a history as the AI SDK (npm ``ai``, versions 5 and 6) stores and shows it, a list of ``UIMessage``.

    to_ui(entries)            # of a window or of a whole log
    from_ui(messages)      # the way back: the events to append

- A message of a user or of the system is one message. All the assistant said and did up to the next one, or to the
  next run, is one message, in steps; a step begins with what is first said or called after results. What the SDK
  refuses is left out: messages without parts, parts of another role.
- A compaction is a message of kind ``summary`` in the place of what it hides, unless it was reverted. Its
  ``sourceRange`` names the first and the last message, ``metadata.chatfold.hides`` the place of the event in each.
- A result is shown with its call, wherever it came. One that answers no open call is left out.
- All is strict JSON that the SDK's validation takes. Ids are unique: one that is repeated gets a number.
- A message that was imported is shown as it was, with nothing added. Its events say how under the key ``ui`` of
  their meta, which is this module's: ``message`` (all but role and parts, at the message's first event), ``before``
  (the step-starts, if they are not those that would be shown anyway) and ``parts`` (by index, how a part differs from
  the one that would be shown; null: the part is of a type that events have no word for, kept as ``Data("ui")``).
- What a UIMessage has no place for is in its ``metadata.chatfold``, by the index of the part that an event begins
  with: the event's ``meta``, the ``result``'s meta, the whole ``output`` that an errorText tells only in part, and that
  the result came ``late``: after words of its step.

The way back:

- Nothing is lost: ``to_ui`` of the entries gives the same messages again, with their ids, whatever the SDK, an
  app or a later version put into them. What events have no place for is under ``ui`` in their meta: see there.
- What they have a place for is there: texts, reasoning with its signature, files with their bytes, calls and results,
  and ``metadata`` as the meta of the message's first event. The results of a step come after all its calls, and before
  what is said next, also within a step: so it is where the provider itself ran the tool.
- A call whose input was still arriving is no call yet, and a second one of the same id cannot be told from the first:
  both are kept as they are. A preliminary output is no result. A denied call is one that failed.
- What is not a list of messages is refused with a ``ValueError`` that says where and why; nothing is half imported.

``metadata.origin`` means what it does in ``to_ui``: a message for the audit alone is shown with ``audit=True``.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from chatfold.eventlog import (
    Compacted,
    CompactionReverted,
    Data,
    Entry,
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
from chatfold.projections.shapes.parse import Given, each, string, wrong
from chatfold.projections.shapes.ui_parts import (
    RESERVED,
    STEP,
    CallRead,
    Notes,
    Object,
    answered,
    call_part,
    difference,
    noted,
    notes_of,
    output_of,
    read_call,
    read_part,
    shown_parts,
    ui_of,
    with_ui,
    without_ui,
    write_part,
)
from chatfold.projections.shapes.values import replace_surrogates, to_json_value
from chatfold.projections.text import Waiting

_KINDS = {"user": (Text, File, Data), "assistant": (Text, Reasoning, File, Data), "system": (Text,)}
_ROLES: dict[Json, Role] = {"user": "user", "system": "system", "assistant": "assistant"}
_Said: TypeAlias = MessageAdded | ToolCalled


class _Item(NamedTuple):
    """A part, where it was, and what it is as events or as part of one, if it has a name there."""

    at: int
    part: Object
    read: Part | CallRead | None


def to_ui(entries: Iterable[Entry], *, chat_key: str = "", audit: bool = False) -> list[Object]:
    """``audit``: with the messages that were recorded for the audit alone."""
    export = _Export(chat_key)
    for entry in entries:
        export.calls.close_at(entry.event)
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
    return [to_json_value(message) for _, message in sorted(export.messages.values(), key=itemgetter(0))]


class _Export:
    def __init__(self, chat_key: str) -> None:
        self.chat_key = chat_key
        self.messages: dict[str, tuple[tuple[int, bool], Object]] = {}  # by id: the place, the message
        self.summaries: dict[int, str] = {}  # the ids of those, by seq
        self.ids: dict[str, int] = {}  # those that are taken, see ``_unique``
        self.native: set[str] = set()  # the ids of messages that were not imported
        self.owners: dict[
            int, tuple[str, int]
        ] = {}  # the message each entry is in, and how many came before it there
        self.owned: list[int] = []  # the seqs of those entries
        self.counts: Counter[str] = Counter()  # how many each message has
        self.marks: dict[
            str, list[tuple[int, bool]]
        ] = {}  # of each message, where words are, and where steps begin
        self.marked: dict[str, int] = {}  # up to which part they were looked for
        self.call_ids: dict[str, int] = {}
        self.calls: Waiting[tuple[Object, int]] = Waiting()  # the message, the index of the part
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
            message["parts"] += shown_parts(event.parts, ui)
            self.turn, self.speaking = (message if goes_on else None), True

    def called(self, entry: Entry, event: ToolCalled) -> None:
        message = self.turn = self._place(entry, event, "assistant", self.turn)
        self.calls.call(event.call, (message, len(message["parts"])))
        message["parts"].append(call_part(event, _unique(event.call or "call", self.call_ids)))
        self.speaking = False

    def returned(self, event: ToolReturned) -> None:
        call = self.calls.answer(event.call)
        if call is None:
            return
        message, index = call
        message["parts"][index] = answered(message["parts"][index], event)
        self.step_begins = True
        if self._comes_late(message, index):
            self._note(message, index, late=True)
        if meta := without_ui(event.meta):
            self._note(message, index, result=meta)
        if event.failed and not isinstance(output := output_of(event.parts), str):
            self._note(message, index, output=output)

    def _comes_late(self, message: Object, index: int) -> bool:
        """Were there words in the step after this call? Each part is looked at once."""
        id, parts = message["id"], message["parts"]  # noqa: A001
        marks = self.marks.setdefault(id, [])
        for at in range(self.marked.get(id, 0), len(parts)):
            if parts[at] == STEP or _is_words(parts[at]):
                marks.append((at, _is_words(parts[at])))
        self.marked[id] = len(parts)
        following = bisect_right(marks, (index, True))
        return following < len(marks) and marks[following][1]

    def compacted(self, entry: Entry, event: Compacted) -> None:
        begin, end = bisect_left(self.owned, event.first), bisect_right(self.owned, event.last)
        first, last = (f"m{event.first}", f"m{event.last}")
        notes: Object = {}
        if begin < end:
            (first, at), (last, until) = (self.owners[self.owned[one]] for one in (begin, end - 1))
            notes = {"chatfold": {"hides": [at, until]}}
        source = {"fromId": first, "toId": last, "count": event.count}
        metadata = self._metadata(entry, "summary") | {"sourceRange": source} | notes
        message = self._new(entry, "assistant", {"metadata": metadata}, (event.last, True))
        message["parts"].append(write_part(Text(event.summary)))
        self.summaries[entry.seq] = message["id"]
        if self.began <= event.last:
            self.turn = None

    def _place(
        self, entry: Entry, event: MessageAdded | ToolCalled, role: str, turn: Object | None
    ) -> Object:
        """The message that the event goes to, with the step begun and the meta noted."""
        ui = ui_of(event.meta)
        meta = without_ui(event.meta)
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
        self.owners[entry.seq] = turn["id"], self.counts[turn["id"]]
        self.owned.append(entry.seq)
        self.counts[turn["id"]] += 1
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
        return {"ts": entry.time, **chat, **run, "kind": kind}

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


def _is_words(part: Object) -> bool:
    return not part["type"].startswith("tool-") and part["type"] not in ("dynamic-tool", "step-start")


def _unique(wanted: str, taken: dict[str, int]) -> str:
    """``taken``: the ids there are, and the last number that was put behind each."""
    wanted = free = replace_surrogates(wanted)
    while free in taken:
        taken[wanted] += 1
        free = f"{wanted}-{taken[wanted]}"
    taken[free] = 1
    return free


# --- the way back: messages as events ----------------------------------------------------------------------


def from_ui(messages: Iterable[Mapping[str, Any]]) -> list[Event]:
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
    notes = notes_of(known.get("chatfold"))
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
    return [with_ui(replace(first, meta=meta), message=head), *events[1:]]


# --- the steps of the assistant --------------------------------------------------------------------------


def _turn(items: list[_Item], notes: Notes) -> list[Event]:
    events: list[Event] = []
    begins = True  # would ``to_ui`` begin a step here?
    for before, step in _pieces(items, notes):
        said, results = _step(step, notes)
        if before != ([STEP] if begins else []) or not step:  # a message of nothing but steps says so
            said[0] = with_ui(said[0], before=before)
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


def _pieces(items: list[_Item], notes: Notes) -> Iterator[tuple[list[Object], list[_Item]]]:
    """The steps, each ending where words follow a result: said before it, they would leave the call without one."""
    for before, step in _steps(items):
        first, piece, returned = before, list[_Item](), False
        for item in step:
            if returned and not isinstance(item.read, tuple):
                yield first, piece
                first, piece, returned = [], [], False
            piece.append(item)
            if isinstance(item.read, tuple) and item.read[1] and not notes.get(str(item.at), {}).get("late"):
                returned = True
        yield first, piece


def _step(items: list[_Item], notes: Notes) -> tuple[list[_Said], list[ToolReturned]]:
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


def _said(role: Role, items: list[_Item], notes: Notes) -> MessageAdded:
    parts: list[Part] = []
    patches: Object = {}
    for number, item in enumerate(items):
        if item.read is None or isinstance(item.read, tuple):
            parts.append(Data("ui", item.part))
            patches[str(number)] = None
        else:
            parts.append(item.read)
            if patch := difference(write_part(item.read), item.part):
                patches[str(number)] = patch
    event = MessageAdded(role, tuple(parts), meta=noted(notes, items[0].at, "meta") if items else {})
    return with_ui(event, parts=patches) if patches else event


def _item(at: int, part: Any, role: str, calls: set[str], notes: Notes) -> _Item:
    try:
        if not isinstance(part, Mapping):
            raise wrong("", "an object", part)
        part = dict(part)
        kind = string(part, "type")
        is_tool = role == "assistant" and (kind == "dynamic-tool" or kind.startswith("tool-"))
        return _Item(at, part, read_call(at, part, calls, notes) if is_tool else read_part(part))
    except ValueError as error:
        raise ValueError(f".parts[{at}]{error}") from None
