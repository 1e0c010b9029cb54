"""``python -m benchmarks`` as it is typed: what it refuses, and what becomes of a run that does not get through."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from benchmarks import __main__ as command
from benchmarks.measure import Row, limited


def typed(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """The exit status, or what is said at the end."""
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    with pytest.raises(SystemExit) as ended:
        command.main()
    return ended.value.code


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(command, "_RESULTS", tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def suites(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Row | BaseException]]:
    """What each suite gives, or raises, instead of what it measures."""
    given: dict[str, list[Row | BaseException]] = {
        name: [limited(name, "ms", [1.0], "")] for name in command.SUITES
    }

    def suite(module: str) -> SimpleNamespace:
        def rows(_folder: Path, **_options: object) -> Iterator[Row]:
            for row in given[module.removeprefix("benchmarks.")]:
                if isinstance(row, BaseException):
                    raise row
                yield row

        return SimpleNamespace(rows=rows)

    monkeypatch.setattr(command, "import_module", suite)
    return given


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing"], "no such suite: nothing; there are: eventlog, "),
        (["setup", "replay"], "no such suite: setup"),
        (["properties", "--seconds", "0"], "--seconds: more than none"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert typed(monkeypatch, *words) == 2
    assert told in capsys.readouterr().err


@pytest.mark.usefixtures("suites")
def test_all_suites_run_and_a_quick_run_replaces_no_long_one(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(monkeypatch) == 0
    assert typed(monkeypatch, "--quick") == 0
    for folder in (results, results / "quick"):
        assert {path.stem for path in folder.glob("*.jsonl")} == set(command.SUITES)
    assert capsys.readouterr().out.count("targets missed") == 2 * len(command.SUITES)


def test_a_suite_that_breaks_off_keeps_no_other_from_running(
    results: Path,
    suites: dict[str, list[Row | BaseException]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    suites["replay"] = [limited("a", "ms", [1.0], ""), ValueError("a bug")]
    assert typed(monkeypatch, "eventlog", "replay", "faults") == 1
    assert {path.stem for path in results.glob("*.jsonl")} == {"eventlog", "faults"}
    assert "broken off, nothing written: replay" in capsys.readouterr().err


def test_stopped_by_hand_it_keeps_what_was_finished(
    results: Path, suites: dict[str, list[Row | BaseException]], monkeypatch: pytest.MonkeyPatch
) -> None:
    suites["replay"] = [KeyboardInterrupt()]
    assert typed(monkeypatch, "eventlog", "replay", "faults") == "\nstopped: of replay nothing was written"
    (written,) = results.glob("*.jsonl")
    assert msgspec.json.decode(written.read_bytes().splitlines()[0])["suite"] == "eventlog"


@pytest.mark.usefixtures("suites")
def test_a_place_that_takes_no_results_is_told_before_anything_is_measured(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results.write_bytes(b"not a folder")
    assert str(typed(monkeypatch, "eventlog")).startswith("the results cannot be written")
    assert not capsys.readouterr().out
