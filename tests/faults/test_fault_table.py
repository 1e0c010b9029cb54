"""``docs/faults.md`` has a row for each fault, and each test that a row names exists."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TOP = Path(__file__).parents[2]
PAGE = TOP / "docs" / "faults.md"
_TEST = re.compile(r"`(tests/\S+?\.py)::(\w+)(?:::(\w+))?`")
_ROW = re.compile(r"^\| (F\d+) \|(.*)\|$", re.MULTILINE)


class Row(NamedTuple):
    name: str
    fault: str
    outcome: str
    tests: str


def _rows() -> list[Row]:
    found = []
    for name, rest in _ROW.findall(PAGE.read_text()):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", rest)]
        assert len(cells) == 3, f"{name} has {len(cells) + 1} columns"
        found.append(Row(name, *cells))
    return found


ROWS = _rows()


@cache
def _defined(path: Path) -> dict[str, set[str]]:
    """The functions and classes of a module, the assigned names of state machines too; of classes, their methods."""
    names: dict[str, set[str]] = {}
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names[node.name] = set()
            case ast.ClassDef():
                names[node.name] = {
                    inner.name
                    for inner in node.body
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
                }
            case ast.Assign(targets=[ast.Name(name)]):
                names[name] = set()
            case _:
                pass
    return names


def test_each_fault_has_exactly_one_row() -> None:
    assert [row.name for row in ROWS] == [f"F{number:02d}" for number in range(1, 125)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_says_what_happens_and_which_test_shows_it(row: Row) -> None:
    assert row.fault
    assert row.outcome
    tests = _TEST.findall(row.tests)
    if not tests:
        assert len(re.sub(r"^none: ", "", row.tests)) > 20, "neither a test nor a reason"
        assert row.tests.startswith("none: ")
    assert row.tests.count("::") == len(tests) + sum(bool(method) for _, _, method in tests), (
        "not a test's name"
    )
    for path, name, method in tests:
        defined = _defined(TOP / path)
        assert name.startswith(("test_", "Test")), name
        assert name in defined, f"{path} has no {name}"
        assert not method or method in defined[name], f"{path} has no {name}.{method}"


def test_a_test_that_is_not_there_would_be_noticed() -> None:
    here = _defined(Path(__file__))
    assert "test_a_test_that_is_not_there_would_be_noticed" in here
    assert "test_of_nothing" not in here
    assert here["Row"] == set()


def test_the_readme_and_the_page_know_each_other() -> None:
    assert "(docs/faults.md)" in (TOP / "README.md").read_text()
    page = PAGE.read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", page):
        assert (PAGE.parent / link).exists(), link
