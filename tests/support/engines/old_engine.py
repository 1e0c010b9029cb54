"""The engine as it was before it was called chatfold, next to the one of this tree: an oracle.

Commit 7272150 has the four packages under their old import names, so both engines live in one process. It is unpacked from
git, once a process, into a folder of its own: nothing is copied into the tree, no process waits for another, and nothing is
left from an earlier session. ``import eventlog`` would otherwise find the folder of that name at the top of the repository,
which is the new engine; so a finder of our own, asked before all others, says where the four names are.
"""

import atexit
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

COMMIT = "72721503833858c913cdb07cfcad316fbeee6bb2"
NOT_HERE = "the old engine, commit 7272150, is not in the git history of this checkout"
"""The one reason why tests are skipped without it: a shallow clone, a source distribution, no git."""

_PACKAGES = ("eventlog", "projections", "agent", "replay")
_REPOSITORY = Path(__file__).parents[3]
_MOVED = {
    "projections.to_seeds": "projections.shapes.legacy",
    "replay.judging.requests": "replay.verify.requests",
    "agent.runtime": "agent.agent",
    "agent.execution": "agent.run_context",
}
"""Where the new engine has what the old one has elsewhere."""
_RENAMED = {
    "to_ui": "ui_messages",
    "from_openai": "from_openai_messages",
    "legacy_lines": "context_entries",
    "ModelReply": "Answer",
    "ToolCall": "Asked",
    "current_run": "execution",
    "draw": "drawn",
}
"""What the old engine calls the functions of the new one."""
_METHODS = {
    "agent.chat:Chat": {
        "append_if": "decide",
        "contexts": "list_contexts",
        "cut": "prompt",
        "export_bytes": "exported",
        "merge": "receive",
        "runs": "executions",
        "tool_call": "tool_called",
    },
    "agent.store:Store": {"import_chat": "import_"},
    "agent.says:Called": {"result": "returned"},
}
"""… and the methods of its classes: they are given the new names, so that the tests say the same words to both."""


class Engine(NamedTuple):
    """One of the two. Any: the old one is not known to a type checker, and the tests say the same words to both."""

    name: str
    prefix: str  # of its import names
    eventlog: Any
    projections: Any
    agent: Any
    replay: Any

    def module(self, name: str) -> Any:
        return import_module(f"{self.prefix}{name if self.name == 'old' else _MOVED.get(name, name)}")

    def function(self, package: Any, name: str) -> Any:
        return getattr(package, _RENAMED[name] if self.name == "old" else name)

    def chat_path(self, root: Path, key: str) -> Path:
        moved = "eventlog.layout" if self.name == "old" else "eventlog.files.chat_dir"
        path: Path = self.module(moved).chat_path(root, key)
        return path

    def modules(self, package: str) -> list[ModuleType]:
        """Those of a package that are imported by now."""
        start = f"{self.prefix}{package}."
        return [module for name, module in [*sys.modules.items()] if name.startswith(start)]


@cache
def is_here() -> bool:
    return _git("cat-file", "-e", f"{COMMIT}^{{commit}}") is not None


@cache
def new_engine() -> Engine:
    return _engine("new", "chatfold.")


@cache
def old_engine() -> Engine:
    archive = _git("archive", "--format=tar", COMMIT, *_PACKAGES)
    assert archive is not None, NOT_HERE
    folder = Path(tempfile.mkdtemp(prefix="chatfold-old-engine-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    taken = [name for name in _PACKAGES if name in sys.modules]
    assert not taken, f"imported before the old engine, from elsewhere: {taken}"
    sys.meta_path.insert(0, _Finder(folder))
    engine = _engine("old", "")
    for package in engine[2:]:
        assert Path(package.__file__).is_relative_to(folder), package.__file__
    for place, names in _METHODS.items():
        module, _, name = place.partition(":")
        kind = getattr(import_module(module), name)
        for new, old in names.items():
            setattr(kind, new, getattr(kind, old))
    return engine


def _engine(name: str, prefix: str) -> Engine:
    return Engine(name, prefix, *(import_module(f"{prefix}{package}") for package in _PACKAGES))


def _git(*args: str) -> bytes | None:
    """What it prints; None if it refuses, or is not there."""
    try:
        done = subprocess.run(["git", *args], cwd=_REPOSITORY, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


class _Finder(MetaPathFinder):
    """Knows where the four packages are; their modules are then found by the packages' own paths."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(fullname, [str(self._folder)]) if fullname in _PACKAGES else None
