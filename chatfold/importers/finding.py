"""Finding: the files of a folder that some importer can read, and which of them it is.

A folder is walked as it is, hidden folders included; links to folders are not followed, and what is no regular file is not
opened. The chats of a store are no foreign files.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from chatfold.importers.database import BESIDE
from chatfold.importers.formats import FORMATS
from chatfold.importers.head import Head
from chatfold.importers.items import Format, Problem

_SKIPPED = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", "site-packages"})
_SEGMENT = re.compile(r"\d{16}\.jsonl")


def known_homes() -> list[Path]:
    """Where the tools that are known keep their sessions, of those that are here."""
    found = []
    for home in (home for one in FORMATS for home in one.homes):
        folder = os.environ.get(home.variable)
        found.append((Path(folder) if folder else Path.home() / home.folder) / home.inside)
    return [folder for folder in found if folder.is_dir()]


class Found(NamedTuple):
    path: Path
    stat: os.stat_result


def files_of(paths: Iterable[Path]) -> Iterator[Found]:
    """Regular files, those of a folder in the order of their names."""
    for path in paths:
        if path.is_dir():
            yield from _walk(path)
        else:
            yield Found(path, path.stat())


def _walk(folder: Path) -> Iterator[Found]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(names):
            if _SEGMENT.fullmatch(name) or _is_beside_database(name, names):
                continue
            path = Path(root, name)
            try:
                info = path.stat()
            except OSError:  # it went away, or is a link to nowhere
                continue
            if stat.S_ISREG(info.st_mode) and info.st_size:
                yield Found(path, info)


def _is_beside_database(name: str, names: Sequence[str]) -> bool:
    return any(name.endswith(ending) and name.removesuffix(ending) in names for ending in BESIDE)


def format_of(path: Path, problems: list[Problem]) -> Format | None:
    """The format of the file; None if nobody here knows it."""
    try:
        head = Head(path)
        return next((one for one in FORMATS if one.recognises(head)), None)
    except OSError as error:
        problems.append(Problem(str(path), 0, 0, error.strerror or str(error)))
        return None
