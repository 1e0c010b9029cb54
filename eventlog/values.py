"""What an event may hold, and how the odd values among it are written in JSON without loss.

msgspec neither checks a struct when it is made nor minds what it encodes: NaN becomes ``null``, bytes become a
string, a wrong type makes a line that cannot be read back. So ``check`` looks at every field first: exact JSON
types, nesting of at most ``MAX_DEPTH``, nothing else. What JSON has no form for is written as a string with
the escape character DEL (U+007F), which a plain string never contains, since DEL itself is escaped:

    DEL hhhh            anywhere in a string: one code unit, a lone surrogate or DEL itself
    DEL nan | inf | -inf         the whole string: that float
    DEL b64:…                    the whole string: bytes
    DEL text:<sha256> | data:<sha256>    the whole string: a text, or bytes, kept in ``blobs/``
    DEL ref:<seq>:<at>:<size>            the whole string: the JSON string at those bytes of line <seq>
"""

import base64
import math
import re
import typing
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeVar

import msgspec

from chatfold.eventlog.errors import InvalidEvent
from chatfold.eventlog.events import (
    Event,
    MessageAdded,
    Origin,
    Part,
    Role,
    Struct,
    Text,
    ToolCalled,
    ToolReturned,
    Unknown,
)

DEL = "\x7f"
MAX_DEPTH = 128
MAX_DIGITS = 4000  # of an integer; Python converts 4300, sign and all
LONG = 512
"""Strings of at least this many bytes are worth a fingerprint."""
SHORT = LONG // 3
"""A UTF-8 character has at most three bytes a code unit, so a string of fewer than this many cannot be long."""

_HUGE = 10**MAX_DIGITS
_ODD = re.compile("[\x7f\ud800-\udfff]")
_UNIT = re.compile("\x7f([0-9a-f]{4})")
_FLOATS = {f"{DEL}nan": math.nan, f"{DEL}inf": math.inf, f"{DEL}-inf": -math.inf}
_BYTES = f"{DEL}b64:"

_T = TypeVar("_T")

Check: TypeAlias = Callable[[Any, list[str]], bool]
"""(value, long strings found so far) -> must it be escaped? Raises ``Wrong`` for what cannot be stored."""


Offload: TypeAlias = Callable[[str, str | bytes], str | None]
"""("text" or "data", content) -> the escaped string that stands for it, or None to leave it in the line."""


class InvalidValue(Exception):
    def __init__(self, message: str) -> None:
        self.message = message
        self.path = ""


def validate_event(event: Event, long: list[str]) -> bool:
    """True if ``escape`` is needed. Collects the event's long strings into ``long``."""
    if type(event) not in _EVENTS:
        raise InvalidEvent(f"{type(event).__name__} is not an event of the vocabulary")
    try:
        return _struct(event, long)
    except InvalidValue as wrong:
        raise InvalidEvent(f"{type(event).__name__}{wrong.path}: {wrong.message}") from None


def escape(value: Any, elsewhere: Offload) -> Any:
    """The same value with everything JSON cannot hold, or ``elsewhere`` takes, written as escaped strings."""
    match value:
        case str():
            plain = escape_text(value)
            return elsewhere("text", plain) or plain
        case dict():
            return {escape_text(key): escape(item, elsewhere) for key, item in value.items()}
        case list() | tuple():
            return [escape(item, elsewhere) for item in value]
        case float() if not math.isfinite(value):
            return f"{DEL}nan" if math.isnan(value) else f"{DEL}{value}"
        case bytes():
            return elsewhere("data", value) or _BYTES + base64.b64encode(value).decode()
    return value


def escape_text(text: str) -> str:
    return _ODD.sub(lambda m: f"{DEL}{ord(m[0]):04x}", text)


def unescape(value: Any) -> Any:
    match value:
        case str() if DEL in value:
            if value.startswith(_BYTES):
                return base64.b64decode(value[len(_BYTES) :])
            return _FLOATS.get(value) or _UNIT.sub(lambda m: chr(int(m[1], 16)), value)
        case dict():
            return {unescape(key): unescape(item) for key, item in value.items()}
        case list():
            return [unescape(item) for item in value]
    return value


