"""How the shares of the fault campaign are run, added up and told."""

from pathlib import Path

import pytest

from benchmarks import faults, properties
from benchmarks.fault_figures import page, searched, sentence
from benchmarks.faults import PARTS, Part, Told, rows, told_as_rows
from benchmarks.measure import Report, Row, absent, at_most, limited
from benchmarks.properties import MACHINES

KILLS = next(part for part in PARTS if part.module == "kills")


def report(*found: Row) -> Report:
    return Report("2026-01-02T03:04", "2 cores", "Linux-6", "ext4", "CPython 3", {"msgspec": "1"}, [*found])


def told(part: Part, figures: Told) -> list[Row]:
    return [*told_as_rows(part, figures, quick=False)]


def test_each_part_has_its_line() -> None:
    made = [row for part in PARTS for row in told(part, Told(counted=dict.fromkeys(part.goals, 8_888_888)))]
    shown = page(report(*made), None)
    assert shown.startswith("Measured on 2026-01-02: 2 cores, ext4, Linux-6, CPython 3; msgspec 1.")
    assert shown.count("8,888,888") == sum(len(part.goals) for part in PARTS)
    assert "| 0 |" in shown
    assert "**Bold**" in shown
    assert shown.count("**") == 2


def test_what_was_lost_or_missed_is_bold_and_its_seed_is_named() -> None:
    found = told(KILLS, Told(9_999, 1, "seed 17: Lost: entry 3", {"lost": 1}))
    shown = page(report(*found), None)
    assert "**9,999** kills" in shown
    assert "**1** lost | **1** |" in shown
    assert found[-1].against == "seed 17: Lost: entry 3"
    assert "**9,999** kills" in sentence(report(*found))


def test_what_cannot_be_done_here_says_why() -> None:
    power = next(part for part in PARTS if part.module == "power")
    [row] = told_as_rows(power, Told(reason="there is no mkfs.xfs"), quick=False)
    assert row.met is None
    assert "| cannot be done here: there is no mkfs.xfs |  |" in page(report(row), None)


def test_each_machine_has_its_line_and_a_violation_is_bold() -> None:
    found = [
        limited(f"{name}: {what}", what, [1_234], "50 s", at_most(0) if what == "violations" else None)
        for name in MACHINES
        for what in ("examples", "operations", "crashes injected", "violations")
    ]
    shown = searched(report(*found, absent(properties.KILLS, "", "could not be run: no such file")))
    assert shown.startswith("Measured on 2026-01-02, each for 50 s: 2 cores, ext4, Linux-6, CPython 3.")
    for name in MACHINES:
        assert f"| {name} | 1,234 | 1,234 | 1,234 | **1,234** |" in shown
    assert shown.endswith(f"| {properties.KILLS} | could not be run: no such file |  |  |  |")
    assert searched(None) == "Not measured yet."


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    parts = (
        Part("fuzzing", "hostile input", 90, 90, 40, {"inputs": 90}),
        Part("nothing", "no such part", 1, 1, 0, {"things": 1}),
    )
    monkeypatch.setattr(faults, "PARTS", parts)
    monkeypatch.setattr(faults, "_MEMORY", tmp_path / "none")
    monkeypatch.setattr(faults, "_KEPT", tmp_path / "kept")


@pytest.mark.usefixtures("small_parts")
@pytest.mark.campaign
def test_shares_are_run_side_by_side_and_added_up_and_one_that_ends_badly_is_a_violation(
    tmp_path: Path,
) -> None:
    found = {row.name: row for row in rows(tmp_path, quick=False)}
    assert (found["hostile input: inputs"].value, found["hostile input: inputs"].met) == (90, True)
    assert found["hostile input: violations"].value == 0
    assert sum(row.value or 0 for name, row in found.items() if name.endswith(("accepted", "refused"))) == 90
    failed = found["no such part: violations"]
    assert (failed.value, failed.met) == (1, False)
    assert "seed 8000000: ended with 1" in failed.against


@pytest.mark.usefixtures("small_parts")
@pytest.mark.campaign
def test_a_run_that_was_broken_off_goes_on_where_it_was_unless_something_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken_off, again, whole = (tmp_path / name for name in ("broken_off", "again", "whole"))
    for folder in (broken_off, again, whole):
        folder.mkdir()
    next(rows(broken_off, quick=False))  # of the three shares of the first part, at least
    capsys.readouterr()
    found = {row.name: row.value for row in rows(again, quick=False)}
    assert found["hostile input: inputs"] == 90
    assert capsys.readouterr().err.count("told by the run that was broken off") == 3
    monkeypatch.setattr(faults, "_sources", lambda: "others")
    assert {row.name: row.value for row in rows(whole, quick=False)} == found
    assert "broken off" not in capsys.readouterr().err
    assert not [*tmp_path.glob("kept/*")]
