"""Ways in which a log gets broken, and a log to break.

``healthy`` is a chat of 30 entries in several segments, each segment but the last sealed; everything synced.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from chatfold.eventlog import FileStorage, Log
from tests.support.judges.talk import short

ENTRIES = 30
SEGMENT_BYTES = 1_500


def make_healthy(root: Path, chat: str = "chat") -> Path:
    """The chat's folder."""

    async def write() -> None:
        async with Log(FileStorage(root, segment_bytes=SEGMENT_BYTES)) as log:
            for number in range(ENTRIES):
                await log.append(chat, *short(f"{chat}{number}"), id=f"{chat}{number}")

    asyncio.run(write())
    return root / "chats" / chat


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def lines_of(folder: Path) -> dict[int, bytes]:
    """Every entry's line, by seq."""
    lines = [line for path in segments(folder) for line in path.read_bytes().splitlines()]
    return dict(enumerate((line for line in lines if line.startswith(b'{"seq":')), 1))


def gone_from(folder: Path, lines: dict[int, bytes]) -> list[int]:
    """Seqs of the lines that stand nowhere in the folder any more, whole."""
    left = b"".join(path.read_bytes() for path in segments(folder))
    return [seq for seq, line in lines.items() if line not in left]


def rewrite(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Changes a segment's lines, newlines included."""
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def _flip(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[2].replace(b'"index":0', b'"index":1'), *lines[3:]]


def wrong_checksum(folder: Path) -> None:
    rewrite(segments(folder)[1], _flip)


def wrong_checksum_of_the_last_line(folder: Path) -> None:
    rewrite(segments(folder)[-1], lambda ls: [*ls[:-1], ls[-1].replace(b'"index":0', b'"index":1')])


def missing_first_segment(folder: Path) -> None:
    segments(folder)[0].unlink()


def missing_middle_segment(folder: Path) -> None:
    segments(folder)[2].unlink()


def missing_last_segment(folder: Path) -> None:
    segments(folder)[-1].unlink()


def swapped_segments(folder: Path) -> None:
    one, two = segments(folder)[1:3]
    aside = folder / "swap"
    one.rename(aside)
    two.rename(one)
    aside.rename(two)


def one_segment_in_the_place_of_another(folder: Path) -> None:
    one, two = segments(folder)[1:3]
    two.write_bytes(one.read_bytes())


def duplicated_line(folder: Path) -> None:
    rewrite(segments(folder)[1], lambda ls: [*ls[:3], ls[2], *ls[3:]])


def deleted_line(folder: Path) -> None:
    rewrite(segments(folder)[1], lambda ls: [*ls[:2], *ls[3:]])


def swapped_lines(folder: Path) -> None:
    rewrite(segments(folder)[1], lambda ls: [*ls[:2], ls[3], ls[2], *ls[4:]])


def line_of_another_chat(folder: Path) -> None:
    other = make_healthy(folder.parents[1] / "elsewhere", "alien")
    foreign = segments(other)[1].read_bytes().splitlines(keepends=True)[2]
    rewrite(segments(folder)[1], lambda ls: [*ls[:2], foreign, *ls[3:]])


def cut_in_a_sealed_segment(folder: Path) -> None:
    path = segments(folder)[1]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied_segment(folder: Path) -> None:
    segments(folder)[1].write_bytes(b"")


def header_gone(folder: Path) -> None:
    rewrite(segments(folder)[1], lambda ls: ls[1:])


def nul_bytes_in_the_middle(folder: Path) -> None:
    rewrite(segments(folder)[1], lambda ls: [*ls[:2], bytes(len(ls[2]) - 1) + b"\n", *ls[3:]])


def spliced_line(folder: Path) -> None:
    """A line cut short, with the next one glued onto it."""
    rewrite(segments(folder)[1], lambda ls: [*ls[:2], ls[2][:60] + ls[3], *ls[4:]])


def two_lines_on_one(folder: Path) -> None:
    rewrite(segments(folder)[1], lambda ls: [*ls[:2], ls[2][:-1] + ls[3], *ls[4:]])


def windows_line_endings(folder: Path) -> None:
    rewrite(segments(folder)[1], lambda ls: [line.replace(b"\n", b"\r\n") for line in ls])


def byte_order_mark(folder: Path) -> None:
    rewrite(segments(folder)[1], lambda ls: [b"\xef\xbb\xbf" + ls[0], *ls[1:]])


DAMAGES: dict[str, Callable[[Path], None]] = {
    "wrong checksum": wrong_checksum,
    "wrong checksum of the last line": wrong_checksum_of_the_last_line,
    "missing first segment": missing_first_segment,
    "missing middle segment": missing_middle_segment,
    "missing last segment": missing_last_segment,
    "swapped segments": swapped_segments,
    "one segment in the place of another": one_segment_in_the_place_of_another,
    "duplicated line": duplicated_line,
    "deleted line": deleted_line,
    "swapped lines": swapped_lines,
    "line of another chat": line_of_another_chat,
    "cut in a sealed segment": cut_in_a_sealed_segment,
    "emptied segment": emptied_segment,
    "header gone": header_gone,
    "NUL bytes in the middle": nul_bytes_in_the_middle,
    "spliced line": spliced_line,
    "two lines on one": two_lines_on_one,
    "windows line endings": windows_line_endings,
    "byte order mark": byte_order_mark,
}
