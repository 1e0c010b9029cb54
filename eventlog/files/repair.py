"""repair: makes a damaged chat whole again. salvage: copies everything out of it.

What ``repair`` promises:

- A line stays, with its seq and its sum, if it verifies and the chain proves that it is this chat's: see ``chain``.
- In the place of every other entry stands a ``lost`` entry, which says why. Where the link of the entry is still known, that
  is kept, so that the links of all later entries stay what they are.
- An entry whose text or blob is gone is lost, too. It keeps its id, run and time.
- A copy of each file is in ``aside/`` before the file is changed or removed. The report names the copies, the seqs that are
  lost, and those of lines that verify and were set aside because nothing proves that they are this chat's.
- It can be interrupted at any point, and done again. It holds one segment in memory at a time, and of the others where
  their lines stand.

``salvage`` touches nothing of the chat, in whatever state it is.
"""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from chatfold.eventlog.codec import decode, encode_event, parse_references
from chatfold.eventlog.erasure import lost_line
from chatfold.eventlog.errors import CorruptLog, NewerFormat
from chatfold.eventlog.events import Head, Lost
from chatfold.eventlog.files.blobs import BLOBS, blob_names
from chatfold.eventlog.files.chain import Chain, Evidence, find_own_lines
from chatfold.eventlog.files.chat_dir import ASIDE, set_aside
from chatfold.eventlog.files.check import Report, check
from chatfold.eventlog.files.disk import Disk, read_at, read_file, replace_file
from chatfold.eventlog.files.lock import holding_lock
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.scan import open_folder
from chatfold.eventlog.files.seal import build_sealed_segment
from chatfold.eventlog.files.survey import SegmentSurvey, SurveyedLine, survey_segment
from chatfold.eventlog.files.watermark import HEAD_FILE, format_watermark, read_watermark
from chatfold.eventlog.line import (
    ENTRY_PREFIX,
    build_entry_line,
    header_line,
    link_after,
    parse_fields,
)

_DAMAGED = "damaged-"
_MOST_LOST = 1_000_000  # so many seqs in one hole no disk loses: a line that names one far away was made up


def repair(path: Path | str, *, disk: Disk | None = None) -> Report:
    """Makes the chat whole again; see the module. Does nothing to a chat without damage, torn or not."""
    report = check(path, disk=disk)
    if report.ok:
        return report
    folder = open_folder(path, disk)
    with holding_lock(folder):
        _Repair(folder, report).run()
        folder.forget()
        _write_watermark(folder)
    return report


def _write_watermark(folder: LogReader) -> None:
    """The old one may name an entry by a link that it does not have any more. All that was repaired is durable."""
    with suppress(OSError, CorruptLog):  # only a witness: without it, the next writer is more cautious
        tail = folder.tail()
        watermark = format_watermark(tail.first, tail.position)
        replace_file(folder.disk, folder.path / HEAD_FILE, watermark, durable=False)


class _Files:
    """All files that may hold lines of the chat, by number: first the segments, in order, then copies that were set aside."""

    def __init__(self, folder: LogReader) -> None:
        self.folder, self.disk = folder.path, folder.disk
        self.firsts = folder.segments()
        self.paths = [folder.segment_path(first) for first in self.firsts]

    def add_aside(self) -> None:
        """Those of a repair that did not finish have lines that stand nowhere else."""
        with suppress(FileNotFoundError):
            names = sorted(self.disk.names(self.folder / ASIDE))
            self.paths += [self.folder / ASIDE / name for name in names if name.startswith(_DAMAGED)]

    def survey(self, number: int) -> SegmentSurvey:
        first = self.firsts[number] if number < len(self.firsts) else 1
        is_last = number == len(self.firsts) - 1
        return survey_segment(read_file(self.disk, self.paths[number]), first, number, is_last=is_last)

    def read(self, lines: list[SurveyedLine]) -> Iterator[bytes]:
        with ExitStack() as stack:
            fds: dict[int, int] = {}
            for line in lines:
                if line.file not in fds:
                    fds[line.file] = self.disk.open_read(self.paths[line.file])
                    stack.callback(self.disk.close, fds[line.file])
                yield read_at(self.disk, fds[line.file], line.offset, line.size)


def _gather(folder: LogReader, files: _Files, surveys: dict[int, SegmentSurvey]) -> Evidence:
    found = Evidence(read_watermark(folder.disk, folder.path))
    found.firsts = dict(enumerate(files.firsts))
    found.live = set(found.firsts)
    for number, survey in surveys.items():
        for seq, lines in survey.lines.items():
            found.lines.setdefault(seq, []).extend(lines)
        found.ends.update(survey.ends)
        if survey.head is not None:
            found.heads[number] = survey.head
        if survey.head is None or any(flaw.offset for flaw in survey.flaws):
            found.broken.add(number)
    return found


