"""What a part of the campaign counts, and how it is cut into shares."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

T = TypeVar("T")
_APART = 1_000_000


def share(whole: Iterable[T], number: int, seed: int) -> list[T]:
    """Of what is gone through one after the other, ``number`` from where the seed says: its millions are the seed, the rest is where."""
    return [*whole][seed % _APART :][:number]


def owe(figures: "Figures", what: str, number: int, seed: int) -> None:
    """The first share owes what all shares together have to go through, and each counts off its own: none may be left."""
    figures.count(what, 0 if seed % _APART else number)


class Figures(msgspec.Struct):
    tried: int = 0
    violations: int = 0
    first: str = ""  # of the violations: where it was, and how to see it again
    counted: dict[str, int] = {}  # what else is worth telling, by its name
    reason: str = ""  # why nothing was tried on this machine

    def count(self, what: str, number: int = 1) -> None:
        self.counted[what] = self.counted.get(what, 0) + number

    def violated(self, where: str, error: BaseException) -> None:
        self.violations += 1
        self.first = self.first or f"{where}: {type(error).__name__}: {error}"
