"""Pydantic AI: message histories as ``ModelMessagesTypeAdapter`` writes them, a JSON list of requests and responses.

A chat is a file: ``pydantic-ai-<conversation>``, by the conversation that its messages name. An application writes it anew each time.
Instructions are said when they change. What a tool was asked to try again is a failed result.
"""

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from chatfold.eventlog import (
    ChatStarted,
    Data,
    Event,
    File,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Part,
    Reasoning,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers.head import Head, Object, decode_value
from chatfold.importers.items import Format, Item, Maker, Problem, Session, WholeSession, counts_of
from chatfold.importers.times import millis

NAME = "pydantic-ai"

_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
}


def _is_history(head: Head) -> bool:
    if not head.start.startswith(b"[") or b'"part_kind"' not in head.start:
        return False
    return bool(_messages(head.value))


def _messages(value: Any) -> list[Object]:
    found = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    return found if found and all(one.get("kind") in ("request", "response") for one in found[:4]) else []


def _sessions(paths: Sequence[Path]) -> Iterator[Session]:
    return (HistorySession(path) for path in paths)


class HistorySession(WholeSession):
    def __init__(self, path: Path) -> None:
        named = (one.get("conversation_id") for one in _messages(Head(path).value))
        conversation = next((one for one in named if isinstance(one, str)), "")
        super().__init__(f"{NAME}-{conversation or path.stem}", (path,))

    def state(self) -> object:
        stat = self.paths[0].stat()
        return stat.st_mtime_ns, stat.st_size

    def items(self) -> Iterator[Item]:
        messages = _messages(decode_value(self.paths[0].read_bytes()))
        maker, instructions = Maker(), ""
        about = {"imported": NAME, "source": str(self.paths[0].absolute())}
        first = millis(messages[0].get("timestamp")) if messages else None
        yield maker.item(ChatStarted(self.key, "", about), "started", first)
        for number, message in enumerate(messages):
            said_at = millis(message.get("timestamp"))
            told = message.get("instructions")
            if isinstance(told, str) and told and told != instructions:
                instructions = told
                event = MessageAdded("system", (Text(told),), meta={NAME: {"instructions": True}})
                yield maker.item(event, f"{number}.instructions", said_at)
            try:
                events = [*(_asked(message) if message.get("kind") == "request" else _answered(message))]
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                self.problems.append(Problem(str(self.paths[0]), 0, 0, f"message {number + 1}: {error}"))
                events = [(Noted(NAME, message), None)]
            for at, (event_, time) in enumerate(events):
                yield maker.item(event_, f"{number}.{at}", time or said_at)


def _asked(message: Object) -> Iterator[tuple[Event, int | None]]:
    for part in message["parts"]:
        said_at = millis(part.get("timestamp"))
        match part.get("part_kind"):
            case "system-prompt":
                yield MessageAdded("system", (Text(str(part.get("content"))),)), said_at
            case "user-prompt":
                yield MessageAdded("user", _parts(part.get("content"))), said_at
            case "tool-return":
                failed = part.get("outcome") not in (None, "success")
                meta = {NAME: {"outcome": part["outcome"]}} if failed else {}
                yield (
                    ToolReturned(str(part["tool_call_id"]), _parts(part.get("content")), failed, meta),
                    said_at,
                )
            case "retry-prompt" if part.get("tool_name"):
                yield (
                    ToolReturned(str(part["tool_call_id"]), _parts(part.get("content")), failed=True),
                    said_at,
                )
            case "retry-prompt":
                yield MessageAdded("user", _parts(part.get("content")), "internal"), said_at
            case kind:
                yield Noted(f"{NAME}.{kind}", part), said_at


def _answered(message: Object) -> Iterator[tuple[Event, int | None]]:
    model, provider = str(message.get("model_name") or ""), str(message.get("provider_name") or "")
    yield ModelCalled(model, "", provider=provider), None
    said: list[Part] = []
    done: list[Event] = []
    for part in message["parts"]:
        content = str(part.get("content") or "")
        match part.get("part_kind"):
            case "text":
                said.append(Text(content))
            case "thinking":
                signature, name = str(part.get("signature") or ""), str(part.get("id") or "")
                said.append(Reasoning(content, str(part.get("provider_name") or ""), model, signature, name))
            case "tool-call":
                args = part.get("args")
                given = decode_value(args.encode("utf-8", "replace")) if isinstance(args, str) else args
                done.append(ToolCalled(str(part["tool_call_id"]), str(part["tool_name"]), given))
            case kind:
                done.append(Noted(f"{NAME}.{kind}", part))
    if said:
        yield MessageAdded("assistant", tuple(said)), None
    for event in done:
        yield event, None
    usage = message.get("usage")
    details = usage.get("details") if isinstance(usage, dict) else None
    counts = counts_of(_USAGE, usage) | counts_of({"reasoning_tokens": "reasoning_tokens"}, details)
    yield ModelReturned(counts, str(message.get("finish_reason") or "")), None


def _parts(content: Any) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),)
    return tuple(map(_part, content)) if isinstance(content, list) else (Data("json", content),)


def _part(given: Any) -> Part:
    if isinstance(given, str):
        return Text(given)
    kind = given.get("kind") if isinstance(given, dict) else None
    media = str(given.get("media_type") or "") if isinstance(given, dict) else ""
    if kind == "binary" and isinstance(given.get("data"), str):
        return File(media, base64.b64decode(given["data"] + "=="))
    if isinstance(kind, str) and kind.endswith("-url"):
        return File(media or f"{kind.partition('-')[0]}/*", url=str(given.get("url")))
    return Data("json", msgspec.to_builtins(given))


FORMATS = (Format(NAME, "message histories of Pydantic AI, JSON", _is_history, _sessions),)