# --- repair ----------------------------------------------------------------------------------------------


class _Repair:
    def __init__(self, folder: LogReader, report: Report) -> None:
        self.folder, self.report = folder, report
        self.files = _Files(folder)
        self.files.add_aside()
        surveys = {number: self.files.survey(number) for number in range(len(self.files.paths))}
        for survey in surveys.values():
            if survey.newer is not None:
                raise NewerFormat(survey.newer.args[0], chat=folder.chat, path=folder.path)
        evidence = _gather(folder, self.files, surveys)
        self.own = find_own_lines(evidence)
        durable = evidence.watermark.seq if evidence.watermark else 0
        self.end = max([durable, *self.own.links, self._find_sealed_end(surveys)])  # the last seq there was
        heads = {number: head.seq for number, head in evidence.heads.items()}
        _refuse_far(folder, sorted({0, self.end, *evidence.lines, *heads.values()}))
        strangers = _find_strangers(evidence, self.own)
        self.strange = {line.seq for line in strangers if line.file in evidence.live}
        self.borders = self._find_borders(heads)
        self.sealed = {number for number, survey in surveys.items() if survey.sealed}
        self.gone: set[int] = set()  # seqs whose text is not there any more, lost now or erased earlier

    def _find_sealed_end(self, surveys: dict[int, SegmentSurvey]) -> int:
        """Where the last batch ends, if a seal follows it: then it was whole."""
        last = self.own.lines.get(max(self.own.lines, default=0))
        if last is None or not surveys[last.file].sealed:
            return 0
        [line] = self.files.read([last])
        place = parse_fields(line)
        return last.seq + place.size - place.index

    def _find_borders(self, heads: dict[int, int]) -> list[int]:
        """The first seqs of the segments. A file's header knows better than its name where its lines belong."""
        own = self.own.lines
        said = {heads[number] + 1 for number in {line.file for line in own.values()} if number in heads}
        firsts = {*self.files.firsts, *said}
        whole = {first for first in firsts if first not in own or own[first].index == 1}
        return sorted({1, *(first for first in whole if first <= self.end + 1)})

    def run(self) -> None:
        link = Head().link.encode()
        for first, following in zip(self.borders, [*self.borders[1:], self.end + 1], strict=True):
            link = self._mend_segment(first, following, link)
        for number, first in enumerate(self.files.firsts):
            if first not in self.borders:  # it is another chat's, or its lines stand elsewhere now
                self._set_aside(number)
                self.folder.disk.unlink(self.folder.segment_path(first))
                self.folder.disk.sync_folder(self.folder.path)
        self._set_blobs_aside()
        self.report.unproven = sorted(self.strange)

    def _set_blobs_aside(self) -> None:
        """Those that have another content than their name says. The entries that need them are lost by now."""
        disk, blobs = self.folder.disk, self.folder.path / BLOBS
        for name in blob_names(disk, self.folder.path):
            data = read_file(disk, blobs / name)
            if sha256(data).hexdigest() != name:
                self.report.kept.append(set_aside(disk, self.folder.path, f"blob-{name}", data))
                disk.unlink(blobs / name)
                disk.sync_folder(blobs)

    def _mend_segment(self, first: int, following: int, link: bytes) -> bytes:
        """Writes the lines of seqs ``first`` … ``following`` - 1, unless they stand there. The link after them."""
        lines = self._build_lines(first, following, link)
        number = self.files.firsts.index(first) if first in self.files.firsts else None
        is_sealed = following <= self.end or (number in self.sealed and len(lines) > 1)
        data = build_sealed_segment(lines) if is_sealed else b"\n".join([*lines, b""])
        path = self.folder.segment_path(first)
        old = b"" if number is None else read_file(self.folder.disk, path)
        is_padded = following > self.end and old.startswith(data) and not old[len(data) :].strip(b"\n")
        if old != data and not is_padded:
            if number is not None:
                self._set_aside(number)
            replace_file(self.folder.disk, path, data)
        return link_after(lines[-1]) if len(lines) > 1 else link

    def _set_aside(self, number: int) -> None:
        """The copy is what later segments are mended from."""
        path = self.files.paths[number]
        old = read_file(self.folder.disk, path)
        copy = set_aside(self.folder.disk, self.folder.path, f"{_DAMAGED}{path.name}", old)
        self.files.paths[number] = copy
        self.report.kept.append(copy)

    def _build_lines(self, first: int, following: int, link: bytes) -> list[bytes]:
        """The header and the entries."""
        lines = [header_line(Head(first - 1, link.decode()))]
        own = [self.own.lines[seq] for seq in range(first, following) if seq in self.own.lines]
        upcoming = list(zip(own, self.files.read(own), strict=True))[::-1]
        for seq in range(first, following):
            if upcoming and upcoming[-1][0].seq == seq:
                line = self._keep_or_give_up(upcoming.pop()[1])
            else:
                batch = _find_batch(lines[-1], upcoming[-1] if upcoming else None, seq)
                line = lost_line(seq, link, self.own.links.get(seq), batch, self._why(seq))
                self.report.lost.append(seq)
                self.gone.add(seq)
            link = link_after(line)
            lines.append(line)
        return lines

    def _why(self, seq: int) -> str:
        if seq in self.strange:
            return "nothing proves that the line that stood here is this chat's"
        return "this entry no longer verified"

    def _keep_or_give_up(self, line: bytes) -> bytes:
        """What a line refers to is earlier, and so was looked at before."""
        missing = self._find_missing(line)
        entry = decode(line)
        if missing:
            event = Lost(f"gone: {', '.join(missing)}")
            line = build_entry_line(replace(entry, event=event, was=entry.link), encode_event(event).raw)
            self.report.lost.append(entry.seq)
        if parse_fields(line).was:
            self.gone.add(entry.seq)
        return line

    def _find_missing(self, line: bytes) -> list[str]:
        try:
            seqs, digests = parse_references(line)
        except CorruptLog as error:
            return [str(error.args[0])]
        missing = [f"the text that it shared with entry {seq}" for seq in sorted(seqs & self.gone)]
        for digest in sorted(digests):
            try:
                self.folder.blob(digest)
            except CorruptLog:
                missing.append(f"the content of blob {digest}")
        return missing


