"""Codex CLI: rollouts, ``~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``, of every generation there was.

- A chat is a thread: ``codex-<id>``. A thread that went back (0.169) goes on in another file; it stays one chat.
- A fork shares its beginning with the chat that it was forked from, whether its file copies it or points into the other.
- A turn is a run. One that never ended is open, unless another began after it.
- A thread that another thread began names it: ``parent`` in the meta of ``chat_started``.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from chatfold.importers.codex_rollouts import Piece, Rollouts, text_field
from chatfold.importers.codex_thread import NAME, Thread
from chatfold.importers.head import Head
from chatfold.importers.items import Format, Home, Item, Session
from chatfold.importers.lines import LineReader


def _is_rollout(head: Head) -> bool:
    records = head.records
    if not records:
        return False
    first = records[0]
    payload = first.get("payload")
    if first.get("type") == "session_meta" and isinstance(payload, dict):
        return isinstance(payload.get("id"), str)
    if first.get("type") is None and {"id", "timestamp", "instructions"} <= first.keys():
        return True
    return isinstance(payload, dict) and first.get("type") in ("response_item", "event_msg", "turn_context")


def _sessions(paths: Sequence[Path]) -> Iterator[Session]:
    home = Rollouts(paths)
    names: dict[Path, dict[str, str]] = {}
    wanted = set(paths)
    for thread, rollouts in home.threads.items():
        if wanted.isdisjoint(one.path for one in rollouts):
            continue  # only another needs it
        index = next(
            (one / "session_index.jsonl" for one in rollouts[0].path.parents if one.name == "sessions"), None
        )
        index = index.parent.parent / index.name if index else None
        if index is not None and index not in names:
            names[index] = _names(index)
        pieces = home.pieces(thread)
        source = next(
            (piece.rollout.thread for piece in reversed(pieces) if piece.rollout.thread != thread), ""
        )
        title = names[index].get(thread, "") if index is not None else ""
        yield CodexSession(thread, pieces, source or rollouts[0].forked_from, title)


def _names(index: Path) -> dict[str, str]:
    """What threads are called; the newest name wins."""
    if not index.is_file():
        return {}
    lines = LineReader(index, []).read()
    return {text_field(line.record, "id"): text_field(line.record, "thread_name") for line in lines}


class CodexSession(Session):
    def __init__(self, thread: str, pieces: list[Piece], forked_from: str, title: str = "") -> None:
        self._pieces = pieces
        own = tuple(piece.rollout.path for piece in pieces if piece.rollout.thread == thread)
        super().__init__(f"{NAME}-{thread}", own, parent=f"{NAME}-{forked_from}" if forked_from else "")
        self.title = title

    def restart(self) -> None:
        self._readers = [LineReader(piece.rollout.path, self.problems, piece.limit) for piece in self._pieces]
        self._at = 0
        self._begun = -1
        self._thread_items = Thread()
        goals = (piece.rollout.base for piece in self._pieces)
        self._goals = {goal for goal in goals if goal is not None}

    def read(self) -> Iterator[Item]:
        while True:
            piece, thread = self._pieces[self._at], self._thread_items
            if self._begun < self._at:
                self._begun = self._at
                yield from thread.begin(piece.rollout)
            for line in self._readers[self._at].read():
                for goal in [
                    one for one in self._goals if one[0] == piece.rollout.id and one[1] <= line.offset
                ]:
                    self._goals.discard(goal)
                    thread.places[goal] = thread.place
                yield from thread.take(line, piece.rollout.path, self.problems)
            if self._at + 1 == len(self._pieces):
                return
            for goal in [one for one in self._goals if one[0] == piece.rollout.id]:
                thread.places[goal] = thread.place
            self._at += 1


FORMATS = (
    Format(
        NAME,
        "sessions of the Codex CLI (rollout-….jsonl, ~/.codex)",
        _is_rollout,
        _sessions,
        (Home("CODEX_HOME", ".codex", "sessions"),),
    ),
)
