"""Short texts: what a list shows of a long one."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from chatfold.eventlog import Compacted, Event, File, MessageAdded, ModelCalled, Part, Text

T = TypeVar("T")


def text_of(parts: Iterable[Part]) -> str:
    """What was said in words."""
    return "\n".join([part.text for part in parts if type(part) is Text])


class Waiting(Generic[T]):
    """Calls without a result. A result is paired as ``prompt`` does: with the first call of its id in the open step, else of
    an earlier one; ids may be repeated."""

    def __init__(self) -> None:
        self._step: dict[str, list[T]] = {}
        self._earlier: dict[str, list[T]] = {}

    def call(self, id: str, value: T) -> None:
        self._step.setdefault(id, []).append(value)

    def close_at(self, event: Event) -> None:
        """Where a model speaks, or is asked, the step is over."""
        match event:
            case ModelCalled() | Compacted() | MessageAdded(role="assistant", origin="exec" | "internal"):
                self._close()

    def _close(self) -> None:
        for id, values in self._step.items():  # noqa: A001
            self._earlier.setdefault(id, []).extend(values)
        self._step = {}

    def answer(self, id: str) -> T | None:
        """What waits for the result, no longer."""
        waiting = self._step.get(id) or self._earlier.get(id)
        return waiting.pop(0) if waiting else None


_TEXTUAL = ("json", "xml", "yaml", "toml", "javascript", "sql")


def text_of_file(file: File) -> str | None:
    """What a text file says; None for other files, and for those whose bytes are elsewhere."""
    kind = file.media_type.partition(";")[0].strip().lower()
    if not file.data or not (kind.startswith("text/") or kind.endswith(_TEXTUAL)):
        return None
    return file.data.decode("utf-8", "replace")


def clip(text: str, most: int) -> str:
    """At most ``most`` characters, the last of them an ellipsis if something is missing."""
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str, most: int) -> str:
    """The beginning of a text, white space as single blanks."""
    begin = " ".join(text[: 2 * most].split())
    if len(begin) <= most and len(text) > 2 * most:  # mostly white space: the rest is looked at, too
        begin = " ".join(text.split(None, most)[: most + 1])
    return clip(begin, most)
