"""The stepper as a process: on a real terminal, with real keys and signals; and on pipes."""

import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from chatfold.agent import Store, assistant, user
from chatfold.eventlog import Event, Text, ToolCalled, ToolReturned
from tests.support.debugger.long_chats import long_history, recorded
from tests.support.debugger.stepped import PATIENCE, PROGRAM, TOP, Pty, Screen
from tests.support.debugger.stepping_story import STORY

_CTRL_C, _UP, _PAGE_DOWN = "\x03", "\x1b[A", "\x1b[6~"


@pytest.fixture(name="story")
async def a_story(root: Path) -> Path:
    await recorded(root, "chat", list(STORY))
    return root


def test_keys_move_the_cursor_and_q_gives_the_terminal_back(story: Path) -> None:
    with Pty(story, "chat") as it:
        it.until("e16 / 16 · t4/4")
        it.press("k")
        it.until("▶15")
        it.press(_UP)
        it.until("e14 / 16")
        it.press("g")
        it.until("▶ 1")
        it.press("c")
        it.until("e7 / 16")
        it.until("▶ 7")
        it.until("◆ compacted c1 3 messages")
        it.press(":", "c2^", "\r")
        it.until("e10 / 16")
        it.press("3")
        it.until("e9 → e10")
        it.press("q")
        assert it.ended() == 0


def test_it_begins_where_it_is_told_to(story: Path) -> None:
    with Pty(story, "chat", "here") as it:
        it.until("e14 / 16")
        it.press("?")
        it.until("Any key goes back")
        it.press("j")
        it.until("EVENTS")
        assert "e14 / 16" in str(it.screen)
        it.press("q")
        assert it.ended() == 0


def test_tabs_search_and_what_prints_the_same(story: Path) -> None:
    with Pty(story, "chat") as it:
        it.until("e16 / 16")
        it.press("2")
        it.until("8 tokens · e5")
        it.press("4")
        it.until("role     assistant")
        it.press("/lexer\r")
        it.until("1 of 3")
        it.press("b")
        it.until("[b Why]")
        it.press("y")
        it.until(lambda screen: screen.lines[-2].startswith("chat@e"))
        it.press("!")
        it.until("chatfold why chat e")
        it.press("\x1b")  # a lone Escape is told from the beginning of an arrow
        it.until("[1 Context]")
        it.press("q")
        assert it.ended() == 0


def test_a_step_draws_only_the_lines_that_changed(story: Path) -> None:
    with Pty(story, "chat", "e8", size=(80, 16)) as it:
        it.until("e8 / 16")
        it.until(lambda screen: "┃" in screen.lines[1] and "▄" in str(screen))
        before = it.screen.drawn
        it.press("j", "y")
        it.until(lambda screen: screen.lines[-2] == "chat@e9")
        assert it.screen.drawn - before <= 8, "the title, the timeline, two rows, two messages"


@pytest.mark.parametrize("size", [(40, 10), (200, 50), (20, 6)])
def test_a_terminal_that_changes_its_size_is_drawn_anew(story: Path, size: tuple[int, int]) -> None:
    with Pty(story, "chat", "e7") as it:
        it.until("e7 / 16")
        it.resize(*size)
        it.until("e7 / 16")
        it.until("▶ 7")
        it.press("k")
        it.until("▶ 6")
        it.press("q")
        assert it.ended() == 0


