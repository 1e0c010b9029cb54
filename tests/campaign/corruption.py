"""Corruption at rest: bits flipped, files cut, lines and blocks and files exchanged. Is anything wrong ever read?

Of ``number`` flips, as many as there are bits go through a small log bit by bit, with its witness and without; the others
hit a larger log, caches and blobs at random. With every other seed the last segments end in padding. A tenth as many truncations, line faults, blocks and files come on top, or
as many as there are. After each, the chat is read in every quick way; after some, in every way there is, and a writer
goes on. What ``judging_reads`` finds wrong is a violation; the words it is reported with say how to do it again.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TypeVar

from tests.support.damage.intact import Intact, bulky, cached, large, small
from tests.support.damage.line_faults import block_faults, file_faults, line_faults
from tests.support.figures import Figures
from tests.support.judges.judging_reads import Judge, Wrong, judge_writer

_THOROUGH, _WRITTEN = 40, 60  # one damage in so many is looked at in every way, or written after
T = TypeVar("T")


class Campaign:
    def __init__(self, seed: int, folder: Path) -> None:
        self.figures = Figures()
        self.chance = random.Random(seed)
        self._folder = folder
        is_padded = seed % 2  # so a writer leaves it that was killed
        self.small = small(folder / "small" / "store", padding=20 * is_padded)
        self.other = small(folder / "other" / "store", said="elsewhere")
        self.large = large(folder / "large" / "store", padding=20_000 * is_padded)
        self.cached = cached(folder / "cached" / "store")
        self.bulky = bulky(folder / "bulky" / "store")

    async def damage(
        self, what: str, intact: Intact, where: str, damaged: AbstractContextManager[None], *, every: int = 1
    ) -> None:
        """``every``: how much rarer than usual the slow ways are."""
        figures = self.figures
        figures.tried += 1
        figures.count(what)
        with damaged:
            try:
                judge = Judge(intact, foreign="another chat" in where)
                await (judge.by_caches(self.chance) if intact is self.cached else judge.quickly())
                if not self.chance.randrange(_THOROUGH * every):
                    await judge.thoroughly()
                    figures.count("read in every way")
                if not self.chance.randrange(_WRITTEN * every):
                    figures.count(
                        "written after"
                        if await judge_writer(intact, self._folder)
                        else "refused to write after"
                    )
            except Exception as error:  # noqa: BLE001 (an error that no reader documents is a violation, too)
                figures.violated(where, error)
                figures.count("wrong values" if isinstance(error, Wrong) else "other errors")
            else:
                figures.count(f"{what} detected" if judge.told else f"{what} harmless")

    def some(self, places: Sequence[T], most: int) -> Sequence[T]:
        """All of them, if there are no more."""
        return places if len(places) <= most else self.chance.sample(places, most)

    # --- bits ------------------------------------------------------------------------------------------------

    async def flips(self, number: int) -> None:
        log = [*self.small.segments, self.small.head_file]
        bits = [(path, bit) for path in log for bit in range(8 * len(self.small.files[path]))]
        exhaustive = self.some(bits, max(1, number * 2 // 5))
        self.figures.count("bits of the small log not flipped", len(bits) - len(exhaustive))
        for path, bit in exhaustive:
            await self._flip(self.small, path, bit)
        with self.small.missing(self.small.head_file):
            for path, bit in exhaustive:
                if path != self.small.head_file:
                    await self._flip(self.small, path, bit, "without its head, ")
        left = number - self.figures.counted["flips"]
        for _ in range(left // 4):
            await self._flip_any(self.cached, self.cached.caches, every=4)
        for _ in range(left // 16):
            await self._flip_any(self.bulky, self.bulky.blobs, every=4)
        for _ in range(left - left // 4 - left // 16):
            await self._flip_any(self.large, self.large.segments, every=4)

    async def _flip_any(self, intact: Intact, paths: list[Path], *, every: int) -> None:
        path = self.chance.choice(paths)
        await self._flip(intact, path, self.chance.randrange(8 * len(intact.files[path])), every=every)

    async def _flip(self, intact: Intact, path: Path, bit: int, how: str = "", *, every: int = 1) -> None:
        where = f"{how}bit {bit} of {path.relative_to(intact.root)} in {intact.root.parent.name}"
        await self.damage("flips", intact, where, intact.flipped(path, bit), every=every)

    # --- the rest --------------------------------------------------------------------------------------------

    async def truncations(self, most: int) -> None:
        segments = {path: self.small.files[path] for path in self.small.segments}
        cuts = [(path, size) for path, content in segments.items() for size in range(len(content))]
        for without in (False, True):
            some = self.some(cuts, most // 2)
            self.figures.count("bytes of the small log not cut at", len(cuts) - len(some))
            for path, size in some:
                with ExitStack() as stack:
                    if without:
                        stack.enter_context(self.small.missing(self.small.head_file))
                    where = f"{path.name} cut to {size} bytes{', without its head' * without}"
                    await self.damage(
                        "truncations", self.small, where, self.small.replaced(path, segments[path][:size])
                    )

    async def others(self, most: int) -> None:
        """Each with the witness and without it."""
        faults = {
            "line faults": list(line_faults(self.small, self.other)),
            "blocks": [*block_faults(self.small), *block_faults(self.large)],
            "file faults": list(file_faults(self.small, self.other)),
        }
        for what, found in faults.items():
            for where, contents in self.some(found, most):
                intact = self.large if self.large.root in next(iter(contents)).parents else self.small
                for gone in ({}, {intact.head_file: None}):
                    damaged = intact.all_replaced({**contents, **gone})
                    await self.damage(what, intact, f"{where}{', without its head' * bool(gone)}", damaged)

    def unharmed(self) -> Iterator[str]:
        """Every file is as it was: the damage was put back, and nobody wrote."""
        for intact in (self.small, self.other, self.large, self.cached, self.bulky):
            for path, content in intact.files.items():
                if path.read_bytes() != content:
                    yield str(path)


def campaign(number: int, seed: int, folder: Path) -> Figures:
    """``number``: how many bits are flipped."""
    made = Campaign(seed, folder)

    async def run() -> None:
        await made.flips(number)
        await made.truncations(number // 10)
        await made.others(number // 50)

    asyncio.run(run())
    for path in made.unharmed():
        made.figures.violated(path, Wrong("was changed by somebody who only read"))
    made.figures.counted.setdefault("wrong values", 0)
    return made.figures
