"""check, repair, salvage: what is wrong with a chat, making it whole again, getting everything out of it.

``check`` changes nothing. ``repair`` keeps a copy of every file before it changes it, puts a ``lost`` entry in
the place of each that no longer verifies, and says which those were; everything that verifies stays, with its
seq and its sum. ``salvage`` touches nothing of the chat and copies out whatever verifies, in whatever state.
"""

import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import msgspec

from chatfold.eventlog.codec import parse_references
from chatfold.eventlog.erasure import lost_line, tombstone
from chatfold.eventlog.errors import ChatDeleted, ChatfoldError, CorruptLog, NewerFormat
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.blobs import BLOBS, blob_names
from chatfold.eventlog.files.chat_dir import ALONE_FILE, ASIDE, LOCK_FILE, set_aside
from chatfold.eventlog.files.disk import Disk, read_at, read_file, replace_file
from chatfold.eventlog.files.lock import holding_lock
from chatfold.eventlog.files.offsets import CACHE
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.scan import open_folder
from chatfold.eventlog.files.seal import build_sealed_segment
from chatfold.eventlog.files.segment import Tail, parse_segment_name, segment_name
from chatfold.eventlog.files.survey import SegmentSurvey, pick_line, survey_segment
from chatfold.eventlog.files.watermark import HEAD_FILE, read_watermark
from chatfold.eventlog.files.writer import POISON_FILE
from chatfold.eventlog.keys import KEY_FILE
from chatfold.eventlog.line import (
    ENTRY_PREFIX,
    header_line,
    link_after,
    parse_fields,
    parse_header,
    parse_prev,
    parse_seq,
)

_OURS = {BLOBS, CACHE, ASIDE, ALONE_FILE, LOCK_FILE, HEAD_FILE, KEY_FILE, POISON_FILE}

_DAMAGED = "damaged-"
_MOST_LOST = 1_000_000  # so many seqs in one hole no disk loses: a line that names one far away was made up


class Problem(msgspec.Struct, frozen=True):
    """``damaged``: something durable is wrong. ``torn``: the next writer mends it. ``odd``: worth a look."""

    kind: str
    message: str
    path: Path
    offset: int | None = None
    seq: int | None = None


class Report(msgspec.Struct):
    path: Path
    entries: int = 0
    segments: int = 0
    problems: list[Problem] = []
    lost: list[int] = []  # by ``repair``: seqs that now hold a ``lost`` entry
    kept: list[Path] = []  # by ``repair``: copies of the files as they were

    @property
    def ok(self) -> bool:
        return not any(problem.kind == "damaged" for problem in self.problems)


def check(path: Path | str, *, full: bool = True, disk: Disk | None = None) -> Report:
    """``full``: every line, seal and blob. Otherwise only names, headers, and the end of the log."""
    folder = open_folder(path, disk)
    before = folder.chat_identity()
    with folder.translating_deletion():
        report = _report(folder, full=full)
    if not report.ok and folder.chat_identity() != before:
        raise ChatDeleted("the chat was deleted", chat=folder.chat, path=folder.path)
    return report


def _report(folder: LogReader, *, full: bool) -> Report:
    firsts = folder.segments()
    report = Report(folder.path, segments=len(firsts))
    _check_names(folder, report)
    tail: Tail | None = None
    end = 0
    try:
        tail = folder.tail()
    except CorruptLog as error:
        report.problems.append(
            Problem("damaged", error.args[0], error.path or folder.path, error.offset, error.seq)
        )
    except OSError as error:
        report.problems.append(Problem("damaged", str(error), folder.segment_path(firsts[-1]), 0, firsts[-1]))
    else:
        end = report.entries = tail.position.seq
        size = folder.disk.stat(folder.segment_path(tail.first)).st_size
        is_torn = size > tail.position.offset and not tail.sealed
        if is_torn and folder.tail() == tail:  # else somebody has just appended
            note = f"{size - tail.position.offset} bytes of an append that did not finish"
            report.problems.append(
                Problem("torn", note, folder.segment_path(tail.first), tail.position.offset, end + 1)
            )
    if firsts[0] != 1:
        report.problems.append(
            Problem("damaged", "the first segment is missing", folder.segment_path(1), None, 1)
        )
    link: bytes | None = None
    for first in firsts:
        link = _check_segment(folder, first, link, report, tail, full=full)
    if full:
        _check_blobs(folder, report, end)
    report.problems = list(dict.fromkeys(report.problems))
    return report


def _check_names(folder: LogReader, report: Report) -> None:
    for name in sorted(folder.disk.names(folder.path)):
        path = folder.path / name
        status = folder.disk.stat(path)
        if parse_segment_name(name) is None and name not in _OURS:
            report.problems.append(Problem("odd", "not a file of ours: ignored", path))
        elif stat.S_ISLNK(status.st_mode):
            report.problems.append(Problem("damaged", "a link where a file should be", path))
        elif status.st_mode & 0o077:
            report.problems.append(
                Problem("odd", f"others may use it: mode {status.st_mode & 0o777:o}", path)
            )


