"""Errors: what goes wrong, as a status and as words with the next step. What is not expected is a bug, and not hidden."""

from typing import Any

from chatfold.eventlog import (
    ChatDeleted,
    ChatfoldError,
    CorruptLog,
    NewerFormat,
    NoSuchChat,
    NoSuchPoint,
)

_KINDS: tuple[tuple[type[Exception], str, int], ...] = (
    (CorruptLog, "damage", 409),
    (NewerFormat, "newer", 409),
    (ChatDeleted, "gone", 404),
    (NoSuchChat, "gone", 404),
    (NoSuchPoint, "point", 404),
    (ValueError, "refused", 400),
    (ChatfoldError, "refused", 409),
    (OSError, "failed", 500),
)
EXPECTED = tuple(kind for kind, _, _ in _KINDS)


def problem(error: Exception) -> tuple[int, dict[str, Any]]:
    """The status and the value."""
    kind, status = next(
        ((name, code) for one, name, code in _KINDS if isinstance(error, one)), ("failed", 500)
    )
    value: dict[str, Any] = {"error": str(error), "kind": kind}
    if isinstance(error, ChatfoldError):
        path = error.path.name if error.path is not None else ""
        value |= {"chat": error.chat or "", "seq": error.seq or 0, "file": path, "offset": error.offset or 0}
        value["next"] = error.next_step
    return status, value
