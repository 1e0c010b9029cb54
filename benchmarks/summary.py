"""The short table of the README, out of ``results/side_by_side.jsonl``; see ``pages``."""

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
_LESS = ("B a message", "MB", "B/B")  # units of which less is better, and the ratio ours divided by theirs


def summary(found: Report, jobs: Sequence[str] = _JOBS) -> str:
    """Markdown: where it was measured, the table, how many targets were missed."""
    versions = {"msgspec": found.libraries["msgspec"], **found.versions}
    told = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()) if name != "chatfold")
    absent = "".join(f" Not measured: {label} ({why})." for label, why in found.missing.items())
    judged = [row for row in found.rows if row.met is not None]
    missed = [row for row in judged if not row.met]
    lines = [
        f"Measured on {found.date[:10]}: {found.where}; {told}.{absent}",
        "",
        "| job | chatfold | the limit | raw SQLite | the quickest framework |",
        "|---|---|---|---|---|",
        *(
            _line(job, [row for row in found.rows if row.name.startswith(job) and not row.note])
            for job in jobs
        ),
        "",
        f"{len(judged) - len(missed)} of {len(judged)} targets are met; **bold** is a figure whose target is missed.",
    ]
    return "\n".join(lines)


def _line(job: str, rows: Sequence[Row]) -> str:
    if not rows:
        return f"| {job} | not measured |  |  |  |"
    frameworks = [row for row in rows if (peer := PEERS.get(row.against)) and peer.framework]
    less = rows[0].unit in _LESS
    hardest = sorted(frameworks, key=lambda row: (row.ratio or 0) * (-1 if less else 1))[:1]
    limits = [
        row
        for row in rows
        if row.against in (HOP, DECODE) or row.ratio is None or row.against == "a short chat"
    ]
    raw = [row for row in rows if row.against in (FULL, NORMAL)][:1]
    best = [row for row in rows if row.against.startswith("the best peer")]
    ours = f"{number(rows[0].value or 0)} {rows[0].unit}"
    return f"| {job} | {ours} | {_told(limits)} | {_told([*raw, *best])} | {_told(hardest, named=True)} |"


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
