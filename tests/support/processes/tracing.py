"""Kills a process right before its n-th system call that may change a file, counted over all of its threads.

As ``strace`` would with ``inject=…:signal=KILL:when=N``, which counts the calls of each thread for itself and so never comes
to some of them.
"""

import ctypes
import os
import platform
import signal
import struct
import sys
from pathlib import Path

_SEIZE, _INTERRUPT, _SYSCALL, _INFO = 0x4206, 0x4207, 24, 0x420E
_OPTIONS = 0x00000001 | 0x00000008 | 0x00100000  # tell of system calls, of new threads; die with us
_WALL = 0x40000000
_ENTRY = 1
_CALLS = {
    "x86_64": """
        write 1 pwrite64 18 flock 73 fsync 74 fdatasync 75 ftruncate 77 rename 82 mkdir 83 rmdir 84 link 86 unlink 87
        openat 257 mkdirat 258 unlinkat 263 renameat 264 linkat 265 renameat2 316
    """,
    "aarch64": """
        flock 32 mkdirat 34 unlinkat 35 linkat 37 renameat 38 ftruncate 46 openat 56 write 64 pwrite64 68 fsync 82
        fdatasync 83 renameat2 276
    """,
}
_numbers = frozenset(map(int, _CALLS.get(platform.machine(), "").split()[1::2]))
_libc = ctypes.CDLL(None, use_errno=True)


def reason_not() -> str:
    """Why it cannot be done on this machine; empty if it can."""
    if sys.platform != "linux" or not _numbers:
        return f"the system calls of {sys.platform} on {platform.machine()} have no numbers here"
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    allowed = not scope.exists() or int(scope.read_text()) < (3 if os.geteuid() == 0 else 2)
    return "" if allowed else "this machine does not let a process be traced"


def _ptrace(request: int, pid: int, address: int = 0, data: object = 0) -> int:
    _libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    _libc.ptrace.restype = ctypes.c_long
    answer: int = _libc.ptrace(request, pid, address, data)
    if answer < 0 and ctypes.get_errno() != 3:  # ESRCH: it was killed meanwhile
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")
    return answer


def seize(pid: int) -> None:
    """From here on it stops at every call, and goes on when ``run`` says so."""
    _ptrace(_SEIZE, pid, 0, _OPTIONS)
    _ptrace(_INTERRUPT, pid)
    os.waitpid(pid, _WALL)
    _ptrace(_SYSCALL, pid)


def run(pid: int, nth: int) -> bool:
    """Lets it run until it ends, or is about to do its ``nth`` call: was it killed?"""
    seen = 0
    while True:
        thread, status = os.waitpid(-1, _WALL)
        if not os.WIFSTOPPED(status):
            if thread == pid:
                return os.WIFSIGNALED(status)
            continue
        stopped = os.WSTOPSIG(status)
        if stopped == signal.SIGTRAP | 0x80:
            seen += _is_change(thread)
            if seen == nth:
                os.kill(pid, signal.SIGKILL)
                return _dead(pid)
        # Its own signals are passed on; that a thread began, or stopped because it was seized, is none.
        _ptrace(_SYSCALL, thread, 0, 0 if stopped & 0x7F == signal.SIGTRAP or status >> 16 else stopped)


def _is_change(thread: int) -> bool:
    """Has it entered a call that may change a file?"""
    info = ctypes.create_string_buffer(88)
    if _ptrace(_INFO, thread, len(info), ctypes.addressof(info)) < 0:
        return False
    return info.raw[0] == _ENTRY and struct.unpack_from("Q", info.raw, 24)[0] in _numbers


def _dead(pid: int) -> bool:
    """Waits for all of its threads."""
    while True:
        thread, status = os.waitpid(-1, _WALL)
        if thread == pid and not os.WIFSTOPPED(status):
            return os.WIFSIGNALED(status)
