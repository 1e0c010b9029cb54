"""The appends that wait for one chat, numbered one after the other into one write. No I/O.

A state that an earlier write left is good enough to write with, because the write compares it. It is not good enough to refuse or
to answer with: for that the chat is looked at first.
"""

import asyncio
import os
from collections.abc import Iterable

import msgspec

from chatfold.eventlog.batch import AppendRequest, Batch
from chatfold.eventlog.errors import ChatfoldError, LeaseLost
from chatfold.eventlog.events import Entry, Head
from chatfold.eventlog.known import Known, Needs, fingerprints_of_events, needs, number
from chatfold.eventlog.postgres.statements import State, Write

_LINES, _BYTES = 1024, 8 << 20  # what is written at once for one chat


class Waiting(msgspec.Struct, eq=False, gc=False):
    """An append, and who waits for it."""

    request: AppendRequest
    answer: asyncio.Future[list[Entry]]


class Numbered(msgspec.Struct):
    """What came of numbering. ``write``: what the ``answers`` depend on; None if they depend on nothing."""

    write: Write | None
    answers: list[tuple[Waiting, list[Entry] | ChatfoldError]]


class Turn:
    """``state``: what the chat was when we last knew; None for one that is not there, or that nobody looked at."""

    def __init__(self, part: int, key: bytes, waiting: list[Waiting], state: State | None) -> None:
        self.part = part
        self.key = key
        self.waiting = waiting
        self.state = state
        self.is_fresh = False  # was it looked at for these very appends?
        self.known = Known()
        self.asked: set[int] = set()  # fingerprints that were looked for
        self.wanted: Needs | None = None
        self.numbered: Numbered | None = None
        if state is None or (state.is_fork and any(map(_fingerprints, waiting))):
            self.forget()

    def forget(self) -> None:
        """The chat is to be looked at, with all that numbering will ask for."""
        self.is_fresh, self.numbered = False, None
        self.known, self.asked = Known(), set()
        wanted = [needs(one.request) for one in self.waiting]
        self.wanted = Needs(_once(one.fingerprints for one in wanted), _once(one.seqs for one in wanted))

    def take(self, state: State | None) -> None:
        """The chat as it is; what was wanted is in ``known``."""
        assert self.wanted is not None
        if self.is_fresh and (state != self.state):
            self.state = state
            self.forget()  # it has changed between two looks: what was seen first is of no use
            return
        self.state, self.is_fresh = state, True
        self.asked.update(self.wanted.fingerprints)
        self.wanted = None

    def number(self, now: int) -> None:
        """Sets ``numbered``, or else ``wanted``."""
        state = self.state or State(new_id(), Head())
        head, known = state.head, Known(dict(self.known.seqs), dict(self.known.lines), dict(self.known.blobs))
        write = Write(self.part, self.key, state, self.state is None, head, new_id(), [], [], {})
        done = Numbered(write, [])
        absent, size = set[int](), 0
        for one in self.waiting:
            request = one.request
            if len(write.lines) > _LINES or size > _BYTES:
                break  # the others come next
            if request.lease and write.lease not in ("", request.lease) and not self.is_fresh:
                break
            try:
                batch = self._number(request, state, head, now, known)
            except ChatfoldError as error:
                if not self.is_fresh:
                    return self.forget()
                done.answers.append((one, error))
                continue
            if isinstance(batch, Needs):
                return self._want(batch)
            done.answers.append((one, batch.entries))
            if batch.lines:
                prints = _add(request, batch, head, known)
                write.prints += prints
                absent.update(fingerprint for fingerprint, _ in prints)
                write.lines += batch.lines
                write.blobs.update(content for event in batch.events for content in event.blobs)
                write.lease = write.lease or request.lease
                head = batch.head
                size += sum(map(len, batch.lines))
            elif not self.is_fresh and not write.lines:
                return self.forget()
        write.head, write.absent = head, sorted(absent - self.asked)
        done.write = write if write.lines else None
        self.numbered = done
        return None

    def _number(
        self, request: AppendRequest, state: State, head: Head, now: int, known: Known
    ) -> Batch | Needs:
        if self.is_fresh and request.lease and request.lease != state.lease:
            raise LeaseLost("the lease has passed", chat=request.chat)
        return number(request, head, head.seq, now, known)

    def _want(self, missing: Needs) -> None:
        if self.is_fresh:
            self.wanted = missing
        else:
            self.forget()
            assert self.wanted is not None
            self.wanted = Needs(
                self.wanted.fingerprints, _once([self.wanted.seqs, missing.seqs]), missing.digests
            )


def new_id() -> int:
    """Nobody else has it."""
    return int.from_bytes(os.urandom(8), "big") >> 1


def _fingerprints(one: Waiting) -> list[int]:
    return [*needs(one.request).fingerprints]


def _once(parts: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(item for part in parts for item in part))


def _add(request: AppendRequest, batch: Batch, head: Head, known: Known) -> list[tuple[int, int]]:
    """Makes the lines just numbered known to the next append; gives their fingerprints, each with its seq."""
    found: list[tuple[int, int]] = []
    fingerprints = fingerprints_of_events(request.id, batch.events)
    for seq, (line, some) in enumerate(zip(batch.lines, fingerprints, strict=True), head.seq + 1):
        known.lines[seq] = line
        for fingerprint in some:
            known.seqs[fingerprint] = [*known.seqs.get(fingerprint, ()), seq]
            found.append((fingerprint, seq))
    for event in batch.events:
        known.blobs.update(event.blobs)
    return found
