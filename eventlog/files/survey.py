"""A segment looked at without trust: which lines in it verify, and what is wrong with the rest.

Reading stops at the first bad byte; this goes on, for ``check``, ``repair`` and ``salvage``.
"""

from hashlib import sha256

import msgspec
from xxhash import xxh3_128_hexdigest

from chatfold.eventlog.codec import decode
from chatfold.eventlog.errors import ChatfoldError, CorruptLog
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.recovery import find_valid_lines
from chatfold.eventlog.line import (
    ENTRY_PREFIX,
    SEAL_PREFIX,
    has_valid_sum,
    is_linked_to,
    link_after,
    parse_header,
    parse_prev,
    parse_seal,
    parse_seq,
)


class Flaw(msgspec.Struct, frozen=True):
    offset: int
    seq: int  # where in the log it is, as far as can be told
    message: str


class SegmentSurvey(msgspec.Struct):
    head: Head | None  # what the header says the segment goes on after
    lines: dict[int, list[bytes]]  # every entry that verifies, by seq, in the order of the file
    flaws: list[Flaw]
    sealed: bool = False
    last: int = 0  # the highest seq of the run from the start that has no flaw


def survey_segment(data: bytes, first: int) -> SegmentSurvey:
    found = SegmentSurvey(None, {}, [])
    start, newline, _ = data.partition(b"\n")
    seq, link, before, offset = first - 1, None, None, 0
    try:
        found.head = parse_header(start if newline else b"")
        seq, link, offset = found.head.seq, found.head.link.encode(), len(start) + 1
        if seq + 1 != first:
            found.flaws.append(Flaw(0, first, f"the header says that the segment starts at seq {seq + 1}"))
    except ChatfoldError as error:
        found.flaws.append(Flaw(0, first, error.args[0]))
        seq = first - 1
    body, tail = data[offset:].split(b"\n"), b""
    tail = body.pop()
    for line in body:
        if found.sealed:
            found.flaws.append(Flaw(offset, seq + 1, "something follows the seal"))
        if not has_valid_sum(line):
            found.flaws.append(Flaw(offset, seq + 1, _unreadable(line)))
            for inner in find_valid_lines(line):
                if inner.startswith(ENTRY_PREFIX):
                    _take(found, inner)
            before = None
        elif line.startswith(SEAL_PREFIX):
            found.sealed = True
            if not _vouches(line, data[:offset]):
                found.flaws.append(
                    Flaw(offset, seq, "the bytes before the seal are not those that were sealed")
                )
        elif line.startswith(ENTRY_PREFIX) and not _is_entry(line):
            found.flaws.append(Flaw(offset, seq + 1, "a line that verifies is not an entry"))
            before = None
        elif line.startswith(ENTRY_PREFIX):
            place = parse_seq(line)
            if place == seq + 1 and link is not None and not is_linked_to(line, link, before):
                found.flaws.append(Flaw(offset, place, "the line does not follow the one before it"))
            elif place > seq + 1:
                found.flaws.append(Flaw(offset, seq + 1, f"seq {seq + 1} to {place - 1} are not there"))
            elif place <= seq:
                found.flaws.append(Flaw(offset, place, f"seq {place} stands after seq {seq}"))
            _take(found, line)
            if place > seq:
                seq, link, before = place, link_after(line), line
        else:
            found.flaws.append(Flaw(offset, seq + 1, "a header in the middle of a segment"))
        if not found.flaws:
            found.last = seq
        offset += len(line) + 1
    if tail:
        found.flaws.append(Flaw(offset, seq + 1, "the last line is not whole"))
        for inner in find_valid_lines(tail):
            if inner.startswith(ENTRY_PREFIX):
                _take(found, inner)
    return found


def _take(found: SegmentSurvey, line: bytes) -> None:
    if _is_entry(line):
        found.lines.setdefault(parse_seq(line), []).append(line)


def _is_entry(line: bytes) -> bool:
    """Anybody can compute sums: can a line that verifies be read?"""
    try:
        return decode(line).seq == parse_seq(line) and bool(link_after(line))
    except CorruptLog:
        return False


def _vouches(line: bytes, data: bytes) -> bool:
    try:
        seal = parse_seal(line)
    except CorruptLog:
        return False
    sums = sha256(data).hexdigest(), xxh3_128_hexdigest(data) if seal.xxh3 else None
    return (seal.bytes, seal.sha256, seal.xxh3) == (len(data), *sums)


def _unreadable(line: bytes) -> str:
    if line.endswith(b"\r"):
        return "a line does not verify: its line ending was changed"
    if b"\0" in line:
        return "a line does not verify: it has NUL bytes"
    if line.startswith(b"\xef\xbb\xbf"):
        return "a line does not verify: a byte order mark was added"
    return "a line does not verify"


def pick_line(found: SegmentSurvey, seq: int, link: bytes | None) -> bytes | None:
    """The line of this seq that follows ``link``; where the line before is lost, the one the next line follows."""
    candidates = found.lines.get(seq, [])
    if link is not None:
        return next((line for line in candidates if parse_prev(line) == link), None)
    following = {parse_prev(line) for line in found.lines.get(seq + 1, [])}
    return next(
        (line for line in candidates if link_after(line) in following), candidates[0] if candidates else None
    )
