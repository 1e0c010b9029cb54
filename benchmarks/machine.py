"""What a run ran on, and the folder it may fill."""

import datetime as dt
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import NoReturn, Self, TypeVar

HERE = Path(__file__).parent
_LIBRARIES = ("msgspec", "xxhash", "watchfiles")

T = TypeVar("T")
Said = Callable[..., bytes]


def facts(path: Path) -> dict[str, object]:
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {_processor()}, {_memory()}",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "disk": file_system(path),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": {name: version(name) for name in _LIBRARIES},
    }


def file_system(path: Path) -> str:
    """The kind of file system ``path`` is on, such as ext4; "unknown" where the system does not say."""
    kind, longest = "unknown", -1
    with suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, mount, this_kind, *_ = line.split(" ")
            inside = mount == "/" or path.resolve().is_relative_to(mount)
            if inside and len(mount) >= longest:
                kind, longest = this_kind, len(mount)
    return kind


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder on the disk of the repository, gone afterwards, however the run ends."""
    parent = HERE / ".tmp"
    parent.mkdir(exist_ok=True)
    before = signal.signal(signal.SIGTERM, _stop)  # else a killed run would leave gigabytes behind
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield folder
    finally:
        signal.signal(signal.SIGTERM, before)
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another run may be using it
            parent.rmdir()


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def environment() -> dict[str, str]:
    """Of the processes that are measured: whoever installs a package has it compiled, so each may keep what it compiles."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def in_new_process(
    module: str, *arguments: object, python: str = sys.executable, limit: float | None = None
) -> bytes:
    """What the module of this package prints. After ``limit`` seconds it is killed, with all that it started."""
    return said_by([python, "-m", f"benchmarks.{module}", *arguments], environment(), limit)


def said_by(
    command: Sequence[object],
    environment: Mapping[str, str],
    limit: float | None = None,
    running: set[int] | None = None,
) -> bytes:
    """``running``: where its group is to be found, by whoever wants to kill it from another thread."""
    running = set() if running is None else running
    words, none, pipe = [*map(str, command)], subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(
        words, cwd=HERE.parent, env=environment, stdin=none, stdout=pipe, process_group=0
    ) as child:
        running.add(child.pid)
        try:
            said, _ = child.communicate(timeout=limit)
        except BaseException:  # Ctrl-C, too, which a group of its own does not hear
            os.killpg(child.pid, signal.SIGKILL)
            raise
        finally:
            running.remove(child.pid)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, words)
    return said


class Crew:
    """Processes that are not measured: as many at a time as there are cores. Whoever is still at work when it is left is killed."""

    def __init__(self) -> None:
        self._cores = ThreadPoolExecutor(os.cpu_count())
        self._running: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cores.shutdown(wait=False, cancel_futures=True)
        for group in [*self._running]:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._cores.shutdown()

    def start(self, work: Callable[[Said], T]) -> Future[T]:
        """``work`` is given what runs a command, environment and limit as of ``said_by``."""
        return self._cores.submit(work, partial(said_by, running=self._running))
