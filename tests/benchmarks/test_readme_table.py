"""The tables of chatfold next to its peers."""

from benchmarks.measure import Report, Row
from benchmarks.peers import FULL, HOP
from benchmarks.summary import tell_all_jobs

JOB = "durable append, one turn at a time"


def row(against: str, ratio: float, target: str | None = None, met: bool | None = None) -> Row:
    return Row(JOB, 1_000, "turns/s", against, 500, ratio, (ratio, ratio), 5, target, met)


def told(*rows: Row) -> str:
    made = Report("2026-01-02T03:04", "2 cores", "Linux-6", "ext4", "CPython", {"msgspec": "1"}, [*rows])
    return next(line for line in tell_all_jobs(made, [JOB]).splitlines() if line.startswith(f"| {JOB}"))


def test_what_was_missed_is_bold_and_its_target_is_told() -> None:
    line = told(row(HOP, 0.5, ">= 0.9", met=False), row(FULL, 2.0, ">= 1.2", met=True))
    assert line == f"| {JOB} | 1,000 turns/s | **0.5 x (>= 0.9), {HOP}** | 2 x (>= 1.2) |  |"


def test_of_the_frameworks_the_hardest_to_beat_is_shown() -> None:
    slow, quick = "Google ADK SqliteSessionService", "OpenAI Agents SQLiteSession"
    assert told(row(slow, 20), row(quick, 1.5)).endswith(f"| 1.5 x, {quick} |")


def test_a_job_that_was_not_measured_has_an_empty_line() -> None:
    assert told() == f"| {JOB} | not measured |  |  |  |"