def _check_segment(
    folder: LogReader, first: int, link: bytes | None, report: Report, tail: Tail | None, *, full: bool
) -> bytes | None:
    """The link after it, if every line was looked at. ``tail``: of the log, if it is known."""
    path = folder.segment_path(first)
    following = [
        other for other in folder.segments() if other > first
    ]  # before it is read: who follows says it is full
    try:
        if not full:
            with folder.open_segment(first) as fd:
                folder.read_header_at(first, fd)
            return None
        found = survey_segment(read_file(folder.disk, path), first)
    except (ChatfoldError, OSError) as error:
        report.problems.append(Problem("damaged", str(error.args[0]), path, 0, first))
        return None
    if link is not None and found.head is not None and found.head.link.encode() != link:
        report.problems.append(
            Problem("damaged", "the segment does not follow the one before it", path, 0, first)
        )
    for flaw in found.flaws:
        # What follows the end is torn, whatever it says: after a power cut, blocks may hold lines that stood in them before.
        follows = (
            tail is not None
            and first == tail.first
            and flaw.offset >= tail.position.offset
            and not tail.sealed
        )
        torn = tail is not None and tail.position.seq > 0 and (flaw.seq > tail.position.seq or follows)
        report.problems.append(
            Problem("torn" if torn else "damaged", flaw.message, path, flaw.offset, flaw.seq)
        )
    if not found.flaws and following and following[0] != found.last + 1:
        note = f"the log goes on at seq {following[0]}: a segment is missing, or this one was cut"
        report.problems.append(Problem("damaged", note, path, None, found.last + 1))
    return link_after(found.lines[found.last][-1]) if found.last in found.lines else None


def _check_blobs(folder: LogReader, report: Report, end: int) -> None:
    """``end``: of the log, if it is known. What a line after it refers to may never have arrived: that is torn, too."""
    for name in blob_names(folder.disk, folder.path):
        path = folder.path / BLOBS / name
        if sha256(read_file(folder.disk, path)).hexdigest() != name:
            report.problems.append(Problem("damaged", "a blob does not have the content of its name", path))
    for line in _salvage_lines(folder):
        if 0 < end < parse_seq(line):
            break
        try:
            folder.resolve_line(line)
        except (ChatfoldError, OSError) as error:
            note = f"what the entry keeps elsewhere is not there: {error.args[0]}"
            report.problems.append(Problem("damaged", note, folder.path, None, parse_seq(line)))


# --- repair ----------------------------------------------------------------------------------------------


def repair(path: Path | str, *, disk: Disk | None = None) -> Report:
    """Makes the chat whole again; see the module. Does nothing to a chat without damage, torn or not."""
    report = check(path, disk=disk)
    if report.ok:
        return report
    folder = open_folder(path, disk)
    with holding_lock(folder):
        return _repair(folder, report)


def _repair(folder: LogReader, report: Report) -> Report:
    contents = {first: read_file(folder.disk, folder.segment_path(first)) for first in folder.segments()}
    surveys = {first: survey_segment(data, first) for first, data in contents.items()}
    for found in surveys.values():
        if found.head is None and any("format" in flaw.message for flaw in found.flaws):
            raise NewerFormat("written by a newer chatfold", chat=folder.chat, path=folder.path)
    # A file's header knows better than its name where it belongs; without one, its name has to do.
    placed = {found.head.seq + 1 if found.head else first: found for first, found in surveys.items()}
    spare = _all_valid_lines(folder, surveys)
    witness = read_watermark(folder.disk, folder.path)
    end = max([witness.seq if witness else 0, *spare])
    firsts = sorted({1, *placed, *surveys})
    _refuse_far(folder, sorted({0, *spare, *(first - 1 for first in firsts), end}))
    gone: set[int] = set()  # seqs whose text is not there any more, lost now or erased earlier
    link: bytes | None = Head().link.encode()
    for first, following in zip(firsts, [*firsts[1:], end + 1], strict=True):
        found = placed.get(first) or SegmentSurvey(None, {}, [])
        for seq in range(first, following):
            found.lines.setdefault(seq, []).extend(spare.get(seq, []))
        after = placed[following].head if following in placed else None
        lines, link = _rebuild_segment(folder, found, first, following, link, after, report, gone)
        _replace(folder, first, lines, contents.get(first), full=following <= end, report=report)
    folder.forget()
    return report


def _refuse_far(folder: LogReader, seqs: list[int]) -> None:
    """A hole is filled entry by entry: not one that only a forged line, header or witness knows of."""
    for before, seq in pairwise(seqs):
        if seq - before > _MOST_LOST:
            raise CorruptLog(
                f"seq {before + 1:,} to {seq - 1:,} are missing: too many to repair, so what comes after was not written by chatfold",
                chat=folder.chat,
                path=folder.path,
                seq=before + 1,
            )


