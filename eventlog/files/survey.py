"""A segment looked at without trust: which lines in it verify, and what is wrong with the rest.

Reading stops at the first bad byte; this goes on, for ``check``, ``repair`` and ``salvage``. It tells of each line where it
stands, and keeps none: a segment has many bytes, and few of them matter to those who ask.
"""

import re
from hashlib import sha256

import msgspec
from xxhash import xxh3_64_hexdigest, xxh3_128_hexdigest

from chatfold.eventlog.codec import DEL_BYTE, decode, parse_references
from chatfold.eventlog.errors import ChatfoldError, CorruptLog, NewerFormat
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.recovery import find_valid_lines
from chatfold.eventlog.line import (
    ENTRY_PREFIX,
    SEAL_PREFIX,
    has_valid_sum,
    is_linked_to,
    parse_fields,
    parse_header,
    parse_prev,
    parse_seal,
    parse_seq,
)


class Flaw(msgspec.Struct, frozen=True):
    offset: int
    seq: int  # where in the log it is, as far as can be told
    message: str


class SurveyedLine(msgspec.Struct, frozen=True, gc=False):
    """An entry that verifies: where it stands, and between which links."""

    seq: int
    prev: bytes
    link: bytes
    offset: int
    size: int
    file: int  # a number that the caller gave to the file
    index: int  # of its batch
    erased: bool
    refers: bool  # it keeps something elsewhere

    def cut_from(self, data: bytes) -> bytes:
        return data[self.offset : self.offset + self.size]


class SegmentSurvey(msgspec.Struct):
    head: Head | None  # what the header says the segment goes on after
    lines: dict[int, list[SurveyedLine]]  # every entry that verifies, by seq, in the order of the file
    flaws: list[Flaw]
    sealed: bool = False
    last: int = 0  # the highest seq of the run from the start that has no flaw
    newer: NewerFormat | None = None  # why this chatfold must not touch it
    ends: dict[bytes, bytes] = {}  # link -> prev: what lines that do not verify still say at their ends


def survey_segment(data: bytes, first: int, file: int = 0, *, is_last: bool = False) -> SegmentSurvey:
    """``is_last``: of the log. Then newlines at the end are room for what comes next, and no flaw."""
    if is_last:
        data = data[: len(data.rstrip(b"\n")) + 1]
    return _Survey(data, first, file).run()


_END = re.compile(rb'(?:,"was":"([0-9a-f]{16})")?,"prev":"([0-9a-f]{16})","sum":"([0-9a-f]{16})"\}')


class _Survey:
    def __init__(self, data: bytes, first: int, file: int) -> None:
        self.data, self.file = data, file
        self.found = SegmentSurvey(None, {}, [], ends={})
        self.seq, self.offset = first - 1, 0
        self.link: bytes | None = None
        self.before: bytes | None = None  # the line before, if it verified
        self.first = first

    def run(self) -> SegmentSurvey:
        self._header()
        while (end := self.data.find(b"\n", self.offset)) >= 0:
            self._line(self.data[self.offset : end])
            if not self.found.flaws:
                self.found.last = self.seq
            self.offset = end + 1
        if self.offset < len(self.data):
            self._flaw(self.seq + 1, "the last line is not whole")
            self._look_inside(self.data[self.offset :])
        return self.found

    def _flaw(self, seq: int, message: str) -> None:
        self.found.flaws.append(Flaw(self.offset, seq, message))

    def _header(self) -> None:
        start, newline, _ = self.data[:512].partition(b"\n")
        try:
            head = parse_header(start if newline else b"")
        except ChatfoldError as error:
            self.found.newer = error if isinstance(error, NewerFormat) else None
            self._flaw(self.first, error.args[0])
            return
        self.found.head = head
        if head.seq + 1 != self.first:
            self._flaw(self.first, f"the header says that the segment starts at seq {head.seq + 1}")
        self.seq, self.link, self.offset = head.seq, head.link.encode(), len(start) + 1

    def _line(self, line: bytes) -> None:
        if self.found.sealed:
            self._flaw(self.seq + 1, "something follows the seal")
        if not has_valid_sum(line):
            self._flaw(self.seq + 1, _explain_unreadable(line))
            self._look_inside(line)
            self.before = None
        elif line.startswith(SEAL_PREFIX):
            self.found.sealed = True
            if not _is_seal_of(line, memoryview(self.data)[: self.offset]):
                self._flaw(self.seq, "the bytes before the seal are not those that were sealed")
        elif not line.startswith(ENTRY_PREFIX):
            self._flaw(self.seq + 1, "a header in the middle of a segment")
        elif (found := _survey_line(line, self.offset, self.file)) is None:
            self._flaw(self.seq + 1, "a line that verifies is not an entry")
            self.before = None
        else:
            self._entry(line, found)

    def _entry(self, line: bytes, found: SurveyedLine) -> None:
        seq = found.seq
        if seq == self.seq + 1:
            if self.link is not None and not is_linked_to(line, self.link, self.before):
                self._flaw(seq, "the line does not follow the one before it")
        elif seq > self.seq:
            self._flaw(self.seq + 1, f"seq {self.seq + 1} to {seq - 1} are not there")
        else:
            self._flaw(seq, f"seq {seq} stands after seq {self.seq}")
        self.found.lines.setdefault(seq, []).append(found)
        if seq > self.seq:
            self.seq, self.link, self.before = seq, found.link, line

    def _look_inside(self, line: bytes) -> None:
        """Lines may stand in the middle of other bytes; and of one that does not verify, most says what was written."""
        start = 0
        for inner in find_valid_lines(line):
            start = line.index(inner, start)
            found = _survey_line(inner, self.offset + start, self.file)
            if found is not None:
                self.found.lines.setdefault(found.seq, []).append(found)
        for end in _END.finditer(line):
            was, prev, stated = end.groups()
            self.found.ends[was or stated] = prev
        computed = xxh3_64_hexdigest(line[:-26]).encode()  # right, if the damage is in the sum itself
        if len(line) > 2 * 26:
            self.found.ends.setdefault(computed, parse_prev(line))


def _survey_line(line: bytes, offset: int, file: int) -> SurveyedLine | None:
    """None: it is no entry. Anybody can compute sums, so that a line that verifies need not be one that can be read."""
    if not line.startswith(ENTRY_PREFIX):
        return None
    try:
        seq = parse_seq(line)
        if decode(line).seq != seq:
            return None
        fields = parse_fields(line)
    except CorruptLog:
        return None
    link = fields.was or line[-18:-2]
    is_erased = fields.was is not None
    return SurveyedLine(
        seq, parse_prev(line), link, offset, len(line), file, fields.index, is_erased, _refers(line)
    )


def _refers(line: bytes) -> bool:
    try:
        return DEL_BYTE in line and any(parse_references(line))
    except CorruptLog:
        return True  # to nothing there can be


def _is_seal_of(line: bytes, data: memoryview) -> bool:
    try:
        seal = parse_seal(line)
    except CorruptLog:
        return False
    sums = sha256(data).hexdigest(), xxh3_128_hexdigest(data) if seal.xxh3 else None
    return (seal.bytes, seal.sha256, seal.xxh3) == (len(data), *sums)


def _explain_unreadable(line: bytes) -> str:
    if line.endswith(b"\r"):
        return "a line does not verify: its line ending was changed"
    if b"\0" in line:
        return "a line does not verify: it has NUL bytes"
    if line.startswith(b"\xef\xbb\xbf"):
        return "a line does not verify: a byte order mark was added"
    return "a line does not verify"
