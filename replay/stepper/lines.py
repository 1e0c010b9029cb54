"""The stepper without a screen: for pipes, scripts and terminals that can only print.

A line is one or more keys: ``j``, ``jjj``, ``pagedown``; ``: c2``, ``/text`` and ``f user`` are asked for with what follows them. After
each line the entry at the cursor is printed, or what the tab shows, if the line asked for that.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

from msgspec.structs import replace

from chatfold.replay.inspect.entries import row
from chatfold.replay.inspect.times import clock
from chatfold.replay.render.line import lay_out
from chatfold.replay.stepper.detail import details
from chatfold.replay.stepper.help import HELP
from chatfold.replay.stepper.keymap import KEYS, PLAIN, grow, press
from chatfold.replay.stepper.state import Session, State
from chatfold.replay.terminal import printable

_CELLS = 100
_TABS = frozenset("12345dtb")
_END = None


async def in_lines(session: Session, state: State) -> int:
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    # Its own descriptor: the thread may still wait when the caller has closed the other, whose number is another file's by then.
    stdin = os.dup(sys.stdin.fileno())

    def read() -> None:
        try:
            with suppress(RuntimeError):  # the loop is closed: nobody takes lines any more
                for line in _read(stdin):
                    loop.call_soon_threadsafe(lines.put_nowait, line)
                loop.call_soon_threadsafe(lines.put_nowait, _END)
        finally:
            os.close(stdin)

    print_lines(await _where(session, state))
    threading.Thread(target=read, daemon=True).start()  # a thread of its own: its wait cannot be stopped
    while state.code is None and (line := await lines.get()) is not _END:
        state = await grow(session, state)
        asks = False
        for key in keys_of(line):
            state = await press(session, state, key)
            asks = asks or (key in _TABS and not state.prompt)
        if state.code is None:
            print_lines(await _answer(session, state, asks=asks))
            state = replace(state, help=False)
    return state.code or 0


def keys_of(line: str) -> Iterator[str]:
    """``: c2`` is the key, what is typed after it, and Enter; else each word is a key, or each of its letters."""
    line = line.rstrip("\r\n")
    if line[:1] in (":", "/") or line.startswith("f "):
        yield from (line[0], "ctrl-u", *line[1:].strip(), "enter")
        return
    for word in line.split() or ([" "] if line else []):
        if word in KEYS or word in PLAIN:
            yield word
        else:
            yield from word


async def _answer(session: Session, state: State, *, asks: bool) -> list[str]:
    if state.help:
        return HELP.splitlines()[:-2]
    said = [state.message] if state.message else []
    if not asks:
        return [*said, *await _where(session, state)]
    session.lines = await details(session, state, _CELLS)
    return [*said, *(lay_out(line, _CELLS, colour=False) for line in session.lines)]


async def _where(session: Session, state: State) -> list[str]:
    entry = await session.replay.entry()
    known = await session.replay.chat.history()
    place = f"{state.cursor}/{state.end} t{known.turn_at(state.cursor)}"
    new = f" (+{state.new} new)" if state.new > 0 else ""
    if entry is None:
        return [f"{place}{new} before the first entry"]
    one = row(entry, most=_CELLS)
    return [f"{place}{new} {clock(entry.time)} {one.glyph} {one.what}  {one.text}"]


def print_lines(lines: Iterable[str]) -> None:
    text = "".join(f"{printable(line)}\n" for line in lines)
    known = sys.stdout.encoding
    sys.stdout.write(text.encode(known, errors="backslashreplace").decode(known))
    sys.stdout.flush()


def _read(fd: int) -> Iterator[str]:
    """Lines of a file, without its lock: a process that ends does not wait for who reads."""
    rest = b""
    while data := os.read(fd, 65536):
        *whole, rest = (rest + data).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")
