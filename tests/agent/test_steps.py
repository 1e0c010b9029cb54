"""What is told of a run: short, readable, nothing hidden that failed, and nothing shown that is a secret."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Store
from chatfold.agent.messages import ToolCall
from chatfold.agent.models import ModelReply
from chatfold.agent.progress import MOST, answer_step, beginning, readable, tool_step, whole
from chatfold.agent.tools import Outcome, tool
from chatfold.eventlog import Data, File, Json, Part, Text
from tests.support.agent_runs import Steps, agent, step
from tests.support.chats import a_store  # noqa: F401


def told(name: str, *parts: Part, failed: bool = False, args: Json = None) -> str:
    found = tool_step(ToolCall("c1", name, args, 1), Outcome(parts, failed), "r1")
    assert (found.type, found.run, found.tool, found.failed) == ("step_finish", "r1", name, failed)
    assert len(found.text) <= MOST
    found.text.encode()
    return found.text


def shell(command: Any, /, *, failed: bool = False, **said: Json) -> str:
    return told("exec_shell", Data("json", said), failed=failed, args={"command": command})


# --- the model's words -----------------------------------------------------------------------------------


def test_superfluous_white_space_is_not_told() -> None:
    assert readable("\n a  b \t\r\n\r\n\n\n\nc \n ") == "a  b\n\nc"


def test_a_step_without_words_is_none_and_so_is_one_that_says_the_same_again() -> None:
    assert answer_step((), "r1") is None
    assert answer_step((Text(" \n"),), "r1") is None
    first = answer_step((Text("Let me\r\n look. "),), "r1")
    assert first is not None
    assert first.text == "Let me\n look."
    assert answer_step((Text("Let me\n look.\n\n"),), "r1", first.text) is None
    assert answer_step((Text("Found it."),), "r1", first.text) is not None


async def test_words_of_a_step_and_its_tools_are_told_in_order(store: Store) -> None:
    @tool(name="files:read")
    async def read() -> dict[str, Any]:
        """An MCP server's."""
        return {"success": False, "error": "no such file"}

    steps = Steps()
    looking = ModelReply((Text("Looking.  "),), step(("files:read", {})).calls)
    made, _ = agent(store, [looking, "done"], [read], on_step=steps)
    await made.run("now this", chat="chat")
    assert [(one.type, one.text) for one in steps.told if one.type != "piece"] == [
        ("assistant", "Looking."),
        ("step_finish", "files:read failed: no such file"),
        ("assistant", "done"),
    ]


# --- tools -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "digest"),
    [
        ({"success": False, "error": "no route"}, "no route"),
        ({"success": False, "stderr": "broken"}, "broken"),
        ({"success": False, "error": {"code": 404, "why": "gone"}}, "code: 404, why: gone"),
        ({"success": False, "error": "", "stderr": None, "detail": "x"}, "error: , stderr: , detail: x"),
        ({"error": "only this"}, "error: only this"),
        ({"rows": [{"id": 1}, {"id": 2}], "ok": True, "none": None}, "rows: id: 1; id: 2, ok: yes, none: "),
        ([1, 2.5, "three", False], "1; 2.5; three; no"),
        (42, "42"),
        (b"\xff" * 9, "9 bytes"),
        ("text", "text"),
    ],
)
def test_whatever_a_tool_gives_is_told_in_words(value: Json, digest: str) -> None:
    failed = isinstance(value, dict) and value.get("success") is False
    assert told("server:tool", Data("json", value), failed=failed).partition(": ")[2] == digest.strip()


def test_a_tool_without_output_is_told_by_its_name() -> None:
    assert told("notes:save") == "notes:save done"
    assert told("notes:save", failed=True) == "notes:save failed"
    assert told("notes:save", Data("json", None), Text(" \n ")) == "notes:save done"


def test_texts_files_and_data_are_told_together() -> None:
    parts = Text("two files"), File("image/png", b"x", "a.png"), File("text/csv"), Data("json", {"more": 3})
    assert told("look", *parts) == "look done: two files\n[file a.png]\n[file text/csv]\nmore: 3"


@pytest.mark.parametrize(("size", "whole_of_it"), [(499, True), (500, True), (501, False)])
def test_a_digest_has_five_hundred_characters_at_most(size: int, whole_of_it: bool) -> None:
    name = "s:t"
    digest = told(name, Text("x" * (size - len("s:t done: "))))
    assert (len(digest), digest.endswith("x")) == (min(size, MOST), whole_of_it)


