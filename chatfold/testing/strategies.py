"""Events of every type in the vocabulary, filled with the content that breaks other formats.

The strategies are made from the vocabulary's annotations, so that a new event type is tested from the day it
exists. ``same`` compares what came back: exactly, types included, and NaN with NaN.
"""

import math
import typing
from typing import Any

import msgspec
from hypothesis import strategies as st

from chatfold.eventlog import Data, Entry, Event, File, Reasoning, Text, Unknown
from chatfold.eventlog.values import MAX_DIGITS

LONG_TEXTS = (
    "the same tool result again. " * 40,  # all of them 1 KiB or more: long enough to be deduplicated
    "\x7f" * 1100,
    "長い文章" * 300,
    '"\\' * 600,
    "\ud800" + "half a pair " * 100,
)
LARGE_TEXT = "larger than a line may be. " * 50_000

HOSTILE_TEXTS = (
    "",
    "\0",
    "\x7f",
    "\ud800",
    "\udfff\ud800",
    "\u2028\u2029\x85",
    "日本語、العربية, 🎈",
    "\x7fnan",
    "\x7f-inf",
    "\x7fb64:aGk=",
    "\x7fref:1:2:3",
    "\x7ftext:" + "0" * 64,
    "\x7fdata:" + "0" * 64,
    "\x7f007f",
    '{"seq":1,',
    '{"chatfold":1,"reader":1',
    '{"seal":{"count":1',
    '},"batch":"1/3","synced":9,"was":"0123456789abcdef"',
    '","prev":"0123456789abcdef","sum":"0123456789abcdef"}\n',
    "\\ud800 \\u007f \\",
)

short_texts = st.sampled_from(HOSTILE_TEXTS) | st.text(st.characters(exclude_categories=()), max_size=20)
texts = st.one_of(short_texts, short_texts, short_texts, st.sampled_from(LONG_TEXTS))
_names = st.text(st.characters(exclude_categories=()), min_size=1, max_size=12) | st.sampled_from(
    tuple(text for text in HOSTILE_TEXTS if text)
)
_huge = st.sampled_from((2**63, 2**64, -(2**63) - 1, 10**MAX_DIGITS - 1, 1 - 10**MAX_DIGITS))
integers = st.one_of(st.integers(-9, 9), st.integers(), _huge)
floats = st.floats() | st.sampled_from((math.nan, math.inf, -math.inf, -0.0, 1.0, 1e22, 5e-324))
data = st.binary(max_size=40) | st.sampled_from((b"", b"\0\xff", b"many bytes " * 200))

values = st.recursive(
    st.one_of(st.none(), st.booleans(), integers, floats, texts, data),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=6,
)
mappings = st.dictionaries(short_texts, values, max_size=3)


@st.composite
def names(draw: st.DrawFn) -> str:
    """For ids and runs."""
    return draw(_names)


UNKNOWN_TYPES = ("", "not_yet_invented", "\x7fnan", 'quote"', "日本")


@st.composite
def unknown_events(draw: st.DrawFn) -> Unknown:
    """What a newer version may have written: an object of a type, or a shape, that we do not know."""
    tag = draw(st.sampled_from(UNKNOWN_TYPES))
    fields = draw(st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=9)))
    spaced = draw(st.booleans())
    raw = msgspec.json.encode({**fields, "type": tag})
    return Unknown(tag, msgspec.json.format(raw, indent=0).replace(b"\n", b" ") if spaced else raw)


def _of(hint: Any) -> st.SearchStrategy[Any]:
    simple = {Any: values, str: texts, int: integers, bool: st.booleans(), bytes: data}
    if hint in simple:
        return simple[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(_of(args[0]), max_size=3).map(tuple)
    if origin is dict:
        return mappings if args[1] is Any else st.dictionaries(short_texts, integers, max_size=3)
    return st.one_of([_struct(part) for part in args])


def _struct(kind: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    fields = {field.name: _of(hints[field.name]) for field in msgspec.structs.fields(kind)}
    for field in msgspec.structs.fields(kind):
        if not field.required:
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            fields[field.name] = st.just(default) | fields[field.name]
    return st.builds(kind, **fields)


VOCABULARY: tuple[type[Event], ...] = tuple(kind for kind in typing.get_args(Event) if kind is not Unknown)
PARTS = (Text, Reasoning, File, Data)


def events_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    return unknown_events() if kind is Unknown else _struct(kind)


_known_events: st.SearchStrategy[Event] = st.one_of([_struct(kind) for kind in VOCABULARY])
_unknown_events = unknown_events()


@st.composite
def events(draw: st.DrawFn) -> Event:
    """A function rather than a constant, for its short repr, which hypothesis makes over and over."""
    strange = draw(st.integers(0, 19)) == 19
    return draw(_unknown_events) if strange else draw(_known_events)


_batches = st.lists(events(), min_size=1, max_size=4)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Event, ...]:
    return tuple(draw(_batches))


def same(one: Any, other: Any) -> bool:
    """Equal, of the same types all the way down; NaN is NaN, and 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, msgspec.Struct):
        return all(same(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__)
    return bool(one == other)


def same_entries(one: list[Entry], other: list[Entry], *, sums: bool) -> bool:
    """``sums``: the lines are the same bytes. Without: the same but for when what was synced."""
    return same(*([entry if sums else _without_sums(entry) for entry in some] for some in (one, other)))


def _without_sums(entry: Entry) -> Entry:
    was = None if entry.was is None else "erased"
    return msgspec.structs.replace(entry, synced=None, was=was, prev="", sum="")
