"""What lives told, and so what must be in their store, and what may be, whenever they are cut short.

An entry is known by what it says: ``w3.17/0`` is the first of the batch with the id ``w3.17``. Of what was begun and not
acknowledged, each deed may have happened, whole, or not; nothing else may. What is found then is what is known from there on.
"""

import os
import time
from itertools import count
from pathlib import Path
from typing import NamedTuple

from chatfold.eventlog import Compacted, Entry, Forked, Redacted, check
from chatfold.eventlog.files.chat_dir import NOTE
from chatfold.eventlog.keys import chat_key
from tests.support.judges.talk import batches, entries_of
from tests.support.processes.living import spoken
from tests.support.processes.operations import no_lock_is_held

WINDOW_S = 0.25
"""How old an entry may be that ``normal`` loses."""


class Lost(AssertionError):
    """Something that was acknowledged is not there."""


class Deed(NamedTuple):
    verb: str
    chat: str
    words: list[str]


class Found(NamedTuple):
    """A chat as it was read: what its entries are, and the seqs of those that were erased."""

    names: list[str]
    erased: set[int]


class Doubt(NamedTuple):
    """An erasure that was cut short: of the entry ``name`` at ``seq`` in these chats."""

    seq: int
    name: str
    chats: set[str]


class Account:
    def __init__(self) -> None:
        self.entries = self.torn = self.stale = self.deeds = 0
        self.failed = ""
        self.dark = False  # the power is gone: what is acknowledged now may not be believed
        self.known: dict[str, dict[int, str]] = {}  # chat -> seq -> name
        self._erased: dict[str, set[int]] = {}
        self._when: dict[tuple[str, int], float] = {}  # acknowledged; what is not in here is older
        self._begun: dict[str, Deed] = {}
        self._doubts: list[Doubt] = []
        self._notes: set[str] = set()  # of erasures, when the store was judged
        self._written = False  # since then

    # --- listening ---------------------------------------------------------------------------------------

    def hear(self, line: str) -> None:
        match line.split():
            case ["begin", number, verb, chat, *words]:
                self._begun[number] = Deed(verb, chat, words)
            case ["done", number, *results] if not self.dark:
                self.deeds += 1
                getattr(self, f"_{self._begun[number].verb}", _nothing)(self._begun.pop(number), results)
            case ["failed", *_] if not self.dark:
                self.failed = self.failed or line

    def _add(self, chat: str, names: list[str], first: int) -> None:
        now = time.monotonic()
        for seq, name in enumerate(names, first):
            self.known.setdefault(chat, {})[seq] = name
            self._when[chat, seq] = now
        self._erased.setdefault(chat, set())
        self.entries += len(names)
        self._written = self._written or bool(names)

    def _say(self, deed: Deed, results: list[str]) -> None:
        first, number = map(int, results)
        self._add(deed.chat, [f"{deed.words[0]}/{index}" for index in range(number)], first)

    def _compact(self, deed: Deed, results: list[str]) -> None:
        first, number = map(int, results)
        self._add(deed.chat, ["compacted"] * number, first)

    def _fork(self, deed: Deed, _: list[str]) -> None:
        new, at = deed.words[0], int(deed.words[1])
        self.known[new] = self._branch(deed)
        self._erased[new] = {seq for seq in self._erased[deed.chat] if seq <= at}
        self.entries += 1
        for doubt in self._doubts:
            if deed.chat in doubt.chats and doubt.seq <= at:
                doubt.chats.add(new)

    def _branch(self, deed: Deed) -> dict[int, str]:
        at = int(deed.words[1])
        return {seq: name for seq, name in self.known[deed.chat].items() if seq <= at} | {at + 1: "forked"}

    def _redact(self, deed: Deed, _: list[str]) -> None:
        doubt = self._doubt(deed)
        for chat in sorted(doubt.chats):
            self._erased[chat].add(doubt.seq)
            self._add(chat, ["redacted"], max(self.known[chat]) + 1)

    def _doubt(self, deed: Deed) -> Doubt:
        """What an erasure is about: the entry, and that same entry in forks."""
        seq = int(deed.words[0])
        name = self.known.get(deed.chat, {}).get(seq, "")  # nothing, if that was not acknowledged either
        return Doubt(seq, name, {chat for chat, names in self.known.items() if names.get(seq) == name})

    def _delete(self, deed: Deed, _: list[str]) -> None:
        del self.known[deed.chat], self._erased[deed.chat]

    # --- judging -----------------------------------------------------------------------------------------

    def judge(self, root: Path, *, cut: float | None = None, stale: bool = False) -> None:
        """Raises if the store is not as it must be. ``cut``: when the power went, if what is younger may be gone.

        ``stale``: a tail may show what stood in its blocks before, without the file system saying so. If that is another chat's
        lines, they call durable what this chat never had, and nobody can tell that from damage: it may be told as such, after
        all that was acknowledged.
        """
        if self.failed:
            raise AssertionError(self.failed)
        no_lock_is_held(root)
        folders = {chat_key(path.name): path for path in (root / "chats").glob("*")}
        found = {
            chat: self._read(folder, stale=stale) for chat, folder in folders.items() if chat is not None
        }
        self._right_chats(set(found))
        for chat, (names, _) in found.items():
            self._right_entries(chat, names, cut)
        self._right_erasures(root, found)
        self._take(found)

    def _read(self, folder: Path, *, stale: bool) -> Found:
        problems = check(folder).problems
        damaged = [problem for problem in problems if problem.kind == "damaged"]
        if damaged and stale:  # all that was acknowledged must stand before it
            self.stale += 1
            os.truncate(damaged[0].path, damaged[0].offset or 0)
            return self._read(folder, stale=False)
        assert not damaged, damaged
        self.torn += any(problem.kind == "torn" for problem in problems)
        entries = entries_of(folder)
        return Found(names_of(entries), {entry.seq for entry in entries if entry.was is not None})

    def _of(self, *verbs: str) -> list[Deed]:
        return [deed for deed in self._begun.values() if deed.verb in verbs]

    def _right_chats(self, found: set[str]) -> None:
        gone = {deed.chat for deed in self._of("delete")}
        new = {deed.words[0] for deed in self._of("fork")} | {deed.chat for deed in self._of("say")}
        if self.known.keys() - gone - found:
            raise Lost(f"chats {self.known.keys() - gone - found}")
        assert found <= self.known.keys() | new, f"nobody made {found - self.known.keys() - new}"

    def _right_entries(self, chat: str, names: list[str], cut: float | None) -> None:
        known = self.known.get(chat, {})
        for seq, name in known.items():
            if seq > len(names) and not self._is_young(chat, seq, cut):
                raise Lost(f"entry {seq} of {chat}, {name}; it ends at {len(names)}")
            assert seq > len(names) or names[seq - 1] == name, f"{chat} {seq}: {names[seq - 1]}, not {name}"
        fork = next((deed for deed in self._of("fork") if deed.words[0] == chat), None)
        if fork is not None:
            branch = [
                name for _, name in sorted(self._branch(fork).items())
            ]  # they may be answered in any order
            assert names == branch, f"half a fork: {chat}"
            return
        new = [name for seq, name in enumerate(names, 1) if seq not in known]
        said = {deed.words[0] for deed in self._of("say") if deed.chat == chat}
        may = {"compacted" for deed in self._of("compact") if deed.chat == chat} | {
            "redacted" for deed in self._of("redact") if chat in self._doubt(deed).chats
        }
        wrong = [name for name in new if name not in may and name.partition("/")[0] not in said]
        assert not wrong, f"nobody said {wrong} in {chat}"
        assert len(new) == len(set(new)) or "compacted" in may, f"twice in {chat}: {new}"

    def _is_young(self, chat: str, seq: int, cut: float | None) -> bool:
        # Four times: a sync may take long on a machine that many want.
        return cut is not None and self._when.get((chat, seq), 0) > cut - 4 * WINDOW_S

    def _right_erasures(self, root: Path, found: dict[str, Found]) -> None:
        notes = {path.name for path in root.glob(f"{NOTE}*")}
        assert not (self._written and notes & self._notes), "a writer left an erasure where it was"
        self._doubts += [self._doubt(deed) for deed in self._of("redact")]
        for chat, (_, erased) in found.items():
            must = self._erased.get(chat, set())
            if chat not in self.known:
                continue  # a fork that nobody acknowledged: a copy of what is judged
            if must - erased:
                raise Lost(f"erasures {must - erased} of {chat}")
            may = {doubt.seq for doubt in self._doubts if chat in doubt.chats}
            assert erased - must <= may, f"nobody erased {erased - must - may} of {chat}"
        if not notes:
            for seq, name, chats in self._doubts:
                there = [seq in found[chat].erased for chat in chats & found.keys()]
                assert len(set(there)) <= 1, f"{name} is erased in some of {chats}"
            self._doubts.clear()
        self._notes = notes

    def _take(self, found: dict[str, Found]) -> None:
        self.known = {chat: dict(zip(count(1), names, strict=False)) for chat, (names, _) in found.items()}
        self._erased = {chat: erased for chat, (_, erased) in found.items()}
        self._begun.clear()
        self._when.clear()
        self.dark = False
        self._written = False


def _nothing(_deed: Deed, _results: list[str]) -> None:
    """Of what changes nothing that can be seen."""


def names_of(entries: list[Entry]) -> list[str]:
    """What each entry is, after making sure that it says what it has to say."""
    names: list[str] = []
    for batch in batches(entries):
        name = batch[0].id
        if name is None:
            names += [_kind(entry) for entry in batch]
            continue
        words = spoken(name)
        assert len(words) == len(batch), f"half of {name}"
        for index, (entry, event) in enumerate(zip(batch, words, strict=True)):
            assert entry.was is not None or entry.event == event, f"{name}/{index} says something else"
            names.append(f"{name}/{index}")
    return names


def _kind(entry: Entry) -> str:
    match entry.event:
        case Forked():
            return "forked"
        case Compacted():
            return "compacted"
        case Redacted():
            return "redacted"
    raise AssertionError(f"nobody said {entry}")
