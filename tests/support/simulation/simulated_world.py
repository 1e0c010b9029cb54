"""What must be on the simulated disk, as far as anybody was told; and whether it is.

Of each chat a prefix of whole batches is there: at least what was promised to be durable after a power cut, at least all that
was acknowledged after a kill, at most all that was ever asked for. What else was under way happened altogether or not at all.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from xxhash import xxh3_128_digest

from chatfold.eventlog import Entry, Event, Redacted, check
from chatfold.eventlog.codec import decode
from chatfold.eventlog.files.chat_dir import CHATS, NOTE, TRASH, chat_path, read_key
from chatfold.eventlog.files.disk import read_file
from chatfold.eventlog.files.held_log import POISON_FILE
from chatfold.eventlog.files.scan import entries, open_folder
from chatfold.eventlog.keys import chat_key, is_hashed
from chatfold.eventlog.line import ENTRY_PREFIX, has_valid_sum
from tests.support.disk.simulated_disk import SimulatedDisk
from tests.support.disk.simulated_files import SimulatedFile
from tests.support.disk.simulated_tree import SimulatedFolder
from tests.support.judges.talk import STORY

ROOT = Path("/disk/store")
Shape = tuple[Any, ...]
_LEFT = {POISON_FILE}


class Known(msgspec.Struct):
    """An entry that was appended, or may have been. ``link``: once it was seen."""

    event: Event
    id: str | None = None
    link: str = ""
    erased: bool = False


class Expected(msgspec.Struct):
    """Of one chat: ``durable`` of the entries survive a power cut. ``late`` may follow them: nobody was told."""

    entries: list[Known] = []
    durable: int = 0
    late: list[Known] = []


class UnderWay(msgspec.Struct):
    """What was asked for and not acknowledged. ``added``: to the end of the chat, or as a whole new one."""

    verb: str = ""
    chat: str = ""
    added: list[Known] = []
    seqs: tuple[int, ...] = ()
    links: frozenset[str] = frozenset()  # of these entries, in whatever chats they are


class World:
    def __init__(self) -> None:
        self.chats: dict[str, Expected] = {}
        self.gone: dict[str, Expected] = {}  # chats that are gone without anybody being told
        self.erasing: list[UnderWay] = []  # redactions of which nobody knows whether they are done
        self.secrets: set[str] = set()  # words that were erased
        self._asked_for: set[str] = set()  # links of entries that somebody wanted to be erased
        self._told: set[str] = set()  # links of entries of which somebody was told that they are erased
        self._known: dict[
            str, tuple[Shape, list[Entry]]
        ] = {}  # what was read of a folder, and when it looked how
        self._checked: dict[str, Shape] = {}  # folders that were found healthy when they looked so

    # --- what was told ---------------------------------------------------------------------------------

    def appended(
        self, chat: str, asked: list[Known], answer: list[Entry], *, durable: bool, lossy: bool
    ) -> None:
        expected = self.chats.setdefault(chat, Expected())
        first = answer[0].seq
        there = expected.entries[first - 1 : first]
        if lossy and first > expected.durable and there and there[0].link != answer[0].link:
            del expected.entries[first - 1 :]  # the medium never had it
        found = first - 1 - len(expected.entries)
        if 0 < found <= len(expected.late):  # so much of it was whole when somebody appended next
            expected.entries += expected.late[:found]
        if first == len(expected.entries) + 1:
            expected.entries += asked
            expected.late = []
        there = expected.entries[first - 1 : first - 1 + len(answer)]
        assert len(there) == len(answer) == len(asked), f"{chat}: appended at {first}"
        for known, entry in zip(there, answer, strict=True):
            _same(known, entry, erasing=bool(self.erasing))
        if durable:
            self.gone.pop(chat, None)
            expected.durable = max(expected.durable, first - 1 + len(answer))

    def redacted(self, erased: dict[str, list[int]]) -> None:
        for chat, seqs in erased.items():
            for known in (self.chats[chat].entries[seq - 1] for seq in seqs):
                known.erased = True
                self._told.add(known.link)
                self.secrets |= set(_secrets(known))

    # --- looking -----------------------------------------------------------------------------------------

    def look(self, disk: SimulatedDisk, under_way: UnderWay, *, lossy: bool) -> None:
        """Is the disk as it must be? ``lossy``: what was not durable may be gone. What is there is what is expected from now on."""
        before = disk.changes
        found = dict(self._read_all(disk))
        assert disk.changes == before, "looking changed something"
        if under_way.verb == "redact":
            mine = self.chats[under_way.chat].entries
            under_way.links = frozenset(mine[seq - 1].link for seq in under_way.seqs)
            self._asked_for |= under_way.links
            self.erasing.append(under_way)
        for chat in [*self.chats]:
            if chat not in found:
                deleted = under_way.verb == "delete" and under_way.chat == chat
                assert deleted or (lossy and not self.chats[chat].durable), f"{chat} is gone"
                self.gone[chat] = self.chats.pop(chat)
        for chat, log in found.items():
            self._bring_back(chat, log)
            new = chat not in self.chats
            assert not new or (under_way.chat == chat and under_way.added), f"{chat} is back"
            self._judge(chat, log, under_way, lossy=lossy)
            if self.erasing:
                self._expect_word(disk, chat)
        if not any(name.startswith(NOTE) for name in _names(disk, ROOT)):
            self._judge_erasures()

    def _read_all(self, disk: SimulatedDisk) -> Iterator[tuple[str, list[Entry]]]:
        """Whoever finds a folder as it was, byte by byte, reads what was read then: it need not be read again."""
        for chat, path in folders_of(disk):
            shape = _shape(disk.tree.folder(path))
            if self._known.get(chat, ((), []))[0] != shape:
                self._known[chat] = shape, read(disk, path)
            yield chat, self._known[chat][1]

    def _bring_back(self, chat: str, log: list[Entry]) -> None:
        """A power cut may undo what became of a chat without anybody being told."""
        gone, now = self.gone.get(chat), self.chats.get(chat)
        if gone and (now is None or not now.durable) and gone.entries[0].link == log[0].link:
            self.chats[chat] = gone

    def _judge(self, chat: str, log: list[Entry], under_way: UnderWay, *, lossy: bool) -> None:
        expected = self.chats.setdefault(chat, Expected())
        added = under_way.added if under_way.chat == chat else []
        if lossy and added and added[0].id is not None:
            at = next((index for index, entry in enumerate(log) if entry.id == added[0].id), 0)
            if expected.durable <= at < len(expected.entries) and expected.entries[at].link != log[at].link:
                del expected.entries[at:]  # the medium never had it, and this stands in its place
        late, count = expected.late, len(expected.entries)
        if not self._instead_of_late(log[count:], added):
            added = late + added
        allowed = expected.entries + added
        if self.erasing and isinstance(log[-1].event, Redacted) and len(log) == len(allowed) + 1:
            allowed.append(Known(log[-1].event))
        least = expected.durable if lossy else len(expected.entries)
        assert least <= len(log) <= len(allowed), (
            f"{chat} has {len(log)} of {least} to {len(allowed)} entries"
        )
        index, size = (log[-1].batch or "1/1").split("/")
        assert index == size, f"half a batch is visible in {chat}"
        for known, entry in zip(allowed, log, strict=False):
            _same(known, entry, erasing=bool(self.erasing))
        late = added if len(log) == len(expected.entries) else []
        self.chats[chat] = Expected(allowed[: len(log)], min(expected.durable, len(log)), late)

    def _expect_word(self, disk: SimulatedDisk, chat: str) -> None:
        """That something was erased is an entry, too: cut short, it may lack its newline, and is seen when somebody appends next."""
        word = _unended(disk, chat_path(ROOT, chat))
        if word is not None and isinstance(word.event, Redacted) and not self.chats[chat].late:
            self.chats[chat].late = [Known(word.event)]

    def _instead_of_late(self, new: list[Entry], added: list[Known]) -> bool:
        """Did what was late come to nothing, so that something else stands in its place?"""
        if not new:
            return False
        return (bool(added) and new[0].id == added[0].id) or (
            bool(self.erasing) and isinstance(new[0].event, Redacted)
        )

    def _judge_erasures(self) -> None:
        """No erasure is half done, except by others: what they erased, and what referred to it.

        The others are also those that were acknowledged meanwhile: an erasure that never began, because it was cut short while it
        finished an earlier one, may well have some of its entries erased by a later one.
        """
        half = [asked for asked in self.erasing if len({known.erased for known in self._asked(asked)}) > 1]
        done = [
            one for one in self.erasing if one not in half and all(known.erased for known in self._asked(one))
        ]
        whole = frozenset[str]().union(*(asked.links for asked in done))
        by_others = whole | self._told
        for asked in half:
            alone = [known for known in self._asked(asked) if known.erased and known.link not in by_others]
            assert not alone or (whole and all(_repeats(known) for known in alone)), "an erasure is half done"
        self.erasing = []
        erased = {(seq, known.link) for seq, known in self._all() if known.erased}
        for seq, known in self._all():
            assert known.erased or (seq, known.link) not in erased, "erased in one chat and not in the other"
            if known.erased:
                wanted = known.link in self._asked_for | self._told or _repeats(known)
                assert wanted, f"nobody wanted {known.id} to be erased"
                self.secrets |= set(_secrets(known))

    def _asked(self, erasure: UnderWay) -> list[Known]:
        """What is left of it. By link: where a power cut took away an entry that was not durable, another may stand at its seq."""
        mine = self.chats[erasure.chat].entries if erasure.chat in self.chats else []
        return [known for known in mine if known.link in erasure.links]

    def _all(self) -> Iterator[tuple[int, Known]]:
        for expected in self.chats.values():
            yield from enumerate(expected.entries, 1)

    def survived(self) -> None:
        """After a power cut whatever is seen is on the medium, and nothing else comes back."""
        self.gone.clear()
        for expected in self.chats.values():
            expected.durable = len(expected.entries)

    # --- at the end --------------------------------------------------------------------------------------

    def judge_healed(self, disk: SimulatedDisk) -> None:
        """After a healthy writer came along and closed the store."""
        for chat in self.chats:
            path = chat_path(ROOT, chat)
            shape = _shape(disk.tree.folder(path))
            if self._checked.get(chat) != shape:
                found = check(path, disk=disk)
                assert not [p for p in found.problems if p.kind != "odd"], f"{chat}: {found.problems}"
                self._checked[chat] = shape
        self.judge_secrets(disk)

    def nothing_left_over(self, disk: SimulatedDisk) -> None:
        left = _names(disk, ROOT / TRASH) + [name for name in _names(disk, ROOT / CHATS) if name[0] == "."]
        left += [name for chat in self.chats for name in _names(disk, chat_path(ROOT, chat)) if name in _LEFT]
        left += [name for name in _names(disk, ROOT) if name.startswith(NOTE)]
        assert not left, f"left over: {left}"

    def judge_secrets(self, disk: SimulatedDisk) -> None:
        for path, data in files_of(disk):
            for word in self.secrets:
                assert word.encode() not in data, f"{word} was erased and is in {path}"


def _same(known: Known, entry: Entry, *, erasing: bool = False) -> None:
    assert entry.id == known.id, f"another id at {entry.seq}"
    assert known.link in ("", entry.link), f"another line at {entry.seq}"
    known.link = entry.link
    if entry.was is not None and (erasing or known.erased):
        known.erased = True
        return
    assert not known.erased or erasing, f"what was erased is back at {entry.seq}"
    known.erased = False
    assert entry.event == known.event, f"another event at {entry.seq}: {str(entry.event)[:300]}"


def folders_of(disk: SimulatedDisk) -> Iterator[tuple[str, Path]]:
    for name in _names(disk, ROOT / CHATS):
        path = ROOT / CHATS / name
        chat = read_key(disk, path) if is_hashed(name) else chat_key(name)
        if chat is not None:
            yield chat, path


def read(disk: SimulatedDisk, path: Path) -> list[Entry]:
    return [entry for some in entries(open_folder(path, disk)) for entry in some]


def _unended(disk: SimulatedDisk, path: Path) -> Entry | None:
    """The entry at the end of the log that lacks nothing but its newline."""
    last = max(name for name in disk.names(path) if name.endswith(".jsonl"))
    line = read_file(disk, path / last).rpartition(b"\n")[2]
    return decode(line) if line.startswith(ENTRY_PREFIX) and has_valid_sum(line) else None


def _shape(folder: SimulatedFolder) -> Shape:
    """All that a reader can find in there: names and their order, bytes, and what a ``stat`` says."""
    return tuple(
        (name, node.number, node.names, node.changed)
        + ((xxh3_128_digest(node.content),) if isinstance(node, SimulatedFile) else _shape(node))
        for name, node in folder.entries.items()
    )


def _names(disk: SimulatedDisk, path: Path) -> list[str]:
    try:
        return disk.names(path)
    except FileNotFoundError:
        return []


def _repeats(known: Known) -> bool:
    """May it refer to another entry, for a long text that both say?"""
    return STORY in repr(known.event)


def _secrets(known: Known) -> Iterator[str]:
    text = repr(known.event)
    start = text.find("<")
    if start >= 0:
        yield text[start : text.index(">", start) + 1]


def files_of(disk: SimulatedDisk) -> Iterator[tuple[Path, bytes]]:
    return _files(disk.tree.root, Path("/"))


def _files(folder: SimulatedFolder, path: Path) -> Iterator[tuple[Path, bytes]]:
    for name, node in folder.entries.items():
        if isinstance(node, SimulatedFile):
            yield path / name, bytes(node.content)
        else:
            yield from _files(node, path / name)
