"""What numbering needs of a chat's past, asked for before it numbers: a remote storage answers in one round trip.

    known, wanted = Known(), needs(request)
    while isinstance(wanted, Needs):
        ...                                                  # fetch what is wanted into ``known``, at one head
        wanted = number(request, head, durable_seq, now, known)

Once is enough for a new append. A retry asks again: its id or key was found, and now the lines of its batch are looked at.
"""

from collections.abc import Sequence
from itertools import chain

import msgspec

from chatfold.eventlog.batch import (
    AppendRequest,
    Batch,
    build_batch,
    id_fingerprint,
    key_fingerprint,
    text_fingerprint,
)
from chatfold.eventlog.codec import EncodedEvent
from chatfold.eventlog.events import Head
from chatfold.eventlog.line import link_after


class Needs(msgspec.Struct, frozen=True):
    """``fingerprints``: the seqs of the lines that may hold each, and these lines. ``seqs``: lines. ``digests``: blobs."""

    fingerprints: tuple[int, ...] = ()
    seqs: tuple[int, ...] = ()
    digests: tuple[str, ...] = ()


class Known(msgspec.Struct):
    """Plain data. A fingerprint that is not here is new; a line that is not here was not fetched."""

    seqs: dict[int, Sequence[int]] = {}
    lines: dict[int, bytes] = {}
    blobs: dict[str, bytes] = {}


def needs(request: AppendRequest) -> Needs:
    fingerprints = dict.fromkeys(chain.from_iterable(fingerprints_of_events(request.id, request.events)))
    return Needs((*fingerprints,), (request.expected_head.seq,) if request.expected_head.seq else ())


def fingerprints_of_events(id: str | None, events: Sequence[EncodedEvent]) -> list[list[int]]:
    """Those of the entry of each event: what a storage must find its seq by from now on. The first has the id."""
    found = [[text_fingerprint(text) for text in event.texts] for event in events]
    for event, fingerprints in zip(events, found, strict=True):
        if event.key is not None:
            fingerprints.append(key_fingerprint(event.key))
    if id is not None:
        found[0].append(id_fingerprint(id))
    return found


def number(request: AppendRequest, head: Head, durable_seq: int, now: int, known: Known) -> Batch | Needs:
    """The batch that follows ``head``, or what else must be known to number it."""
    try:
        return build_batch(request, head, durable_seq, now, _Past(known, head))
    except _NotFetched as missing:
        return missing.needs


class _NotFetched(Exception):
    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self.needs = needs


class _Past:
    """What is known, and the lines that were numbered in this very attempt."""

    is_tracking = True

    def __init__(self, known: Known, head: Head) -> None:
        self._known = known
        self._head = head
        self._lines: dict[int, bytes] = {}
        self._seqs: dict[int, list[int]] = {}

    def find(self, fingerprint: int) -> Sequence[int]:
        return [*self._known.seqs.get(fingerprint, ()), *self._seqs.get(fingerprint, ())]

    def line(self, seq: int) -> bytes:
        line = self._lines.get(seq) or self._known.lines.get(seq)
        if line is None:
            raise _NotFetched(Needs(seqs=(seq,)))
        return line

    def link(self, seq: int) -> str:
        return self._head.link if seq == self._head.seq else link_after(self.line(seq)).decode()

    def blob(self, digest: str) -> bytes:
        if digest not in self._known.blobs:
            raise _NotFetched(Needs(digests=(digest,)))
        return self._known.blobs[digest]

    def add(self, seq: int, line: bytes, fingerprints: list[int]) -> None:
        self._lines[seq] = line
        for fingerprint in fingerprints:
            self._seqs.setdefault(fingerprint, []).append(seq)