@pytest.mark.parametrize(("way", "code"), [("key", 130), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_whatever_ends_it_gives_the_terminal_back(story: Path, way: "str | int", code: int) -> None:
    with Pty(story, "chat") as it:
        it.until("e16 / 16")
        assert it.state() != it.before
        if isinstance(way, str):
            it.press(_CTRL_C)
        else:
            os.kill(it.process.pid, way)
        assert it.ended() == code


def test_an_error_that_nobody_foresaw_gives_the_terminal_back_too(story: Path) -> None:
    broken = "import chatfold.replay.stepper.screen\nchatfold.replay.stepper.screen._events = None\n"
    with Pty(story, "chat", program=broken + PROGRAM) as it:
        assert it.ended() == 1
        assert "TypeError" in str(it.screen)


def test_it_can_be_stopped_and_goes_on(story: Path) -> None:
    with Pty(story, "chat") as it:
        it.until("e16 / 16")
        assert it.state()[3] & termios.NOFLSH, "what is on its way to the screen arrives whole"
        it.press("\x1a")
        it.until(lambda screen: not screen.modes["1049"])
        os.waitpid(it.process.pid, os.WUNTRACED)
        assert it.state() == it.before
        os.kill(it.process.pid, signal.SIGCONT)
        it.until(lambda screen: screen.modes["1049"] and "e16 / 16" in str(screen))
        it.press("q")
        assert it.ended() == 0


async def test_what_was_said_does_not_steer_the_terminal(root: Path) -> None:
    """The emulator refuses what it does not know, be it in a list, a body, a title or a message."""
    hostile = "\x1b[2J\x1b]0;owned\x07\x9b5n \u202egnirts \ud800 \r\x08 漢字👨‍👩‍👧 e\u0301"
    events: list[Event] = [
        user(hostile * 40),
        ToolCalled(hostile, hostile, {hostile: hostile}),
        ToolReturned(hostile, (Text(hostile + "\n" + hostile),), failed=True),
        assistant("x" * 100_000 + hostile),
    ]
    await recorded(root, "chat", events)
    with Pty(root, "chat") as it:
        it.until("e4 / 4")
        it.until("owned")
        for tab in "12345b":
            for step in "gjjj":
                it.press(step)
            it.press(tab)
            it.press("\t", _PAGE_DOWN, "\t", "!")
            it.until("chatfold ")
            it.press("\x0c", ":漢\r")
            it.until("there is no checkpoint")
        it.press("q")
        assert it.ended() == 0


async def test_a_chat_that_grows_while_it_is_watched(story: Path) -> None:
    async with Store(story) as store:
        chat = await store.chat("chat")
        with Pty(story, "chat", "e4") as it:
            it.until("e4 / 16")
            await chat.record(user("one"), assistant("two"), user("three"))
            it.until("e4 / 19 · t1/6 · +3 new")
            it.press("G")
            it.until("e19 / 19")
            await chat.record(user("four"))
            it.until("e20 / 20")
            it.press("g", "F")
            it.until("following")
            await chat.record(user("five"))
            it.until("e21 / 21")
            it.press("k")
            it.until("e20 / 21")
            assert "following" not in str(it.screen)
            await chat.record(user("six"))
            it.until("e20 / 22")
            it.press("q")
            assert it.ended() == 0


async def test_a_chat_that_is_deleted_while_it_is_watched(story: Path) -> None:
    with Pty(story, "chat") as it:
        it.until("e16 / 16")
        async with Store(story) as store:
            await store.delete("chat")
        it.until("the chat was deleted")
        it.press("q")
        assert it.ended() == 0


def _failed(screen: Screen) -> int:
    return sum("✗" in line for line in screen.lines[4:-1])


async def test_a_long_chat(root: Path) -> None:
    """What is far away is found, and a filter looks through all of it."""
    await recorded(root, "chat", long_history(20_000, errors=3000))
    with Pty(root, "chat") as it:
        it.until("e20000 / 20000")
        it.press("g", "x")
        it.until("✗ result")
        it.press("G", "C")
        it.until("◆ compacted")
        it.press("e")
        it.until("errors only")
        it.until(lambda screen: _failed(screen) == 1 and "looking" not in str(screen))
        it.press("e", ":10000\r")
        it.until("▶10000")
        it.press("x", "x", "q")
        assert it.ended() == 0


_SLOW = """
import asyncio, chatfold.replay.stepper.filter as sieve
sieve.PIECE, fast = 1, sieve.Sieve._up
async def slow(self, end):
    await asyncio.sleep(0.03)
    await fast(self, end)
sieve.Sieve._up = slow
"""


async def test_what_takes_long_says_how_far_it_came_and_can_be_stopped(root: Path) -> None:
    await recorded(root, "chat", long_history(5000, errors=5000))
    with Pty(root, "chat", "e5", program=_SLOW + PROGRAM) as it:
        it.until("e5 / 5000")
        it.press("x")
        it.until("of 5000 … Esc stops")
        it.press("\x1b")
        it.until("stopped")
        it.press("j")
        it.until("e6 / 5000")
        it.press("x")
        it.until("of 5000 … Esc stops")
        os.kill(it.process.pid, signal.SIGTERM)
        assert it.ended() == 143


# --- without a terminal ----------------------------------------------------------------------------------


def piped(root: Path, typed: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(root), "chat", ""],
        cwd=TOP,
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TOP), "PYTHONUTF8": "1"},
    )
    assert not done.stderr
    assert "\x1b" not in done.stdout
    return done.returncode, done.stdout.splitlines()


def test_on_a_pipe_keys_are_lines(story: Path) -> None:
    code, lines = piped(story, "k\nkk\n: c2\n/lexer\nx\nq\nj\n")
    assert code == 0
    cursors = [line.split("/")[0] for line in lines if line.split("/")[0].isdigit()]
    assert cursors == ["16", "15", "13", "11", "1", "3"]


def test_on_a_pipe_a_tab_is_printed(story: Path) -> None:
    _, lines = piped(story, ": 7\n3\n4\n?\n")
    assert "e6 → e7" in lines
    assert any(line.startswith("J K") for line in lines)
    assert "summary  the lexer is nowhere" in lines


def test_a_dumb_terminal_is_printed_to(story: Path) -> None:
    with Pty(story, "chat", term="dumb") as it:
        it.until("16/16 t4")
        it.press("k\n")
        it.until("15/16 t4")
        it.press("q\n")
        assert it.ended() == 0
        assert it.screen.drawn == 0


def test_the_emulator_refuses_what_the_stepper_has_no_business_to_send() -> None:
    for text in ("\x1b]0;title\x07", "\x1b[5n", "\x1b[?1000h", "\x9b", "\x07"):
        with pytest.raises(AssertionError):
            Screen(20, 6).feed(text + "x" * 30 + "\x07")
