"""Output: the same rows for people, for pipes and for programs.

    a terminal      aligned columns, colour, a pager if it is long
    a pipe          fields separated by tabs, nothing cut, no header
    --json          a JSON object a line, each with "v":1; field names are those of the Python values

Data goes to stdout, everything else to stderr. A reader that stops (``| head``) is no error.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import IO, Any

import msgspec

from chatfold.replay.inspect.serial import json_object
from chatfold.replay.render.line import CAP, Line
from chatfold.replay.terminal import (
    Cell,
    Style,
    columns,
    join_by_tabs,
    paint,
    printable,
    printable_lines,
    wants_colour,
)

_AFTER = 0.5  # seconds before progress is told
_WIDTH = 100
_CLEAR = "\r\x1b[K"


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
        self.cells = _columns()
        self._pager = pager and self.is_terminal and not raw
        self._command: list[str] = []  # of the pager, while there shall be one
        self._paging: subprocess.Popen[str] | None = None
        self._sink: IO[str] | None = None
        self._telling = False  # a line of progress stands on stderr

    # --- what is written ---------------------------------------------------------------------------------

    def row(self, value: msgspec.Struct | Mapping[str, Any], cells: Sequence[Cell]) -> None:
        """One of a list: ``value`` for programs, ``cells`` for people and pipes."""
        if self.json:
            self.value(value)
        elif self.raw:
            self._write("\t".join(cell.text for cell in cells))
        elif self.is_terminal:
            self._write(columns(cells, self.cells, colour=self.colour))
        else:
            self._write(join_by_tabs(cells, colour=self.colour))

    def value(self, value: msgspec.Struct | Mapping[str, Any]) -> None:
        """A value for programs."""
        self._write(json_object(value))

    def show(self, lines: Iterable[Line]) -> int:
        """Lines of ``render``; how many there were."""
        count = 0
        for count, line in enumerate(lines, 1):  # noqa: B007 (it is given back)
            match line.form:
                case "row":
                    self.row(line.value, line.cells)
                case "body":
                    indent, text = line.cells
                    self.text(text.text, indent.text)
                case "words":
                    self.words(*((cell.text, cell.style) for cell in line.cells))
        return count

    @property
    def is_plain(self) -> bool:
        """Is it a pipe or a program that reads? Then texts are whole and figures exact."""
        return not self.is_terminal

    def line(self, text: str = "", style: Style = "") -> None:
        """A line of our own words, with what others said made safe."""
        self.words((text, style))

    def words(self, *words: tuple[str, Style] | str) -> None:
        """A line in several styles."""
        pairs: list[tuple[str, Style]] = [(word, "") if isinstance(word, str) else word for word in words]
        safe = str if self.raw else printable
        self._write("".join(paint(safe(text), style, colour=self.colour) for text, style in pairs))

    def text(self, text: str, indent: str = "") -> None:
        """A text, line by line; on a terminal the beginning of it, if it is very long."""
        if self.raw:
            self._write(text)
            return
        more = len(text) - CAP if self.is_terminal else 0
        for line in printable_lines(text[:CAP] if more > 0 else text):
            self._write(indent + line)
        if more > 0:
            self.line(f"{indent}… {more} characters more: in a pipe, with --json or --raw", "dim")

    def note(self, text: str) -> None:
        """To people, on stderr."""
        if not self.quiet:
            self.clear()
            print(printable(text), file=sys.stderr)  # noqa: T201

    def clear(self) -> None:
        """Takes the line of progress away."""
        if self._telling:
            self._telling = False
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def _write(self, text: str) -> None:
        self.clear()
        if self._command and self._sink is None:
            self._sink = self._open()
        sink: Any = self._sink or sys.stdout
        try:
            sink.write(text + "\n")
        except UnicodeEncodeError:  # half a character, given raw
            sink.flush()
            sink.buffer.write(text.encode("utf-8", "surrogatepass") + b"\n")

    def flush(self) -> None:
        (self._sink or sys.stdout).flush()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Raises ``BrokenPipeError`` inside, where a wait for something to write may go on, once the reader is gone."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        is_gone = asyncio.Event()

        def leave() -> None:
            is_gone.set()
            loop.remove_reader(sys.stdout)
            task.cancel()

        if not self.is_terminal:
            with suppress(OSError, ValueError):  # a file always has readers
                loop.add_reader(
                    sys.stdout, leave
                )  # the end that is written to can be read when the other is closed
        try:
            yield
        except asyncio.CancelledError:
            if not is_gone.is_set():
                raise
            raise BrokenPipeError from None
        finally:
            with suppress(OSError, ValueError):
                loop.remove_reader(sys.stdout)

    # --- a pager, and progress ---------------------------------------------------------------------------

    @contextmanager
    def paging(self) -> Iterator[None]:
        """What is written inside goes through a pager, if it is read on a terminal. It is started when there is something."""
        self._command = _pager() if self._pager else []
        leaving = suppress(BrokenPipeError) if self._command else nullcontext()  # before the end
        try:
            with leaving:
                yield
        finally:
            self._command = []
            if self._paging is not None:
                self._close(self._paging)

    def _open(self) -> IO[str]:
        self._paging = subprocess.Popen(  # noqa: S603 (the user's own)
            self._command, stdin=subprocess.PIPE, text=True, errors="backslashreplace"
        )
        assert self._paging.stdin is not None
        return self._paging.stdin

    def _close(self, paging: "subprocess.Popen[str]") -> None:
        assert paging.stdin is not None
        with suppress(BrokenPipeError):
            paging.stdin.close()
        self._sink = self._paging = None
        _wait(paging)

    def progress(self, what: str) -> Callable[[int, int | None], None]:
        """A function to call with how much is done, and of how much: told only if it takes long, and not over a pager."""
        began = time.monotonic()
        told = began
        shown = sys.stderr.isatty() and not self.quiet

        def tell(done: int, whole: int | None = None) -> None:
            nonlocal told
            now = time.monotonic()
            if done == whole:
                self.clear()
                return
            if not shown or self._sink is not None or now - began < _AFTER or now - told < 0.1:
                return
            told = now
            rate = done / (now - began)
            left = f", {(whole - done) / rate:.0f} s left" if whole and rate else ""
            of = f" of {whole}" if whole else ""
            self._telling = True
            sys.stderr.write(f"{_CLEAR}{printable(what)}: {done}{of}, {rate:.0f}/s{left}")
            sys.stderr.flush()

        return tell

    async def counting(
        self, what: str, pieces: AsyncIterable[bytes], whole: int | None = None
    ) -> AsyncGenerator[bytes]:
        """The pieces, with progress by their bytes, of ``whole`` if that is known."""
        tell, done = self.progress(what), 0
        async for piece in pieces:
            done += len(piece)
            tell(done, whole)
            yield piece
        tell(done, done)


def _wait(process: "subprocess.Popen[str]") -> None:
    while True:
        try:
            process.wait()
        except KeyboardInterrupt:  # meant for the pager
            continue
        return


def _columns() -> int:
    """Of the terminal, unless COLUMNS says otherwise."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _WIDTH
    except (OSError, ValueError):
        return _WIDTH


def _pager() -> list[str]:
    """The user's; an empty one is none. ``less`` asks for Return on a terminal that can do nothing."""
    import shlex  # noqa: PLC0415 (on a terminal only)
    import shutil  # noqa: PLC0415

    default = "" if os.environ.get("TERM", "dumb") == "dumb" else "less -FRX"
    chosen = os.environ.get("CHATFOLD_PAGER", os.environ.get("PAGER", default))
    try:
        command = shlex.split(chosen)
    except ValueError:  # a quote that is not closed
        return []
    return command if command and shutil.which(command[0]) else []
