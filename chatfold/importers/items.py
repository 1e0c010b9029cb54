"""What a reader of a foreign format makes: items, one after the other, that become the entries of a chat.

An item is an event with what the log says about it. Events that name entries (``Compacted.first``, ``Rewound.to``,
``ContextOpened.carry``) name items by their place: the first item of a chat is 1. ``writing`` puts seqs there.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from chatfold.eventlog import ChatfoldError, Event
from chatfold.importers.head import Head


class Item(msgspec.Struct, frozen=True, gc=False):
    """``key``: the id that the tool gave it, or its place in the file; no two items of a chat have the same."""

    event: Event
    key: str
    said_at: int | None = None  # epoch milliseconds
    run: str | None = None


class Keys:
    """Gives out keys, none of them twice."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}  # key -> the number that one like it had last

    def unique(self, name: str) -> str:
        key = name
        while key in self._given:
            self._given[name] += 1
            key = f"{name}.{self._given[name]}"
        self._given[key] = 1
        return key


class Maker:
    """Makes the items of a chat, one after the other. ``place``: of the last one."""

    def __init__(self) -> None:
        self.place = 0
        self._keys = Keys()

    def item(self, event: Event, name: str, said_at: int | None = None, run: str | None = None) -> Item:
        self.place += 1
        return Item(event, self._keys.unique(name), said_at, run)


def counts_of(names: Mapping[str, str], given: Any) -> dict[str, int]:
    """Numbers of tokens under our names, those that are numbers and not 0."""
    values = given if isinstance(given, dict) else {}
    found = {ours: values.get(theirs) for theirs, ours in names.items()}
    return {name: n for name, n in found.items() if type(n) is int and 0 < n < 1 << 53}


class Problem(msgspec.Struct, frozen=True):
    """Something that could not be read. ``line`` counts from 1, 0 if the file has none; ``byte`` from 0."""

    path: str
    line: int
    byte: int
    what: str

    def __str__(self) -> str:
        where = f", line {self.line}" if self.line else ""
        return f"{self.path}{where}, byte {self.byte}: {self.what}"


class Session(ABC):
    """One conversation of a tool.

    ``parent``: the key of the chat that it began as a copy of. ``paths``: all files that it is read from. ``title``: what it is
    called now, if its records do not say that.
    """

    title = ""
    version: object = None  # in a file of many sessions: another one when there is something new of this one
    source = ""  # where it comes from, if that is not its first file

    def __init__(self, key: str, paths: tuple[Path, ...], *, parent: str = "") -> None:
        self.key = key
        self.paths = paths
        self.parent = parent
        self.problems: list[Problem] = []
        self.restart()

    @abstractmethod
    def restart(self) -> None:
        """As if nothing had been read yet."""

    @abstractmethod
    def read(self) -> Iterator[Item]:
        """The items that are new since the last time; all of them the first time. Raises ``Rewritten``."""


class WholeSession(Session):
    """One whose source tools replace, or write into: it is read again from the start when it has changed."""

    def restart(self) -> None:
        self._seen: object = None

    def read(self) -> Iterator[Item]:
        state = self.state()
        if self._seen not in (None, state):
            raise Rewritten(str(self.paths[0]))
        if self._seen is None:
            self._seen = state
            yield from self.items()

    @abstractmethod
    def state(self) -> object:
        """Another one when there is something new."""

    @abstractmethod
    def items(self) -> Iterator[Item]:
        """All of them."""


class Rewritten(Exception):
    """The file is no longer the one that was read: the session has to ``restart``."""


class UnknownFormat(ChatfoldError, ValueError):
    """Nobody here can read this file, or nothing in this folder."""


class Home(msgspec.Struct, frozen=True):
    """Where a tool keeps its files: ``inside`` the folder that a variable names, if there is one, else a folder of the user's home."""

    variable: str
    folder: str
    inside: str


class Format(msgspec.Struct, frozen=True):
    """``recognises`` looks at the content. ``sessions`` are those of all files of this format that were found.

    ``holds_many``: a file holds many sessions, as a database does. Whenever it changes, it is asked for their ``version`` again.
    """

    name: str
    title: str
    recognises: Callable[[Head], bool]
    sessions: Callable[[Sequence[Path]], Iterable[Session]]
    homes: tuple[Home, ...] = ()
    holds_many: bool = False
