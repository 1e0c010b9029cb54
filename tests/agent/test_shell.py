"""exec_shell with real processes: whatever happens to a command, it ends, and so does all that it has started."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Store
from chatfold.agent.tools import BadArguments, use_tool
from chatfold.agent.tools.shell import _Kept, shell_tool
from chatfold.eventlog import ToolReturned
from chatfold.projections.labels import INTERRUPTED
from tests.support.agent_runs import Steps, agent, events, interrupted, returned, step
from tests.support.chats import a_store  # noqa: F401


async def run(
    folder: Path, command: str, *, most: int = 20_000, seconds: float = 20, grace: float = 0.1, **args: Any
) -> dict[str, Any]:
    made = shell_tool(folder, seconds=seconds, most=most, grace=grace)
    result: dict[str, Any] = await made.call({"command": command, **args})
    return result


def is_alive(pid: int) -> bool:
    """A dead process that nobody has asked about yet is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def is_buried(pid: int) -> bool:
    """Dead, and asked about: nothing is left for an event loop to do."""
    return not Path(f"/proc/{pid}").exists()


def pid_in(path: Path) -> int:
    """0 as long as there is none."""
    return int(path.read_text().strip() or 0) if path.exists() else 0


async def until(true: Callable[[], bool]) -> None:
    for _ in range(3000):
        if true():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it does not come true")


async def written(path: Path) -> int:
    """The pid that a process has written there, as soon as it has."""
    await until(lambda: pid_in(path) != 0)
    return pid_in(path)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# --- what comes back -------------------------------------------------------------------------------------


async def test_both_streams_and_the_exit_code_come_back(tmp_path: Path) -> None:
    assert await run(tmp_path, "echo out; echo err >&2") == {
        "success": True, "exit_code": 0, "stdout": "out\n", "stderr": "err\n",
    }  # fmt: skip
    assert await run(tmp_path, "echo out; exit 3") == {
        "success": False, "exit_code": 3, "stdout": "out\n", "stderr": "",
    }  # fmt: skip
    assert (await run(tmp_path, "kill -9 $$"))["exit_code"] == -9
    assert (await run(tmp_path, "no-such-command"))["exit_code"] == 127


async def test_there_is_nothing_to_read_from_us(tmp_path: Path) -> None:
    assert (await run(tmp_path, "cat; echo over"))["stdout"] == "over\n"


async def test_the_words_of_the_model_are_run_as_they_are(tmp_path: Path) -> None:
    assert (await run(tmp_path, "printf '%s' \"$0 'ü' `echo $((6 * 7))`\""))["stdout"] == "/bin/sh 'ü' 42"


@pytest.mark.parametrize("command", ["echo \0", "echo \ud800", "x" * 3_000_000])
async def test_what_cannot_be_a_command_is_a_failed_result(tmp_path: Path, command: str) -> None:
    outcome = await use_tool(shell_tool(tmp_path), {"command": command}, seconds=10)
    assert outcome.failed


async def test_our_keys_stay_with_us_unless_they_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "sk-secret" not in (await run(tmp_path, "env"))["stdout"]
    given = await shell_tool(tmp_path, env={"NAME": "$(id) 'x'"}).call({"command": 'printf %s "$NAME"'})
    assert given["stdout"] == "$(id) 'x'"


# --- how much --------------------------------------------------------------------------------------------


async def test_of_a_flood_the_beginning_and_the_end_are_kept_of_both_streams(tmp_path: Path) -> None:
    flood = "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo last"
    result = await run(tmp_path, f"({flood}) & ({flood}) >&2; wait", most=1000)
    for stream in (result["stdout"], result["stderr"]):
        assert stream.startswith("first\nxxx")
        assert stream.endswith("xxxlast\n")
        assert "… 19999011 bytes left out …" in stream
        assert len(stream) < 1100


async def test_others_go_on_while_a_command_floods_us(tmp_path: Path) -> None:
    flooding = asyncio.create_task(run(tmp_path, "yes", timeout=0.5))
    longest = 0.0
    while not flooding.done():
        before = time.thread_time()  # what a busy machine does meanwhile does not count
        await asyncio.sleep(0.01)
        longest = max(longest, time.thread_time() - before)
    assert (await flooding)["timed_out"]
    assert longest < 0.5


