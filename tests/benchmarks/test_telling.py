"""How figures are told: rows, tables, JSON, pictures."""

from functools import partial
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.machine import HERE
from benchmarks.measure import (
    absent,
    at_least,
    at_most,
    compared,
    interleave,
    limited,
    read_results,
    table,
    write_results,
)
from benchmarks.picture import picture, pictures

SAMPLES = {"ours": [2.0, 4.0, 8.0], "theirs": [1.0, 1.0, 2.0]}


def test_a_ratio_is_the_median_of_the_rounds_and_not_of_the_medians() -> None:
    row = compared("a job", "turns/s", SAMPLES, "ours", "theirs", at_least(4))
    assert (row.value, row.peer, row.ratio, row.spread) == (4.0, 1.0, 4.0, (2.0, 4.0))
    assert row.met


def test_faster_is_how_many_times_less_time_we_take() -> None:
    row = compared("a job", "ms", SAMPLES, "theirs", "ours", at_least(5), faster=True)
    assert (row.ratio, row.met) == (4.0, False)


def test_a_figure_without_a_peer_has_a_limit_of_its_own() -> None:
    row = limited("bytes", "B/B", [0.9, 0.95, 1.0], "the payload", at_most(0.96))
    assert (row.value, row.spread, row.rounds) == (0.95, (0.9, 1.0), 3)
    assert row.met
    assert "0.95 B/B (0.9 to 1)" in table([row])
    assert limited("a count", "B", [1.0], "").spread is None


def test_each_case_has_its_turn_in_each_round() -> None:
    seen: list[str] = []

    def case(name: str) -> float:
        seen.append(name)
        return 1.0

    samples = interleave(5, {name: partial(case, name) for name in "abc"}, warm_up=False)
    assert {name: len(some) for name, some in samples.items()} == {"a": 5, "b": 5, "c": 5}
    assert [sorted(seen[at : at + 3]) for at in range(0, 15, 3)] == [["a", "b", "c"]] * 5


def test_rows_of_one_name_are_told_together_and_what_is_missing_by_name() -> None:
    rows = [
        compared("a job", "ms", SAMPLES, "ours", "theirs"),
        absent("a job", "a peer", "no such job"),
        absent("a job", "another", "no such job"),
        limited("alone", "ms", [1.0], "the limit", at_most(0.5)),
    ]
    heading, _, first, missing, last = table(rows).splitlines()
    assert heading.startswith("what")
    assert first.startswith("a job")
    assert missing == "    no such job: a peer, another"
    assert last.endswith("MISSED")


def test_a_job_that_nobody_else_has_is_told_too() -> None:
    assert "follow: no such job: all peers" in table(
        [limited("x", "", [1.0], ""), absent("follow", "all peers", "no such job")]
    )


def test_the_report_says_where_and_with_what(tmp_path: Path) -> None:
    judged = compared("a job", "ms", SAMPLES, "ours", "theirs", at_least(4))
    rows = [judged, absent("a job", "a peer", "no such job")]
    path = tmp_path / "results" / "suite.jsonl"
    write_results(path, "suite", rows, quick=True, versions={"a": "1"})
    head, first, _ = (msgspec.json.decode(line) for line in path.read_bytes().splitlines())
    assert {"suite", "quick", "date", "machine", "disk", "python", "versions"} <= head.keys()
    assert read_results(path).rows == rows
    assert {"name", "value", "unit", "against", "ratio", "target", "met"} <= first.keys()


def test_a_row_is_kept_as_a_line_without_what_it_does_not_have(tmp_path: Path) -> None:
    """But nothing found, none missed and no time at all are figures."""
    path = tmp_path / "suite.jsonl"
    rows = [absent("a job", "a peer", "no such job"), limited("lost", "entries", [0.0], "", at_most(-1))]
    write_results(path, "suite", rows, quick=True)
    _, missing, lost = path.read_text().splitlines()
    assert missing == '{"name":"a job","against":"a peer","note":"no such job"}'
    assert lost == '{"name":"lost","value":0.0,"unit":"entries","rounds":1,"target":"<= -1","met":false}'
    assert read_results(path).rows == rows


@pytest.mark.parametrize("kept", sorted((HERE / "results").glob("*.jsonl")), ids=lambda path: path.stem)
def test_what_is_kept_is_laid_out_as_it_would_be_written_today(kept: Path) -> None:
    _, *lines = kept.read_bytes().splitlines()
    written = msgspec.json.encode(read_results(kept).rows)
    assert lines
    assert [msgspec.json.decode(line) for line in lines] == msgspec.json.decode(written)


# --- pictures ------------------------------------------------------------------------------------------------

figures = st.floats(1e-4, 1e9)
curve = st.lists(st.tuples(st.sampled_from((1e2, 1e3, 1e4, 1e5, 1e6)), figures), min_size=1, max_size=5)


@given(
    st.dictionaries(st.text("abc<&\"'", min_size=1, max_size=9), curve, min_size=1, max_size=14), st.data()
)
def test_a_picture_is_well_formed_and_everything_is_inside(
    curves: dict[str, list[tuple[float, float]]], data: st.DataObject
) -> None:
    ours = data.draw(st.sampled_from(sorted(curves)))
    root = ET.fromstring(picture("a <title>", "ms", curves, ours))
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    space = "{http://www.w3.org/2000/svg}"
    lines = root.findall(f"{space}polyline")
    assert len(lines) == len(curves)
    assert [line.get("class") for line in lines].count("ours") == 1
    for x, y in ((float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.findall(f"{space}circle")):
        assert 0 <= x <= width
        assert 0 <= y <= height
    names = [
        text.text or "" for text in root.findall(f"{space}text") if text.get("class") in ("peer", "ours")
    ]
    assert len(names) == len(curves)


def test_a_picture_is_readable_on_dark_pages() -> None:
    assert "prefers-color-scheme: dark" in picture("t", "ms", {"a": [(1, 1)]}, "a")


def test_rows_that_are_points_become_the_curves_of_both_sides() -> None:
    rows = [
        msgspec.structs.replace(
            compared("fork", "ms", SAMPLES, "ours", "theirs"), picture="fork", size=10**power
        )
        for power in (2, 3, 4)
    ]
    alone = msgspec.structs.replace(limited("fork", "ms", [3.0], ""), picture="fork", size=10**6)
    drawn = pictures([*rows, alone, limited("no point", "ms", [1.0], "")], "chatfold")
    assert set(drawn) == {"fork"}
    assert "chatfold: 3 ms" in drawn["fork"]
    assert "theirs: 1 ms" in drawn["fork"]


@pytest.mark.parametrize("size", [1, 15, 40])
def test_names_do_not_stand_on_each_other(size: int) -> None:
    curves = {f"peer {at}": [(100.0, 1.0)] for at in range(size)}
    root = ET.fromstring(picture("t", "ms", curves, "peer 0"))
    texts = [text for text in root if text.get("class") in ("peer", "ours") and text.tag.endswith("text")]
    heights = sorted(float(text.attrib["y"]) for text in texts)
    assert all(there - here >= 14 for here, there in pairwise(heights))
