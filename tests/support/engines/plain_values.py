"""What two engines say, as values that can be compared: their classes are others, their names and fields the same."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

_CHANCE = re.compile(r"(/aside/[^/]*-|/trash/|/\.new-|/redacting-)[0-9a-f]{8,16}(?![0-9a-f])")


_LATER: dict[str, dict[str, Any]] = {
    "Entry": {"key": None, "said_at": None},
    "Injected": {"meta": {}},
    "Outline": {"words": {}},
    "Report": {"unproven": []},
    "Verdict": {"attempts": (), "more": ()},
}
"""Fields that the old engine does not have, with their defaults. It skips what they hold."""

_RENAMED = {"Hit": "SearchHit", "Head.sum": "Head.link", "Called": "ToolCall", "CannotFit": "PromptTooLarge"}
"""What the old engine calls by another name: types and their fields."""
_RENAMED_WORD = (" list_contexts()", " chat.contexts()")
"""… and a method that errors name."""

_GROWN = re.compile(r"(no such (shape|form): .*; there are: ).*")
"""The new engine has more of these to name."""

_NEW_FILES = {"erased"}
_OUT_OF_REACH = re.compile(
    "what the entry keeps elsewhere is not there: (a line|the first line|the segment|bytes that were durable) "
)


def plain(value: Any, root: Path) -> Any:
    """Types and the order of keys told, NaN equal to itself, places told from ``root``, names made by chance left out."""
    match value:
        case msgspec.Struct():
            kind = type(value).__name__
            later = _LATER.get(kind, {})
            fields = {
                _new_name(kind, name): plain(getattr(value, name), root)
                for name in value.__struct_fields__
                if name not in later or getattr(value, name) != later[name]
            }
            return {"type": _RENAMED.get(kind, kind), **fields}
        case dict():
            return {str(key): plain(one, root) for key, one in value.items()} | {"keys": [*map(str, value)]}
        case list() | tuple():
            return [plain(one, root) for one in value if not _is_wanted(one)]
        case Exception():
            kind = type(value).__name__
            return {"error": _RENAMED.get(kind, kind), "message": without_chance(str(value), root)}
        case Path():
            return without_chance(str(value), root)
        case str() | bytes() | None:
            return value
        case bool() | int() | float():
            return f"{type(value).__name__} {value!r}"
    return f"{type(value).__name__} {value!r}"


def _is_wanted(value: Any) -> bool:
    """A problem that one engine may tell of alone: check's "odd" for a file that only the new engine has; and that a text in a
    damaged segment is out of reach, which depends on where each engine begins to read. The damage itself is told by both."""
    kind = getattr(value, "kind", "")
    is_odd = kind == "odd" and value.path.name in _NEW_FILES
    return is_odd or (kind == "damaged" and bool(_OUT_OF_REACH.match(value.message)))


def _new_name(kind: str, field: str) -> str:
    return _RENAMED.get(f"{kind}.{field}", field).rpartition(".")[2]


def without_chance(text: str, root: Path) -> str:
    """Where the store is, and the last letters of a name that are drawn by chance, differ from engine to engine."""
    text = _GROWN.sub(r"\1…", text)
    return _CHANCE.sub(r"\1*", text.replace(str(root), "<root>").replace(*_RENAMED_WORD))


def translate(value: Any, eventlog: Any) -> Any:
    """The same event in the other engine's classes; fields that it does not have are left out."""
    match value:
        case msgspec.Struct():
            kind = getattr(eventlog, type(value).__name__)
            known = [name for name in kind.__struct_fields__ if hasattr(value, name)]
            return kind(**{name: translate(getattr(value, name), eventlog) for name in known})
        case tuple():
            return tuple(translate(one, eventlog) for one in value)
    return value


def differences(old: Any, new: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(where, old, new) of everything that is not the same, as deep down as it can be told."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key, "(not there)"), new.get(key, "(not there)"), f"{where}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{where}/{at}")
    elif old != new:
        yield where, old, new
