"""The ``chatfold`` command, run in the three ways there are: in this process, as a process, and on a real terminal."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from click.testing import CliRunner, Result

from chatfold.replay.cli import cli

TOP = Path(__file__).parents[3]
COLUMNS = 100
_PATIENCE = 300.0
_MARK = "\x1e"  # no output of ours may hold it: it is a control character
_SEVERAL = f"""
import json, sys
from chatfold.replay.cli import main
for args in json.loads(sys.argv[1]):
    code = 0
    try:
        main(args)
    except SystemExit as ended:
        code = ended.code
    sys.stdout.write("{_MARK}%s{_MARK}" % code)
    sys.stdout.flush()
"""
SGR = re.compile(r"\x1b\[[0-9;]*m")
_CLEAR = "\r\x1b[K"
_TOLD = r"\r\x1b\[K[^\x00-\x1f\x7f-\x9f]+: \d+(?: of \d+)?, \d+/s(?:, \d+ s left)?"
PROGRESS = re.compile(rf"(?:{_TOLD})+\r\x1b\[K")  # told on a slow machine, and always taken away again


def told_as_lines(text: str) -> str:
    """Every progress as a line that stays: its words are judged like any others."""
    return PROGRESS.sub(lambda progress: progress[0].replace(_CLEAR, "\n"), text)


def run(*args: object, store: Path | None = None, **environment: str) -> Result:
    """In this process, into a pipe."""
    where = {"CHATFOLD_STORE": str(store)} if store else {}
    return CliRunner().invoke(cli, [str(arg) for arg in args], env=where | environment)


def lines(result: Result, code: int = 0) -> list[dict[str, Any]]:
    """What ``--json`` printed."""
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.split("\n")[:-1]]


def environment(store: Path | None = None, **more: str) -> dict[str, str]:
    """The same wherever the tests run."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    where = {"CHATFOLD_STORE": str(store)} if store else {}
    known = {"TERM": "xterm-256color", "TZ": "UTC", "PYTHONPATH": str(TOP), "PYTHONUTF8": "1"}
    return kept | known | where | more


def command(*args: object) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "chatfold", *map(str, args)]


def process(*args: object, store: Path | None = None, **more: str) -> "subprocess.CompletedProcess[str]":
    """A process of its own, into a pipe."""
    return subprocess.run(
        command(*args),
        cwd=TOP,
        env=environment(store, **more),
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
        stdin=subprocess.DEVNULL,
    )


class Shown(NamedTuple):
    """What a terminal was sent, and how it ended."""

    text: str
    code: int

    @property
    def lasting(self) -> str:
        """Without progress, which comes if it takes long."""
        return PROGRESS.sub("", self.text)

    @property
    def plain(self) -> str:
        return SGR.sub("", self.lasting)


def on_terminal(
    *args: object,
    store: Path | None = None,
    columns: int = COLUMNS,
    keys: str = "",
    more: Mapping[str, str] = MappingProxyType({}),
) -> Shown:
    """A process of its own on a pty. ``keys`` are pressed when it has shown something."""
    return _on_pty(command(*args), environment(store, **more), columns, keys)


def several_on_terminal(
    commands: Sequence[Sequence[str]],
    *,
    store: Path,
    columns: int = COLUMNS,
    more: Mapping[str, str] = MappingProxyType({}),
) -> list[Shown]:
    """One after the other in one process: starting Python is most of what a command costs."""
    program = [sys.executable, "-W", "error", "-c", _SEVERAL, json.dumps(commands)]
    shown = _on_pty(program, environment(store, **{"CHATFOLD_PAGER": "", **more}), columns, "")
    assert shown.code == 0, shown.text
    pieces = shown.text.split(_MARK)
    return [Shown(text, int(code)) for text, code in zip(pieces[::2], pieces[1::2], strict=False)]


def _on_pty(program: list[str], env: dict[str, str], columns: int, keys: str) -> Shown:
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    started = subprocess.Popen(
        program,
        cwd=TOP,
        env=env,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 (so that Ctrl-C is one)
    )
    os.close(slave)
    pieces: list[bytes] = []
    end = time.monotonic() + _PATIENCE
    try:
        while piece := _piece(master, end):
            pieces.append(piece)
            if keys:
                os.write(master, keys.encode())
                keys = ""
        code = started.wait(_PATIENCE)
    finally:
        started.kill()
        started.wait()
        os.close(master)
    return Shown(b"".join(pieces).decode(errors="surrogateescape").replace("\r\n", "\n"), code)


def _piece(master: int, end: float) -> bytes:
    """What comes next; nothing when all who could write are gone."""
    ready, _, _ = select.select([master], [], [], max(0.0, end - time.monotonic()))
    assert ready, "it does not end"
    try:
        return os.read(master, 1 << 16)
    except OSError:  # how Linux says it
        return b""


def assert_one_line(text: str, *words: str) -> None:
    """A complaint: one line, which says what and where."""
    assert text.startswith("chatfold: "), text
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    for word in words:
        assert word in text


def contents(root: Path) -> dict[str, bytes]:
    """What is kept there; caches aside, which come and go."""
    return {
        str(path.relative_to(root)): b"" if path.is_dir() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if "cache" not in path.relative_to(root).parts
    }


def bytes_of(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything there is in a folder: mode, time of the last change, content."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            b"" if path.is_dir() else path.read_bytes(),
        )
        for path in sorted((root, *root.rglob("*")))
    }