@given(st.text(), st.integers(2, 40), st.integers(1, 9))
def test_however_it_is_cut_there_is_no_broken_character(text: str, most: int, size: int) -> None:
    data = text.encode("utf-8", "replace")
    kept = _Kept(most)
    for start in range(0, len(data), size):
        kept.add(data[start : start + size])
    whole = data.decode()
    beginning, gap, end = kept.text().partition("\n… ")
    if not gap:
        assert kept.text() == whole
    else:
        missing, _, end = end.partition(" bytes left out …\n")
        assert whole.startswith(beginning)
        assert whole.endswith(end)
        assert len(beginning.encode()) + int(missing) + len(end.encode()) == len(data)
        assert len(beginning.encode()) + len(end.encode()) <= most


async def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    assert (await run(tmp_path, r"printf 'a\377b'"))["stdout"] == "a\ufffdb"


# --- where -----------------------------------------------------------------------------------------------


async def test_it_begins_in_the_folder_or_below(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for cwd, place in ((None, "."), (".", "."), ("a/b", "a/b"), ("a/../a", "a"), (str(tmp_path / "a"), "a")):
        assert (await run(tmp_path, "pwd -P", cwd=cwd))["stdout"].strip() == str((tmp_path / place).resolve())


@pytest.mark.parametrize(
    "cwd", ["..", "/", "/etc", "out", "out/inner", "a/../..", "missing", "file", "a\0b", "x" * 5000]
)
async def test_it_begins_nowhere_else(tmp_path: Path, cwd: str) -> None:
    folder = tmp_path / "folder"
    (tmp_path / "inner").mkdir()
    (folder / "a").mkdir(parents=True)
    (folder / "out").symlink_to(tmp_path)
    (folder / "file").touch()
    result = await run(folder, "touch here", cwd=cwd)
    assert result["success"] is False
    assert "folder" in result["error"]
    assert not (tmp_path / "here").exists()


async def test_a_tool_whose_folder_is_gone_says_so(tmp_path: Path) -> None:
    assert "there is no folder" in (await run(tmp_path / "gone", "true"))["error"]


# --- and when it is over ---------------------------------------------------------------------------------


async def test_out_of_time_it_is_ended_and_what_it_wrote_is_kept(tmp_path: Path) -> None:
    before = time.perf_counter()
    result = await run(tmp_path, "echo so far; echo $$ > pid; sleep 600", timeout=0.5)
    assert result == {
        "success": False,
        "exit_code": None,
        "stdout": "so far\n",
        "stderr": "",
        "timed_out": True,
    }
    assert time.perf_counter() - before < 60
    assert not is_alive(await written(tmp_path / "pid"))


async def test_it_may_clean_up_when_it_is_told_to_end(tmp_path: Path) -> None:
    result = await run(tmp_path, "trap 'echo cleaned; exit' TERM; sleep 600 & wait", timeout=0.5, grace=1)
    assert (result["stdout"], result["timed_out"]) == ("cleaned\n", True)


async def test_whoever_does_not_want_to_end_is_made_to(tmp_path: Path) -> None:
    stubborn = (
        "sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.1; done' & trap '' TERM; wait; sleep 600"
    )
    assert (await run(tmp_path, stubborn, timeout=0.5))["timed_out"]
    assert not is_alive(await written(tmp_path / "pid"))


@pytest.mark.parametrize("ending", ["", "sleep 600"], ids=["over", "out of time"])
@pytest.mark.parametrize("output", ["", ">/dev/null 2>&1"], ids=["with our pipes", "without"])
async def test_what_it_left_in_the_background_ends_with_it(tmp_path: Path, ending: str, output: str) -> None:
    child = f"(sh -c 'echo $$ > pid; exec sleep 600' {output} &)"
    await run(tmp_path, f"{child}; while [ ! -s pid ]; do sleep 0.01; done; {ending}", timeout=1)
    assert not is_alive(await written(tmp_path / "pid"))


async def test_who_gets_away_is_not_waited_for(tmp_path: Path) -> None:
    before = time.perf_counter()
    result = await run(
        tmp_path, "setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do :; done; echo over"
    )
    assert result["stdout"] == "over\n"
    assert time.perf_counter() - before < 15  # nor is it out of time
    os.kill(await written(tmp_path / "pid"), 9)


WITH_A_CHILD = "echo $$ > pid; sh -c 'echo $$ > child; exec sleep 600' & wait"


async def test_cancelled_it_is_ended_with_all_its_children(tmp_path: Path) -> None:
    task = asyncio.create_task(run(tmp_path, WITH_A_CHILD))
    pids = [await written(tmp_path / "pid"), await written(tmp_path / "child")]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(map(is_alive, pids))


async def test_cancelled_while_it_is_being_started_it_is_ended_with_all_its_children(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(10)]
    for folder in folders:
        folder.mkdir()
    tasks = [asyncio.create_task(run(folder, WITH_A_CHILD)) for folder in folders]
    for task in tasks:
        await asyncio.sleep(0)
        time.sleep(0.1)  # noqa: ASYNC251 (nobody but the processes gets any further)
        task.cancel()
    assert all(
        isinstance(end, asyncio.CancelledError)
        for end in await asyncio.gather(*tasks, return_exceptions=True)
    )
    pids = [pid for folder in folders for name in ("pid", "child") if (pid := pid_in(folder / name))]
    assert len(pids) > 10
    assert not any(map(is_alive, pids))


async def test_cancelled_twice_it_gets_no_moment(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done"
    task = asyncio.create_task(run(tmp_path, stubborn, grace=20))
    pid = await written(tmp_path / "pid")
    task.cancel()
    await asyncio.sleep(0.05)
    assert is_alive(pid)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_buried(pid)


async def test_nothing_of_ours_stays_open(tmp_path: Path) -> None:
    await run(tmp_path, "true")
    before = open_files()
    await asyncio.gather(*(run(tmp_path, "echo x; echo y >&2") for _ in range(20)))
    with pytest.raises(ValueError):
        await run(tmp_path, "\0")
    await until(lambda: open_files() == before)


@pytest.mark.parametrize("args", [{}, {"command": "true", "timeout": 0}, {"command": "true", "timeout": 21}])
async def test_arguments_out_of_range_are_refused(tmp_path: Path, args: dict[str, Any]) -> None:
    with pytest.raises(BadArguments):
        await shell_tool(tmp_path, seconds=20).call(args)


# --- in a run --------------------------------------------------------------------------------------------


async def test_a_command_that_fails_is_a_failure_of_the_run_and_told_with_both_streams(
    store: Store, tmp_path: Path
) -> None:
    steps = Steps()
    command = step(("exec_shell", {"command": "echo half; echo broken >&2; exit 2"}))
    made, _ = agent(store, [command, "done"], [shell_tool(tmp_path)], on_step=steps)
    result = await made.run("now this", chat="chat")
    assert (result.outcome, result.had_tool_failure) == ("done", True)
    told = "$ echo half; echo broken >&2; exit 2\nexit code 2\nstdout: half\nstderr: broken"
    assert steps.of("step_finish") == [told]


async def test_a_run_that_is_cancelled_takes_its_command_along(store: Store, tmp_path: Path) -> None:
    command = step(("exec_shell", {"command": "echo $$ > pid; sleep 600"}))
    made, _ = agent(store, [command, "done"], [shell_tool(tmp_path, grace=0.1)])
    task = asyncio.create_task(made.run("now this", chat="chat"))
    pid = await written(tmp_path / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(pid)


async def test_after_a_crash_a_command_is_not_run_again(store: Store, tmp_path: Path) -> None:
    await interrupted(await store.chat("chat"), "exec_shell", {"command": "touch again"})
    made, _ = agent(store, ["done"], [shell_tool(tmp_path)])
    await made.resume("chat")
    assert not (tmp_path / "again").exists()
    chat = await store.chat("chat")
    assert await returned(chat) == [INTERRUPTED]
    assert [event.failed for event in await events(chat, ToolReturned)] == [True]
