"""exec_shell: a command line of the model's, run as it is by ``/bin/sh``, with an end in any case.

    Agent(model=model, tools=[shell_tool("./project", seconds=300)])

- A command and all that it starts are one group of processes. When the command is over, out of time or cancelled, the whole
  group ends: told to (SIGTERM), and a moment later made to (SIGKILL). What a command leaves in the background ends with it;
  only what makes itself a session of its own (``setsid``, a daemon) gets away, and is not waited for.
- Of what it writes, the beginning and the end are kept, up to ``most`` bytes of each stream, with a word about what is
  missing. It is read while it is written, however much it is: a command never waits for us.
- It reads nothing: its input is empty. Its environment has what it takes to find programs, and nothing else of ours, such as
  the keys of providers; ``env`` gives it more.
- It begins in the folder of the tool, or in one below. That is where it begins, no more: this is no sandbox, and a command may
  do whatever this process may. Run the agent where that is acceptable.

After a crash it is not known how far a command came, so it is not run again: the call is answered as interrupted.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any

from msgspec import Meta

from chatfold.agent.tools import Tool, tool

_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM", "SHELL")
_CHUNK = 1 << 16


def shell_tool(
    cwd: Path | str,
    *,
    seconds: float = 60.0,
    most: int = 1_000_000,
    env: Mapping[str, str] | None = None,
    grace: float = 1.0,
) -> Tool:
    """A tool that runs shell commands in ``cwd``.

    ``seconds``: the most a command may take; the model may ask for less.
    ``most``: how many bytes of each stream are kept.
    ``env``: on top of the few variables there are.
    ``grace``: seconds between SIGTERM and SIGKILL; also how long what a command left unread is waited for.
    """
    folder = Path(cwd)
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | dict(env or {})
    within = Meta(gt=0, le=seconds, description=f"seconds until it is ended; at most {seconds:g}")

    @tool(timeout=seconds + 6 * max(grace, 1.0))
    async def exec_shell(
        command: Annotated[str, Meta(description="run by /bin/sh -c; its input is empty")],
        cwd: Annotated[
            str | None, Meta(description="the folder to begin in, below the one of this tool")
        ] = None,
        timeout: Annotated[float, within] = seconds,  # noqa: ASYNC109 (the model's word for it)
    ) -> dict[str, Any]:
        """Runs a shell command; gives its exit code and the beginning and end of what it wrote.

        When it is over, whatever it left running in the background is ended, too.
        """
        place = _inside(folder, cwd)
        if isinstance(place, str):
            return {"success": False, "error": place}
        return await _run(command, place, environment, timeout, most, grace)

    return exec_shell


def _inside(folder: Path, cwd: str | None) -> Path | str:
    """The folder to begin in; or why not, as a text. Symbolic links are followed first."""
    try:
        root = folder.resolve(strict=True)
        place = (root / (cwd or ".")).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return f"there is no folder {cwd or str(folder)!r}"
    if not place.is_relative_to(root):
        return f"{cwd!r} is not inside the folder of this tool"
    return place if place.is_dir() else f"{cwd!r} is not a folder"


async def _run(
    command: str, cwd: Path, env: Mapping[str, str], seconds: float, most: int, grace: float
) -> dict[str, Any]:
    out, err = _Kept(most), _Kept(most)
    timed_out = False
    async with _reading(out) as (to_out, out_end), _reading(err) as (to_err, err_end):
        starting = asyncio.create_task(_start(command, cwd, env, to_out, to_err))
        try:
            process = await asyncio.shield(starting)
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            await _end(await starting, grace)  # also if we were cancelled while it started
        await asyncio.wait((out_end, err_end), timeout=grace)
    code = None if timed_out else process.returncode
    result = {"success": code == 0, "exit_code": code, "stdout": out.text(), "stderr": err.text()}
    return {**result, "timed_out": True} if timed_out else result


# --- processes -------------------------------------------------------------------------------------------


async def _start(
    command: str, cwd: Path, env: Mapping[str, str], to_out: IO[bytes], to_err: IO[bytes]
) -> asyncio.subprocess.Process:
    with to_out, to_err:
        return await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", command),
            cwd=cwd,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=to_out,
            stderr=to_err,
            start_new_session=True,
        )


async def _end(process: asyncio.subprocess.Process, grace: float) -> None:
    """Nothing of the group is left. If we are cancelled during its grace, it has none."""
    group = process.pid
    try:
        _signal(group, signal.SIGTERM)
        await _wait_gone(group, grace)
    finally:
        _signal(group, signal.SIGKILL)
        with suppress(TimeoutError):  # cancelled, too: or the loop may be closed before it hears of the end
            async with asyncio.timeout(max(grace, 1.0)):  # SIGKILL is quick, but a busy machine is not
                await process.wait()
    await _wait_gone(group, grace / 4)
    _bury(group)


async def _wait_gone(group: int, seconds: float) -> None:
    """Waits for that, not for ever: who is dead and was adopted by a careless process still answers."""
    end = asyncio.get_running_loop().time() + seconds
    while _signal(group, 0) and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110 (nobody tells us)
        await asyncio.sleep(0.01)


def _bury(group: int) -> None:
    """The first process of a container is heir to all that others left behind."""
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass


def _signal(group: int, number: int) -> bool:
    """Whether there is anybody to hear it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


# --- output ----------------------------------------------------------------------------------------------


class _Kept:
    """The beginning and the end of some bytes, ``most`` of them at most."""

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._first = bytearray()
        self._last = bytearray()
        self._count = 0

    def add(self, data: bytes) -> None:
        self._count += len(data)
        room = self._half - len(self._first)
        self._first += data[:room]
        self._last += data[room:]
        if len(self._last) > 2 * self._half + _CHUNK:  # not for every piece
            del self._last[: -self._half]

    def text(self) -> str:
        first, last = bytes(self._first), bytes(self._last[-self._half :])
        missing = self._count - len(first) - len(last)
        if not missing:
            return (first + last).decode("utf-8", "replace")
        first, last = _until_character(first), _from_character(last)
        missing = self._count - len(first) - len(last)
        gap = f"\n… {missing} bytes left out …\n"
        return first.decode("utf-8", "replace") + gap + last.decode("utf-8", "replace")


def _until_character(data: bytes) -> bytes:
    """Without the beginning of a character at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >> 6 != 0b10:  # where one begins: with so many bytes as it has leading ones
            length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
    return data


def _from_character(data: bytes) -> bytes:
    """Without the end of a character at the beginning."""
    start = 0
    while start < min(3, len(data)) and data[start] >> 6 == 0b10:
        start += 1
    return data[start:]


@asynccontextmanager
async def _reading(kept: _Kept) -> AsyncIterator[tuple[IO[bytes], asyncio.Task[None]]]:
    """A pipe that is read until nobody writes to it any more: the end to write to, and the task that reads.

    It is ours, not asyncio's, whose processes are over only when nobody holds their pipes: a child may, for ever.
    """
    ours, theirs = (
        os.fdopen(fd, mode, buffering=0) for fd, mode in zip(os.pipe(), ("rb", "wb"), strict=True)
    )
    stream = asyncio.StreamReader()

    async def read() -> None:
        while data := await stream.read(_CHUNK):
            kept.add(data)

    with ours, theirs:
        connect = asyncio.get_running_loop().connect_read_pipe
        transport, _ = await connect(lambda: asyncio.StreamReaderProtocol(stream), ours)
        task = asyncio.create_task(read())
        try:
            yield theirs, task
        finally:
            task.cancel()
            transport.close()
            await asyncio.wait((task,))
