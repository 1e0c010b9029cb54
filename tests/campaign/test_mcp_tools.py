"""MCP servers, each a real process: what they offer, what they answer, how they die, and that nothing is left of them."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from chatfold.agent import Store
from chatfold.agent.agent import Agent
from chatfold.agent.limits import Limits
from chatfold.agent.messages import ToolCall
from chatfold.agent.models import ModelReply, ScriptedModel
from chatfold.agent.tools import Outcome, Tool, by_name, use_tool
from chatfold.agent.tools.mcp import Http, ServerFailed, Stdio, mcp_tools
from chatfold.eventlog import Data, File, Json, Text, ToolReturned
from tests import support

SERVER = str(Path(support.__file__).with_name("mcp_server.py"))
TIME = Stdio(sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC")
GIT = Stdio(sys.executable, "-m", "mcp_server_git")
ODD = Stdio(sys.executable, SERVER)
PIXEL = b"\x89PNG\r\n\x1a\n\x00\x01"

Tools = dict[str, Tool]


async def use(tools: Tools, name: str, args: Json = None, *, within: float = 30.0) -> Outcome:
    return await use_tool(tools[name], args, seconds=within)


def told(outcome: Outcome) -> str:
    [part] = outcome.parts
    assert isinstance(part, Text)
    return part.text


async def pid_of(tools: Tools, server: str = "odd") -> int:
    return int(told(await use(tools, f"{server}:pid")))


def lives(pid: int) -> bool:
    """Also a zombie is dead."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip() not in ("", "Z", "Z+", "Zs")


