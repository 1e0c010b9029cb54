"""The code in the documents runs: the blocks of a page are one program."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.debugger.pages import unpack

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in sorted((ROOT / "docs").glob("*.md"))
    if re.search(r"^```python", page.read_text(), re.MULTILINE)
]

RUN = """
import ast, asyncio, inspect, sys
code = compile(sys.stdin.read(), "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
result = eval(code, {"__name__": "page"})
asyncio.run(result) if inspect.iscoroutine(result) else None
"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN],
        input=code,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_commands_of_the_page_on_debugging_run(tmp_path: Path) -> None:
    """All of them, in order, in one shell that stops at the first that fails."""
    page = (ROOT / "docs" / "debugging.md").read_text()
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    assert commands.count("chatfold ") > 20
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path,
        env={"PATH": path, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "lexer.py" not in unpack((tmp_path / "chat.html").read_text())
    assert "proved: this is what was sent" in done.stderr


def test_there_are_pages_to_run() -> None:
    assert PAGES
