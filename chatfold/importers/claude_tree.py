"""A session of Claude Code: from its lines to items.

A line is a block of a message, a result, or something that the tool notes for itself. Each names the line that it hangs on, so a
file is a tree: parallel calls fork it and are no branches; a prompt that hangs on an earlier line is the user, who went back.

- A message comes in several lines, and costs once. Thoughts are held back until the line that they lead to.
- What the user never typed is ``internal``: what commands printed, reminders, interruptions.
- The summary of a compaction stands for all before it, but what the tool says that it preserved.
- Attachments and records of a type that nobody here knows are notes. Left out are what is said elsewhere, too (``progress``,
  ``toolUseResult``, ``last-prompt``), and backups of files.
"""

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from chatfold.eventlog import (
    ChatStarted,
    Compacted,
    ContextOpened,
    Event,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Rewound,
    ToolReturned,
)
from chatfold.importers.head import Object
from chatfold.importers.items import Item, Keys, Problem
from chatfold.importers.lines import Line
from chatfold.importers.times import millis
from chatfold.projections.shapes.anthropic import from_anthropic
from chatfold.projections.text import text_of

NAME = "claude-code"

_COMMON = frozenset(
    {
        *("parentUuid", "isSidechain", "userType", "cwd", "sessionId", "version", "gitBranch", "uuid"),
        *("timestamp", "type", "subtype", "entrypoint", "slug"),
    }
)
_SKIPPED = frozenset({"progress", "file-history-snapshot", "last-prompt", "mode", "permission-mode"})
_TITLES = {"ai-title": "aiTitle", "custom-title": "customTitle"}
_NOT_TYPED = (
    *("<local-command-", "<command-name>", "<command-message>", "<bash-", "<system-reminder>"),
    *("[Request interrupted by user", "Caveat: "),
)
_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class Tree:
    """From lines to items. It sees every line once, in order, and never looks ahead."""

    def __init__(self, *, is_side: bool, is_helper: bool) -> None:
        self.place = 0  # of the last item
        self._is_side = is_side
        self._is_helper = is_helper
        self._keys = Keys()
        self._ends: dict[str, int] = {}  # by the uuid of a line, the last place after it
        self._said: list[tuple[int, bool]] = []  # places on the path, and: is it a result?
        self._root = 0  # the place before anything was said
        self._has_parents = False
        self._session = ""
        self._is_copy = False  # were the lines so far copied from another session?
        self._messages: set[str] = set()
        self._unnamed = 0  # calls without an id
        self._asked: tuple[str, Object, int | None] | None = (
            None  # the message that has not said its cost yet
        )
        self._thoughts: tuple[str, list[Any], Object] | None = None
        self._boundary: tuple[Object, int] | None = None

    def take(self, line: Line, path: Path, problems: list[Problem]) -> Iterator[Item]:
        record = line.record
        uuid = record.get("uuid")
        if isinstance(uuid, str) and uuid in self._ends:
            return  # said twice
        try:
            yield from self._record(record, line)
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
        ) as error:  # it says what no message can say
            problems.append(Problem(str(path), line.number, line.offset, str(error)))
            yield self._note(record, line)
        if isinstance(uuid, str):
            self._ends[uuid] = self.place
            self._has_parents |= isinstance(record.get("parentUuid"), str)

    def _record(self, record: Object, line: Line) -> Iterator[Item]:
        kind = record.get("type")
        if isinstance(record.get("sessionId"), str) and kind in ("user", "assistant", "system", "attachment"):
            yield from self._started(record)
        match kind:
            case "user" if isinstance(record.get("message"), dict):
                yield from self._user(record, record["message"], line)
            case "assistant" if isinstance(record.get("message"), dict):
                yield from self._assistant(record, record["message"], line)
            case "system":
                yield from self._system(record, line)
            case "summary" if record.get("leafUuid") in self._ends:
                yield self._item(ChatStarted("", str(record.get("summary"))), record, line)
            case "ai-title" | "custom-title":
                yield self._item(ChatStarted("", str(record.get(_TITLES[kind]) or "")), record, line)
            case _ if kind not in _SKIPPED:
                yield self._note(record, line)

    def _started(self, record: Object) -> Iterator[Item]:
        """The first line that says whose it is; in a copy, the first line that was not copied says it again."""
        forked = record.get("forkedFrom")
        session = forked.get("sessionId") if isinstance(forked, dict) else record["sessionId"]
        if not isinstance(session, str) or (
            self._session and not (self._is_copy and session != self._session)
        ):
            return
        self._is_copy = isinstance(forked, dict)
        self._session = session
        helper = record.get("agentId") if self._is_helper else None
        key = f"{NAME}-agent-{helper}" if isinstance(helper, str) else f"{NAME}-{session}"
        words = {name: record.get(name) for name in ("cwd", "version", "gitBranch")}
        parent = f"{NAME}-{session}" if self._is_helper or self._is_side else ""
        about = {"imported": NAME, "session": session, **words, "parent": parent}
        meta = {name: word for name, word in about.items() if isinstance(word, str) and word}
        key += "-subagents" if self._is_side else ""
        yield self._made(ChatStarted(key, "", meta), f"started-{session}", _time(record))
        self._root = self._root or self.place

    # --- what the user said ----------------------------------------------------------------------------------

    def _user(self, record: Object, message: Object, line: Line) -> Iterator[Item]:
        yield from self._thought(line)
        content = message.get("content")
        if record.get("isCompactSummary"):
            yield from self._compacted(record, _words(content), line)
            return
        events = from_anthropic(
            [{"role": "user", "content": self._with_ids(content, "tool_result", "tool_use_id")}]
        )
        is_meta = bool(record.get("isMeta"))
        for event in events:
            if isinstance(event, ToolReturned):
                yield self._result(event, record, line)
                continue
            assert isinstance(event, MessageAdded)
            typed = not is_meta and not text_of(event.parts).lstrip().startswith(_NOT_TYPED)
            if typed:
                yield from self._go_back(record, line)
                yield from self._open_context(record, event, line)
            own = event if typed else MessageAdded("user", event.parts, "internal", event.meta)
            yield self._item(own, record, line, says=typed)

    def _result(self, event: ToolReturned, record: Object, line: Line) -> Item:
        detail = record.get("toolUseResult")
        agent = detail.get("agentId") if isinstance(detail, dict) else None
        if isinstance(agent, str):
            event = ToolReturned(
                event.call, event.parts, event.failed, {**event.meta, "chat": f"{NAME}-agent-{agent}"}
            )
        item = self._item(event, record, line)
        self._said.append((self.place, True))
        return item

    def _go_back(self, record: Object, line: Line) -> Iterator[Item]:
        """A prompt that hangs on an earlier line."""
        parent = record.get("parentUuid")
        if isinstance(parent, str):
            to = self._ends.get(parent)
        else:
            to = self._root if self._has_parents and not self._is_side and self._boundary is None else None
        if to is None:
            return
        later = takewhile(lambda one: one[0] > to, reversed(self._said))
        if not all(is_result for _, is_result in later):
            while self._said and self._said[-1][0] > to:
                self._said.pop()
            yield self._item(Rewound(to, "the user went back"), record, line)

    def _open_context(self, record: Object, event: MessageAdded, line: Line) -> Iterator[Item]:
        if self._is_side and record.get("parentUuid") is None and self._said:
            yield self._item(ContextOpened(str(record.get("uuid")), text_of(event.parts)[:80]), record, line)

    # --- what the model said ---------------------------------------------------------------------------------

    def _assistant(self, record: Object, message: Object, line: Line) -> Iterator[Item]:
        name = message.get("id") or record.get("uuid")
        name = name if isinstance(name, str) else str(line.number)
        content = message.get("content")
        if message.get("model") == "<synthetic>" or record.get("isApiErrorMessage"):
            yield from self._thought(line)
            yield from self._failed(record, content, line)
            return
        if name not in self._messages:
            yield from self._thought(line)
            yield from self._cost()
            self._messages.add(name)
            model = message.get("model")
            asked = ModelCalled(model if isinstance(model, str) else "", "")
            yield self._made(asked, f"{name}.asked", _time(record))
        self._asked = name, message, _time(record)
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if self._thoughts is not None and self._thoughts[0] == name:
            blocks, self._thoughts = [*self._thoughts[1], *blocks], None
        if blocks and all(isinstance(block, dict) and block.get("type") == "thinking" for block in blocks):
            self._thoughts = name, blocks, record
        else:
            yield from self._thought(line)
            yield from self._blocks(blocks, message, record, line)
        if message.get("stop_reason") is not None and self._thoughts is None:
            yield from self._cost()

    def _blocks(self, blocks: list[Any], message: Object, record: Object, line: Line) -> Iterator[Item]:
        model = message.get("model")
        given = [{"role": "assistant", "content": self._with_ids(blocks, "tool_use", "id")}]
        for event in from_anthropic(given, model=model if isinstance(model, str) else ""):
            yield self._item(event, record, line, says=True)

    def _with_ids(self, blocks: Any, kind: str, name: str) -> Any:
        """Calls and results that do not say which they are: results answer the call before them."""
        if not isinstance(blocks, list):
            return blocks
        given: list[Any] = []
        for block in blocks:
            if isinstance(block, dict) and block.get("type") == kind and not isinstance(block.get(name), str):
                self._unnamed += kind == "tool_use"
                block = {**block, name: f"unnamed-{self._unnamed}"}  # noqa: PLW2901
            given.append(block)
        return given

    def _thought(self, line: Line) -> Iterator[Item]:
        """Thoughts that led to nothing."""
        if self._thoughts is not None:
            _, blocks, record = self._thoughts
            self._thoughts = None
            yield from self._blocks(blocks, record["message"], record, line)

    def _cost(self) -> Iterator[Item]:
        """What the last message cost: its lines all say it, the last one as it is."""
        if self._asked is None:
            return
        (name, message, said_at), self._asked = self._asked, None
        given = message.get("usage")
        given = given if isinstance(given, dict) else {}
        usage = {
            one: given[one] for one in _USAGE if type(given.get(one)) is int and 0 <= given[one] < 1 << 53
        }
        stop = message.get("stop_reason")
        yield self._made(ModelReturned(usage, stop if isinstance(stop, str) else ""), f"{name}.cost", said_at)

    def _failed(self, record: Object, content: Any, line: Line) -> Iterator[Item]:
        """What the tool says in the place of an answer that did not come."""
        yield from self._cost()
        text = _words(content) or "API error"
        yield self._item(ModelReturned(error=text, meta={"claude-code": {"synthetic": True}}), record, line)

    # --- what the tool did -----------------------------------------------------------------------------------

    def _system(self, record: Object, line: Line) -> Iterator[Item]:
        match record.get("subtype"):
            case "compact_boundary":
                yield from self._cost()
                meta = record.get("compactMetadata")
                self._boundary = meta if isinstance(meta, dict) else {}, self.place
            case "api_error":
                error = record.get("error")
                text = str(error.get("message") or error) if isinstance(error, dict) else str(error or "")
                yield self._item(ModelReturned(error=text or "API error"), record, line)
            case _:
                yield self._note(record, line)

    def _compacted(self, record: Object, summary: str, line: Line) -> Iterator[Item]:
        meta, last = self._boundary or ({}, self.place)
        self._boundary = None
        kept = meta.get("preservedSegment")
        head = kept.get("headUuid") if isinstance(kept, dict) else None
        if isinstance(head, str) and head in self._ends:
            last = self._before(head, last)
        tokens = meta.get("preTokens")
        if last >= 1:
            event = Compacted(
                1,
                last,
                last,
                summary,
                str(meta.get("trigger") or "claude-code"),
                tokens={"before": tokens} if type(tokens) is int and 0 <= tokens < 1 << 53 else {},
            )
            yield self._item(event, record, line)

    def _before(self, uuid: str, last: int) -> int:
        """The place before anything of this line."""
        before = 0
        for one, end in self._ends.items():
            if one == uuid:
                return min(before, last)
            before = end
        return last

    # --- items -------------------------------------------------------------------------------------------

    def _note(self, record: Object, line: Line) -> Item:
        kind = ".".join(
            str(record[name]) for name in ("type", "subtype") if isinstance(record.get(name), str)
        )
        data = {name: value for name, value in record.items() if name not in _COMMON}
        return self._item(Noted(f"{NAME}.{kind}" if kind else NAME, data), record, line)

    def _item(self, event: Event, record: Object, line: Line, *, says: bool = False) -> Item:
        forked = record.get("forkedFrom")
        name = forked.get("messageUuid") if isinstance(forked, dict) else record.get("uuid")
        item = self._made(
            event, name if isinstance(name, str) and name else f"line-{line.number}", _time(record)
        )
        if says:
            self._said.append((self.place, False))
        return item

    def _made(self, event: Event, name: str, said_at: int | None) -> Item:
        self.place += 1
        return Item(event, self._keys.unique(name), said_at)


def _time(record: Object) -> int | None:
    return millis(record.get("timestamp"))


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))
