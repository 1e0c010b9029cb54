"""serial: values as JSON, for the command's ``--json`` and for the page: one way to write them.

    json_object(value)      {"v":1, …}: a value with the fields that it has in Python
    json_text(value)        any value, on one line

What JSON cannot hold, or not as others write it, is given as near as can be: half a character is escaped, and what is no number
is null. What could steer a terminal is escaped, too: to programs it is the same.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

VERSION = 1
_ODD = re.compile(r"[^ -~]+")  # in JSON on one line they stand in strings only


def json_object(value: msgspec.Struct | Mapping[str, Any]) -> str:
    return json_text({"v": VERSION, **msgspec.to_builtins(value, enc_hook=str)})


def json_text(value: Any) -> str:
    try:
        written = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        import json  # noqa: PLC0415 (seldom needed)

        return json.dumps(_finite(msgspec.to_builtins(value)), separators=(",", ":"))
    return _ODD.sub(lambda found: found[0] if found[0].isprintable() else _escape(found[0]), written)


def json_lines(value: Any) -> str:
    """The same on many lines, for people."""
    written = json_text(value)
    try:
        return msgspec.json.format(written, indent=2)
    except msgspec.DecodeError:  # it knows no half characters, not even escaped
        import json  # noqa: PLC0415

        return json.dumps(json.loads(written), indent=2)


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value


def _escape(text: str) -> str:
    import json  # noqa: PLC0415

    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
