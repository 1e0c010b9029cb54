"""Erasure: the payload goes, the place stays.

First a durable note in the store's root says what is to be erased in which chats, then each segment concerned is
written anew, one atomic swap each. A kill in between leaves the note, and whoever opens the store for writing
finishes the work: an erasure that has begun always ends, in all chats or in none.

The note names all chats of the family, also those that have no such entry: they may have had it before a crash took it
away, and still hold its words in a torn tail, in what was set aside, in caches and blobs.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from chatfold.eventlog.codec import parse_references
from chatfold.eventlog.erasure import ErasureView, close_over_references, plan_erasure, tombstone
from chatfold.eventlog.errors import ChatfoldError, CorruptLog, InvalidKey, NoSuchChat, NoSuchPoint
from chatfold.eventlog.files.blobs import BLOBS, blob_names
from chatfold.eventlog.files.cache import CACHE, begin_erasure_epoch
from chatfold.eventlog.files.chat_dir import (
    ASIDE,
    NOTE,
    chat_keys,
    chat_path,
    drop_listing,
    remove_leftovers,
    remove_temp_files,
)
from chatfold.eventlog.files.disk import Disk, check_folder, read_file, reading_file, replace_file
from chatfold.eventlog.files.lock import holding_lock
from chatfold.eventlog.files.reader import LogReader
from chatfold.eventlog.files.seal import build_sealed_segment
from chatfold.eventlog.files.segment import Tail
from chatfold.eventlog.keys import folder_name
from chatfold.eventlog.line import DECODE_ERRORS, SEAL_PREFIX, Count, has_valid_sum, link_after
from chatfold.eventlog.values import escape_text, unescape

_FIRST_BYTES = 8192  # in which the first entry of most chats ends


class ErasureIntent(msgspec.Struct):
    """What is to be erased in one chat. By links, too: where an entry was that was not durable, another may stand by now."""

    origin: str | None  # the link of its first entry, which a chat that took its place does not have
    entries: dict[Count, str]  # the link, by seq


def find_family(mine: LogReader, root: Path, keys: Collection[str]) -> dict[str, LogReader]:
    """The chat and those of ``keys`` that have its first entry: its forks, its parent, their forks.

    A fork leaves no trace in its parent, so each chat is asked; but no more than its first entry.
    """
    family = {mine.chat: mine}
    origin = mine.link(1)
    for key in keys:
        folder = LogReader(chat_path(root, key), key, mine.disk)
        with folder.ignoring_deletion():
            if key != mine.chat and origin and _origin_of(folder) == origin:
                family[key] = folder
    return family


def _origin_of(folder: LogReader) -> str | None:
    """The link of the first entry, with one open and one read, where the head of the first segment verifies."""
    with suppress(OSError):
        with reading_file(folder.disk, folder.segment_path(1)) as fd:
            lines = folder.disk.pread(fd, _FIRST_BYTES, 0).split(b"\n", 2)
        if len(lines) == 3 and lines[1].startswith(b'{"seq":1,') and has_valid_sum(lines[1]):
            return link_after(lines[1]).decode()
    return folder.link(1)


def redact_chats(
    root: Path, chat: str, seqs: Collection[int], family: dict[str, LogReader], looked_at: Collection[str]
) -> dict[str, list[int]]:
    """Erases ``seqs`` of ``chat`` wherever the same entries or texts are in its ``family``.

    ``looked_at``: all chats there were when the family was found.
    """
    disk = family[chat].disk
    origin = family[chat].link(1)  # first: a chat that takes the place of one of these has another
    end = family[chat].tail().position.seq
    for seq in seqs:
        if not 0 < seq <= end:
            raise NoSuchPoint(f"there is no entry {seq}, the chat ends at {end}", chat=chat, seq=seq)
    ends = _ends(family)
    erased = plan_erasure(chat, seqs, _views(chat, family))
    wanted: dict[str, ErasureIntent] = {}
    for key, folder in family.items():
        with folder.ignoring_deletion():
            if key in erased:
                _refuse_links(folder)
                folder.sync()  # after a power cut, what the note says must still be there
            wanted[escape_text(key)] = ErasureIntent(origin, _links(folder, erased.get(key, ())))
    note = root / f"{NOTE}{os.urandom(8).hex()}"
    data = msgspec.json.encode(wanted)
    with holding_lock(
        family[chat]
    ):  # where it is written first, whoever holds the lock sweeps what a kill leaves
        draft = family[chat].path / note.name
        replace_file(disk, draft, data)
        disk.rename(draft, note)
        disk.sync_folder(root)
    return erased | _apply_intent(disk, root, note, looked_at, ends)


def _refuse_links(folder: LogReader) -> None:
    """What is erased may be in these: nothing is begun that could not be finished."""
    for name in (BLOBS, ASIDE, CACHE):
        with suppress(FileNotFoundError):
            check_folder(folder.disk, folder.path / name)


def finish_redactions(disk: Disk, root: Path) -> None:
    """Does what the notes say that a kill left."""
    for name in disk.names(root):
        if name.startswith(NOTE):
            _apply_intent(disk, root, root / name)


def _apply_intent(
    disk: Disk, root: Path, note: Path, looked_at: Collection[str] = (), ends: Mapping[str, int] | None = None
) -> dict[str, list[int]]:
    """What was erased, by chat. Also in forks that were made meanwhile, of a parent that was not erased yet.

    ``ends``: where the chats ended when they were looked at.
    """
    erased: dict[str, list[int]] = {}
    with suppress(FileNotFoundError):  # somebody else has just finished it
        wanted = _read_note(note, read_file(disk, note))
        while wanted:
            for key, here in wanted.items():
                folder = LogReader(chat_path(root, key), key, disk)
                erased[key] = [*here.entries]
                with suppress(NoSuchChat), holding_lock(folder):
                    if folder.link(1) == here.origin:
                        erased[key] = sorted(_erase(folder, here.entries, (ends or {}).get(key, 0)))
                    else:  # another chat, made after that one was deleted
                        del erased[key]
            wanted = _in_new_forks(disk, root, erased, looked_at)
        remove_leftovers(disk, root)
        drop_listing(disk, root)
        disk.unlink(note)
        disk.sync_folder(root)
    return {key: seqs for key, seqs in erased.items() if seqs}


def _links(folder: LogReader, seqs: Iterable[int]) -> dict[int, str]:
    return {seq: link for seq in seqs if (link := _link(folder, seq)) is not None}


_decode_note = msgspec.json.Decoder(dict[str, ErasureIntent]).decode


def _read_note(path: Path, data: bytes) -> dict[str, ErasureIntent]:
    """A note is no cache: it must not be passed over."""
    try:
        wanted = {unescape(key): one for key, one in _decode_note(data).items()}
        for key in wanted:
            folder_name(key)
    except (*DECODE_ERRORS, InvalidKey) as error:
        raise CorruptLog(f"the note of what is to be erased cannot be read: {error}", path=path) from None
    return wanted


def _in_new_forks(
    disk: Disk, root: Path, erased: dict[str, list[int]], looked_at: Collection[str]
) -> dict[str, ErasureIntent]:
    """What is still to be erased. Asked after everything in ``erased`` was: a fork of that is clean from now on."""
    origins = {_origin(disk, root, key) for key in erased}
    others = (key for key in chat_keys(disk, root) if key not in erased and key not in looked_at)
    new = [key for key in others if _origin(disk, root, key) in origins - {None}]
    folders = {key: LogReader(chat_path(root, key), key, disk) for key in (*erased, *new)}
    views = _views("", folders) if new else {}
    for key, seqs in erased.items():
        plan = plan_erasure(key, seqs, views) if key in views else {}
        found = {other: where for other, where in plan.items() if other in new}
        if found:
            return {
                other: ErasureIntent(_link(folders[other], 1), _links(folders[other], where))
                for other, where in found.items()
            }
    return {}


def _origin(disk: Disk, root: Path, key: str) -> str | None:
    """What all forks of one chat have in common. A chat that cannot be read must not keep others from being erased."""
    with suppress(ChatfoldError, OSError):
        return _origin_of(LogReader(chat_path(root, key), key, disk))
    return None


def _ends(family: dict[str, LogReader]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, folder in family.items():
        with folder.ignoring_deletion():
            found[key] = folder.tail().position.seq
    return found


def _views(chat: str, family: dict[str, LogReader]) -> dict[str, ErasureView]:
    """Without those that were deleted meanwhile; but ``chat`` must be there."""
    views: dict[str, ErasureView] = {}
    for key, folder in family.items():
        if key == chat:
            views[key] = _view(folder)
        else:
            with folder.ignoring_deletion():
                views[key] = ErasureView(partial(_link, folder), _view(folder).references)
    return views


def _link(folder: LogReader, seq: int) -> str | None:
    with folder.ignoring_deletion():
        return folder.link(seq)
    return None


def _erase(folder: LogReader, entries: dict[int, str], seen: int) -> set[int]:
    """What was erased: also what was appended after seq ``seen`` and refers to it. Erasing twice is erasing once."""
    tail = folder.tail()
    wanted = {seq for seq, link in entries.items() if folder.link(seq) == link}
    wanted = close_over_references(wanted, _view(folder, seen + 1).references)
    firsts = folder.segments()
    begin_erasure_epoch(folder.disk, folder.path)
    # Now as well: cut short after this, no cache says what the log does not say any more.
    _drop_caches(folder)
    # The last segment first: what refers to a text is erased before the text it refers to.
    for first, following in reversed(list(zip(firsts, [*firsts[1:], 1 << 62], strict=True))):
        here = {seq for seq in wanted if first <= seq < following}
        if here or (first == tail.first and folder.is_torn(tail)):
            replace_file(folder.disk, folder.segment_path(first), _rewrite_segment(folder, first, here, tail))
    remove_temp_files(folder.disk, folder.path)
    folder.forget()
    _drop_blobs(folder)
    _drop_caches(folder)
    return wanted


def _view(folder: LogReader, first: int = 1) -> ErasureView:
    """``first``: where to look for references."""
    folder.tail()
    pointing: list[tuple[int, set[int]]] = []
    for page in folder.line_pages(first):
        for seq, line in enumerate(page, first):
            try:
                targets = parse_references(line)[0]
            except CorruptLog as error:
                error.chat, error.path = folder.chat, folder.path
                raise
            if targets:
                pointing.append((seq, targets))
        first += len(page)
    return ErasureView(folder.link, pointing)


def _rewrite_segment(folder: LogReader, first: int, wanted: set[int], tail: Tail) -> bytes:
    """The segment's new content, without a torn tail. A seal is made anew, since it vouches for the bytes."""
    data = read_file(folder.disk, folder.segment_path(first))
    if first == tail.first and not tail.sealed:
        data = data[: tail.position.offset]  # not set aside: that would be dropped next
    lines = data.split(b"\n")
    for seq in wanted:
        lines[1 + seq - first] = tombstone(lines[1 + seq - first])
    return build_sealed_segment(lines[:-2]) if lines[-2].startswith(SEAL_PREFIX) else b"\n".join(lines)


def _drop_blobs(folder: LogReader) -> None:
    names = set(blob_names(folder.disk, folder.path))
    if names:
        for page in folder.line_pages():
            for line in page:
                names -= parse_references(line)[1]
        for name in sorted(names):
            folder.disk.unlink(folder.path / BLOBS / name)
        folder.disk.sync_folder(folder.path / BLOBS)


def _drop_caches(folder: LogReader) -> None:
    """Caches and what was set aside may hold the same words."""
    for name in (ASIDE, CACHE):
        with suppress(FileNotFoundError):
            check_folder(folder.disk, folder.path / name)
            for inner in folder.disk.names(folder.path / name):
                with suppress(IsADirectoryError):
                    folder.disk.unlink(folder.path / name / inner)
            folder.disk.sync_folder(folder.path / name)