def collect_long_strings(value: Any) -> list[str]:
    """The long strings of an escaped, builtin event."""
    found: list[str] = []
    try:
        check_json(value, found, MAX_DEPTH + 8)  # the event's own fields come on top of what a value may have
    except InvalidValue as wrong:
        raise InvalidEvent(wrong.message) from None
    return found


def make_converter(kind: type[_T], **options: Any) -> Callable[[Any], _T]:
    """``msgspec.convert`` to ``kind``. Call this while a module is imported or a type is declared, in one thread.

    msgspec builds what it knows of a struct when it first converts to it. Threads that see this half built crash
    inside msgspec, so it is built here. A test looks for other calls of ``convert``.
    """
    with suppress(msgspec.ValidationError):
        msgspec.convert(None, kind, **options)
    return partial(msgspec.convert, type=kind, **options)


# --- the checks, made once from the vocabulary's annotations ---------------------------------------------


def check_string(value: Any, long: list[str]) -> bool:
    if type(value) is not str:
        raise _invalid("str", value)
    if len(value) >= SHORT and (len(value) >= LONG or len(value.encode("utf-8", "surrogatepass")) >= LONG):
        long.append(value)
    return False


def _exactly(kind: type) -> Check:
    def exact(value: Any, _long: list[str]) -> bool:
        if type(value) is not kind:
            raise _invalid(kind.__name__, value)
        return False

    return exact


def _one_of(names: tuple[str, ...]) -> Check:
    allowed = frozenset(names)

    def one_of(value: Any, _long: list[str]) -> bool:
        if type(value) is not str or value not in allowed:
            raise _invalid(" or ".join(map(repr, names)), value)
        return False

    return one_of


def _tuple_of(item: Check) -> Check:
    def tuple_of(value: Any, long: list[str]) -> bool:
        if type(value) is not tuple:
            raise _invalid("tuple", value)
        odd = False
        for index, element in enumerate(value):
            try:
                odd |= item(element, long)
            except InvalidValue as wrong:
                wrong.path = f"[{index}]{wrong.path}"
                raise
        return odd

    return tuple_of


def _part(value: Any, long: list[str]) -> bool:
    if type(value) is Text and type(value.text) is str:  # what nearly all parts are
        return check_string(value.text, long)
    if type(value) not in _PARTS:
        raise _invalid("a part", value)
    return _struct(value, long)


def _struct(value: Any, long: list[str]) -> bool:
    get, fields = _CHECKS[type(value)]
    odd = False
    for (name, check_field, default), field in zip(fields, get(value), strict=True):
        try:
            if field is not default and check_field(field, long):
                odd = True
        except InvalidValue as wrong:
            wrong.path = f".{name}{wrong.path}"
            raise
    return odd


def _mapping(value: Any, long: list[str]) -> bool:
    if type(value) is not dict:
        raise _invalid("dict", value)
    return bool(value) and check_json(value, long)


def _counts(value: Any, _long: list[str]) -> bool:
    if type(value) is not dict or not all(type(k) is str and type(v) is int for k, v in value.items()):
        raise _invalid("dict of str to int", value)
    for item in value.values():
        _integer(item, _long)
    return False


def _integer(value: Any, _long: list[str]) -> bool:
    if type(value) is not int:
        raise _invalid("int", value)
    if not -_HUGE < value < _HUGE:
        raise InvalidValue(f"an integer of more than {MAX_DIGITS} digits")
    return False


