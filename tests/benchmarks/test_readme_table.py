"""The tables of chatfold next to its peers."""

from benchmarks.measure import Report, Row
from benchmarks.peers import FULL, HOP
from benchmarks.summary import tell_all_jobs, tell_first_jobs

JOB = "durable append, one turn at a time"


def row(
    against: str, ratio: float, target: str | None = None, met: bool | None = None, unit: str = "turns/s"
) -> Row:
    return Row(JOB, 1_000, unit, against, 500, ratio, (ratio, ratio), 5, target, met)


def report(*rows: Row) -> Report:
    return Report("2026-01-02T03:04", "2 cores", "Linux-6", "ext4", "CPython", {"msgspec": "1"}, [*rows])


def told(*rows: Row) -> str:
    text = tell_all_jobs(report(*rows), [JOB])
    return next(line for line in text.splitlines() if line.startswith(f"| {JOB}"))


def told_first(*rows: Row) -> str:
    text = tell_first_jobs(report(*rows), [JOB])
    return next(line for line in text.splitlines() if line.startswith(f"| {JOB}"))


def test_what_was_missed_is_bold_and_its_target_is_told() -> None:
    line = told(row(HOP, 0.5, ">= 0.9", met=False), row(FULL, 2.0, ">= 1.2", met=True))
    assert line == f"| {JOB} | 1,000 turns/s | **0.5 x (>= 0.9), {HOP}** | 2 x (>= 1.2) |  |"


def test_of_the_frameworks_the_hardest_to_beat_is_shown() -> None:
    slow, quick = "Google ADK SqliteSessionService", "OpenAI Agents SQLiteSession"
    assert told(row(slow, 20), row(quick, 1.5)).endswith(f"| 1.5 x, {quick} |")


def test_a_job_that_was_not_measured_has_an_empty_line() -> None:
    assert told() == f"| {JOB} | not measured |  |  |  |"


def test_a_loss_is_bold_in_the_short_table_and_a_missed_target_is_not() -> None:
    quick = "OpenAI Agents SQLiteSession"
    line = told_first(row(FULL, 0.5, ">= 0.4", met=True), row(quick, 1.5, ">= 2", met=False))
    assert line == f"| {JOB} | 1,000 turns/s | **0.5 x** | 1.5 x, {quick} |"


def test_raw_sqlite_is_told_by_the_setting_that_is_harder_to_beat() -> None:
    assert told_first(row(FULL, 4.4), row(f"{FULL}, a file a chat", 2.5)).endswith("| 2.5 x |  |")


def test_of_bytes_the_smaller_is_the_better() -> None:
    small, large = "eventsourcing SQLite", "OpenAI Agents SQLiteSession"
    rows = [row(FULL, 0.8, unit="MB"), row(large, 0.5, unit="MB"), row(small, 1.25, unit="MB")]
    assert told_first(*rows).endswith(f"| 1.2 x | **0.8 x**, {small} |")


def test_the_longest_chat_is_told_next_to_a_short_one() -> None:
    longest = "cold open, 1,000 messages"
    flat = Row(longest, 3.2, "ms", "a short chat", 4.26, 0.75)
    assert "one of 1,000 messages opened in 3.2 ms, the short one in 4.26." in tell_first_jobs(
        report(flat), [longest]
    )


def test_the_short_table_has_six_jobs_and_says_who_was_not_there() -> None:
    made = report()
    made.missing = {"LMDB": "not installed"}
    text = tell_first_jobs(made)
    assert text.count("| not measured |") == 6
    assert "Not measured: LMDB (not installed)." in text
