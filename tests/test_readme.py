"""What the README shows works, and CI runs what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
SHELL = re.findall(r"^```sh\n(.*?)\n```", README, re.DOTALL | re.MULTILINE)


def test_there_is_code_to_run() -> None:
    assert PYTHON
    assert README.count("```") == 2 * (len(PYTHON) + len(SHELL) + README.count("```text"))


@pytest.mark.parametrize("code", PYTHON)
def test_code_of_the_readme_runs(code: str, tmp_path: Path) -> None:
    program = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        program, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60, check=False
    )
    assert done.stderr == b""
    assert done.returncode == 0
    assert b"Because of split()." in done.stdout
    assert (b"[redacted]" in done.stdout) == ("redact(" in code)


def test_two_commands_set_up_and_run() -> None:
    assert len(SHELL) == 2
    demo, tests = SHELL
    for command in SHELL:  # a fresh machine: no pip into the system's Python, one line, nothing before it
        first, *rest = command.split(" && ")
        assert first == "python3 -m venv .venv"
        assert all(step.startswith(".venv/bin/") for step in rest)
    assert demo.endswith("&& .venv/bin/chatfold demo")
    assert tests.endswith("&& .venv/bin/pytest")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert SHELL[1] in (ROOT / ".ci" / "run").read_text().splitlines()


def test_links_of_the_documents_lead_somewhere() -> None:
    for page in (
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "tests/README.md",
        "docs/agents.md",
        "docs/chats.md",
        "docs/format.md",
        "docs/projections.md",
    ):
        text = (ROOT / page).read_text()
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", text):
            assert ((ROOT / page).parent / target).exists(), target
