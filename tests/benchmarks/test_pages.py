"""What the documents say is what was measured and found."""

import pytest

from benchmarks.measure import Report, absent, at_least, at_most, compared, limited
from benchmarks.pages import between, pages, parts


def test_the_documents_show_what_was_found() -> None:
    for path, text in pages().items():
        assert path.read_text() == text, f"{path.name}: python -m benchmarks.pages"


def test_a_part_has_a_line_and_what_was_missed_is_bold() -> None:
    samples = {"ours": [1_000.0], "theirs": [2_000.0]}
    rows = [
        compared("append", "events/s", samples, "ours", "theirs", at_least(0.9)),
        limited("follow", "ms", [4.4], "the limit", at_most(20)),
        absent("append", "all peers", "no such job"),
    ]
    made = Report("2026-01-02T03:04", "2 cores", "Linux-6", "ext4", "CPython 3", {}, rows)
    first, _, _, _, *lines = parts(made).splitlines()
    assert first.startswith("Measured on 2026-01-02: 2 cores, ext4, Linux-6, CPython 3.")
    assert lines == [
        "| append | **1,000 events/s** | theirs: 2,000 | **0.5** | >= 0.9 |",
        "| follow | 4.4 ms | the limit |  | <= 20 |",
    ]
    assert parts(None) == "Not measured yet."


def test_what_is_between_the_marks_is_replaced_and_nothing_else() -> None:
    text = "a\n<!-- x: how -->\nold\n\nold\n<!-- /x -->\nb"
    assert between(text, "x", "new") == "a\n<!-- x: how -->\nnew\n<!-- /x -->\nb"
    with pytest.raises(ValueError, match="0 places"):
        between(text, "y", "new")
