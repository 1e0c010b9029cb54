"""The stepper in a real terminal: a process on a pty, and an emulator that knows no sequence but those the stepper may use."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from chatfold.replay.terminal import width

PATIENCE = 120.0
"""Seconds after which something that should have been shown never will: only a test that fails waits for so long."""
TOP = Path(__file__).parents[3]
PROGRAM = """
import asyncio, sys
from chatfold.replay.stepper.app import step
place, chat, point = sys.argv[1:]
sys.exit(asyncio.run(step(place, chat, point or None)))
"""
_SEQUENCE = re.compile(r"\x1b\[(\?)?([0-9;]*)([A-Za-z])")
_MODES = {"1049", "25", "7"}


class Screen:
    """What a terminal shows. Whatever the stepper has no business to send is an error."""

    def __init__(self, columns: int, rows: int) -> None:
        self.resize(columns, rows)
        self.modes: dict[str, bool] = {"1049": False, "25": True, "7": True}
        self.drawn = 0  # lines that were written
        self._rest = ""

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.is_old = True  # what comes before the screen is cleared was drawn for another size

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.cells]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def feed(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self._put(text[at])
                at += 1
            elif found := _SEQUENCE.match(text, at):
                self._obey(found)
                at = found.end()
            else:
                assert len(text) - at < 20, f"not known: {text[at : at + 40]!r}"
                self._rest = text[at:]
                return

    def _put(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.row = min(self.row + 1, self.rows - 1)
        else:
            assert char.isprintable() or char in "\u200c\u200d", f"{char!r} on the screen"
            wide = width(char)
            if self.is_old and self.column + wide > self.columns:
                return
            assert self.column + wide <= self.columns, (
                f"line {self.row} is too wide: {self.lines[self.row]!r}"
            )
            if wide:
                self.cells[self.row][self.column : self.column + wide] = [char, *[""] * (wide - 1)]
            self.column += wide

    def _obey(self, found: "re.Match[str]") -> None:
        private, numbers, final = found.groups()
        if private:
            assert numbers in _MODES, found[0]
            assert final in "hl", found[0]
            self.modes[numbers] = final == "h"
        elif final == "H":
            row, column = map(int, numbers.split(";"))
            assert 1 <= row <= self.rows or self.is_old, found[0]
            self.row, self.column = min(row, self.rows) - 1, column - 1
        elif final == "G":
            self.column = int(numbers) - 1
        elif final == "K":
            assert numbers == "2", found[0]
            self.cells[self.row] = [" "] * self.columns
            self.drawn += 1
        elif final == "J":
            assert numbers == "2", found[0]
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
            self.is_old = False
        else:
            assert final == "m", found[0]


def _adopt() -> None:
    """In the new process: the pty becomes its terminal, so that Ctrl-C and changes of size reach it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Pty:
    """``with Pty(store, "chat") as it: it.press("j"); it.until("e2 / 9")``."""

    def __init__(
        self,
        place: Path,
        chat: str,
        point: str = "",
        *,
        size: tuple[int, int] = (120, 30),
        program: str = PROGRAM,
        term: str = "xterm-256color",
    ) -> None:
        self.screen = Screen(*size)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.master, self._slave = pty.openpty()
        self._set_size(*size)
        self.before = termios.tcgetattr(self._slave)
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program, str(place), chat, point],
            cwd=TOP,
            env={**os.environ, "TERM": term, "PYTHONPATH": str(TOP), "PYTHONUTF8": "1"},
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            preexec_fn=_adopt,  # noqa: PLW1509 (nothing else runs in threads)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self._slave)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(columns, rows)
        self._set_size(columns, rows)

    def press(self, *keys: str) -> None:
        os.write(self.master, "".join(keys).encode())

    def until(self, wanted: "str | Callable[[Screen], bool]") -> str:
        """Waits until this is on the screen; gives all of it."""
        end = time.monotonic() + PATIENCE
        while not (wanted in str(self.screen) if isinstance(wanted, str) else wanted(self.screen)):
            left = end - time.monotonic()
            assert left > 0, f"{wanted!r} is not on the screen:\n{self.screen}"
            assert self._read(min(left, 0.2)) or self.process.poll() is None, f"it ended:\n{self.screen}"
        return str(self.screen)

    def _read(self, seconds: float) -> bool:
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.screen.feed(self._decoder.decode(os.read(self.master, 65536)))
        return True

    def ended(self) -> int:
        """Its exit code; the terminal must be as it was."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end:\n{self.screen}"
            self._read(0.05)
        while self._read(0):
            pass
        assert self.screen.modes == {"1049": False, "25": True, "7": True}
        assert self.state() == self.before
        return self.process.returncode

    def state(self) -> list[Any]:
        return termios.tcgetattr(self._slave)
