"""A chat as OpenTelemetry spans, by the conventions for GenAI: what a tracing tool loads as OTLP JSON.

    json = to_otel(entries, chat="lexer")

A turn is a span (``invoke_agent``): a run, or from what the user said to what the user says next. Below it are the calls of models (``chat``)
and of tools (``execute_tool``). A chat is a trace, and its ids follow from it: the same chat has the same spans.

The messages that a call is given are those since the call before it. All of them in every span would make a trace that grows with
the square of the chat; the whole prompt is what ``chatfold messages`` tells. The conventions are in development: these are those of
October 2026, with the schema of messages that they come with.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import msgspec

from chatfold.eventlog import (
    Data,
    Entry,
    File,
    Json,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Part,
    Reasoning,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.shapes.values import to_json_value
from chatfold.projections.usage import read_counts

_INTERNAL, _CLIENT = 1, 3
_ERROR = 2
_MS = 1_000_000  # nanoseconds

Object = dict[str, Any]


class _Span(msgspec.Struct):
    name: str
    kind: int
    seq: int
    began: int
    ended: int
    parent: int = 0  # the seq of the span above
    about: dict[str, Json] = {}
    error: str = ""


def to_otel(entries: Iterable[Entry], *, chat: str) -> Object:
    """A request of OTLP with all spans, as its JSON has it."""
    trace = _Trace(chat)
    for entry in entries:
        trace.take(entry)
    scope = {"scope": {"name": "chatfold"}, "spans": [trace.written(span) for span in trace.spans]}
    resource = {"attributes": _attributes({"service.name": "chatfold"})}
    request: Object = to_json_value({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})
    return request


class _Trace:
    def __init__(self, chat: str) -> None:
        self.spans: list[_Span] = []
        self._chat = chat
        self._trace = ""
        self._turn: _Span | None = None
        self._model: _Span | None = None
        self._tools: dict[str, _Span] = {}
        self._run: str | None = None
        self._given: list[Object] = []  # messages since the last call of a model
        self._said: list[Object] = []  # parts of the answer that is being given

    def take(self, entry: Entry) -> None:
        event = entry.event
        self._trace = (
            self._trace
            or hashlib.sha256(f"{self._chat}\0{entry.sum}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        )
        match event:
            case RunStarted(agent=agent):
                self._begin_turn(entry, agent)
                self._run = entry.run or ""
            case RunFinished(outcome=outcome, error=error):
                self._end_turn(entry, error or ("" if outcome == "done" else outcome))
            case MessageAdded(role="assistant", parts=parts):
                self._model_says(entry, [_part(part) for part in parts])
            case MessageAdded(role=role, parts=parts, origin=origin):
                if role == "user" and origin == "exec" and self._run is None:
                    self._end_turn(entry)
                    self._begin_turn(entry, "")
                self._end_model()
                self._given.append({"role": role, "parts": [_part(part) for part in parts]})
            case ModelCalled():
                self._call_model(entry, event)
            case ModelReturned():
                self._model_returns(entry, event)
            case ToolCalled():
                self._call_tool(entry, event)
            case ToolReturned():
                self._tool_returns(entry, event)
        self._turn_lasts(entry)

    def _open(self, name: str, kind: int, entry: Entry, about: dict[str, Json]) -> _Span:
        parent = self._turn.seq if self._turn is not None else 0
        about = {name: value for name, value in about.items() if value not in ("", None)}
        span = _Span(name, kind, entry.seq, entry.time, entry.time, parent, about)
        span.about["gen_ai.conversation.id"] = self._chat
        self.spans.append(span)
        return span

    # --- turns ---------------------------------------------------------------------------------------------

    def _begin_turn(self, entry: Entry, agent: str) -> None:
        self._end_turn(entry)
        name = f"invoke_agent {agent}" if agent else "invoke_agent"
        self._turn = self._open(
            name, _INTERNAL, entry, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
        )

    def _end_turn(self, entry: Entry, error: str = "") -> None:
        self._end_model()
        if self._turn is not None:
            self._turn.error = error
            if type(entry.event) is RunFinished:
                self._turn_lasts(entry)
        self._turn, self._run = None, None

    def _turn_lasts(self, entry: Entry) -> None:
        if self._turn is not None:
            self._turn.ended = max(self._turn.ended, entry.time)

    # --- models --------------------------------------------------------------------------------------------

    def _call_model(self, entry: Entry, event: ModelCalled) -> None:
        self._end_model()
        name = f"chat {event.model}" if event.model else "chat"
        about: dict[str, Json] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": event.provider or "_OTHER",
            "gen_ai.request.model": event.model,
        }
        system = [
            part for one in self._given if one["role"] in ("system", "developer") for part in one["parts"]
        ]
        given = [one for one in self._given if one["role"] not in ("system", "developer")]
        about |= {"gen_ai.system_instructions": _json(system)} if system else {}
        about |= {"gen_ai.input.messages": _json(given)} if given else {}
        self._model, self._given = self._open(name, _CLIENT, entry, about), []

    def _model_says(self, entry: Entry, parts: list[Object]) -> None:
        """Of an answer without a recorded call it is only known that it was given."""
        if self._model is None:
            self._given.append({"role": "assistant", "parts": parts})
        else:
            self._said += parts
            self._model.ended = max(self._model.ended, entry.time)

    def _model_returns(self, entry: Entry, event: ModelReturned) -> None:
        span = self._model
        if span is None:
            return
        span.ended = max(span.ended, entry.time)
        span.error = event.error
        counts = read_counts(event.usage, failed=bool(event.error))
        written = event.usage.get("cache_creation_input_tokens", 0)
        told = {
            "gen_ai.usage.input_tokens": counts.input,
            "gen_ai.usage.output_tokens": counts.output,
            "gen_ai.usage.cache_read.input_tokens": counts.cached,
            "gen_ai.usage.cache_creation.input_tokens": written,
            "gen_ai.usage.reasoning.output_tokens": counts.reasoning,
        }
        span.about |= {name: count for name, count in told.items() if count}
        if event.stop:
            span.about["gen_ai.response.finish_reasons"] = [event.stop]

    def _end_model(self) -> None:
        if self._model is not None and self._said:
            reasons = self._model.about.get("gen_ai.response.finish_reasons")
            answer = {
                "role": "assistant",
                "parts": self._said,
                "finish_reason": reasons[0] if reasons else "stop",
            }
            self._model.about["gen_ai.output.messages"] = _json([answer])
        self._model, self._said = None, []

    # --- tools ---------------------------------------------------------------------------------------------

    def _call_tool(self, entry: Entry, event: ToolCalled) -> None:
        call = {"type": "tool_call", "id": event.call, "name": event.name, "arguments": event.args}
        self._model_says(entry, [call])
        about: dict[str, Json] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.name,
            "gen_ai.tool.call.id": event.call,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.arguments": _json(event.args),
        }
        self._tools[event.call] = self._open(f"execute_tool {event.name}", _INTERNAL, entry, about)

    def _tool_returns(self, entry: Entry, event: ToolReturned) -> None:
        self._end_model()
        texts = [part.text if isinstance(part, Text) else _part(part) for part in event.parts]
        response = texts[0] if len(texts) == 1 else texts
        part = {"type": "tool_call_response", "id": event.call, "response": response}
        self._given.append({"role": "tool", "parts": [part]})
        span = self._tools.pop(event.call, None)
        if span is not None:
            span.ended = max(span.ended, entry.time)
            span.error = "tool_error" if event.failed else ""
            span.about["gen_ai.tool.call.result"] = response if isinstance(response, str) else _json(response)

    # --- OTLP ----------------------------------------------------------------------------------------------

    def written(self, span: _Span) -> Object:
        about = span.about | ({"error.type": span.error.partition(":")[0][:100]} if span.error else {})
        found: Object = {
            "traceId": self._trace,
            "spanId": self._id(span.seq),
            "name": span.name,
            "kind": span.kind,
            "startTimeUnixNano": str(span.began * _MS),
            "endTimeUnixNano": str(max(span.began, span.ended) * _MS),
            "attributes": _attributes(about),
        }
        if span.parent:
            found["parentSpanId"] = self._id(span.parent)
        if span.error:
            found["status"] = {"code": _ERROR, "message": span.error}
        return found

    def _id(self, seq: int) -> str:
        return hashlib.sha256(f"{self._trace}\0{seq}".encode()).hexdigest()[:16]


def _part(part: Part) -> Object:
    match part:
        case Text(text=text):
            return {"type": "text", "content": text}
        case Reasoning(text=text):
            return {"type": "reasoning", "content": text}
        case File(media_type=media, data=data, url=url):
            kind = media.partition("/")[0]
            about = {
                "modality": kind if kind in ("image", "video", "audio") else "document",
                "mime_type": media,
            }
            if data:
                return {"type": "blob", **about, "content": b64encode(data).decode()}
            return {"type": "uri", **about, "uri": url}
        case Data(name=name, data=data):
            return {"type": name, "content": data}


def _attributes(about: dict[str, Json]) -> list[Object]:
    return [{"key": name, "value": _value(value)} for name, value in about.items()]


def _value(value: Json) -> Object:
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"stringValue": str(value)}


def _json(value: Json) -> str:
    """Attributes of spans hold no objects: the conventions ask for them as JSON, then."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half a character
        import json  # noqa: PLC0415 (seldom needed)

        return json.dumps(msgspec.to_builtins(value))
