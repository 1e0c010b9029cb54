"""Receiving: a client sends its whole history with every request; what of it is new?

What was said and which tools were called is compared, in order, with the active context:

- The client's history goes on where ours ends: its tail is new. A client that sends only its last messages is followed,
  too, if they begin with ours.
- Ours goes on where the client's ends: nothing is new. The client is behind, or wants another answer; then ``rewind``.
- They part: the user went back and said something else. So does the chat: it is rewound to where they part, and the
  client's tail recorded, both or neither.
- They have nothing in common: ``OtherHistory``.
- A client that shows all contexts as one is followed, too: then the end of what it sent is new.

Words are compared without the white space around them, files by their bytes or their url, calls by their id; reasoning,
meta and results are not, nor are system messages, which are recorded when they come in the tail or with the first words. If
the client never mentions tools, ours are passed over. A result is recorded if its call is here and not answered yet.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from xxhash import xxh3_64_hexdigest

from chatfold.agent.errors import OtherHistory
from chatfold.eventlog import Entry, Event, File, MessageAdded, Rewound, ToolCalled, ToolReturned
from chatfold.projections.prompt import INTERRUPTED
from chatfold.projections.text import text_of

_Key: TypeAlias = tuple[str, ...]


def continued(
    history: Sequence[Entry], sent: Sequence[Event], *, chat: str, whole: Sequence[Entry] = ()
) -> tuple[Event, ...]:
    """The events to record. ``history``: the active context's entries; ``whole``: those of all contexts, if there are more."""
    tools = any(isinstance(event, ToolCalled) for event in sent)
    theirs = [(at, key) for at, event in enumerate(sent) if (key := _key(event, tools=tools))]
    said = [key for _, key in theirs]
    shown = [key for entry in whole if (key := _key(entry.event, tools=tools))]
    if shown and said[: len(shown)] == shown:  # the client shows all contexts, one after the other
        return tuple(_new(whole, sent, theirs[len(shown) - 1][0] + 1))
    ours = [(entry.seq, key) for entry in history if (key := _key(entry.event, tools=tools))]
    if not ours:
        return tuple(_new(history, sent, 0))
    if not theirs:
        return ()
    start = _start([key for _, key in ours], said)
    if start is None:
        raise OtherHistory("the client's history has nothing in common with this chat", chat=chat)
    same = _same([key for _, key in ours[start:]], said)
    if start + same < len(ours) and same < len(said):  # they part
        before = ours[start + same][0] - 1
        kept = [entry for entry in history if entry.seq <= before]
        return Rewound(before, "the client went on from here"), *_new(kept, sent, theirs[same - 1][0] + 1)
    return tuple(_new(history, sent, theirs[same - 1][0] + 1 if same < len(said) else len(sent)))


def _same(ours: list[_Key], theirs: list[_Key]) -> int:
    """How many are the same, from the beginning on."""
    parted = (at for at, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other)
    return next(parted, min(len(ours), len(theirs)))


def _start(ours: list[_Key], theirs: list[_Key]) -> int | None:
    """Where in ours the client's history begins: where more of them are the same, up to our end."""
    same = _same(ours, theirs)
    for start in range(max(0, len(ours) - len(theirs)), len(ours) - same):
        if ours[start:] == theirs[: len(ours) - start]:
            return start
    return 0 if same else None


def _key(event: Event, *, tools: bool) -> _Key:
    """What is compared of an event; nothing if it is not."""
    match event:
        case MessageAdded(role="user" | "assistant" as role, origin="exec", parts=parts):
            files = [part for part in parts if isinstance(part, File)]
            words = text_of(parts).strip()
            return (role, words, *map(_file, files)) if words or files else ()
        case ToolCalled(call=call, name=name) if tools:
            return ("call", call, name)
    return ()


def _file(file: File) -> str:
    return xxh3_64_hexdigest(file.data) if file.data else file.url


def _new(history: Iterable[Entry], sent: Sequence[Event], tail: int) -> list[Event]:
    """The tail, and the results before it, but none of calls that are answered, or not here, or said to be interrupted."""
    open_calls: set[str] = set()
    for entry in history:
        if isinstance(entry.event, ToolCalled):
            open_calls.add(entry.event.call)
        elif isinstance(entry.event, ToolReturned):
            open_calls.discard(entry.event.call)
    new: list[Event] = []
    for at, event in enumerate(sent):
        if at < tail and not isinstance(event, ToolReturned):
            continue
        if isinstance(event, ToolCalled):
            open_calls.add(event.call)
        elif isinstance(event, ToolReturned):
            if event.call not in open_calls or text_of(event.parts).endswith(INTERRUPTED):
                continue
            open_calls.remove(event.call)
        new.append(event)
    return new