def test_a_flood_of_output_costs_nothing_to_digest() -> None:
    began = time.thread_time()
    told("big", Data("json", [[list(range(1000))] * 1000] * 1000))
    told("big", Data("json", {"a": "x" * 50_000_000}), Text("\n" * 1_000_000 + "y" * 1_000_000))
    assert time.thread_time() - began < 1


# --- commands --------------------------------------------------------------------------------------------


def test_both_streams_are_told_whatever_the_exit_code() -> None:
    streams: dict[str, Json] = {"stdout": "half\n", "stderr": "broken\n"}
    assert shell("make", exit_code=0, **streams) == "$ make\nexit code 0\nstdout: half\nstderr: broken"
    assert shell("make", failed=True, success=False, exit_code=1, **streams).splitlines()[1:] == [
        "exit code 1",
        "stdout: half",
        "stderr: broken",
    ]


def test_a_command_that_says_nothing_or_only_complains_is_told_as_it_is() -> None:
    assert shell("true", exit_code=0, stdout="", stderr="\n") == "$ true\nexit code 0"
    assert (
        shell("x", failed=True, exit_code=127, stdout="", stderr="x: not found")
        == "$ x\nexit code 127\nstderr: x: not found"
    )


def test_a_command_out_of_time_or_refused_or_interrupted_is_told_as_such() -> None:
    assert (
        shell("x", failed=True, exit_code=None, stdout="a", stderr="", timed_out=True)
        == "$ x\ntimed out\nstdout: a"
    )
    assert shell("x", failed=True, success=False, error="'/' is not inside") == "$ x\n'/' is not inside"
    assert told("exec_shell", Text("Interrupted"), failed=True, args={"command": "x"}) == "$ x\nInterrupted"


@pytest.mark.parametrize(
    "args", [None, [], {}, "ls", {"command": None}, {"command": ["ls", 1]}, {"command": 5}]
)
def test_arguments_of_any_shape_are_told_somehow(args: Json) -> None:
    assert told("exec_shell", Data("json", {"exit_code": 0, "stdout": 7}), args=args).endswith(
        "exit code 0\nstdout: 7"
    )


def test_a_long_stream_leaves_room_for_the_other_and_uses_what_the_other_leaves() -> None:
    digest = shell("c" * 1000, failed=True, exit_code=1, stdout="o" * 9000, stderr="e" * 20)
    assert len(digest) == MOST
    assert digest.endswith("stderr: " + "e" * 20)
    assert digest.count("o") > 250
    both = shell("c", failed=True, exit_code=1, stdout="o" * 9000, stderr="e" * 9000)
    assert abs(both.count("o") - both.count("e")) < 10
    assert MOST - 2 <= len(both) <= MOST


# --- cutting ---------------------------------------------------------------------------------------------

ONES = ["👩‍🚀", "👍🏽", "🇩🇪", "e\u0301", "नि", "❤️", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "\r\n", "한"]


@pytest.mark.parametrize("one", ONES)
@pytest.mark.parametrize("lead", range(3))
def test_what_is_seen_as_one_character_stays_in_one_piece(one: str, lead: int) -> None:
    text = "x" * lead + one * 100
    for most in range(20, 60):
        short = beginning(text, most)
        assert len(short) <= most
        assert short.endswith("…")
        assert short[lead:-1] == one * ((len(short) - lead - 1) // len(one))


def test_a_pair_of_surrogates_that_came_as_two_is_one() -> None:
    assert told("t", Text("x" * 490 + "\ud83d\ude00" + "y" * 99)).endswith("x😀…")
    assert told("t", Text("a\ud83d")).endswith("a\ufffd")


@given(st.text(), st.integers(0, 20))
def test_a_beginning_is_one_and_never_too_long(text: str, most: int) -> None:
    short = beginning(text, most)
    assert len(short) <= most
    assert text.startswith(short.removesuffix("…")) or text == short
    assert 0 <= whole(text, min(most, len(text))) <= most


def test_what_never_ends_is_cut_all_the_same() -> None:
    assert len(beginning("a" + "\u0301" * 10_000, 500)) > 400
