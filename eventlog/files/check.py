"""check: what is wrong with a chat. It changes nothing, reads each segment once, and holds one of them at a time."""

import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from chatfold.eventlog.errors import ChatDeleted, ChatfoldError, CorruptLog
from chatfold.eventlog.files.blobs import BLOBS, blob_names
from chatfold.eventlog.files.cache import CACHE, ERASED_FILE
from chatfold.eventlog.files.chat_dir import ALONE_FILE, ASIDE, LOCK_FILE
from chatfold.eventlog.files.disk import Disk, read_file
from chatfold.eventlog.files.held_log import POISON_FILE
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.scan import open_folder
from chatfold.eventlog.files.segment import Tail, parse_segment_name
from chatfold.eventlog.files.survey import Flaw, SurveyedLine, survey_segment
from chatfold.eventlog.files.watermark import HEAD_FILE
from chatfold.eventlog.keys import KEY_FILE

Progress = Callable[[int, int], None]
"""Told how many segments were read, and of how many."""

_OURS = {BLOBS, CACHE, ASIDE, ALONE_FILE, ERASED_FILE, LOCK_FILE, HEAD_FILE, KEY_FILE, POISON_FILE}


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
    unproven: list[
        int
    ] = []  # by ``repair``: seqs of lines set aside, because nothing proves that they are this chat's

    @property
    def ok(self) -> bool:
        return not any(problem.kind == "damaged" for problem in self.problems)


def check(
    path: Path | str, *, full: bool = True, disk: Disk | None = None, progress: Progress | None = None
) -> Report:
    """``full``: every line, seal and blob. Otherwise only names, headers, and the end of the log."""
    folder = open_folder(path, disk)
    before = folder.chat_identity()
    with folder.translating_deletion():
        report = _report(folder, progress, full=full)
    if not report.ok and folder.chat_identity() != before:
        raise ChatDeleted("the chat was deleted", chat=folder.chat, path=folder.path)
    return report


def _report(folder: LogReader, progress: Progress | None, *, full: bool) -> Report:
    firsts = folder.segments()  # before any is read: a segment that another one follows is full
    report = Report(folder.path, segments=len(firsts))
    _check_names(folder, report)
    tail = _check_tail(folder, firsts[-1], report)
    if firsts[0] != 1:
        report.problems.append(
            Problem("damaged", "the first segment is missing", folder.segment_path(1), None, 1)
        )
    elsewhere: list[Problem] = []
    link: bytes | None = None
    for index, first in enumerate(firsts):
        if not full:
            _check_header(folder, first, report)
            continue
        following = firsts[index + 1] if index + 1 < len(firsts) else None
        link = _check_segment(folder, first, following, link, tail, report, elsewhere)
        if progress is not None:
            progress(index + 1, len(firsts))
    if full:
        _check_blobs(folder, report)
    report.problems = list(dict.fromkeys([*report.problems, *elsewhere]))
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


def _check_tail(folder: LogReader, last: int, report: Report) -> Tail | None:
    """The tail of the log, if there is one to be found."""
    try:
        tail = folder.tail()
    except CorruptLog as error:
        path = error.path or folder.path
        report.problems.append(Problem("damaged", error.args[0], path, error.offset, error.seq))
        return None
    except OSError as error:
        report.problems.append(Problem("damaged", str(error), folder.segment_path(last), 0, last))
        return None
    path, at = folder.segment_path(tail.first), tail.position
    report.entries = at.seq
    size = folder.disk.stat(path).st_size
    if folder.is_torn(tail) and folder.tail() == tail:  # else a writer has just appended
        note = f"{size - at.offset} bytes of an append that did not finish"
        report.problems.append(Problem("torn", note, path, at.offset, at.seq + 1))
    return tail


def _check_header(folder: LogReader, first: int, report: Report) -> None:
    try:
        with folder.open_segment(first) as fd:
            folder.read_header_at(first, fd)
    except (ChatfoldError, OSError) as error:
        path = folder.segment_path(first)
        report.problems.append(Problem("damaged", str(error.args[0]), path, 0, first))


def _check_segment(
    folder: LogReader,
    first: int,
    following: int | None,
    link: bytes | None,
    tail: Tail | None,
    report: Report,
    elsewhere: list[Problem],
) -> bytes | None:
    """The link after it, as far as its lines tell. ``elsewhere``: what its entries keep in other places and miss."""
    path = folder.segment_path(first)
    try:
        data = read_file(folder.disk, path)
    except OSError as error:
        report.problems.append(Problem("damaged", str(error.args[0]), path, 0, first))
        return None
    found = survey_segment(data, first, is_last=following is None)
    if link is not None and found.head is not None and found.head.link.encode() != link:
        report.problems.append(
            Problem("damaged", "the segment does not follow the one before it", path, 0, first)
        )
    for flaw in found.flaws:
        kind = "torn" if _is_torn(flaw, first, tail) else "damaged"
        report.problems.append(Problem(kind, flaw.message, path, flaw.offset, flaw.seq))
    if not found.flaws and following is not None and following != found.last + 1:
        note = f"the log goes on at seq {following}: a segment is missing, or this one was cut"
        report.problems.append(Problem("damaged", note, path, None, found.last + 1))
    for seq in sorted(found.lines):
        # What a line after the end refers to may never have arrived: that is torn, too.
        if tail is None or not 0 < tail.position.seq < seq:
            _check_references(folder, data, found.lines[seq][0], elsewhere)
    return found.lines[found.last][-1].link if found.last in found.lines else None


def _is_torn(flaw: Flaw, first: int, tail: Tail | None) -> bool:
    """What follows the end is torn, whatever it says: after a power cut, blocks may hold lines that stood in them before."""
    if tail is None or not tail.position.seq:
        return False
    follows = first == tail.first and flaw.offset >= tail.position.offset and not tail.sealed
    return flaw.seq > tail.position.seq or follows


def _check_references(folder: LogReader, data: bytes, line: SurveyedLine, elsewhere: list[Problem]) -> None:
    if not line.refers:
        return
    try:
        folder.resolve_line(line.cut_from(data))
    except NotADirectoryError:
        return  # ``_check_names`` says so: what is behind a link is not ours
    except (ChatfoldError, OSError) as error:
        note = f"what the entry keeps elsewhere is not there: {error.args[0]}"
        elsewhere.append(Problem("damaged", note, folder.path, None, line.seq))


def _check_blobs(folder: LogReader, report: Report) -> None:
    try:
        names = blob_names(folder.disk, folder.path)
    except NotADirectoryError:
        return  # ``_check_names`` says so: what is behind a link is not ours
    for name in names:
        path = folder.path / BLOBS / name
        if sha256(read_file(folder.disk, path)).hexdigest() != name:
            report.problems.append(Problem("damaged", "a blob does not have the content of its name", path))
