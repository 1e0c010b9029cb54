"""Gemini CLI: sessions, ``~/.gemini/tmp/<project>/chats/session-<minute>-<id>.json[l]``, of both generations.

The newer one is a log of operations: a message is put in or takes the place of the one with its id, the list is set anew at each resume, or
cut. The older one is rewritten at each step. Both are held against what was said so far, and only what is new follows; where they
part, the chat goes back.

- A chat is a session: ``gemini-<id>``. It may be in several files, of which the later ones can be stubs: these take nothing away.
- A model's message comes first without its calls, then with calls and results, which follow then. The tool says the results again as the
  user's; these are left out. A resume says all messages again, with thoughts and calls in their words: they are known by their ids and texts.
- What the tool tells the model of itself (``<session_context>``) is ``internal``.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from xxhash import xxh3_64_intdigest

from chatfold.eventlog import (
    ChatStarted,
    Event,
    File,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Part,
    Reasoning,
    Rewound,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.importers.head import Head, Object, decode_object
from chatfold.importers.items import (
    Format,
    Home,
    Item,
    Maker,
    Problem,
    Session,
    WholeSession,
    counts_of,
)
from chatfold.importers.lines import LineReader
from chatfold.importers.times import millis

NAME = "gemini"

_HEADER = frozenset({"sessionId", "projectHash", "startTime"})
_CONTEXT = "<session_context>"
_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "cached_input_tokens",
    "thoughts": "reasoning_tokens",
    "tool": "tool_tokens",
}


def _is_log(head: Head) -> bool:
    first = head.records[0] if head.records else {}
    return first.keys() >= _HEADER and "messages" not in first


def _is_list(head: Head) -> bool:
    if b'"sessionId"' not in head.start or b'"projectHash"' not in head.start:
        return False
    value = head.value
    return isinstance(value, dict) and value.keys() >= _HEADER and isinstance(value.get("messages"), list)


def _logs(paths: Sequence[Path]) -> Iterator[Session]:
    files: dict[tuple[Path, str], set[Path]] = {}
    for path in paths:
        session = str(Head(path).records[0]["sessionId"])
        beside = {one for one in path.parent.glob(f"session-*-{session[:8]}.jsonl") if _of(one) == session}
        files.setdefault((path.parent, session), {path}).update(beside)
    for (_, session), found in files.items():
        yield LogSession(session, tuple(sorted(found)))


def _of(path: Path) -> str:
    first = next(iter(Head(path).records), {})
    return str(first.get("sessionId"))


class LogSession(Session):
    """The files of a session, the oldest first."""

    def __init__(self, session: str, paths: tuple[Path, ...]) -> None:
        self._session = session
        super().__init__(f"{NAME}-{session}", paths)

    def restart(self) -> None:
        self._readers = [LineReader(path, self.problems) for path in self.paths]
        self._talk = _Talk(self._session)

    def read(self) -> Iterator[Item]:
        for reader in self._readers:
            if not reader.path.exists():  # the tool deletes files of its own
                continue
            for line in reader.read():
                try:
                    yield from self._talk.obey(line.record)
                except (ValueError, TypeError, LookupError, AttributeError) as error:
                    self.problems.append(Problem(str(reader.path), line.number, line.offset, str(error)))
        self.title = self._talk.title or self.title


class ListSession(WholeSession):
    def __init__(self, path: Path) -> None:
        self._session = str((Head(path).value or {}).get("sessionId") or path.stem)
        super().__init__(f"{NAME}-{self._session}", (path,))

    def state(self) -> object:
        stat = self.paths[0].stat()
        return stat.st_mtime_ns, stat.st_size

    def items(self) -> Iterator[Item]:
        value = decode_object(self.paths[0].read_bytes())
        if value is None:
            self.problems.append(Problem(str(self.paths[0]), 0, 0, "no JSON object: is it being written?"))
            return
        talk = _Talk(self._session)
        try:
            yield from talk.obey({name: one for name, one in value.items() if name != "messages"})
            yield from talk.obey({"$set": value})
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            self.problems.append(Problem(str(self.paths[0]), 0, 0, str(error)))
        self.title = talk.title


# --- messages --------------------------------------------------------------------------------------------------


class _Said(msgspec.Struct):
    """A message as it was taken. ``words``: a fingerprint of what it says, without its calls; ``calls``: those that were told."""

    id: str
    words: int
    before: int
    after: int
    calls: set[str]


class _Talk:
    """The messages in force, and the items that led there."""

    def __init__(self, session: str) -> None:
        self.title = ""
        self._session = session
        self._maker = Maker()
        self._said: list[_Said] = []
        self._returned: set[str] = set()

    def obey(self, record: Object) -> Iterator[Item]:
        """An operation, or the line that says that the file was opened."""
        if record.keys() >= _HEADER:
            yield from self._started(record)
        elif isinstance(setting := record.get("$set"), dict):
            self.title = str(setting.get("summary") or self.title)
            if isinstance(setting.get("messages"), list):
                yield from self._put_all([one for one in setting["messages"] if isinstance(one, dict)])
        elif "$rewindTo" in record:
            place = next((at for at, one in enumerate(self._said) if one.id == record["$rewindTo"]), None)
            if place is not None:
                yield from self._cut(place, "the user went back")
        elif "type" in record:
            yield from self._put(record)
        else:
            yield self._maker.item(Noted(NAME, record), "note")

    def _started(self, header: Object) -> Iterator[Item]:
        self.title = str(header.get("summary") or self.title)
        if not self._maker.place:
            kind = header.get("kind")
            about = {"imported": NAME, "session": self._session, "project": str(header["projectHash"])}
            about |= {"kind": kind} if isinstance(kind, str) and kind != "main" else {}
            event = ChatStarted(f"{NAME}-{self._session}", "", about)
            yield self._maker.item(event, f"started-{self._session}", millis(header.get("startTime")))

    def _put_all(self, messages: list[Object]) -> Iterator[Item]:
        if len(self._said) > 1 and all(map(_is_context, messages)):  # a resume that has not said the rest yet
            return
        same, messages = 0, [one for one in messages if not _is_answer(one)]
        for own, message in zip(self._said, messages, strict=False):
            if not _is_same(own, message):
                break
            yield from self._calls(own, message)
            same += 1
        yield from self._cut(same, "the list was set anew")
        for message in messages[same:]:
            yield from self._add(message)

    def _put(self, message: Object) -> Iterator[Item]:
        if _is_answer(message):
            yield from self._answers(message)
            return
        place = next(
            (at for at in reversed(range(len(self._said))) if self._said[at].id == _id(message)), None
        )
        if place is None:
            yield from self._add(message)
        elif _is_same(own := self._said[place], message):
            yield from self._calls(own, message)
        else:
            yield from self._cut(place, "a message was replaced")
            yield from self._add(message)

    def _cut(self, place: int, reason: str) -> Iterator[Item]:
        if place < len(self._said):
            to = self._said[place].before
            name = f"{self._said[place].id}.back"
            del self._said[place:]
            yield self._maker.item(Rewound(to, reason), name)

    def _add(self, message: Object) -> Iterator[Item]:
        own = _Said(_id(message), _words(message), self._maker.place, 0, set())
        said_at = millis(message.get("timestamp"))
        for number, event in enumerate(self._events(message)):
            yield self._maker.item(event, f"{own.id}.{number}" if number else own.id, said_at)
        self._said.append(own)
        yield from self._calls(own, message)
        own.after = self._maker.place

    def _events(self, message: Object) -> Iterator[Event]:
        match message.get("type"):
            case "user":
                parts = [part for one in _content(message) for part in _part(one)]
                if parts:
                    yield MessageAdded("user", tuple(parts), "internal" if _is_context(message) else "exec")
            case "gemini":
                yield from _answered(message)
            case "error":
                yield ModelReturned(error=_text_of(message) or "error")
            case kind:
                rest = {name: one for name, one in message.items() if name not in ("id", "timestamp", "type")}
                yield Noted(f"{NAME}.{kind}", rest)

    def _answers(self, message: Object) -> Iterator[Item]:
        """Results, if their calls have not said them."""
        for part in _content(message):
            result = part["functionResponse"]
            name = str(result.get("id"))
            if name not in self._returned:
                self._returned.add(name)
                told = result.get("response")
                failed = isinstance(told, dict) and "error" in told
                event = ToolReturned(name, tuple(_result({"result": [part]})), failed)
                yield self._maker.item(event, f"{_id(message)}.{name}", millis(message.get("timestamp")))

    def _calls(self, own: _Said, message: Object) -> Iterator[Item]:
        """Those that were not told yet: each with its result, if it has one."""
        given = message.get("toolCalls") or [part.get("functionCall") for part in _content(message)]
        calls = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
        for call in calls:
            name = str(call.get("id"))
            if name not in own.calls:
                own.calls.add(name)
                event = ToolCalled(name, str(call.get("name") or ""), call.get("args"))
                yield self._maker.item(event, f"{own.id}.{name}", millis(call.get("timestamp")))
        for call in calls:
            name, status = str(call.get("id")), call.get("status")
            if status in ("success", "error", "cancelled") and f"{name}." not in own.calls:
                own.calls.add(f"{name}.")
                self._returned.add(name)
                meta = {NAME: {"status": status}} if status == "cancelled" else {}
                done = ToolReturned(name, tuple(_result(call)), status != "success", meta)
                yield self._maker.item(done, f"{own.id}.{name}.result", millis(call.get("timestamp")))


def _answered(message: Object) -> Iterator[Event]:
    model = message.get("model")
    yield ModelCalled(model if isinstance(model, str) else "", "", provider="google")
    thoughts = message.get("thoughts")
    parts: list[Part] = []
    for one in thoughts if isinstance(thoughts, list) else []:
        words = [one.get(name) for name in ("subject", "description")] if isinstance(one, dict) else []
        text = "\n".join(word for word in words if isinstance(word, str) and word)
        parts.append(Reasoning(text, "google", str(model or "")))
    for part in _content(message):
        parts += _part(part)
    if parts:
        yield MessageAdded("assistant", tuple(parts))
    yield ModelReturned(counts_of(_USAGE, message.get("tokens")))


def _id(message: Object) -> str:
    found = message.get("id")
    return found if isinstance(found, str) and found else f"unnamed-{_words(message):x}"


def _words(message: Object) -> int:
    said = [
        part["text"]
        for part in _content(message)
        if isinstance(part.get("text"), str) and not part.get("thought")
    ]
    return xxh3_64_intdigest(msgspec.json.encode([message.get("type"), *said]))


def _is_same(own: _Said, message: Object) -> bool:
    """A resume writes thoughts and calls in another way, and what the tool tells of itself has another date each time."""
    return own.id == _id(message) and (own.words == _words(message) or _is_context(message))


def _is_answer(message: Object) -> bool:
    """Does it only say what tools gave back?"""
    content = _content(message)
    return (
        message.get("type") == "user"
        and bool(content)
        and all(isinstance(one.get("functionResponse"), dict) for one in content)
    )


def _is_context(message: Object) -> bool:
    return message.get("type") == "user" and _text_of(message).lstrip().startswith(_CONTEXT)


def _content(message: Object) -> list[Object]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def _text_of(message: Object) -> str:
    return "\n".join(part["text"] for part in _content(message) if isinstance(part.get("text"), str))


def _part(part: Object) -> list[Part]:
    data, file = part.get("inlineData"), part.get("fileData")
    if isinstance(part.get("text"), str):
        return [Reasoning(part["text"], "google")] if part.get("thought") else [Text(part["text"])]
    if isinstance(part.get("functionCall"), dict):  # it is told as a call
        return []
    if isinstance(data, dict):
        return [File(str(data.get("mimeType")), url=f"data:{data.get('mimeType')};base64,{data.get('data')}")]
    if isinstance(file, dict):
        return [File(str(file.get("mimeType")), url=str(file.get("fileUri")))]
    return [Text(msgspec.json.encode(part).decode())]


def _result(call: Object) -> Iterator[Part]:
    result = call.get("result")
    for part in result if isinstance(result, list) else [result]:
        response = part.get("functionResponse") if isinstance(part, dict) else None
        told = response.get("response") if isinstance(response, dict) else part
        words = (
            next((told[name] for name in ("output", "error") if name in told), told)
            if isinstance(told, dict)
            else told
        )
        if words is not None:
            yield Text(words if isinstance(words, str) else msgspec.json.encode(words).decode())


_HOMES = (Home("", ".gemini", "tmp"),)

FORMATS = (
    Format(NAME, "sessions of the Gemini CLI (~/.gemini/tmp)", _is_log, _logs, _HOMES),
    Format(
        f"{NAME}-json",
        "sessions of the Gemini CLI before 0.40, JSON",
        _is_list,
        lambda paths: (ListSession(path) for path in paths),
    ),
)
