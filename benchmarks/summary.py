"""The short table of the README and the long one of ``docs/benchmarks.md``, out of ``results/side_by_side.jsonl``; see ``pages``."""

from collections.abc import Iterable, Sequence

from benchmarks.measure import Report, Row, number, ratio
from benchmarks.peers import DECODE, FULL, HOP, NORMAL, PEERS

_JOBS = (
    "durable append, one turn at a time",
    "durable append, 64 appenders on one chat",
    "durable append, 64 chats side by side",
    "relaxed append, one turn at a time",
    "cold open + messages for the next call, 100,000 messages",
    "cold open + messages for the next call, 1,000,000 messages",
    "the last 50 of 100,000 messages, store open",
    "the prompt at a random point of 100,000 messages, store open",
    "full replay, 100,000 messages",
    "fork at 100,000 messages",
    "compaction of 1,000 messages",
    "to another context and back, 1,000 messages",
    "search in 100,000 messages, first 20 hits",
    "1,000 chats of 20 messages, each opened and read",
    "bytes on disk, 100,000 messages",
    "bytes on disk a byte of JSON payload, 100,000 messages",
    "peak memory above the interpreter, opening 100,000 messages",
)
_FIRST_JOBS = (
    "durable append, one turn at a time",
    "durable append, 64 appenders on one chat",
    "cold open + messages for the next call, 100,000 messages",
    "cold open + messages for the next call, 1,000,000 messages",
    "full replay, 100,000 messages",
    "bytes on disk, 100,000 messages",
)
"""What a visitor asks first; chosen by the question, whoever wins."""
_SHORT = "a short chat"
_LESS = ("B a message", "MB", "B/B")  # units of which less is better, and the ratio ours divided by theirs


def tell_first_jobs(found: Report, jobs: Sequence[str] = _FIRST_JOBS) -> str:
    """Markdown for somebody who knows none of the targets: who is quicker, and how much."""
    lines = [
        f"Measured on {found.date[:10]}: {found.where}.{_tell_absent(found)}",
        "",
        "| job | chatfold | raw SQLite | the quickest framework |",
        "|---|---|---|---|",
        *(_compare(job, _rows_of(job, found)) for job in jobs),
        "",
        "2 x: chatfold is twice as quick, or takes half the bytes. **Bold** is below 1: there it loses.",
        "Raw SQLite is the better of one file for all chats and a file a chat.",
        *(_tell_growth(row) for job in jobs for row in _rows_of(job, found) if row.against == _SHORT),
    ]
    return "\n".join(lines)


def _compare(job: str, rows: Sequence[Row]) -> str:
    if not rows:
        return f"| {job} | not measured |  |  |"
    raw = "".join(_tell_gain(row) for row in _hardest(row for row in rows if row.against.startswith(FULL)))
    framework = "".join(f"{_tell_gain(row)}, {row.against}" for row in _hardest(_frameworks(rows)))
    return f"| {job} | {number(rows[0].value or 0)} {rows[0].unit} | {raw} | {framework} |"


def _tell_gain(row: Row) -> str:
    text = f"{ratio(_gain(row))} x"
    return f"**{text}**" if _gain(row) < 1 else text


def _tell_growth(row: Row) -> str:
    """Taken in rounds of its own, so that its figure is not the one of the table."""
    length = row.name.rpartition(", ")[2]
    return (
        f"Next to {_SHORT}, in rounds without the others, one of {length} opened in"
        f" {number(row.value or 0)} {row.unit}, the short one in {number(row.peer or 0)}."
    )


def tell_all_jobs(found: Report, jobs: Sequence[str] = _JOBS) -> str:
    """Markdown: where it was measured, the table, how many targets were missed."""
    versions = {"msgspec": found.libraries["msgspec"], **found.versions}
    told = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()) if name != "chatfold")
    judged = [row for row in found.rows if row.met is not None]
    missed = [row for row in judged if not row.met]
    lines = [
        f"Measured on {found.date[:10]}: {found.where}; {told}.{_tell_absent(found)}",
        "",
        "| job | chatfold | the limit | raw SQLite | the quickest framework |",
        "|---|---|---|---|---|",
        *(_line(job, _rows_of(job, found)) for job in jobs),
        "",
        f"{len(judged) - len(missed)} of {len(judged)} targets are met; **bold** is a figure whose target is missed.",
    ]
    return "\n".join(lines)


def _tell_absent(found: Report) -> str:
    return "".join(f" Not measured: {label} ({why})." for label, why in found.missing.items())


def _rows_of(job: str, found: Report) -> list[Row]:
    return [row for row in found.rows if row.name.startswith(job) and not row.note]


def _frameworks(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if (peer := PEERS.get(row.against)) and peer.framework]


def _hardest(rows: Iterable[Row]) -> list[Row]:
    """The row of the peer that is hardest to beat, if there is one."""
    return sorted(rows, key=_gain)[:1]


def _gain(row: Row) -> float:
    """How many times better we are; a row against a peer has a ratio."""
    figure = row.ratio or 1
    return 1 / figure if row.unit in _LESS else figure


def _line(job: str, rows: Sequence[Row]) -> str:
    if not rows:
        return f"| {job} | not measured |  |  |  |"
    limits = [row for row in rows if row.against in (HOP, DECODE, _SHORT) or row.ratio is None]
    raw = [row for row in rows if row.against in (FULL, NORMAL)][:1]
    best = [row for row in rows if row.against.startswith("the best peer")]
    ours = f"{number(rows[0].value or 0)} {rows[0].unit}"
    return f"| {job} | {ours} | {_told(limits)} | {_told([*raw, *best])} | {_told(_hardest(_frameworks(rows)), named=True)} |"


def _told(rows: Iterable[Row], *, named: bool = False) -> str:
    return "; ".join(_figure(row, named=named or row.against not in (FULL, NORMAL)) for row in rows)


def _figure(row: Row, *, named: bool) -> str:
    target = f" ({row.target})" if row.target else ""
    if row.ratio is None:
        text = f"{number(row.value or 0)}{target}" if row.target else ""
    else:
        times = "" if row.unit in _LESS else " x"
        text = f"{ratio(row.ratio)}{times}{target}" + (f", {row.against}" if named else "")
    return f"**{text}**" if row.met is False else text
