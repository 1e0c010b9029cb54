"""Which package may know of which: eventlog <- projections <- agent <- replay, and never the other way."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("eventlog", "projections", "agent", "replay")
OTHERS = {"tests", "benchmarks"}
SLOW = {"aiofiles", "click", "hypothesis", "pytest", "sqlite3", "watchfiles", "urllib.request"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module or ""


def modules() -> list[Path]:
    return [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_is_below_it(path: Path) -> None:
    layer = LAYERS.index(path.relative_to(ROOT).parts[0])
    above = {*LAYERS[layer + 1 :], *OTHERS}
    assert not above & {name.split(".")[0] for name in imported(path)}


def test_the_import_of_a_layer_above_would_be_noticed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def late():\n    from replay.cli import main\n    import agent.store\n")
    assert list(imported(module)) == ["replay.cli", "agent.store"]


def test_importing_eventlog_imports_nothing_slow() -> None:
    program = f"import sys, eventlog; print(*sorted({SLOW!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []
