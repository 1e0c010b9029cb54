"""What CI asks of a run is asked: a file that takes too long fails it, and a test that is skipped without being on the list."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ci import listed_skips

ROOT = Path(__file__).parent.parent

CONFTEST = """
from tests.support.ci import Account

def pytest_addoption(parser):
    parser.addoption("--processor-seconds", type=float, default=0)

def pytest_configure(config):
    config.pluginmanager.register(Account(config))
"""

TESTS = """
import time, pytest

def test_it_works_hard():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass

@pytest.mark.skip(reason="not today")
def test_it_is_skipped():
    pass
"""


def run(folder: Path, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_hard.py").write_text(TESTS)
    known = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--rootdir", ".", "-p", "xdist", *options],
        cwd=folder,
        env={**known, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_file_that_takes_too_long_fails_the_run(tmp_path: Path, workers: str) -> None:
    done = run(tmp_path, "-n", workers, "--processor-seconds", "0.2")
    assert "test_hard.py took 0." in done.stdout
    assert done.returncode == 1


def test_a_test_that_is_skipped_in_ci_without_being_listed_fails_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, "-n", "2").returncode == 0
    done = run(tmp_path, "-n", "2", CI="true")
    assert "test_hard.py::test_it_is_skipped was skipped (Skipped: not today)" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize("pattern", listed_skips())
def test_a_listed_skip_names_a_file_that_is_there(pattern: str) -> None:
    assert (ROOT / pattern.partition("::")[0]).exists()
