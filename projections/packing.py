"""A value as bytes, and back, exactly: msgpack where that can hold it, else escaped JSON."""

from typing import Any, Generic, Literal, TypeVar

import msgspec

from chatfold.eventlog.values import escape, make_converter, unescape

_T = TypeVar("_T")
_ODD = b"\xc1"  # a byte that no msgpack value starts with


class Packed:
    """A value that packs itself. It is made of the bytes again, and looks into them when it is asked."""

    def __init__(self, data: bytes = b"") -> None:
        raise NotImplementedError

    def dump(self) -> bytes:
        raise NotImplementedError


def _dump(value: Any) -> bytes:
    if not isinstance(value, Packed):
        raise TypeError(f"a state cannot hold a {type(value).__name__}")
    return value.dump()


def _load(kind: type[Any], data: Any) -> Any:
    if issubclass(kind, Packed) and isinstance(data, bytes):
        return kind(data)
    raise ValueError(f"no {kind.__name__}")


_ENCODERS = {
    None: msgspec.msgpack.Encoder(enc_hook=_dump),
    "deterministic": msgspec.msgpack.Encoder(enc_hook=_dump, order="deterministic"),
}


def pack(value: Any, order: Literal["deterministic"] | None = None) -> bytes:
    """``order``: that of sets and dicts, if it must not depend on how they came about."""
    try:
        return _ENCODERS[order].encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError):
        # Half a surrogate pair, an integer of more than 64 bits, or keys that are no strings and must be sorted.
        plain = msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True, order=order, enc_hook=_dump)
        return _ODD + msgspec.json.encode(escape(plain, lambda *_: None))


class Unpack(Generic[_T]):
    """``Unpack(Kind)(data)``; raises ValueError for bytes that are no ``Kind``."""

    def __init__(self, kind: type[_T]) -> None:
        self._decode = msgspec.msgpack.Decoder(kind, dec_hook=_load).decode
        self._convert = make_converter(kind, builtin_types=(bytes,), str_keys=True, dec_hook=_load)

    def __call__(self, data: bytes | memoryview) -> _T:
        try:
            if data[:1] != _ODD:
                return self._decode(data)
            plain = unescape(msgspec.json.decode(data[1:]))
            return self._convert(plain)
        except RecursionError:
            raise ValueError("nested without end") from None