def children() -> set[int]:
    asking = subprocess.Popen(["ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE, text=True)
    rows = [line.split() for line in asking.communicate()[0].splitlines()]
    return {int(pid) for pid, parent in rows if int(parent) == os.getpid()} - {asking.pid}


async def until(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        await asyncio.sleep(0.05)
    pytest.fail("it does not come true")


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    before = children()
    yield
    assert not [pid for pid in children() - before if lives(pid)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools() -> AsyncIterator[Tools]:
    """Of servers that nothing is done to."""
    before = children()
    async with mcp_tools({"time": TIME, "git": GIT, "odd": ODD}) as tools:
        yield by_name(tools)
    assert children() == before


together = pytest.mark.asyncio(loop_scope="module")


# --- what servers offer and answer -----------------------------------------------------------------------


@pytest.mark.smoke
@together
async def test_tools_are_what_the_servers_say(tools: Tools) -> None:
    convert = tools["time:convert_time"]
    assert convert.description == "Convert time between timezones"
    assert set(convert.schema["required"]) == {"source_timezone", "time", "target_timezone"}
    assert {"git:git_status", "git:git_log"} <= tools.keys()
    assert [name for name in tools if name.startswith("odd:")][-1] == "odd:die_reading"  # of the last page


@together
async def test_a_tool_that_may_be_repeated_is_called_again_after_a_crash(tools: Tools) -> None:
    assert tools["time:convert_time"].after_crash == tools["odd:die_reading"].after_crash == "again"
    assert tools["odd:die"].after_crash == tools["git:git_commit"].after_crash == "interrupted"


@together
async def test_a_text_that_says_it_all_is_the_whole_result(tools: Tools) -> None:
    args = {"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Kolkata"}
    outcome = await use(tools, "time:convert_time", args)
    assert not outcome.failed
    assert '"timezone": "Asia/Kolkata"' in told(outcome)


@together
async def test_what_a_server_calls_an_error_failed(tools: Tools) -> None:
    outcome = await use(tools, "time:get_current_time", {"timezone": "Mars/Olympus"})
    assert outcome.failed
    assert "Invalid timezone" in told(outcome)
    out_of_paper = await use(tools, "odd:fail")
    assert out_of_paper.failed
    assert [type(part) for part in out_of_paper.parts] == [Text, File]


@together
async def test_what_the_protocol_refuses_failed_and_the_server_goes_on(tools: Tools) -> None:
    pid = await pid_of(tools)
    assert await use(tools, "odd:refuse") == Outcome((Text("MCPError: not today"),), failed=True)
    assert (await use(tools, "odd:echo", [1])).failed
    assert (await use(tools, "time:convert_time")).failed
    assert await pid_of(tools) == pid


def git(folder: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=folder, check=True)


@together
async def test_git_in_a_repository(tools: Tools, tmp_path: Path) -> None:
    config = ["-c", "user.name=A", "-c", "user.email=a@b"]
    git(tmp_path, "init", "-q")
    git(tmp_path, *config, "commit", "-q", "--allow-empty", "-m", "the first one")
    (tmp_path / "new.txt").write_text("new")
    assert "new.txt" in told(await use(tools, "git:git_status", {"repo_path": str(tmp_path)}))
    assert "the first one" in told(await use(tools, "git:git_log", {"repo_path": str(tmp_path)}))
    assert (await use(tools, "git:git_status", {"repo_path": str(tmp_path / "nowhere")})).failed


@together
async def test_pictures_sounds_resources_and_links(tools: Tools) -> None:
    assert (await use(tools, "odd:mix")).parts == (
        Text("a picture:"),
        File("image/png", PIXEL),
        File("audio/wav", PIXEL),
        Text("a note"),
        File("application/octet-stream", PIXEL, name="note://2"),
        Text("readme: file:///readme.md\nRead it\ntext/markdown"),
    )
    assert await use(tools, "odd:nothing") == Outcome(())


@together
@pytest.mark.parametrize(
    ("texts", "structured", "is_said"),
    [
        (['{"a": 1}'], {"a": 1}, True),
        (["hello"], {"result": "hello"}, True),
        (["3"], {"result": 3}, True),
        (["a", "b"], {"result": ["a", "b"]}, True),
        (['{"a": 1}', "2"], {"result": [{"a": 1}, 2]}, True),
        ([], {"a": 1}, False),
        (["one result"], {"a": 1}, False),
        (["a"], {"result": ["a", "b"]}, False),
        (["1"], {"result": 1, "more": 2}, False),
    ],
)
async def test_structured_content_is_kept_unless_a_text_says_the_same(
    tools: Tools, texts: list[str], structured: object, is_said: bool
) -> None:
    outcome = await use(tools, "odd:shapes", {"texts": texts, "structured": structured})
    more = () if is_said else (Data("json", structured),)
    assert outcome.parts == (*map(Text, texts), *more)


@together
async def test_what_the_log_cannot_hold_is_a_failed_call(tools: Tools) -> None:
    outcome = await use(tools, "odd:deep")
    assert outcome.failed
    assert "nested more than" in told(outcome)


@together
async def test_a_call_that_is_given_up_disturbs_no_other(tools: Tools) -> None:
    pid = await pid_of(tools)
    slow = asyncio.create_task(use(tools, "odd:sleep", {"seconds": 1}))
    given_up = await use(tools, "odd:sleep", {"seconds": 60}, within=0.2)
    assert given_up == Outcome((Text("TimeoutError: no result within 0.2 s"),), failed=True)
    cancelled = asyncio.create_task(use(tools, "odd:sleep", {"seconds": 60}))
    await asyncio.sleep(0.1)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert told(await slow) == "awake"
    assert await pid_of(tools) == pid


@together
async def test_a_server_that_hangs_for_a_while(tools: Tools) -> None:
    pid = await pid_of(tools)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert (await use(tools, "odd:pid", within=0.2)).failed
    finally:
        os.kill(pid, signal.SIGCONT)
    assert await pid_of(tools) == pid


@pytest.mark.smoke
@together
async def test_a_whole_run(tools: Tools) -> None:
    asked = ModelReply(
        calls=(
            ToolCall("c1", "time:get_current_time", {"timezone": "UTC"}),
            ToolCall("c2", "odd:sleep", {"seconds": 60}),
            ToolCall("c3", "odd:fail"),
        )
    )
    model = ScriptedModel([asked, "It is late."])
    store = Store.memory()
    async with Agent(
        model=model, tools=tools.values(), store=store, limits=Limits(tool_seconds=3.0)
    ) as agent:
        result = await agent.run("What time is it?", chat="chat")
        chat = await store.chat("chat")
        back = {
            entry.event.call: entry.event
            async for entry in chat.entries()
            if isinstance(entry.event, ToolReturned)
        }
    assert result.text == "It is late."
    assert "time:get_current_time" in {tool["name"] for tool in model.payloads[0]["tools"]}
    assert [back[call].failed for call in ("c1", "c2", "c3")] == [False, True, True]
    [part] = back["c1"].parts
    assert isinstance(part, Text)
    assert '"timezone": "UTC"' in part.text


# --- how servers die -------------------------------------------------------------------------------------


async def test_a_server_that_is_killed() -> None:
    async with mcp_tools({"odd": ODD, "time": TIME}) as opened:
        tools = by_name(opened)
        first = await pid_of(tools)
        os.kill(first, signal.SIGKILL)
        await until(lambda: first not in children())
        await asyncio.sleep(0.2)  # it is noticed, and the call then made for the first time
        assert (await use(tools, "odd:echo", {"a": 1})).parts == (Data("json", {"a": 1}),)
        second = await pid_of(tools)

        waiting = asyncio.gather(*(use(tools, "odd:sleep", {"seconds": 60}) for _ in range(3)))
        await asyncio.sleep(0.3)
        os.kill(second, signal.SIGKILL)
        for outcome in await waiting:
            assert outcome.failed
            assert "'odd' died; it was restarted" in told(outcome)
        assert await pid_of(tools) not in {first, second}
        assert len(children() & {first, second}) == 0
        assert not (await use(tools, "time:get_current_time", {"timezone": "UTC"})).failed


async def test_a_call_that_may_be_repeated_is_made_once_more(tmp_path: Path) -> None:
    async with mcp_tools({"odd": ODD}) as opened:
        tools = by_name(opened)
        before = await pid_of(tools)
        once = {"once": str(tmp_path / "dead")}
        assert int(told(await use(tools, "odd:die_reading", once))) != before
        assert "died; it was restarted" in told(await use(tools, "odd:die_reading"))  # which dies every time
        assert await pid_of(tools)


async def test_a_server_that_only_seems_dead_is_ended_before_there_is_another() -> None:
    async with mcp_tools({"odd": ODD}) as opened:
        tools = by_name(opened)
        before = await pid_of(tools)
        assert "died; it was restarted" in told(await use(tools, "odd:hang_up"))
        assert not lives(before)
        assert await pid_of(tools)


async def test_a_server_that_does_not_come_back(tmp_path: Path) -> None:
    """But then does."""
    ill = tmp_path / "ill"
    stderr = tmp_path / "stderr"
    with stderr.open("w") as file:
        server = Stdio(sys.executable, SERVER, env={"ONLY_IF_MISSING": str(ill)}, cwd=tmp_path, stderr=file)
        async with mcp_tools({"odd": server}) as opened:
            tools = by_name(opened)
            here = await use(tools, "odd:environment", {"name": "ONLY_IF_MISSING"})
            assert here.parts == (Text(str(ill)), Text(str(tmp_path)))
            ill.touch()
            assert "died, and did not start again" in told(await use(tools, "odd:die"))
            assert "died, and did not start again" in told(await use(tools, "odd:pid"))
            ill.unlink()
            assert await pid_of(tools)
    assert stderr.read_text().count("not again") == 2
    assert "'odd' was closed" in told(await use(tools, "odd:pid"))


# --- over HTTP -------------------------------------------------------------------------------------------


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


def listening(port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, SERVER, str(port)])
    for _ in range(300):
        with socket.socket() as trying:
            if trying.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.1)
    raise AssertionError("it does not listen")


async def test_a_server_over_http(port: int) -> None:
    server = listening(port)
    address = Http(f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "Bearer xyz"})
    try:
        async with mcp_tools({"docs": address}) as opened:
            tools = by_name(opened)
            assert await pid_of(tools, "docs") == server.pid
            assert told(await use(tools, "docs:echo")) == "Bearer xyz"
            assert (await use(tools, "docs:mix")).parts[1] == File("image/png", PIXEL)
            assert (await use(tools, "docs:sleep", {"seconds": 60}, within=0.2)).failed
            assert (await use(tools, "docs:fail")).parts[0] == Text("out of paper")
            assert await pid_of(tools, "docs") == server.pid

            assert "was lost, and cannot be reached again" in told(await use(tools, "docs:die"))
            assert server.wait() == 7
            assert (await use(tools, "docs:pid")).failed
            server = listening(port)
            assert await pid_of(tools, "docs") == server.pid

            waiting = asyncio.create_task(use(tools, "docs:sleep", {"seconds": 60}))
            await asyncio.sleep(0.3)
            server.kill()
            assert "was lost" in told(await waiting)
    finally:
        server.kill()
        server.wait()


# --- opening and closing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (Stdio("no-such-program", "--token", "s3cret"), r"no-such-program --token •••: FileNotFoundError"),
        (Stdio(sys.executable, "-c", "exit()"), "Connection closed"),
        (Stdio("sleep", "60"), "sleep 60: no answer within 1 s"),
        (Http("http://127.0.0.1:9/mcp"), "http://127.0.0.1:9/mcp: ConnectError"),
    ],
    ids=["missing", "ends at once", "is silent", "nobody listens"],
)
async def test_a_server_that_does_not_start_is_named(address: Stdio | Http, why: str) -> None:
    with pytest.raises(ServerFailed, match=f"'bad' did not start: .*{why}") as raised:
        async with mcp_tools({"bad": address, "odd": ODD}, start_seconds=1.0 if "no answer" in why else 20.0):
            pytest.fail("it begins")
    assert raised.value.server == "bad"


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["", "a:b"])
async def test_names_of_servers(name: str) -> None:
    with pytest.raises(ValueError, match="a server's name"):
        async with mcp_tools({name: ODD}):
            pass


