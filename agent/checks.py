"""Wrong types are refused where they are given, in words."""

from typing import Any

import msgspec


def check(name: str, value: object, *kinds: Any, expected: str) -> None:
    """TypeError unless the value is of one of these kinds; ``callable`` is one, too. ``expected``: what it should be, in words."""
    if not any(callable(value) if kind is callable else isinstance(value, kind) for kind in kinds):
        raise TypeError(f"{name}: expected {expected}, got {value!r}")


def check_fields(struct: msgspec.Struct) -> None:
    """TypeError, with the name of the field, unless the values are of the types that the struct says; ValueError below 0."""
    for field in msgspec.structs.fields(struct):
        kind = int | float if field.type is float else field.type
        given, value = f"{type(struct).__name__}({field.name}=…)", getattr(struct, field.name)
        check(given, value, kind, expected=getattr(field.type, "__name__", str(field.type)))
        if value is not None and value < 0:
            raise ValueError(f"{given}: expected a number from 0 on, got {value!r}")
