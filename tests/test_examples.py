"""The examples run, as somebody would run them; and what they promise about being killed is true."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


BOT = ROOT / "examples" / "support_bot.py"


def talk(store: Path, *lines: str) -> subprocess.Popen[str]:
    bot = subprocess.Popen(
        [sys.executable, "-W", "error", BOT, store],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert bot.stdin is not None
    bot.stdin.write("".join(f"{line}\n" for line in lines))
    bot.stdin.flush()
    return bot


def test_the_support_desk_looks_up_orders_changes_the_topic_and_comes_back(tmp_path: Path) -> None:
    bot = talk(tmp_path, "Where is order 7?", "new topic", "hello", "go back to order 7", "returns", "")
    out, _ = bot.communicate(timeout=60)
    assert bot.returncode == 0
    said = out.split("bot: ")[1:]
    assert said[0].startswith("on its way, arrives on Friday")
    assert said[2].startswith("I can look up orders and pay them back.")
    assert "'contextId': 'main'" in said[3]
    assert "'already_in_use': False" in said[4]


@pytest.mark.parametrize(("answer", "said"), [("y", "order 7 was paid back"), ("n", "Interrupted")])
def test_killed_inside_a_refund_it_asks_a_person_whether_to_do_it_again(
    tmp_path: Path, answer: str, said: str
) -> None:
    with talk(tmp_path, "refund order 7") as bot:
        segment = tmp_path / "chats" / "terminal-1" / "0000000000000001.jsonl"
        while not segment.exists() or b'"tool_called"' not in segment.read_bytes():
            time.sleep(0.01)
        bot.kill()
    out, _ = talk(tmp_path, answer, "").communicate(timeout=60)
    assert "Do it again? [y/n]" in out
    assert said in out
    assert "(went on with what was left)" in out
