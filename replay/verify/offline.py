"""Offline: while a rehearsal runs, this process opens no connection and starts no program, whoever tries.

The interpreter itself is asked to refuse (``sys.addaudithook``), so it does not matter which library is used, or whether a
thread, a callback or a factory does it. What was open before stays open. Other tasks of the process are refused, too.
"""

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
        *("pty.spawn", "os.forkpty"),
    }
)
_MOST = 100  # characters of what is told of an attempt

_attempts: list[list[str]] = []  # of every ``offline`` that is in force
_is_hooked = False


class LiveCall(ChatfoldError):
    next_step = (
        "A replay answers from the recording alone; what needs the world belongs into a tool or the model"
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
    try:
        yield tried
    finally:
        _attempts[:] = [one for one in _attempts if one is not tried]


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if not _attempts or event not in _LIVE:
        return
    told = " ".join(
        [event, *(repr(arg)[:_MOST] for arg in args if isinstance(arg, str | bytes | int | tuple | list))]
    )
    for tried in _attempts:
        tried.append(told)
    raise LiveCall(f"a replay does not reach the world: {told}")