def _find_strangers(evidence: Evidence, own: Chain) -> list[SurveyedLine]:
    """Every line that is not the chat's: it has another link than what stands, or stood, there."""
    return [
        line
        for lines in evidence.lines.values()
        for line in lines
        if line.seq not in own.lines or line.link != own.lines[line.seq].link
    ]


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


def _find_batch(before: bytes, after: tuple[SurveyedLine, bytes] | None, seq: int) -> str | None:
    """The place in its batch of a lost line, as its neighbours tell."""
    place = parse_fields(before) if before.startswith(ENTRY_PREFIX) else None
    if place and place.index < place.size:
        return f"{place.index + 1}/{place.size}"
    place = parse_fields(after[1]) if after and after[0].seq == seq + 1 else None
    return f"{place.index - 1}/{place.size}" if place and place.index > 1 else None


# --- salvage ---------------------------------------------------------------------------------------------


class Salvaged(NamedTuple):
    """How many entries."""

    proven: int
    unproven: int


def salvage(path: Path | str, target: Path | str, *, disk: Disk | None = None) -> Salvaged:
    """Copies out every entry that verifies, and all blobs.

    To ``target/salvaged.jsonl`` what the chain proves to be this chat's, in order. To ``target/unproven.jsonl`` all else.
    """
    folder = open_folder(path, disk)
    target = Path(target)
    folder.disk.make_folder(target)
    files = _Files(folder)
    surveys: dict[int, SegmentSurvey] = {}
    for number in range(len(files.paths)):
        with suppress(OSError):  # unreadable as a whole: the next one may be better
            surveys[number] = files.survey(number)
    evidence = _gather(folder, files, surveys)
    own = find_own_lines(evidence)
    proven = [own.lines[seq] for seq in sorted(own.lines)]
    unproven = sorted(_find_strangers(evidence, own), key=lambda line: (line.file, line.offset))
    _copy_lines(files, proven, target / "salvaged.jsonl")
    if unproven:
        _copy_lines(files, unproven, target / "unproven.jsonl")
    _copy_blobs(folder, target)
    return Salvaged(len(proven), len(unproven))


def _copy_lines(files: _Files, lines: list[SurveyedLine], target: Path) -> None:
    replace_file(files.disk, target, (line + b"\n" for line in files.read(lines)))


def _copy_blobs(folder: LogReader, target: Path) -> None:
    names = blob_names(folder.disk, folder.path)
    if names:
        folder.disk.make_folder(target / BLOBS)
    for name in names:
        data = read_file(folder.disk, folder.path / BLOBS / name)
        replace_file(folder.disk, target / BLOBS / name, data)
