"""The terminal itself: taken over and given back as it was. Only lines that changed are drawn, for slow connections.

Everything that is written here is a line of ``screen``, or one of the few sequences below.
"""

import os
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

from chatfold.replay.stepper.screen import Size

# The other screen, no cursor, no wrapping; and back again.
_TAKE = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_GIVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"


def is_terminal() -> bool:
    """Can a screen be drawn, and keys be read?"""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Terminal:
    def __init__(self) -> None:
        self.fd = sys.stdin.fileno()
        self._out = sys.stdout.fileno()
        self._encoding = sys.stdout.encoding
        self._before: list[Any] = []
        self._lines: list[str] = []

    def __enter__(self) -> Self:
        sys.stdout.flush()
        self._before = termios.tcgetattr(self.fd)
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self._give()

    def _take(self) -> None:
        tty.setcbreak(self.fd, termios.TCSANOW)
        mode = termios.tcgetattr(self.fd)
        mode[3] |= (
            termios.NOFLSH
        )  # else Ctrl-Z throws away what is on its way to the screen: half a sequence stays
        termios.tcsetattr(self.fd, termios.TCSANOW, mode)
        self._write(_TAKE)
        self._lines = []

    def _give(self) -> None:
        with suppress(OSError):  # a terminal that is gone needs nothing
            self._write(_GIVE)
        with suppress(termios.error):
            termios.tcsetattr(self.fd, termios.TCSANOW, self._before)

    def suspend(self) -> None:
        """Back to the shell until it says ``fg``."""
        self._give()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()

    @property
    def size(self) -> Size:
        columns, rows = os.get_terminal_size(self._out)
        return Size(columns or 80, rows or 24)  # some say 0 for what they do not know

    def clear(self) -> None:
        self._write("\x1b[2J")
        self._lines = []

    def draw(self, lines: Sequence[str]) -> None:
        """Of a line that changed all is written anew: a terminal may measure some characters otherwise than we do."""
        before = [*self._lines, *[""] * (len(lines) - len(self._lines))]
        changed = [
            f"\x1b[{at};1H\x1b[2K{line}"
            for at, (line, old) in enumerate(zip(lines, before, strict=False), 1)
            if line != old
        ]
        if changed:
            self._write("".join(changed))
        self._lines = list(lines)

    def _write(self, text: str) -> None:
        data = text.encode(self._encoding, errors="replace")
        while data:
            data = data[os.write(self._out, data) :]