async def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are called 'odd:pid'"):
        async with mcp_tools({"odd": Stdio(sys.executable, SERVER, env={"TWICE": "1"})}):
            pass


STUBBORN = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
time.sleep(60)
"""


async def test_cancelled_while_opening_and_again_while_closing(tmp_path: Path) -> None:
    async def open_them() -> None:
        async with mcp_tools({"stubborn": Stdio(sys.executable, "-c", STUBBORN, str(tmp_path / "ready"))}):
            pytest.fail("it begins")

    before = children()
    opening = asyncio.create_task(open_them())
    await until((tmp_path / "ready").exists)
    for _ in range(3):
        opening.cancel()
        await asyncio.sleep(0.2)
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(15):
            await opening
    assert opening.cancelled()
    assert children() == before


async def test_cancelled_inside() -> None:
    async def inside() -> None:
        async with mcp_tools({"odd": ODD}) as tools:
            pids.append(await pid_of(by_name(tools)))
            await use(by_name(tools), "odd:die")  # a restart is under way when it is cancelled

    pids: list[int] = []
    running = asyncio.create_task(inside())
    await until(lambda: bool(pids) and not lives(pids[0]))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


PROGRAM = f"""
import asyncio, sys
from chatfold.agent.tools.mcp import Stdio, mcp_tools
from chatfold.agent.tools import use_tool

async def main():
    async with mcp_tools({{"odd": Stdio(sys.executable, {SERVER!r})}}) as tools:
        print((await use_tool(tools[0], {{}}, seconds=9)).parts[0].text, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_program_that_is_interrupted_or_killed(sent: signal.Signals) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        assert lives(pid)
        program.send_signal(sent)
    for _ in range(50):
        if not lives(pid):
            return
        time.sleep(0.1)
    pytest.fail("the server outlives the program")


# --- the extra -------------------------------------------------------------------------------------------


def test_nothing_imports_the_client_before_it_is_needed() -> None:
    program = "import sys, chatfold.agent, chatfold.agent.tools.mcp; print({'mcp', 'anyio', 'pydantic', 'httpx2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


async def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "chatfold.agent.tools.mcp_client", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'chatfold\[mcp\]'"):
        async with mcp_tools({"odd": ODD}):
            pass
