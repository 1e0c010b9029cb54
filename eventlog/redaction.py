"""Erasure: the payload goes, the place stays.

First a durable note in the store's root says what is to be erased in which chats, then each segment concerned is
written anew, one atomic swap each. A kill in between leaves the note, and whoever opens the store for writing
finishes the work: an erasure that has begun always ends, in all chats or in none.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from eventlog.blobs import BLOBS, blob_names
from eventlog.disk import Disk, publish, read_file
from eventlog.errors import NoSuchChat, NoSuchPoint
from eventlog.folder import Folder
from eventlog.layout import ASIDE, NOTE, chat_path, drop_listing
from eventlog.line import SEAL, references
from eventlog.lock import locked
from eventlog.lookups import Lookups, fingerprints_of
from eventlog.offsets import CACHE
from eventlog.seals import sealed
from eventlog.tombstones import View, erasure, tombstone
from eventlog.values import escape_text, unescape


def redact_chats(
    root: Path, chat: str, seqs: Collection[int], family: dict[str, Folder]
) -> dict[str, list[int]]:
    """Erases ``seqs`` of ``chat`` wherever the same entries or texts are in its ``family``."""
    disk = family[chat].disk
    end = family[chat].tail().at.seq
    for seq in seqs:
        if not 0 < seq <= end:
            raise NoSuchPoint(f"there is no entry {seq}, the chat ends at {end}", chat=chat, seq=seq)
    erased = erasure(chat, seqs, {key: _view(folder) for key, folder in family.items()})
    note = root / f"{NOTE}{os.urandom(8).hex()}"
    data = msgspec.json.encode({escape_text(key): wanted for key, wanted in erased.items()})
    with locked(family[chat]):  # where it is written first, whoever holds the lock sweeps what a kill leaves
        draft = family[chat].path / note.name
        publish(disk, draft, data)
        disk.rename(draft, note)
        disk.sync_folder(root)
    _finish(disk, root, note)
    return erased


def finish_redactions(disk: Disk, root: Path) -> None:
    """Does what the notes say that a kill left."""
    for name in disk.names(root):
        if name.startswith(NOTE):
            _finish(disk, root, root / name)


def _finish(disk: Disk, root: Path, note: Path) -> None:
    with suppress(FileNotFoundError):  # somebody else has just finished it
        for key, wanted in msgspec.json.decode(read_file(disk, note), type=dict[str, set[int]]).items():
            chat = unescape(key)
            folder = Folder(chat_path(root, chat), chat, disk)
            with suppress(NoSuchChat), locked(folder):
                _erase(folder, wanted)
        drop_listing(disk, root)
        disk.unlink(note)
        disk.sync_folder(root)


def _erase(folder: Folder, wanted: set[int]) -> None:
    """Erasing twice is erasing once."""
    folder.tail()
    firsts = folder.segments()
    # The last segment first: what refers to a text is erased before the text it refers to.
    for first, following in reversed(list(zip(firsts, [*firsts[1:], 1 << 62], strict=True))):
        here = {seq for seq in wanted if first <= seq < following}
        if here:
            publish(folder.disk, folder.segment(first), _without(folder, first, here))
    folder.forget()
    _drop_blobs(folder)
    _drop_copies(folder, wanted)


def _view(folder: Folder) -> View:
    folder.tail()
    pointing: list[tuple[int, set[int]]] = []
    seq = 0
    for page in folder.pages():
        for line in page:
            seq += 1
            targets = references(line)[0]
            if targets:
                pointing.append((seq, targets))
    return View(folder.link, pointing)


def _without(folder: Folder, first: int, wanted: set[int]) -> bytes:
    """The segment's new content. A seal is made anew, since it vouches for the bytes."""
    lines = read_file(folder.disk, folder.segment(first)).split(b"\n")
    for seq in wanted:
        lines[1 + seq - first] = tombstone(lines[1 + seq - first])
    return sealed(lines[:-2]) if lines[-2].startswith(SEAL) else b"\n".join(lines)


def _drop_blobs(folder: Folder) -> None:
    names = set(blob_names(folder.disk, folder.path))
    if names:
        for page in folder.pages():
            for line in page:
                names -= references(line)[1]
        for name in names:
            folder.disk.unlink(folder.path / BLOBS / name)
        folder.disk.sync_folder(folder.path / BLOBS)


def _drop_copies(folder: Folder, wanted: set[int]) -> None:
    """Caches and what was set aside may hold the same words."""
    left = {seq: fingerprints_of(folder.line(seq)) for seq in wanted}
    Lookups(folder.path, folder.disk, lambda _first: (), folder.link).erase(left)
    for name in (ASIDE, CACHE):
        with suppress(FileNotFoundError):
            for inner in folder.disk.names(folder.path / name):
                if inner != "lookups":
                    with suppress(IsADirectoryError):
                        folder.disk.unlink(folder.path / name / inner)
            folder.disk.sync_folder(folder.path / name)
