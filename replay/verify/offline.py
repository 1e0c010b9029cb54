"""Offline: while a rehearsal runs, this process opens no connection and starts no program.

The interpreter itself is asked to refuse (``sys.addaudithook``), so it does not matter which library is used, or whether a
thread, a callback or a factory does it. Where the interpreter does not ask, the function is replaced meanwhile. Other tasks of the
process are refused, too.

What is not covered: a connection that was open before; a library that was loaded before and is called through ctypes, or an
extension module that connects in its own code (gRPC, libpq); ``fork_exec`` that a module imported by its name before; code that means
to get around this. Run an agent that you do not trust in a sandbox.
"""

import _posixsubprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chatfold.eventlog import ChatfoldError

_LIVE = frozenset(
    {
        *("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"),
        *("socket.sendto", "socket.sendmsg"),
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile"),
        "_posixsubprocess.fork_exec",  # asked about by ourselves
        *("pty.spawn", "os.fork", "os.forkpty"),
        *("ctypes.dlopen", "cpython.PyInterpreterState_New"),  # neither of which anybody could watch
    }
)
_MOST = 100  # characters of what is told of an attempt

_fork_exec = _posixsubprocess.fork_exec
_attempts: list[list[str]] = []  # of every ``offline`` that is in force
_is_hooked = False


class LiveCall(ChatfoldError):
    next_step = (
        "A replay answers from the recording alone: move what needs the world into a tool or the model"
    )


@contextmanager
def offline() -> Iterator[list[str]]:
    """Gives the list of what was tried, which grows: code may swallow what is raised."""
    global _is_hooked  # noqa: PLW0603 (a hook stays for the life of the process)
    if not _is_hooked:
        sys.addaudithook(_refuse)
        _is_hooked = True
    tried: list[str] = []
    _attempts.append(tried)
    _posixsubprocess.fork_exec = _refuse_fork
    try:
        yield tried
    finally:
        _attempts[:] = [one for one in _attempts if one is not tried]
        if not _attempts:
            _posixsubprocess.fork_exec = _fork_exec


def _refuse_fork(*args: Any) -> int:
    """``multiprocessing`` starts programs by this, and the interpreter does not ask about it."""
    _refuse("_posixsubprocess.fork_exec", args[:1])
    return _fork_exec(*args)


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if event not in _LIVE or not _attempts:
        return
    told = " ".join(
        [event, *(repr(arg)[:_MOST] for arg in args if isinstance(arg, str | bytes | int | tuple | list))]
    )
    for tried in _attempts:
        tried.append(told)
    raise LiveCall(f"a replay does not reach the world: {told}")
