"""The suite finds what it is there for: each of these storages has one bug, and the suite fails on it."""

import unittest
from collections.abc import Callable

import pytest

from chatfold.eventlog import MemoryStorage, Storage
from chatfold.testing.conformance import Backend, agreement, stories
from tests.support.profile import searched


class Optimistic(MemoryStorage):
    """Several storages of one place, as the clients of a database are."""


class DeletesWhatForksShare(Optimistic):
    async def delete(self, chat: str) -> None:
        lines = self._chats[chat].lines if chat in self._chats else []
        await super().delete(chat)
        for other in self._chats.values():
            if lines and other.lines[0] == lines[0]:
                other.lines = [line for line in other.lines if line not in lines]


BUGS: list[type[Optimistic]] = [DeletesWhatForksShare]


def backend_of(kind: type[Optimistic]) -> type[Backend]:
    class Place(Backend):
        def __init__(self) -> None:
            self.first = kind()

        def open(self, clock: Callable[[], int]) -> Storage:
            storage = kind(clock=clock)
            storage._chats = self.first._chats
            return storage

    return Place


def failures(kind: type[Optimistic]) -> list[str]:
    """The names of the tests that fail, the machine's among them."""
    suite = unittest.TestSuite()
    for case in (stories(backend_of(kind)), agreement(backend_of(kind), search=searched(1 / 3))):
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    found = unittest.TestResult()
    suite.run(found)
    return [test.id() for test, _ in found.failures + found.errors]


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_the_suite_finds_a_bug_that_was_planted(kind: type[Optimistic]) -> None:
    assert failures(kind)


def test_the_suite_has_nothing_to_say_about_the_same_storage_without_a_bug() -> None:
    assert failures(Optimistic) == []
