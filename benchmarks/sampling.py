"""One job, done by all peers that can do it, in interleaved rounds; and the rows that come of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import isnan, nan
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from benchmarks.children import Children, Failed
from benchmarks.measure import Row, Target, absent, compared, interleave, limited, progress
from benchmarks.peers import OURS, PEERS, Peer

_BUILDERS = 2

Want = Callable[[Peer], Target | None]


class Bench(NamedTuple):
    children: Children
    folder: Path
    rounds: int
    quick: bool

    def able(self, job: str, most: int = 0) -> list[str]:
        """Who can do the job, on a chat of that size."""
        return [
            label
            for label, peer in PEERS.items()
            if job in self.children.jobs.get(label, ()) and peer.most >= most
        ]


class Sampled(NamedTuple):
    """``failed``: who could not, and why; ``answers``: all that was answered."""

    values: dict[str, list[float]]
    failed: dict[str, str]
    answers: dict[str, list[dict[str, Any]]]

    def of(self, field: str) -> "Sampled":
        """The same, of another field of the answers."""
        values = {label: [answer[field] for answer in some] for label, some in self.answers.items()}
        return Sampled(values, self.failed, self.answers)


def sample(
    bench: Bench,
    labels: Iterable[str],
    order: Callable[[str, int], dict[str, Any]],
    *,
    digest: str = "",
    rounds: int | None = None,
) -> Sampled:
    """``order``: what is asked of a peer in a round. ``digest``: of what it must give back."""
    failed: dict[str, str] = {}
    answers: dict[str, list[dict[str, Any]]] = {label: [] for label in labels}

    def one(label: str) -> float:
        if label in failed:
            return nan
        what = order(label, len(answers[label]))
        if what.get("new") and not bench.quick and label not in bench.children.spare:
            bench.children.import_anew(one for one in answers if one not in failed)  # all of this round
        try:
            answer = bench.children.order(label, **what)
        except Failed as error:
            failed[label] = str(error)
            return nan
        if digest and answer.get("digest", "") not in (digest, ""):
            failed[label] = f"gave back other messages: {answer['digest']} and not {digest}"
            return nan
        answers[label].append(answer)
        return float(answer["value"])

    cases = {label: partial(one, label) for label in answers}
    values = interleave(rounds or bench.rounds, cases, warm_up=False)
    kept = {label: some for label, some in values.items() if not any(map(isnan, some))}
    return Sampled(kept, failed, answers)


def build(bench: Bench, labels: Iterable[str], order: Callable[[str], dict[str, Any]]) -> Sampled:
    """Stores for what is measured next. Two peers at a time, the slow ones first: nothing is timed."""
    modules: dict[str, list[str]] = {}
    for label in sorted(labels, key=lambda label: PEERS[label].pace):
        modules.setdefault(PEERS[label].module, []).append(
            label
        )  # the process of a module does one thing at a time
    done = Sampled({}, {}, {})

    def one(some: Sequence[str]) -> None:
        for label in some:
            progress(f"  building for {label}")
            try:
                answer = bench.children.order(label, **order(label))
            except Failed as error:
                done.failed[label] = str(error)
            else:
                done.values[label] = [answer["value"]]

    with ThreadPoolExecutor(_BUILDERS) as builders:
        try:
            list(builders.map(one, modules.values()))
        except BaseException:
            bench.children.kill()  # else their end would be waited for
            raise
    return done


def versus(
    bench: Bench,
    name: str,
    unit: str,
    job: str,
    sampled: Sampled,
    *,
    faster: bool = False,
    want: Want = lambda _: None,
    among: Callable[[Peer], bool] = lambda _: True,
) -> Iterator[Row]:
    """Ours next to each of them, and a word about each that is not there."""
    if OURS in sampled.failed:
        yield absent(name, OURS, f"failed: {sampled.failed[OURS]}")
        return
    for label, peer in PEERS.items():
        jobs = bench.children.jobs.get(label)
        if label == OURS or jobs is None or not among(peer):
            continue
        if label in sampled.values:
            yield compared(name, unit, sampled.values, OURS, label, want(peer), faster=faster)
        elif label in sampled.failed:
            yield absent(name, label, f"failed: {sampled.failed[label]}")
        elif job not in jobs and not peer.only:
            yield absent(name, label, "no such job")


def best(
    name: str, unit: str, sampled: Sampled, peers: Iterable[str], *, faster: bool, target: Target | None
) -> Iterator[Row]:
    """Ours next to the best of these."""
    medians = {label: median(sampled.values[label]) for label in peers if label in sampled.values}
    if medians and OURS in sampled.values:
        label = (min if faster else max)(medians, key=lambda label: medians[label])
        row = compared(name, unit, sampled.values, OURS, label, target, faster=faster)
        yield msgspec.structs.replace(row, against=f"the best peer: {label}")


def points(rows: Iterable[Row], picture: str, size: int) -> Iterator[Row]:
    """The same rows, as points of a picture."""
    for row in rows:
        yield msgspec.structs.replace(row, picture="" if row.note else picture, size=size)


def alone(name: str, unit: str, sampled: Sampled, against: str = "", target: Target | None = None) -> Row:
    """Ours without a peer."""
    if OURS in sampled.failed:
        return absent(name, OURS, f"failed: {sampled.failed[OURS]}")
    return limited(name, unit, sampled.values[OURS], against, target)
