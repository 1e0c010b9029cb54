"""aider: ``.aider.chat.history.md``. What this file says comes in, and no more: it has no ids, and no times but that of each start.

- A chat is what follows a start: ``aider-<time>``. The time is that of the machine's zone.
- Lines after ``####`` are the user's, lines after ``>`` the tool's own, which are notes; all else is the answer. An answer that has a line with
  ``####`` cannot be told from a question.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from xxhash import xxh3_64_intdigest

from chatfold.eventlog import (
    ChatStarted,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Noted,
    Part,
    Reasoning,
    Text,
)
from chatfold.importers.head import Head
from chatfold.importers.items import Format, Item, Maker, Session, WholeSession

NAME = "aider"

_START = re.compile(r"^# aider chat started at (.+)$", re.MULTILINE)
_MODEL = re.compile(r"^(?:Main model|Model): (\S+)")
_TOKENS = re.compile(r"^Tokens: ([\d.,]+)(k?) sent.*?, ([\d.,]+)(k?) received")
_THOUGHT = re.compile(r"<(thinking-content-\w+)>\s*(.*?)\s*</\1>", re.DOTALL)


def _is_history(head: Head) -> bool:
    return head.start.startswith(b"# aider chat started at ")


def _sessions(paths: Sequence[Path]) -> Iterator[Session]:
    for path in paths:
        text = path.read_bytes().decode("utf-8", "replace")
        starts = [*_START.finditer(text)]
        seen: dict[str, int] = {}
        for start, end in zip(starts, [*(one.start() for one in starts[1:]), len(text)], strict=True):
            began = re.sub(r"[^0-9]+", "-", start[1].strip())
            seen[began] = seen.get(began, 0) + 1
            key = f"{NAME}-{began}" + (f".{seen[began]}" if seen[began] > 1 else "")
            yield AiderSession(key, path, start[1].strip(), text[start.end() : end])


class AiderSession(WholeSession):
    def __init__(self, key: str, path: Path, began: str, text: str) -> None:
        self._began = began
        self._text = text
        self.version = xxh3_64_intdigest(text.encode())
        super().__init__(key, (path,))

    def state(self) -> object:
        return self.version

    def items(self) -> Iterator[Item]:
        maker, model = Maker(), ""
        about = {"imported": NAME, "source": str(self.paths[0].absolute())}
        yield maker.item(ChatStarted(self.key, "", about), "started", _local_time(self._began))
        for number, (kind, text) in enumerate(_pieces(self._text), 1):
            if kind == "user":
                yield maker.item(MessageAdded("user", (Text(text),)), f"{number}")
            elif kind == "answer":
                yield maker.item(ModelCalled(model, ""), f"{number}.asked")
                yield maker.item(MessageAdded("assistant", tuple(_parts(text))), f"{number}")
            else:
                model = next((found[1] for line in text.splitlines() if (found := _MODEL.match(line))), model)
                yield maker.item(Noted(f"{NAME}.output", {"text": text}), f"{number}")
                for line in text.splitlines():
                    if found := _TOKENS.match(line):
                        usage = {
                            "input_tokens": _count(found[1], found[2]),
                            "output_tokens": _count(found[3], found[4]),
                        }
                        yield maker.item(ModelReturned(usage), f"{number}.tokens")


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Lines of one kind that follow each other; blank ones belong to what is before."""
    kind, lines = "answer", list[str]()
    for line in text.splitlines():
        if line.startswith("#### "):
            here, said = "user", line[5:].rstrip()
        elif line.startswith("> ") or line == ">":
            here, said = "output", line[2:].rstrip()
        else:
            here, said = "answer", line
        if here != kind and (line.strip() or kind == "answer"):
            if told := "\n".join(lines).strip():
                yield kind, told
            kind, lines = here, []
        lines.append(said)
    if told := "\n".join(lines).strip():
        yield kind, told


def _parts(text: str) -> Iterator[Part]:
    for thought in _THOUGHT.finditer(text):
        yield Reasoning(thought[2])
    if said := _THOUGHT.sub("", text).strip():
        yield Text(said)


def _count(number: str, thousands: str) -> int:
    try:
        return round(float(number.replace(",", "")) * (1000 if thousands else 1))
    except ValueError:
        return 0


def _local_time(text: str) -> int | None:
    try:
        return round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


FORMATS = (
    Format(NAME, "chat histories of aider (.aider.chat.history.md)", _is_history, _sessions, holds_many=True),
)
