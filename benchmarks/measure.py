"""How a number is taken, told and kept: interleaved rounds, medians, rows, a table, a line a row."""

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from random import Random
from statistics import median

import msgspec

from benchmarks.machine import facts

QUICK_ROUNDS = 3
"""In a quick run, of everything: it is there to see that all of it works, and about where it stands."""

Case = Callable[[], float]
Samples = Mapping[str, Sequence[float]]


class Target(msgspec.Struct, frozen=True):
    """A bound on a row's ratio or, where there is no peer, on its value."""

    sign: str
    bound: float

    def met(self, figure: float) -> bool:
        return figure >= self.bound if self.sign == ">=" else figure <= self.bound

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}"


def at_least(bound: float) -> Target:
    return Target(">=", bound)


def at_most(bound: float) -> Target:
    return Target("<=", bound)


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """``value`` and ``peer`` are medians; ``ratio`` is the median of the ratios within a round, not theirs."""

    name: str
    value: float | None = None
    unit: str = ""
    against: str = ""
    peer: float | None = None
    ratio: float | None = None
    # the smallest and the largest ratio of a round, or value, if there is no ratio
    spread: tuple[float, float] | None = None
    rounds: int = 0
    target: str | None = None
    met: bool | None = None
    note: str = ""  # why there is no figure, if there is none
    picture: str = ""  # the curves that it is a point of
    size: int = 0  # and at how many messages


class Report(msgspec.Struct):
    """What a run of a suite left behind."""

    date: str
    machine: str
    system: str
    disk: str
    python: str
    libraries: dict[str, str]
    rows: list[Row]
    versions: dict[str, str] = {}
    missing: dict[str, str] = {}

    @property
    def where(self) -> str:
        return f"{self.machine}, {self.disk}, {self.system}, {self.python}"


def interleave(rounds: int, cases: Mapping[str, Case], *, warm_up: bool = True) -> dict[str, list[float]]:
    """Each case once a round, in a new order each time: nobody is always first, or always after the same one."""
    order = list(cases)
    random = Random(rounds)
    if warm_up:
        for name in order:
            cases[name]()
    samples: dict[str, list[float]] = {name: [] for name in order}
    for index in range(rounds):
        random.shuffle(order)
        for name in order:
            progress(f"  round {index + 1}/{rounds}: {name}")
            # What earlier cases left behind is not this one's to clean up, nor the workload's to be walked over.
            gc.collect()
            gc.freeze()
            samples[name].append(cases[name]())
    return samples


def compared(
    name: str,
    unit: str,
    samples: Samples,
    ours: str,
    theirs: str,
    target: Target | None = None,
    *,
    faster: bool = False,
) -> Row:
    """One case of ``interleave`` next to another; ``faster``: the ratio says how many times less time we take."""
    pairs = zip(samples[ours], samples[theirs], strict=True)
    ratios = [b / a if faster else a / b for a, b in pairs]
    ratio = median(ratios)
    return Row(
        name,
        median(samples[ours]),
        unit,
        theirs,
        median(samples[theirs]),
        ratio,
        (min(ratios), max(ratios)),
        len(ratios),
        *_verdict(target, ratio),
    )


def limited(name: str, unit: str, values: Sequence[float], against: str, target: Target | None = None) -> Row:
    """A figure that has no peer, only a limit in its own unit."""
    value = median(values)
    return Row(
        name,
        value,
        unit,
        against,
        None,
        None,
        (min(values), max(values)) if len(values) > 1 else None,
        len(values),
        *_verdict(target, value),
    )


def absent(name: str, against: str, note: str) -> Row:
    """A comparison that there is not, and why."""
    return Row(name, against=against, note=note)


def _verdict(target: Target | None, figure: float) -> tuple[str | None, bool | None]:
    return (None, None) if target is None else (str(target), target.met(figure))


# --- telling -----------------------------------------------------------------------------------------------


def progress(text: str) -> None:
    """Where we are, on stderr; on a terminal one line, overwritten."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
    elif not text.startswith(" "):
        print(text, file=sys.stderr, flush=True)


def table(rows: Sequence[Row]) -> str:
    """A line a row; of rows with the same name, which belong together, only the first says it."""
    heading = ("what", "value", "against", "its value", "ratio", "target", "")
    cells: list[tuple[str, ...] | str] = [heading]
    for name, group in groupby(rows, key=lambda row: row.name):
        before = ("", "")
        for row in (some := list(group)):
            if row.note:
                continue
            first = (name, _value(row))
            shown = ("" if here == there else here for here, there in zip(first, before, strict=True))
            cells.append((*shown, *_rest(row)))
            before = first
        for note, noted in groupby(sorted(some, key=lambda row: row.note), key=lambda row: row.note):
            if note:
                who = ", ".join(row.against for row in noted)
                cells.append(f"    {note}: {who}" if before[0] else f"{name}: {note}: {who}")
    lines = [line for line in cells if not isinstance(line, str)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    told = [line if isinstance(line, str) else _line(line, widths) for line in cells]
    return "\n".join([told[0], "-" * (sum(widths) + 2 * len(widths)), *told[1:]])


def _rest(row: Row) -> tuple[str, ...]:
    met = {True: "met", False: "MISSED", None: ""}[row.met]
    return row.against, "" if row.peer is None else number(row.peer), _ratio(row), row.target or "", met


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    right = (1, 3, 4)
    return "  ".join(
        cell.rjust(width) if column in right else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ).rstrip()


def _value(row: Row) -> str:
    """Where there is no ratio, with the smallest and the largest value."""
    told = "" if row.value is None else f"{number(row.value)} {row.unit}"
    if row.ratio is not None or row.spread is None:
        return told
    low, high = row.spread
    return f"{told} ({number(low)} to {number(high)})"


def _ratio(row: Row) -> str:
    """With the smallest and the largest of a round: a wide range says that the machine was not quiet."""
    if row.ratio is None or row.spread is None:
        return ""
    low, high = row.spread
    return f"{row.ratio:.3g} ({low:.2g} to {high:.2g})"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def ratio(value: float) -> str:
    """As it is told in a document: two digits, all of them if there are more before the point."""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.2g}"


# --- keeping -----------------------------------------------------------------------------------------------


def write_results(path: Path, suite: str, rows: Sequence[Row], *, quick: bool, **more: object) -> None:
    """What the run ran on, then a line a row, so that a diff of two runs shows what moved."""
    head = {"suite": suite, "quick": quick, **facts(path.parent), **more}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.Encoder().encode_lines([head, *rows]))


def read_results(path: Path) -> Report:
    head, *rows = msgspec.json.Decoder().decode_lines(path.read_bytes())
    return msgspec.convert({**head, "rows": rows}, Report)
