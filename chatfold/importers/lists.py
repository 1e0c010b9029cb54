"""Lists of messages: OpenAI's Chat Completions and Responses, Anthropic's Messages, the AI SDK's ``UIMessage``.

A file holds one list, as JSON or a message a line, or the request that the list was sent with. Whose shape it is tells the
first message that says it; a role and a text alone are taken for Chat Completions. An application writes such a file
anew each time, so all of it is read again when it has changed.

The shapes' own readers make the events (``chatfold.projections.shapes``). What they refuse of a list is left out, message by
message, and named.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chatfold.agent.client_history import find_new
from chatfold.eventlog import ChatStarted, Event
from chatfold.importers.head import Head, Object, decode_value
from chatfold.importers.items import Format, Item, Keys, Problem, Session, WholeSession
from chatfold.importers.lines import LineReader
from chatfold.importers.times import millis
from chatfold.projections.shapes.anthropic import from_anthropic
from chatfold.projections.shapes.openai import from_openai
from chatfold.projections.shapes.openai_responses import from_openai_responses
from chatfold.projections.shapes.recognise import shape_name
from chatfold.projections.shapes.ui import from_ui
from chatfold.projections.shapes.ui_parts import message_id

_ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "function"})
_ITEMS = frozenset({"function_call", "function_call_output", "reasoning", "custom_tool_call"})
_OTHERS = frozenset({"uuid", "parentUuid", "ts", "v"})  # what lines of other formats have
_LISTS = ("messages", "input")
_LOOK = 16  # messages by which the shape is recognised


def shape_of(head: Head) -> str:
    """The shape of the messages in this file; empty if there are none."""
    if head.start.startswith(b"{") and (one := head.records[:_LOOK]) and all(map(_is_message, one)):
        return shape_name(one)
    if head.start[:1] not in (b"[", b"{") or not _may_be_list(head.start):
        return ""
    found = messages_of(head.value)
    if not found or not all(map(_is_message, found[:_LOOK])):
        return ""
    request = head.value if isinstance(head.value, dict) else {}
    if isinstance(request.get("messages"), list) and "system" in request:
        return "anthropic"
    return "openai-responses" if isinstance(request.get("input"), list) else shape_name(found)


def _may_be_list(start: bytes) -> bool:
    return b'"role"' in start or b'"type"' in start


def messages_of(value: Any) -> list[Object]:
    """The messages of a list, or of the request that holds one."""
    if isinstance(value, dict):
        value = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _is_message(one: Object) -> bool:
    kind, role = one.get("type"), one.get("role")
    if isinstance(kind, str) and kind in _ITEMS:
        return True
    says = {"content", "parts", "tool_calls", "function_call"} & one.keys()
    return isinstance(role, str) and role in _ROLES and bool(says) and not _OTHERS & one.keys()


class ListSession(WholeSession):
    """``tool``: the name of the shape."""

    def __init__(self, path: Path, tool: str) -> None:
        self._tool = tool
        super().__init__(path.name.partition(".")[0] or path.name, (path,))

    def state(self) -> object:
        stat = self.paths[0].stat()
        return stat.st_mtime_ns, stat.st_size

    def items(self) -> Iterator[Item]:
        data = self.paths[0].read_bytes()
        value = decode_value(data)
        request = value if isinstance(value, dict) and not _is_message(value) else {}
        messages = messages_of(value) or [
            line.record for line in LineReader(self.paths[0], self.problems).read()
        ]
        model = request.get("model")
        meta = {"imported": self._tool, "source": str(self.paths[0].absolute())}
        meta |= {"model": model} if isinstance(model, str) else {}
        yield Item(ChatStarted(self.key, "", meta), "chat")
        yield from items_of(self._events(messages, request, model if isinstance(model, str) else ""))

    def _events(self, messages: list[Object], request: Object, model: str) -> list[Event]:
        system = request.get("system") or request.get("instructions")
        first = system if isinstance(system, str | list) else None
        good = self._readable(messages)
        match self._tool:
            case "ui":
                sent = from_ui(good)
            case "openai-responses":
                before = [{"role": "system", "content": first}] if isinstance(first, str) else []
                sent = from_openai_responses([*before, *good], model=model)
            case "anthropic":
                sent = from_anthropic(good, first, model=model)
            case _:
                sent = from_openai(good)
        return list(find_new((), sent, chat=self.key, seq=1))

    def _readable(self, messages: list[Object]) -> list[Object]:
        read: dict[str, Any] = {
            "ui": from_ui,
            "openai-responses": from_openai_responses,
            "anthropic": from_anthropic,
        }
        reader: Callable[[list[Object]], list[Event]] = read.get(self._tool, from_openai)
        good: list[Object] = []
        for message in messages:
            try:
                reader([message])
            except ValueError as error:
                what = str(error).replace("[0]", f"[{len(good)}]", 1)
                self.problems.append(Problem(str(self.paths[0]), 0, 0, what))
            else:
                good.append(message)
        return good


def items_of(events: Iterable[Event]) -> Iterator[Item]:
    """Each event with the id of its message, and with its time, if the message says one."""
    name, number, said_at = "", 0, None
    keys = Keys()
    for place, event in enumerate(events, 1):
        if found := message_id(event):
            name, number, said_at = found, 0, time_of_message(event)
        number += 1
        key = f"{name}.{number}" if name else str(place)
        yield Item(event, keys.unique(key), said_at)


def time_of_message(event: Event) -> int | None:
    meta: Mapping[str, Any] = getattr(event, "meta", {})
    for holder in (
        meta,
        meta.get("ui", {}).get("message", {}),
        meta.get("ui", {}).get("message", {}).get("metadata"),
    ):
        if isinstance(holder, dict):
            for name in ("ts", "createdAt", "timestamp"):
                if (ts := millis(holder.get(name))) is not None:
                    return ts
    return None


def _sessions(tool: str) -> Any:
    def sessions(paths: Sequence[Path]) -> Iterator[Session]:
        return (ListSession(path, tool) for path in paths)

    return sessions


def _recognises(tool: str) -> Any:
    return lambda head: shape_of(head) == tool


FORMATS = tuple(
    Format(name, title, _recognises(name), _sessions(name))
    for name, title in (
        ("ui", "messages of the AI SDK (UIMessage[]), JSON or JSON lines"),
        ("openai-responses", "items of OpenAI's Responses, JSON or JSON lines"),
        ("anthropic", "messages of Anthropic, JSON or JSON lines"),
        ("openai", "messages of OpenAI's Chat Completions, JSON or JSON lines"),
    )
)
