"""What a crash, an editor, a copy or a backup does to a chat's lines and files: each kind at every place.

``line_faults`` and ``file_faults`` give a name and what the files hold then; None is a file that is missing.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.damage.intact import Intact

Fault = tuple[str, dict[Path, bytes | None]]
Lines = list[bytes]
_NEIGHBOURS: dict[str, Callable[[bytes, bytes], Lines]] = {
    "swapped": lambda line, after: [after, line],
    "dropped": lambda line, after: [after],
    "duplicated": lambda line, after: [line, line, after],
    "spliced onto its half": lambda line, after: [line[: len(line) // 2] + after],
    "spliced onto its beginning": lambda line, after: [line[:9] + after],
    "followed on the same line": lambda line, after: [line[:-1] + after],
    "NUL-filled": lambda line, after: [bytes(len(line) - 1) + b"\n", after],
    "NUL-filled to the newline": lambda line, after: [bytes(len(line)), after],
    "half NUL-filled": lambda line, after: [
        line[: len(line) // 2].ljust(len(line) - 1, b"\0") + b"\n",
        after,
    ],
    "with a carriage return": lambda line, after: [line[:-1] + b"\r\n", after],
    "after a byte order mark": lambda line, after: [b"\xef\xbb\xbf" + line, after],
    "after an empty line": lambda line, after: [b"\n", line, after],
    "with a space at its end": lambda line, after: [line[:-1] + b" \n", after],
    "cut short": lambda line, after: [line[:-20] + b"\n", after],
    "overwritten by the next": lambda line, after: [after, after],
}


def line_faults(intact: Intact, other: Intact) -> Iterator[Fault]:
    """``other``: a chat of the same shape that says something else."""
    for path, foreign in zip(intact.segments, other.segments, strict=True):
        lines = intact.files[path].splitlines(keepends=True)
        theirs = other.files[foreign].splitlines(keepends=True)
        for index, line in enumerate(lines):
            for name, changed in _NEIGHBOURS.items():
                after = lines[index + 1] if index + 1 < len(lines) else b""
                yield (
                    f"{path.name}: line {index} {name}",
                    {path: _with(lines, index, 2, changed(line, after))},
                )
            if index < len(theirs):
                # The very first entry has nothing before it: read alone, it has only its own word.
                if (path, index) != (intact.segments[0], 1):
                    yield (
                        f"{path.name}: line {index} of another chat",
                        {path: _with(lines, index, 1, [theirs[index]])},
                    )
                yield (
                    f"{path.name}: another chat from line {index} on",
                    {path: b"".join(lines[:index] + theirs[index:])},
                )
        yield f"{path.name}: with carriage returns", {path: intact.files[path].replace(b"\n", b"\r\n")}
        yield f"{path.name}: UTF-16", {path: intact.files[path].decode().encode("utf-16")}


def _with(lines: Lines, index: int, count: int, new: Lines) -> bytes:
    return b"".join([*lines[:index], *new, *lines[index + count :]])


def block_faults(intact: Intact) -> Iterator[Fault]:
    """A block of a disk that reads as zeros, or as another block."""
    for path in intact.segments:
        content = intact.files[path]
        for size in (512, 4096):
            for start in range(0, len(content), size):
                lost = content[start : start + size]
                yield f"{path.name}: zeros from {start}", {path: _over(content, start, bytes(len(lost)))}
                yield (
                    f"{path.name}: its beginning from {start}",
                    {path: _over(content, start, content[: len(lost)])},
                )


def _over(content: bytes, start: int, new: bytes) -> bytes:
    return content[:start] + new + content[start + len(new) :]


def file_faults(intact: Intact, other: Intact) -> Iterator[Fault]:
    """Segments and witnesses that are missing, emptied, older, from elsewhere or in each other's place; files of others."""
    segments, head = intact.segments, intact.head_file
    for path, foreign in zip(segments, other.segments, strict=True):
        content = intact.files[path]
        first_lines = content.splitlines(keepends=True)
        yield f"{path.name} missing", {path: None}
        yield f"{path.name} emptied", {path: b""}
        yield f"{path.name} with its header only", {path: first_lines[0]}
        yield f"{path.name} without its header", {path: b"".join(first_lines[1:])}
        yield f"{path.name} without its last line", {path: b"".join(first_lines[:-1])}
        yield f"{path.name} of another chat", {path: other.files[foreign]}
        for count in range(1, len(first_lines)):
            yield f"{path.name} of a backup with {count} lines", {path: b"".join(first_lines[:count])}
        for twin in segments:
            if twin > path:
                yield f"{path.name} exchanged with {twin.name}", {path: intact.files[twin], twin: content}
                yield f"{path.name} and {twin.name} missing", {path: None, twin: None}
    yield "head of another chat", {head: other.files[other.head_file]}
    for name, content in _OTHERS.items():
        yield f"a file {name}", {intact.folder / name: content}
    for first in (2, 4, len(intact.entries) + 1, len(intact.entries) + 9):
        for foreign in other.segments:
            extra = intact.folder / f"{first:016d}.jsonl"
            if extra not in intact.files:
                yield f"{foreign.name} of another chat as {extra.name}", {extra: other.files[foreign]}


_OTHERS = {
    ".DS_Store": b"\0\0\0\1Bud1",
    "0000000000000001.jsonl~": b"not a line\n",
    ".0000000000000001.jsonl.swp": b"b0VIM 9.0",
    "0000000000000001 (conflicted copy).jsonl": b"{}\n",
    "1.jsonl": b"not a line\n",
    "0000000000000000.jsonl": b"not a line\n",
    ".0000000000000001.jsonl.Xy12ab": b"half of an rsync",
    "notes.txt": b"mine\n",
}
