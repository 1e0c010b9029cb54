"""Claude Code: sessions, ``~/.claude/projects/<folder>/<session>.jsonl``, with those of subagents below them.

A chat is a session: ``claude-code-<session>``; one of a subagent names its ``parent`` in the meta of ``chat_started``. What
older versions put of subagents into the session's own file is a chat of its own, too, a context for each.
"""

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path

from chatfold.importers.claude_tree import NAME, Tree
from chatfold.importers.head import Head, decode_object
from chatfold.importers.items import Format, Home, Item, Session
from chatfold.importers.lines import LineReader

_SIDE = b'"isSidechain":true', b'"isSidechain": true'


def _is_session(head: Head) -> bool:
    return any(
        isinstance(record.get("sessionId"), str) and {"uuid", "parentUuid"} <= record.keys()
        for record in head.records
    )


def _sessions(paths: Sequence[Path]) -> Iterator[Session]:
    for path in paths:
        is_helper = path.parent.name == "subagents" or path.name.startswith("agent-")
        yield ClaudeSession(path, is_helper=is_helper)
        if not is_helper and _has_sidechains(path):
            yield ClaudeSession(path, only_sidechains=True)


def _has_sidechains(path: Path) -> bool:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(words) >= 0 for words in _SIDE)
    except (OSError, ValueError):
        return False


class ClaudeSession(Session):
    """``is_helper``: a file of a subagent alone. ``only_sidechains``: what a session's own file says of subagents."""

    def __init__(self, path: Path, *, is_helper: bool = False, only_sidechains: bool = False) -> None:
        self._is_helper = is_helper
        self._only_sidechains = only_sidechains
        stem = path.name.removesuffix(".jsonl")
        super().__init__(f"{NAME}-{stem}" + ("-subagents" if only_sidechains else ""), (path,))
        self.title = _description(path) if is_helper else ""
        whence = (record.get("forkedFrom") for record in Head(path).records)
        forked = next((one for one in whence if isinstance(one, dict)), {})
        if isinstance(forked.get("sessionId"), str):
            self.parent = f"{NAME}-{forked['sessionId']}"

    def restart(self) -> None:
        self._lines = LineReader(self.paths[0], self.problems)
        self._tree = Tree(is_side=self._only_sidechains, is_helper=self._is_helper)

    def read(self) -> Iterator[Item]:
        for line in self._lines.read():
            is_side = line.record.get("isSidechain") is True and not self._is_helper
            if is_side == self._only_sidechains:
                yield from self._tree.take(line, self.paths[0], self.problems)


def _description(path: Path) -> str:
    """What the subagent was started for."""
    meta = path.with_name(path.name.removesuffix(".jsonl") + ".meta.json")
    try:
        found = decode_object(meta.read_bytes()) or {}
    except OSError:
        return ""
    return str(found.get("description") or found.get("agentType") or "")


FORMATS = (
    Format(
        NAME,
        "sessions of Claude Code (~/.claude/projects)",
        _is_session,
        _sessions,
        (Home("CLAUDE_CONFIG_DIR", ".claude", "projects"),),
    ),
)
