"""Output: the same rows for people, for pipes and for programs.

    a terminal      aligned columns, colour, a pager if it is long
    a pipe          fields separated by tabs, nothing cut, no header
    --json          a JSON object a line, each with "v":1; field names are those of the Python values

Data goes to stdout, everything else to stderr. Whoever stops reading (``| head``) is not told about it.
"""

import json as standard_json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

import msgspec

from replay.terminal import Cell, Style, columns, printable, printable_lines, styled, tabbed, wants_colour

VERSION = 1
_AFTER = 0.5  # seconds before progress is told
_WIDTH = 100


class Out:
    """``raw``: text is given as it is, whatever it does to the terminal."""

    def __init__(
        self,
        *,
        json: bool = False,
        raw: bool = False,
        color: str = "auto",
        pager: bool = True,
        quiet: bool = False,
    ) -> None:
        self.json = json
        self.raw = raw
        self.quiet = quiet
        self.is_terminal = sys.stdout.isatty() and not json
        self.colour = wants_colour(color) and not json
        self.cells = shutil.get_terminal_size((_WIDTH, 24)).columns
        self._pager = pager and self.is_terminal and not raw
        self._sink: IO[str] | None = None

    # --- what is written ---------------------------------------------------------------------------------

    def row(self, value: msgspec.Struct | Mapping[str, Any], cells: Sequence[Cell]) -> None:
        """One of a list: ``value`` for programs, ``cells`` for people and pipes."""
        if self.json:
            self.value(value)
        elif self.is_terminal:
            self._write(columns(cells, self.cells, colour=self.colour))
        else:
            self._write(tabbed(cells))

    def value(self, value: msgspec.Struct | Mapping[str, Any]) -> None:
        """A value for programs."""
        fields = msgspec.to_builtins(value, enc_hook=str)
        self._write(as_json({"v": VERSION, **fields}))

    def line(self, text: str = "", style: Style = "") -> None:
        """A line of our own words, with what others said made safe."""
        self._write(styled(printable(text), style, colour=self.colour))

    def words(self, *words: tuple[str, Style] | str) -> None:
        """A line in several styles."""
        pairs: list[tuple[str, Style]] = [(word, "") if isinstance(word, str) else word for word in words]
        self._write("".join(styled(printable(text), style, colour=self.colour) for text, style in pairs))

    def text(self, text: str, indent: str = "") -> None:
        """What somebody said, line by line."""
        if self.raw:
            self._write(text)
            return
        for line in printable_lines(text):
            self._write(indent + line)

    def note(self, text: str) -> None:
        """To people, on stderr."""
        if not self.quiet:
            print(printable(text), file=sys.stderr)  # noqa: T201

    def _write(self, text: str) -> None:
        sink: Any = self._sink or sys.stdout
        try:
            sink.write(text + "\n")
        except UnicodeEncodeError:  # half a character, given raw
            sink.flush()
            sink.buffer.write(text.encode("utf-8", "surrogatepass") + b"\n")

    def flush(self) -> None:
        (self._sink or sys.stdout).flush()

    # --- a pager, and progress ---------------------------------------------------------------------------

    @contextmanager
    def paged(self) -> Iterator[None]:
        """What is written inside goes through a pager, if it is read on a terminal."""
        command = shlex.split(os.environ.get("CHATFOLD_PAGER") or os.environ.get("PAGER") or "less -FRX")
        if not self._pager or not command or shutil.which(command[0]) is None:
            yield
            return
        process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, errors="backslashreplace")  # noqa: S603 (the user's own)
        self._sink = process.stdin
        try:
            with suppress(BrokenPipeError):  # the pager was left before the end
                yield
        finally:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
            self._sink = None
            _waited(process)

    def progress(self, what: str) -> Callable[[int, int | None], None]:
        """A function to call with how much is done, and of how much: told only if it takes long."""
        began = time.monotonic()
        told = began
        shown = sys.stderr.isatty() and not self.quiet

        def tell(done: int, whole: int | None = None) -> None:
            nonlocal told
            now = time.monotonic()
            if not shown or now - began < _AFTER or (now - told < 0.1 and done != whole):
                return
            told = now
            rate = done / (now - began)
            left = f", {(whole - done) / rate:.0f} s left" if whole and rate and done < whole else ""
            of = f" of {whole}" if whole else ""
            end = "\r\x1b[K" if whole is not None and done >= whole else ""
            sys.stderr.write(f"\r\x1b[K{what}: {done}{of}, {rate:.0f}/s{left}{end}")
            sys.stderr.flush()

        return tell


def _waited(process: subprocess.Popen[str]) -> None:
    while True:
        try:
            process.wait()
        except KeyboardInterrupt:  # meant for the pager
            continue
        return


def as_json(value: Any) -> str:
    """On one line. Half a character, which UTF-8 cannot hold, is escaped."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return standard_json.dumps(value, separators=(",", ":"))
