"""Which package may know of which: eventlog <- projections <- agent <- replay, and never the other way."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("eventlog", "projections", "agent", "replay")
TOPS = {*LAYERS, "chatfold.testing", "tests", "benchmarks"}
SLOW = {"aiofiles", "click", "hypothesis", "psycopg", "pytest", "sqlite3", "watchfiles", "urllib.request"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module or ""


def package(name: str) -> str:
    """``chatfold.eventlog`` of ``chatfold.eventlog.line``; of any other module, its first name."""
    first, *rest = name.split(".")
    return f"{first}.{rest[0]}" if first == "chatfold" and rest else first


def modules() -> list[Path]:
    return [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_is_below_it(path: Path) -> None:
    layer = LAYERS.index(path.relative_to(ROOT).parts[0])
    above = {f"chatfold.{name}" for name in LAYERS[layer + 1 :]} | TOPS
    assert not above & {package(name) for name in imported(path)}


def test_the_import_of_a_layer_above_would_be_noticed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "def late():\n    from chatfold.replay.cli import main\n    import chatfold.agent.store\n"
    )
    assert [*map(package, imported(module))] == ["chatfold.replay", "chatfold.agent"]


def test_one_module_has_the_logger() -> None:
    """The page quiets the logger of its server, which is not ours."""
    ours = re.compile(r"""getLogger\((?!["']uvicorn)""")
    assert [str(path.relative_to(ROOT)) for path in modules() if ours.search(path.read_text())] == [
        "eventlog/logger.py"
    ]


OPENING = {"aiofiles", "fcntl", "io", "mmap", "os", "shutil", "tempfile", "chatfold.eventlog.files"}


@pytest.mark.parametrize("path", sorted((ROOT / "eventlog").glob("*.py")), ids=lambda path: path.name)
def test_the_top_room_of_the_event_log_opens_no_file(path: Path) -> None:
    """Only its door, ``__init__``, and ``places``, which says what is where, know of ``files``."""
    names = {
        name.rpartition(".files.")[0] + ".files" if ".files." in name else name for name in imported(path)
    }
    opens = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if getattr(getattr(node, "func", None), "id", "") == "open"
    ]
    assert not opens
    assert path.name in ("__init__.py", "places.py") or not OPENING & names


WAITING = {"asyncio", "datetime.datetime", "os", "pathlib", "random", "sqlite3", "threading", "time", "uuid"}


@pytest.mark.parametrize("path", sorted((ROOT / "projections").rglob("*.py")), ids=lambda path: path.name)
def test_a_projection_has_no_means_of_waiting_asking_the_clock_or_guessing(path: Path) -> None:
    assert not WAITING & set(imported(path))


@pytest.mark.parametrize("package", LAYERS[:3])
def test_importing_a_package_imports_nothing_slow(package: str) -> None:
    program = f"import sys, chatfold.{package}; print(*sorted({SLOW!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []
