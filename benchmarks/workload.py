"""The chats of ``conversation`` as events."""

from collections.abc import Iterator
from itertools import chain

import msgspec

from benchmarks.conversation import Message, conversation
from chatfold.eventlog import Event, MessageAdded, Text, ToolCalled, ToolReturned


def events(seed: int) -> Iterator[Event]:
    """The endless chat of this seed, event by event."""
    return chain.from_iterable(turns(seed))


def turns(seed: int) -> Iterator[list[Event]]:
    """The endless chat of this seed, turn by turn."""
    return ([event_of(message) for message in turn] for turn in conversation(seed))


def event_of(message: Message) -> Event:
    match message:
        case {"role": "tool", "tool_call_id": id, "content": text}:
            return ToolReturned(id, (Text(text),))
        case {"tool_calls": [{"id": id, "function": {"name": name, "arguments": args}}]}:
            return ToolCalled(id, name, msgspec.json.decode(args))
    return MessageAdded(message["role"], (Text(message["content"]),))


def message_of(event: Event) -> Message:
    """The same back."""
    match event:
        case MessageAdded(role=role, parts=(Text(text=text),)):
            return {"role": role, "content": text}
        case ToolCalled(call=id, name=name, args=args):
            function = {"name": name, "arguments": msgspec.json.encode(args).decode()}
            return {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]}
        case ToolReturned(call=id, parts=(Text(text=text),)):
            return {"role": "tool", "tool_call_id": id, "content": text}
    raise ValueError(f"not an event of the workload: {type(event).__name__}")
