"""Sessions of databases: a file holds many, and each is read again when anything of it is new."""

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from chatfold.importers.database import opened, state_of
from chatfold.importers.head import Object, decode_object
from chatfold.importers.items import Item, Problem, Session, WholeSession

ODD = ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError
"""What a value raises that is not what its column is for."""


class DatabaseSession(WholeSession):
    def __init__(self, key: str, path: Path, version: object, *, parent: str = "") -> None:
        self.version = version
        super().__init__(key, (path,), parent=parent)

    def state(self) -> object:
        return state_of(self.paths[0])

    def items(self) -> Iterator[Item]:
        try:
            with opened(self.paths[0]) as database:
                yield from self.rows(database)
        except (sqlite3.Error, *ODD) as error:
            self.problems.append(Problem(str(self.paths[0]), 0, 0, f"{self.key}: {error}"))

    @abstractmethod
    def rows(self, database: sqlite3.Connection) -> Iterator[Item]:
        """The items of this session."""


class _Unreadable(Session):
    """Of a database that is damaged: it has no items, and says why."""

    def __init__(self, path: Path, error: str) -> None:
        self._error = error
        super().__init__(path.stem, (path,))

    def restart(self) -> None:
        self.problems[:] = [Problem(str(self.paths[0]), 0, 0, self._error)]

    def read(self) -> Iterator[Item]:
        return iter(())


Listing = Callable[[sqlite3.Connection, Path], Iterator[Session]]


def sessions_of(listing: Listing) -> Callable[[Sequence[Path]], Iterator[Session]]:
    """The sessions of every database."""

    def sessions(paths: Sequence[Path]) -> Iterator[Session]:
        for path in paths:
            found: list[Session] = []
            try:
                with opened(path) as database:
                    found += listing(database, path)
            except sqlite3.Error as error:
                found.append(_Unreadable(path, str(error)))
            yield from found

    return sessions


def object_of(text: Any) -> Object:
    """The object that a column holds as JSON; an empty one if it holds none."""
    if isinstance(text, str):
        text = text.encode("utf-8", "replace")
    return (decode_object(text) if isinstance(text, bytes) else None) or {}
