"""Files of the simulated disk: what reads show, and what of it the medium has.

A file is a page cache over a medium. Every version of every page, and every size, since the last sync is remembered: after a
power cut each page has any one of them, independently of the others, or what it had before, or a mix of two at a sector's
border; so has the size. What the size covers and no page arrived for is NULs or, now and then, whatever was on the medium.
"""

import random
from collections.abc import Sequence

PAGE = 4096
_SECTOR = 512
_MANNERS = ("nothing", "everything", "moment", "moment", "any", "any", "most")
_TORN = 0.1  # of the pages that arrived, so many did in part
_STALE = 0.1  # of the pages that did not arrive, so many show what was on the medium before the file was


class Arrivals:
    """How much of what was not synced arrived, each time in one of these manners: nothing, everything, everything up to one moment
    (a journal), and any part of it."""

    def __init__(self, chance: random.Random, now: int, manner: str = "") -> None:
        self.chance = chance
        self._manner = manner or chance.choice(_MANNERS)
        self._moment = chance.randint(max(0, now - chance.choice([5, 50, 500])), now)

    def of(self, times: Sequence[int]) -> int:
        """How many of the versions made at these times: the last of these is the one that is there."""
        if self._manner == "moment":
            return sum(time <= self._moment for time in times)
        if self._manner == "any" or (self._manner == "most" and self.chance.random() < 0.1):
            return self.chance.randint(0, len(times))
        return 0 if self._manner == "nothing" else len(times)


class SimulatedFile:
    def __init__(self, number: int, content: bytes = b"") -> None:
        self.number = number
        self.content = bytearray(content)  # what reads show
        self.names = self.opened = self.mentions = 0  # mentions: by what is durable, or may become so
        self.changed = self.failures = 0  # failures: of its syncs
        self.locked_by: object = None
        self._medium = bytearray(content)
        self._pages: dict[int, list[tuple[int, bytes]]] = {}  # since the last sync: (time, content)
        self._sizes: list[tuple[int, int]] = []

    def write(self, time: int, offset: int, data: bytes | memoryview) -> None:
        if offset > len(self.content):
            self.content.extend(bytes(offset - len(self.content)))
        end = offset + len(data)
        self.content[offset:end] = data
        self._note(time, offset, end)

    def truncate(self, time: int, size: int) -> None:
        before = len(self.content)
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))
        self._note(time, min(size, before), max(size, before))

    def _note(self, time: int, start: int, end: int) -> None:
        self.changed = time
        self._sizes.append((time, len(self.content)))
        for page in range(start // PAGE, (max(start, end - 1)) // PAGE + 1):
            version = bytes(self.content[page * PAGE : (page + 1) * PAGE])
            self._pages.setdefault(page, []).append((time, version))

    def sync(self) -> None:
        for page, versions in self._pages.items():
            _put(self._medium, page, versions[-1][1])
        _resize(self._medium, len(self.content))
        self._pages.clear()
        self._sizes.clear()

    def fail_to_sync(self, chance: random.Random) -> None:
        """Of the pages some arrived. All are taken for clean: the next sync succeeds and writes none of them. What reads show
        is still the new content or, with some file systems, what the medium has."""
        self.failures += 1
        size = chance.choice([len(self._medium), len(self.content)])
        for page, versions in self._pages.items():
            if chance.random() < 0.5:
                _put(self._medium, page, versions[-1][1])
        _resize(self._medium, size)
        self._pages.clear()
        self._sizes.clear()
        if chance.random() < 0.3:
            self.forget_cache()

    def forget_cache(self) -> None:
        """Of the pages that are clean."""
        size = len(self.content)
        dirty = {page: versions[-1][1] for page, versions in self._pages.items()}
        self.content[:] = self._medium
        _resize(self.content, size)
        for page, version in dirty.items():
            _put(self.content, page, version)
        _resize(self.content, size)

    def survived(self, arrivals: Arrivals) -> bytes:
        """What there is after a power cut."""
        if not self._sizes:
            return bytes(self._medium)
        chance = arrivals.chance
        sizes = [len(self._medium), *(size for _, size in self._sizes)]
        size = sizes[arrivals.of([time for time, _ in self._sizes])]
        data = bytearray(self._medium)
        for page, versions in self._pages.items():
            arrived = arrivals.of([time for time, _ in versions])
            known = bytes(self._medium[page * PAGE : (page + 1) * PAGE])
            if not arrived and not known and chance.random() < _STALE:
                _put(data, page, chance.randbytes(PAGE))
            if arrived:
                older = versions[arrived - 2][1] if arrived > 1 else known
                _put(data, page, _torn(chance, older, versions[arrived - 1][1]))
        _resize(data, size)
        return bytes(data)


def _put(data: bytearray, page: int, content: bytes) -> None:
    if len(data) < page * PAGE:
        _resize(data, page * PAGE)
    data[page * PAGE : (page + 1) * PAGE] = content.ljust(PAGE, b"\0")


def _resize(data: bytearray, size: int) -> None:
    del data[size:]
    data.extend(bytes(size - len(data)))


def _torn(chance: random.Random, old: bytes, new: bytes) -> bytes:
    """Most often the new page; else some sectors of it, and the others of the old one."""
    if chance.random() >= _TORN:
        return new
    cut = _SECTOR * chance.randint(1, PAGE // _SECTOR - 1)
    old, new = old.ljust(PAGE, b"\0"), new.ljust(PAGE, b"\0")
    return new[:cut] + old[cut:] if chance.random() < 0.7 else old[:cut] + new[cut:]
