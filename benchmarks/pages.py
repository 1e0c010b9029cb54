"""``python -m benchmarks.pages``: puts what was measured and found into the README, ``docs/benchmarks.md`` and ``docs/faults.md``.

Out of ``results/*.jsonl``, between marks. A test compares, so that no figure is typed by hand, and none of a missed target is left out.
"""

import re
from pathlib import Path

from benchmarks.fault_figures import page, searched, sentence
from benchmarks.machine import HERE
from benchmarks.measure import Report, Row, number, ratio, read_results
from benchmarks.summary import tell_all_jobs, tell_first_jobs

README = HERE.parent / "README.md"
MEASURED = HERE.parent / "docs" / "benchmarks.md"
FAULTS = HERE.parent / "docs" / "faults.md"
_PARTS = ("eventlog", "projections", "replay", "imports", "postgres")
_NONE = "Not measured yet."


def pages() -> dict[Path, str]:
    """What the files have to say."""
    faults, beside = _found("faults"), _found("side_by_side")
    readme = between(README.read_text(), "faults", sentence(faults))
    measured = between(MEASURED.read_text(), "properties", searched(_found("properties")))
    for suite in _PARTS:
        measured = between(measured, suite, parts(_found(suite)))
    measured = between(measured, "side by side", tell_all_jobs(beside) if beside else _NONE)
    return {
        README: between(readme, "side by side", tell_first_jobs(beside) if beside else _NONE),
        MEASURED: measured,
        FAULTS: between(FAULTS.read_text(), "figures", page(faults, _found("soak"))),
    }


def _found(suite: str) -> Report | None:
    try:
        return read_results(HERE / "results" / f"{suite}.jsonl")
    except FileNotFoundError:
        return None


def parts(found: Report | None) -> str:
    """The table of a suite that measures parts by themselves."""
    if found is None:
        return _NONE
    lines = [
        f"Measured on {found.date[:10]}: {found.where}. **Bold** is a figure whose target is missed.",
        "",
        "| what | here | against | ratio | target |",
        "|---|---|---|---|---|",
        *(_line(row) for row in found.rows if not row.note),
    ]
    return "\n".join(lines)


def _line(row: Row) -> str:
    against = row.against if row.peer is None else f"{row.against}: {number(row.peer)}"
    figures = [f"{number(row.value or 0)} {row.unit}", "" if row.ratio is None else ratio(row.ratio)]
    if row.met is False:
        figures = [f"**{figure}**" if figure else "" for figure in figures]
    return f"| {row.name} | {figures[0]} | {against} | {figures[1]} | {row.target or ''} |"


def between(text: str, mark: str, new: str) -> str:
    """The text with something else between its two marks."""
    marks = re.compile(rf"(<!-- {mark}[^>]* -->\n).*?(<!-- /{mark} -->)", re.DOTALL)
    done, count = marks.subn(lambda found: f"{found[1]}{new}\n{found[2]}", text)
    if count != 1:
        raise ValueError(f"{count} places are marked {mark}")
    return done


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
