"""What the fault campaign, the soak and the long search found, as it is told in the documents; see ``pages``.

A number whose target was missed is bold, and so is a violation.
"""

from collections.abc import Mapping

from benchmarks.measure import Report, Row
from benchmarks.properties import KILLS, MACHINES

_LINES = {
    "simulated disk": (
        "Programs on a simulated disk that loses, reorders and tears whatever was not synced",
        "{steps} steps, {power cuts} power cuts, {kills} kills, {EIO errors} EIO, {ENOSPC errors} ENOSPC; {recoveries interrupted} recoveries interrupted",
    ),
    "simulated disk, every call fails": (
        "The k-th call to the simulated disk fails, for every k of every operation: a power cut, or an error once or from there on",
        "{failures} failures",
    ),
    "real disk, every call fails": (
        "The same on a real disk, each kind of call for itself, too",
        "{failures} failures, {once} once, {from there on} from there on",
    ),
    "kills at random": (
        "`SIGKILL` at a random moment of anything that changes a store",
        "{kills} kills, {entries acknowledged} entries acknowledged, {lost} lost",
    ),
    "kills at every system call": (
        "`SIGKILL` at every system call of append, roll, snapshot, fork, redact, compaction, delete, recovery",
        "{kills} kills, {lost} entries lost",
    ),
    "power cuts": (
        "Power cuts, ext4 and xfs",
        "{cuts with full} with `full`, {cuts with normal} with `normal`; {entries acknowledged, full} entries acknowledged with `full`, {lost} lost; {tails of other chats' lines, told as damage} times lines of another chat, in blocks that ext4 with `data=writeback` gave to this one, were told as damage",
    ),
    "real failed syncs": (
        "Writes that the device behind the file system could not keep, ext4 and xfs",
        "{failures} failed syncs, {acknowledged after a failed sync} entries acknowledged after one, {lost} lost",
    ),
    "damage at rest": (
        "Bits flipped: every bit of a log of three segments, with its witness and without, and random ones of a larger log, caches, blobs",
        "{flips} flips, {wrong values} wrong values read",
    ),
    "damage at rest, cut": (
        "A log of three segments cut at every byte, with its witness and without",
        "{truncations} cuts, {bytes of the small log not cut at} bytes left out",
    ),
    "damage at rest, lines": (
        "Lines swapped, dropped, doubled, spliced, NUL-filled; blocks lost; segments missing, exchanged, of another chat",
        "{line faults} line faults, {blocks} blocks, {file faults} file faults",
    ),
    "whole files exchanged": (
        "Two chats exchange a file (a segment, a blob, a watermark, a cache) under an open storage; then both are repaired",
        "{exchanges} exchanges, {wrong reads} wrong reads, {repaired} repairs, {lost} entries named as lost",
    ),
    "processes side by side": (
        "2 to 8 processes that append, race, compact, fork, redact, delete, read and follow, and are killed",
        "{rounds} rounds, {kills} kills, {acknowledged} entries acknowledged, {entries seen} seen by readers and followers",
    ),
    "hostile input": ("Lines, segments, exports, provider messages, addresses, keys made up or mutated", "{inputs} inputs"),
    "soak": (
        "A soak: writers that are killed, followers, readers, chats that come, roll and go",
        "{seconds} s, {kills} kills, {entries} entries, {rolls} rolls, {lost} lost; memory grew by {memory grown, %} %, open files by {open files grown}",
    ),
}  # fmt: skip


_SEARCHED = ("examples", "operations", "crashes injected", "violations")


class _Figures(dict[str, str]):
    """A figure that there is not is zero: nothing of it was counted."""

    def __missing__(self, key: str) -> str:
        return "0"


def _figure(row: Row) -> str:
    text = f"{row.value or 0:,.0f}"
    return f"**{text}**" if row.met is False else text


def _of(part: str, rows: list[Row]) -> Mapping[str, str]:
    return _Figures(
        {row.name.removeprefix(f"{part}: "): _figure(row) for row in rows if row.name.startswith(f"{part}: ")}
    )


def page(faults: Report | None, soak: Report | None) -> str:
    """The table of ``docs/faults.md``."""
    if faults is None:
        return "Not measured yet."
    libraries = ", ".join(f"{name} {version}" for name, version in sorted(faults.libraries.items()))
    lines = [
        f"Measured on {faults.date[:10]}: {faults.where}; {libraries}. **Bold** is what should not be.",
        "",
        "| what was done | how often | violations |",
        "|---|---|---|",
    ]
    rows = [*faults.rows, *(soak.rows if soak else ())]
    for name, (what, how_often) in _LINES.items():
        part = name.partition(", cut")[0].partition(", lines")[0]
        reason = next((row.note for row in rows if row.name == part and row.note), "")
        figures = _of(part, rows)
        if figures or reason:
            told = reason or how_often.format_map(figures)
            lines.append(f"| {what} | {told} | {'' if reason else figures['violations']} |")
    return "\n".join(lines)


def sentence(faults: Report | None) -> str:
    """What the README says of it."""
    if faults is None:
        return "It has not been measured yet."
    of = {row.name: _figure(row) for row in faults.rows}.get
    return (
        f"Measured on {faults.date[:10]}: {of('kills at random: kills', 0)} kills, {of('kills at random: lost', 0)} acknowledged entries lost;"
        f" {of('power cuts: cuts with full', 0)} power cuts with `full`, {of('power cuts: lost', 0)} lost;"
        f" {of('damage at rest: flips', 0)} bits flipped, {of('damage at rest: wrong values', 0)} wrong values read;"
        f" {of('simulated disk: steps', 0)} operations on a simulated disk with {of('simulated disk: power cuts', 0)} power cuts,"
        f" {of('simulated disk: violations', 0)} promises broken."
    )


def searched(properties: Report | None) -> str:
    """The table of the long search in ``docs/benchmarks.md``."""
    if properties is None:
        return "Not measured yet."
    seconds = next((row.against for row in properties.rows if row.name.endswith(": examples")), "0 s")
    lines = [
        f"Measured on {properties.date[:10]}, each for {seconds}: {properties.where}. **Bold** is what should not be.",
        "",
        "| machine | examples | operations | crashes injected | violations |",
        "|---|---|---|---|---|",
    ]
    for name in (*MACHINES, KILLS):
        note = next((row.note for row in properties.rows if row.name == name), "")
        of = _of(name, properties.rows)
        figures = (note, "", "", "") if note else (of[what] for what in _SEARCHED)
        lines.append(f"| {name} | {' | '.join(figures)} |")
    return "\n".join(lines)
