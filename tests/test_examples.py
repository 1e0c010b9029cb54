"""The examples run, as somebody would run them; and what they promise about being killed is true."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
EMBED = ROOT / "examples" / "embed.py"

KILLED = """
import asyncio, os, runpy, signal, sys
embed = runpy.run_path(sys.argv[1])
embed["TOOLS"]["multiply"] = lambda a, b: os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(embed["main"](*sys.argv[2:]))
"""


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_agent_loop_of_forty_lines_answers_and_remembers(tmp_path: Path) -> None:
    for question, answer in (("What is 6 times 7?", "That is 42."), ("And 3 times 5?", "That is 15.")):
        done = run(EMBED, tmp_path, "chat", question)
        assert (done.stdout, done.stderr) == (f"{answer}\n", "")


def test_killed_inside_a_tool_it_goes_on_with_the_call_that_was_recorded(tmp_path: Path) -> None:
    assert run("-c", KILLED, EMBED, tmp_path, "chat", "What is 6 times 7?").returncode == -signal.SIGKILL
    done = run(EMBED, tmp_path, "chat")
    assert (done.stdout, done.stderr) == ("That is 42.\n", "")


def test_it_is_as_short_as_it_says() -> None:
    code = EMBED.read_text().split('"""', 2)[2].splitlines()
    assert sum(bool(line.strip()) for line in code) <= 40