def check_json(value: Any, long: list[str], depth: int = MAX_DEPTH) -> bool:
    kind = type(value)
    if kind is str:
        return check_string(value, long)
    if kind is bool or value is None:
        return False
    if kind is int:
        return _integer(value, long)
    if kind is float:
        return not math.isfinite(value)
    if kind is bytes:
        return True
    if depth == 0:
        raise InvalidValue(f"nested more than {MAX_DEPTH} deep")
    if kind is list:
        items = value
    elif kind is dict:
        items = value.values()
        for key in value:
            if type(key) is not str:
                raise _invalid("str as a key", key)
    else:
        raise _invalid("a JSON-like value (None, bool, int, float, str, bytes, list, dict)", value)
    odd = False
    for item in items:
        if type(item) is not str:
            odd |= check_json(item, long, depth - 1)
        elif len(item) >= SHORT:
            check_string(item, long)
    return odd


def _invalid(expected: str, value: Any) -> InvalidValue:
    return InvalidValue(f"expected {expected}, got {type(value).__name__}")


def _checker(hint: Any) -> Check:
    if hint is Any:
        return check_json
    if hint is str:
        return check_string
    if hint is int:
        return _integer
    if hint is bool or hint is bytes:
        return _exactly(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return _one_of(args)
    if origin is tuple:
        return _tuple_of(_checker(args[0]))
    if origin is dict:
        return _counts if args[1] is int else _mapping
    if origin in (typing.Union, UnionType) and NoneType not in args:
        return _part
    raise TypeError(f"the vocabulary has no check for {hint}")


_Fields: TypeAlias = tuple[Callable[[Any], tuple[Any, ...]], tuple[tuple[str, Check, Any], ...]]


def _fields(kind: type[Struct]) -> _Fields:
    """(all fields of a value, the name, the check and the default of each)"""
    hints = typing.get_type_hints(kind)
    names = list(hints)
    get = attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)
    defaults = [_NO_DEFAULT] * (len(names) - len(kind.__struct_defaults__)) + list(kind.__struct_defaults__)
    return get, tuple((name, _checker(hints[name]), d) for name, d in zip(names, defaults, strict=True))


class _Checks(dict[type[Struct], _Fields]):
    """Made when the first of its kind is written: who only reads does not wait for it."""

    def __missing__(self, kind: type[Struct]) -> _Fields:
        self[kind] = made = _fields(kind)
        return made


_CHECKS = _Checks()
_NO_DEFAULT = object()
_PARTS = frozenset(typing.get_args(Part))
_EVENTS = frozenset(typing.get_args(Event)) - {Unknown}


def to_builtins(event: Event) -> dict[str, Any]:
    """The event as dicts and lists, bytes left as bytes."""
    built: dict[str, Any] = msgspec.to_builtins(event, builtin_types=(bytes,))
    return built


# --- the events that nearly all events are ----------------------------------------------------------------

# ``validate_event`` looks at every field by the vocabulary's annotations, and that is a third of what making a line costs.
# Here is the same for three types, written out. What is unusual in any way is left to ``validate_event``.

_ROLES = frozenset(typing.get_args(Role))
_ORIGINS = frozenset(typing.get_args(Origin))


def check_common(event: Any, long: list[str]) -> bool:
    """Would ``check`` say that nothing need be escaped? Collects long strings as it does. False means: ask it."""
    kind = type(event)
    if kind is MessageAdded:
        role, origin = event.role, event.origin
        if type(role) is not str or role not in _ROLES or type(origin) is not str or origin not in _ORIGINS:
            return False
    elif kind is ToolReturned:
        if type(event.call) is not str or len(event.call) >= SHORT or type(event.failed) is not bool:
            return False
    else:
        return kind is ToolCalled and _is_plain_call(event, long)
    if type(event.meta) is not dict or event.meta or type(event.parts) is not tuple:
        return False
    for part in event.parts:
        if type(part) is not Text or type(part.text) is not str:
            return False
        if len(part.text) >= SHORT:
            check_string(part.text, long)
    return True


def _is_plain_call(event: ToolCalled, long: list[str]) -> bool:
    call, name = event.call, event.name
    if type(call) is not str or type(name) is not str or len(call) >= SHORT or len(name) >= SHORT:
        return False
    try:
        return type(event.meta) is dict and not event.meta and not check_json(event.args, long)
    except InvalidValue:
        return False
