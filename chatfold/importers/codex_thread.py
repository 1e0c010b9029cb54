"""A thread of the Codex CLI: from the records of its rollouts, of every generation, to items.

A rollout says most things twice: as items, which are what the model was sent, and as events for its own screen. The items
are imported; of the events what items do not say: turns, interruptions, usage, names, what was rolled back. A record
of a type that nobody here knows is a note. What is the same in every session, or a view of what is imported
(``world_state``, ``thread_settings_applied``, rate limits), is left out.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    Event,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Rewound,
    RunFinished,
    RunStarted,
    Text,
)
from chatfold.importers.codex_rollouts import Rollout, text_field
from chatfold.importers.head import Object
from chatfold.importers.items import Item, Keys, Problem
from chatfold.importers.lines import Line
from chatfold.importers.times import millis
from chatfold.projections.shapes.openai_responses import from_openai_responses

NAME = "codex"

_INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md",
    "<turn_aborted>",
    "<skill",
    "<permissions",
)
_SPOKEN = frozenset({"reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call"})
_RETURNED = frozenset({"function_call_output", "custom_tool_call_output"})
_SKIPPED_EVENTS = frozenset(
    {
        *(
            "user_message",
            "agent_message",
            "agent_reasoning",
            "agent_reasoning_raw_content",
            "item_completed",
        ),
        *("item_started", "thread_settings_applied", "context_compacted", "agent_reasoning_section_break"),
    }
)
_LOCAL = frozenset({"internal_chat_message_metadata_passthrough", "status"})
_SKIPPED = frozenset({"world_state", "turn_context"})
_USAGE: Object = {"reasoning_output_tokens": "reasoning_tokens"}


class Thread:
    """From records to items. It sees every record once, in order, and never looks ahead."""

    def __init__(self) -> None:
        self.place = 0  # of the last item
        self.places: dict[
            tuple[str, int], int
        ] = {}  # where a rollout was, at a byte that another goes on from
        self._rollout = ""
        self._number = 0  # of the record in the rollout
        self._keys = Keys()
        self._turn: str | None = None
        self._turn_is_open = False
        self._model = self._provider = ""
        self._effort: Object = {}
        self._step_is_open = False
        self._total: Any = None
        self._thoughts: list[tuple[Object, int | None]] = []
        self._prompts: list[int] = []  # places of what the user typed, of the turns in force
        self._own_meta: tuple[Object, int | None] | None = None
        self._started_threads: set[str] = set()

    def begin(self, rollout: Rollout) -> Iterator[Item]:
        """Another file begins: of this thread, of what it was forked from, or of what it goes back in."""
        going_back = self._rollout and rollout.base is not None and rollout.base in self.places
        self._rollout, self._number = rollout.id, 0
        if going_back and rollout.base is not None:
            to = self.places[rollout.base]
            if to < self.place:
                yield self._item(Rewound(to, "the thread went back"), "rewound", None)
                self._prompts = [place for place in self._prompts if place <= to]

    def take(self, line: Line, path: Path, problems: list[Problem]) -> Iterator[Item]:
        record = line.record
        said_at = millis(record.get("timestamp"))
        kind, payload = record.get("type"), record.get("payload")
        try:
            if isinstance(payload, dict):
                yield from self._record(str(kind), payload, said_at)
            elif kind is None and "instructions" in record:
                yield from self._meta(record, said_at)
            elif kind is not None:  # the first generation: items, and nothing else
                yield from self._response_item(record, said_at)
            elif record.get("record_type") != "state":
                yield self._item(Noted("codex", record), self._name(), said_at)
        except (ValueError, TypeError, LookupError, AttributeError) as error:  # it says what no item can say
            problems.append(Problem(str(path), line.number, line.offset, str(error)))
            yield self._item(Noted("codex", record), self._name(), said_at)
        if not (kind == "session_meta" and self._own_meta and self.place == 0):
            self._number += 1

    def _record(self, kind: str, payload: Object, said_at: int | None) -> Iterator[Item]:
        match kind:
            case "session_meta":
                yield from self._meta(payload, said_at)
            case "response_item":
                yield from self._response_item(payload, said_at)
            case "event_msg":
                yield from self._event(payload, said_at)
            case "turn_context":
                self._model = text_field(payload, "model") or self._model
                effort = payload.get("effort")
                self._effort = {"effort": effort} if isinstance(effort, str) else {}
                self._turn = text_field(payload, "turn_id") or self._turn
            case "compacted":
                yield from self._compacted(payload, said_at)
            case "token_usage_record":
                yield from self._used(payload.get("usage"), payload.get("thread_token_usage"), said_at)
            case _ if kind not in _SKIPPED:
                yield self._item(Noted(f"codex.{kind}", payload), self._name(), said_at)

    # --- where a thread begins -----------------------------------------------------------------------------

    def _meta(self, meta: Object, said_at: int | None) -> Iterator[Item]:
        """A file that copies what it was forked from says its own meta, then that of the other thread."""
        if (
            self.place == 0
            and self._own_meta is None
            and meta.get("forked_from_id")
            and not meta.get("history_base")
        ):
            self._own_meta = meta, said_at
            return
        yield from self._started(meta, said_at)

    def _started(self, meta: Object, said_at: int | None) -> Iterator[Item]:
        thread = text_field(meta, "id")
        words = {
            name: text_field(meta, name) for name in ("cwd", "originator", "cli_version", "model_provider")
        }
        parent = text_field(meta, "parent_thread_id")
        about = {"imported": NAME, "session": thread, **words, "parent": f"{NAME}-{parent}" if parent else ""}
        self._provider = words["model_provider"] or self._provider
        key = f"{NAME}-{thread}"
        if key in self._started_threads:
            return
        self._started_threads.add(key)
        about = {name: word for name, word in about.items() if word}
        yield self._item(
            ChatStarted(key, "", about), f"started-{thread}", millis(meta.get("timestamp")) or said_at
        )
        told = meta.get("base_instructions") or meta.get("instructions")
        text = text_field(told, "text") if isinstance(told, dict) else told
        if isinstance(text, str) and text and not self._prompts:
            yield self._item(MessageAdded("system", (Text(text),)), f"instructions-{thread}", said_at)

    def _own_start(self, turn: Object) -> Iterator[Item]:
        """Of a thread that was copied, when its first own turn begins."""
        if self._own_meta is None or not isinstance(turn.get("started_at"), int | float):
            return
        meta, said_at = self._own_meta
        began = millis(meta.get("timestamp")) or 0
        if turn["started_at"] * 1000 >= began - began % 1000:
            self._own_meta = None
            yield from self._started(meta, said_at)

    # --- items -------------------------------------------------------------------------------------------

    def _response_item(self, item: Object, said_at: int | None) -> Iterator[Item]:
        kind = item.get("type")
        role = item.get("role")
        answers = kind == "message" and role == "assistant"
        if answers or kind in _SPOKEN:
            yield from self._ask(said_at)
        if kind == "reasoning":  # it goes with what it leads to
            self._thoughts.append((_as_sent(item), said_at))
            return
        if not answers:
            yield from self._thought()
        if kind in _RETURNED or (kind == "message" and not answers):
            self._step_is_open = False
        thoughts = [thought for thought, _ in self._thoughts]
        self._thoughts = []
        for event in from_openai_responses([*thoughts, _as_sent(item)], model=self._model, provider="openai"):
            own = event
            if isinstance(event, MessageAdded) and event.role == "user":
                if self._is_typed(item, event):
                    self._prompts.append(self.place + 1)
                else:
                    own = MessageAdded("user", event.parts, "internal", event.meta)
            yield self._item(own, self._name(item), said_at)

    def _thought(self) -> Iterator[Item]:
        """Thoughts that no words follow."""
        thoughts, self._thoughts = self._thoughts, []
        if thoughts:
            read = from_openai_responses([one for one, _ in thoughts], model=self._model, provider="openai")
            for event in read:
                yield self._item(event, self._name(thoughts[0][0]), thoughts[0][1])

    def _is_typed(self, item: Object, event: MessageAdded) -> bool:
        passed = item.get("internal_chat_message_metadata_passthrough")
        kinds = passed.get("content_item_kinds") if isinstance(passed, dict) else None
        if isinstance(kinds, list) and kinds:
            return any(str(kind).startswith("user.") for kind in kinds)
        text = next((part.text for part in event.parts if isinstance(part, Text)), "")
        return not text.lstrip().startswith(_INJECTED)

    def _ask(self, said_at: int | None) -> Iterator[Item]:
        if not self._step_is_open:
            self._step_is_open = True
            yield self._item(ModelCalled(self._model, "", self._effort), f"{self._name()}.asked", said_at)

    def _used(self, usage: Any, total: Any, said_at: int | None) -> Iterator[Item]:
        """What a response cost; it is said again and again until the next."""
        if not isinstance(usage, dict) or not isinstance(total, dict) or total == self._total:
            return
        self._total = total
        counts: dict[str, int] = {
            str(_USAGE.get(name, name)): n for name, n in usage.items() if type(n) is int and 0 <= n < 1 << 53
        }
        counts.pop("total_tokens", None)
        yield self._item(
            ModelReturned(counts, "", "", {"codex": {"total": total}}), f"{self._name()}.used", said_at
        )

    # --- events ------------------------------------------------------------------------------------------

    def _event(self, event: Object, said_at: int | None) -> Iterator[Item]:
        kind = text_field(event, "type")
        match kind:
            case "task_started" | "turn_started":
                yield from self._own_start(event)
                yield from self._turn_begins(event, said_at)
            case "task_complete" | "turn_complete":
                yield from self._turn_ends("done", "", said_at)
            case "turn_aborted":
                yield from self._turn_ends("cancelled", text_field(event, "reason") or "interrupted", said_at)
            case "token_count":
                info = event.get("info")
                if isinstance(info, dict):
                    yield from self._used(
                        info.get("last_token_usage"), info.get("total_token_usage"), said_at
                    )
            case "thread_rolled_back":
                yield from self._rolled_back(event.get("num_turns"), said_at)
            case "thread_name_updated":
                name = text_field(event, "thread_name")
                yield self._item(ChatStarted("", name), self._name(), said_at)
            case "error" | "stream_error":
                yield self._item(
                    ModelReturned(error=text_field(event, "message") or kind), self._name(), said_at
                )
            case _ if kind not in _SKIPPED_EVENTS:
                yield self._item(Noted(f"codex.{kind}", event), self._name(), said_at)

    def _turn_begins(self, event: Object, said_at: int | None) -> Iterator[Item]:
        yield from self._thought()
        if self._turn_is_open:
            yield from self._turn_ends("cancelled", "its end was not recorded", said_at)
        self._turn = text_field(event, "turn_id") or None
        if self._turn is not None:
            self._turn_is_open = True
            yield self._item(RunStarted(NAME), self._name(), said_at)

    def _turn_ends(self, outcome: Any, error: str, said_at: int | None) -> Iterator[Item]:
        yield from self._thought()
        self._step_is_open = False
        yield self._item(RunFinished(outcome, error), f"{self._name()}.ended", said_at)
        self._turn_is_open, self._turn = False, None

    def _rolled_back(self, turns: Any, said_at: int | None) -> Iterator[Item]:
        count = turns if type(turns) is int and turns > 0 else 0
        dropped = self._prompts[max(0, len(self._prompts) - count) :] if count else []
        if dropped:
            self._prompts = self._prompts[: -len(dropped)]
            yield self._item(Rewound(dropped[0] - 1, "rolled back"), self._name(), said_at)

    def _compacted(self, payload: Object, said_at: int | None) -> Iterator[Item]:
        kept = payload.get("replacement_history")
        texts = [*map(_said, kept)] if isinstance(kept, list) else []
        summary = "\n\n".join(text for text in texts if text) or text_field(payload, "message")
        self._step_is_open = False
        if self.place:
            count = self.place
            yield self._item(Compacted(1, self.place, count, summary, "codex"), self._name(), said_at)

    # --- what an item is called ----------------------------------------------------------------------------

    def _name(self, item: Object | None = None) -> str:
        own = item.get("id") if item else None
        return own if isinstance(own, str) and own else f"{self._number}"

    def _item(self, event: Event, name: str, said_at: int | None) -> Item:
        self.place += 1
        return Item(event, self._keys.unique(name), said_at, self._turn)


def _as_sent(item: Object) -> Object:
    """The item as the model's interface has it."""
    given = {name: value for name, value in item.items() if name not in _LOCAL}
    match item.get("type"):
        case "local_shell_call":
            call = item.get("call_id") or item.get("id")
            return {
                "type": "function_call",
                "call_id": call,
                "name": "local_shell",
                "arguments": _json(item.get("action")),
            }
        case "reasoning" if not isinstance(item.get("id"), str):
            given["id"] = ""
        case "function_call" if not isinstance(item.get("arguments"), str):
            given["arguments"] = _json(item.get("arguments"))
        case "function_call_output" | "custom_tool_call_output" if not isinstance(
            item.get("output"), str | list
        ):
            given["output"] = _json(item.get("output"))
    return given


def _said(item: Any) -> str:
    """What a message says in words, if anybody typed or summed it up."""
    content = item.get("content") if isinstance(item, dict) and item.get("role") != "developer" else None
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    text = "\n".join(text_field(part, "text") for part in parts if isinstance(part, dict))
    return "" if text.lstrip().startswith("<environment_context>") else text


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