def _all_valid_lines(folder: LogReader, surveys: dict[int, SegmentSurvey]) -> dict[int, list[bytes]]:
    """Every line there is, by seq: also those in the wrong file, and those of a repair that did not finish."""
    found = list(surveys.values())
    with suppress(FileNotFoundError):
        names = sorted(name for name in folder.disk.names(folder.path / ASIDE) if name.startswith(_DAMAGED))
        found += [survey_segment(read_file(folder.disk, folder.path / ASIDE / name), 1) for name in names]
    lines: dict[int, list[bytes]] = {}
    for one in found:
        for seq, candidates in one.lines.items():
            lines.setdefault(seq, []).extend(candidates)
    return lines


def _rebuild_segment(
    folder: LogReader,
    found: SegmentSurvey,
    first: int,
    following: int,
    link: bytes | None,
    after: Head | None,
    report: Report,
    gone: set[int],
) -> tuple[list[bytes], bytes]:
    """The lines of seqs ``first`` … ``following`` - 1, and the link after them."""
    link = link or (found.head.link.encode() if found.head else Head().link.encode())
    lines = [header_line(Head(first - 1, link.decode()))]
    known: bytes | None = link  # None while the line before is lost
    for seq in range(first, following):
        line = pick_line(found, seq, known)
        if line is None:
            upcoming = pick_line(found, seq + 1, None)
            was = parse_prev(upcoming) if upcoming else None
            if seq == following - 1 and after is not None:
                was = after.link.encode()
            line = lost_line(seq, link, was, _batch(lines[-1], upcoming), "this entry no longer verified")
            report.lost.append(seq)
            gone.add(seq)
            known = None
        else:
            if not _is_whole(folder, line, gone):
                line = tombstone(line)
                report.lost.append(seq)
            if parse_fields(line).was:
                gone.add(seq)
            known = link_after(line)
        link = link_after(line)
        lines.append(line)
    return lines, link


def _is_whole(folder: LogReader, line: bytes, gone: set[int]) -> bool:
    """Is everything there that the line keeps elsewhere? What it refers to is earlier, and so was looked at before."""
    try:
        seqs, digests = parse_references(line)
        for digest in digests:
            folder.blob(digest)
    except CorruptLog:
        return False
    return seqs.isdisjoint(gone)


def _batch(before: bytes, after: bytes | None) -> str | None:
    """The place in its batch of a lost line, as its neighbours tell."""
    place = parse_fields(before) if before.startswith(ENTRY_PREFIX) else None
    if place and place.index < place.size:
        return f"{place.index + 1}/{place.size}"
    place = parse_fields(after) if after else None
    return f"{place.index - 1}/{place.size}" if place and place.index > 1 else None


def _replace(
    folder: LogReader, first: int, lines: list[bytes], old: bytes | None, *, full: bool, report: Report
) -> None:
    data = build_sealed_segment(lines) if full else b"\n".join([*lines, b""])
    if old == data:
        return
    if old is not None:
        report.kept.append(set_aside(folder.disk, folder.path, f"{_DAMAGED}{segment_name(first)}", old))
    replace_file(folder.disk, folder.segment_path(first), data)


# --- salvage ---------------------------------------------------------------------------------------------


def salvage(path: Path | str, target: Path | str, *, disk: Disk | None = None) -> int:
    """Copies every entry that verifies to ``target/salvaged.jsonl``, and all blobs: how many entries."""
    folder = open_folder(path, disk)
    target = Path(target)
    folder.disk.make_folder(target)
    lines = list(_salvage_lines(folder))
    replace_file(folder.disk, target / "salvaged.jsonl", b"\n".join([*lines, b""]) if lines else b"")
    names = blob_names(folder.disk, folder.path)
    if names:
        folder.disk.make_folder(target / BLOBS)
        for name in names:
            replace_file(
                folder.disk, target / BLOBS / name, read_file(folder.disk, folder.path / BLOBS / name)
            )
    return len(lines)


def _salvage_lines(folder: LogReader) -> Iterator[bytes]:
    """Each seq once: the line that verifies and, if there are several, follows on."""
    link: bytes | None = None
    done = 0
    for first in sorted(folder.segments(), key=lambda first: _said_first(folder, first)):
        try:
            found = survey_segment(read_file(folder.disk, folder.segment_path(first)), first)
        except OSError:
            continue  # unreadable as a whole: the next one may be better
        for seq in sorted(found.lines):
            line = pick_line(found, seq, link) or pick_line(found, seq, None)
            if line is not None and seq > done:
                yield line
                link, done = link_after(line), seq


def _said_first(folder: LogReader, first: int) -> int:
    """The first seq of a segment as its header says; as its name says, if it has none."""
    try:
        with folder.open_segment(first) as fd:
            head, _, _ = read_at(folder.disk, fd, 0, 512).partition(b"\n")
            return parse_header(head).seq + 1
    except (OSError, ChatfoldError):
        return first
