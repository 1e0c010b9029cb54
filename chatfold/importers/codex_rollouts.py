"""Rollouts of the Codex CLI: which file belongs to which thread, and what it goes on from.

A thread that went back (0.169), or that was forked without a copy, points into another rollout: that one is read, too, up to there.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from chatfold.importers.head import Head

_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_LAST_ID = re.compile(rf"({_ID})\.jsonl$")


class Rollout(NamedTuple):
    """``base``: the rollout that it goes on from, and the byte there, if nothing was copied."""

    path: Path
    id: str
    thread: str
    began: str
    forked_from: str
    base: tuple[str, int] | None


class Piece(NamedTuple):
    rollout: Rollout
    limit: int | None


def rollout_of(path: Path) -> Rollout:
    first = (Head(path).records or [{}])[0]
    meta = first.get("payload", first)
    meta = meta if isinstance(meta, dict) else {}
    named = _LAST_ID.search(path.name)
    thread = text_field(meta, "id") or (named[1] if named else path.stem)
    base = meta.get("history_base")
    whence = None
    if isinstance(base, dict) and isinstance(base.get("end_byte_offset"), int):
        whence = text_field(base, "thread_id"), base["end_byte_offset"]
    rollout = named[1] if named else thread
    return Rollout(
        path, rollout, thread, text_field(meta, "timestamp"), text_field(meta, "forked_from_id"), whence
    )


class Rollouts:
    """The rollouts that are read, and those beside them that they need."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._by_id: dict[str, Rollout] = {}
        self._beside: dict[Path, dict[str, Path]] = {}
        self.threads: dict[str, list[Rollout]] = {}
        for path in paths:
            self._add(rollout_of(path))
        for rollout in list(self._by_id.values()):
            self._add_bases(rollout)
        for rollouts in self.threads.values():
            rollouts.sort(key=lambda one: (one.began, one.path.name))

    def _add(self, rollout: Rollout) -> None:
        if self._by_id.setdefault(rollout.id, rollout) is rollout:
            self.threads.setdefault(rollout.thread, []).append(rollout)

    def _add_bases(self, rollout: Rollout) -> None:
        """What the rollout goes on from, and what belongs to that."""
        while rollout.base is not None and rollout.base[0] not in self._by_id:
            path = self._files_beside(rollout.path).get(rollout.base[0])
            if path is None:
                return
            rollout = rollout_of(path)
            self._add(rollout)

    def _files_beside(self, path: Path) -> dict[str, Path]:
        root = next(
            (one for one in path.parents if one.name in ("sessions", "archived_sessions")), path.parent
        )
        if root not in self._beside:
            names = (Path(folder, name) for folder, _, files in os.walk(root) for name in files)
            self._beside[root] = {found[1]: one for one in names if (found := _LAST_ID.search(one.name))}
        return self._beside[root]

    def pieces(self, thread: str, upto: tuple[str, int] | None = None, depth: int = 0) -> list[Piece]:
        """The files of a thread in their order, what it was forked from first. ``upto``: a place in one of them."""
        pieces: list[Piece] = []
        for rollout in self.threads.get(thread, ()):
            if not pieces and rollout.base and depth < 64 and (base := self._by_id.get(rollout.base[0])):
                pieces += self.pieces(base.thread, rollout.base, depth + 1) if base.thread != thread else []
            if upto is not None and rollout.id == upto[0]:
                return [*pieces, Piece(rollout, upto[1])]
            pieces.append(Piece(rollout, None))
        return pieces


def text_field(given: Any, name: str) -> str:
    value = given.get(name) if isinstance(given, dict) else None
    return value if isinstance(value, str) else ""
