"""Ways to break a chat's folder, each by two numbers that say where: the same numbers, the same break.

A cut, garbage or a half line at the end is torn if nothing says that it was durable, else it is damage: hence the ways without
the witness. Files are written in place, as a disk does it: a fork that shares a file is broken, too. But the last segment is
made the chat's own before: without its seal, the old engine appends into the fork's file, too, and the engines differ in
what they say of such a fork.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

GARBAGE = (b"\0" * 40, b'{"seq":9', b" \n \n", b"not a line\n", b'{"seq":1,"ts":1}\n', b"\xff\xfe{}\n \n")
"""No line of these is empty: newlines alone behind a seal are damage for the old engine, and padding for the new one."""


def _segments(folder: Path) -> list[Path]:
    paths = sorted(folder.glob("*.jsonl"))
    for path in paths[-1:]:
        if path.stat().st_nlink > 1:
            own = path.with_suffix(".own")
            shutil.copy2(path, own)
            own.replace(path)
    return paths


def _cut(folder: Path, where: int, _: int) -> None:
    for path in _segments(folder)[-1:]:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) - 1 - where % max(1, len(data))])


def _cut_without_witness(folder: Path, where: int, other: int) -> None:
    (folder / "head").unlink(missing_ok=True)
    _cut(folder, where, other)


def _add_garbage(folder: Path, where: int, _: int) -> None:
    for path in _segments(folder)[-1:]:
        path.write_bytes(path.read_bytes() + GARBAGE[where % len(GARBAGE)])


def _add_half_a_line(folder: Path, where: int, other: int) -> None:
    """As an append that did not finish leaves it. A line that was written whole, but for its end, is among these."""
    for path in _segments(folder)[-1:]:
        data = path.read_bytes()
        lines = data.splitlines(keepends=True)
        if lines:
            line = lines[other % len(lines)]
            path.write_bytes(data + line[: where % (len(line) + 1)])


def _flip(folder: Path, where: int, other: int) -> None:
    paths = _segments(folder)
    for path in paths[other % len(paths) :][:1] if paths else ():
        data = bytearray(path.read_bytes())
        if data:
            data[where % len(data)] ^= 1
        path.write_bytes(data)


def _change_lines(
    folder: Path, number: int, change: Callable[[list[bytes], int], list[bytes]], at: int
) -> None:
    paths = _segments(folder)
    if paths:
        path = paths[number % len(paths)]
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(change(lines, at % len(lines)) if lines else lines))


def _drop_line(folder: Path, where: int, other: int) -> None:
    _change_lines(folder, other, lambda lines, at: lines[:at] + lines[at + 1 :], where)


def _double_line(folder: Path, where: int, other: int) -> None:
    _change_lines(folder, other, lambda lines, at: [*lines[: at + 1], *lines[at:]], where)


def _swap_lines(folder: Path, where: int, other: int) -> None:
    _change_lines(
        folder, other, lambda lines, at: [*lines[:at], *reversed(lines[at : at + 2]), *lines[at + 2 :]], where
    )


def _drop_segment(folder: Path, where: int, _: int) -> None:
    paths = _segments(folder)
    for path in paths[where % len(paths) :][:1] if paths else ():
        path.unlink()


def _swap_segments(folder: Path, where: int, other: int) -> None:
    paths = _segments(folder)
    if len(paths) > 1:
        one, two = paths[where % len(paths)], paths[other % len(paths)]
        data = one.read_bytes()
        one.write_bytes(two.read_bytes())
        two.write_bytes(data)


def _drop_blob(folder: Path, where: int, _: int) -> None:
    paths = sorted((folder / "blobs").glob("*"))
    for path in paths[where % len(paths) :][:1] if paths else ():
        path.unlink()


def _change_blob(folder: Path, where: int, _: int) -> None:
    paths = sorted((folder / "blobs").glob("*"))
    for path in paths[where % len(paths) :][:1] if paths else ():
        path.write_bytes(b"another text")


def _drop_witness(folder: Path, _: int, __: int) -> None:
    (folder / "head").unlink(missing_ok=True)


def _spoil_witness(folder: Path, where: int, _: int) -> None:
    if (folder / "head").exists():
        data = bytearray((folder / "head").read_bytes())
        data[where % len(data)] ^= 1
        (folder / "head").write_bytes(data)


def _newer_format(folder: Path, _: int, other: int) -> None:
    """Its sum does not fit: that a header is of a newer format is told before it is checked, or it is damage."""
    _change_lines(
        folder, other, lambda lines, _: [lines[0].replace(b'"chatfold":1', b'"chatfold":9'), *lines[1:]], 0
    )


def _add_odd_file(folder: Path, _: int, __: int) -> None:
    if folder.exists():
        (folder / "notes.txt").write_text("mine")


TEARING: dict[str, Callable[[Path, int, int], None]] = {
    "cut without witness": _cut_without_witness,
    "garbage": _add_garbage,
    "half a line": _add_half_a_line,
    "no witness": _drop_witness,
    "spoilt witness": _spoil_witness,
}
DAMAGING: dict[str, Callable[[Path, int, int], None]] = {
    "cut": _cut,
    "flip": _flip,
    "line dropped": _drop_line,
    "line doubled": _double_line,
    "lines swapped": _swap_lines,
    "segment dropped": _drop_segment,
    "segments swapped": _swap_segments,
    "blob dropped": _drop_blob,
    "blob changed": _change_blob,
    "newer format": _newer_format,
    "odd file": _add_odd_file,
}
BREAKING = TEARING | DAMAGING
