"""A PostgreSQL server of our own, in a scratch folder: on the loopback, without privileges, gone when the tests are."""

import atexit
import ctypes
import functools
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from contextlib import suppress
from pathlib import Path

ROLE = "postgres"
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def reason_not() -> str:
    """Why no server can be started here; nothing if one can."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed: pip install 'chatfold[postgres]'"
    if bin_folder() is None:
        return "PostgreSQL is not installed: apt-get install --no-install-recommends postgresql"
    return ""


def bin_folder() -> Path | None:
    given = [Path(os.environ["PG_BIN"])] if "PG_BIN" in os.environ else []
    found = shutil.which("postgres")
    places = [*given, *([Path(found).resolve().parent] if found else [])]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "postgres").exists()), None)


class Cluster:
    """``fsync``: is what was committed to survive a power cut? Only tests of that need it."""

    def __init__(
        self,
        *,
        fsync: bool = False,
        options: tuple[str, ...] = (),
        folder: Path | None = None,
        empty: bool = False,
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="pg-"))
        self.folder.mkdir(exist_ok=True)
        self.data = self.folder / "data"
        self.port = free_port()
        self._options = (f"fsync={'on' if fsync else 'off'}", *options)
        self._server: subprocess.Popen[bytes] | None = None
        self._user = ROLE if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        if os.geteuid() == 0:
            shutil.chown(self.folder, self._user)
        if not empty:
            options_of_initdb = ("-A", "trust", "-U", ROLE, "-E", "UTF8", "--locale=C", "--no-sync")
            self.command("initdb", *options_of_initdb, "-D", self.data)

    def command(self, name: str, *args: str | Path) -> None:
        folder = bin_folder()
        assert folder is not None
        subprocess.run(
            [folder / name, *args],
            check=True,
            capture_output=True,
            cwd=self.folder,
            timeout=120,
            **as_server_user(),  # type: ignore[call-overload]
        )

    def start(self) -> None:
        folder = bin_folder()
        assert folder is not None
        settings = [
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self.folder}",
            "shared_buffers=32MB",
            "max_connections=200",
            *self._options,
        ]
        options = [part for setting in settings for part in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [folder / "postgres", "-D", self.data, *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 (it calls the system once, and nothing of ours)
                **as_server_user(),  # type: ignore[call-overload]
            )
        self.wait()

    def wait(self) -> None:
        import psycopg

        end = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
            else:
                return

    @property
    def dsn(self) -> str:
        return f"postgresql://{ROLE}@127.0.0.1:{self.port}/postgres"

    def address(self) -> str:
        """Of a schema that nobody has used."""
        return f"{self.dsn}?schema=t{secrets.token_hex(6)}"

    def execute(self, sql: str) -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def wait_for_clients_to_end(self) -> None:
        """A client that was killed may have sent a statement before: the server does it, and only then finds nobody there."""
        others = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        end = time.monotonic() + 60
        while left := self.execute(others):
            assert time.monotonic() < end, f"{left} are still there"
            time.sleep(0.01)

    def standby(self) -> "Cluster":
        """A copy that follows; what is committed after ``synchronise`` is there, too."""
        copy = Cluster(fsync=True, options=("hot_standby=on", "cluster_name=standby"), empty=True)
        copy.command(
            *("pg_basebackup", "-h", "127.0.0.1", "-p", str(self.port), "-U", ROLE),
            *("-D", copy.data, "-R", "-c", "fast", "-X", "stream"),
        )
        return copy

    def synchronise(self) -> None:
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.execute("SELECT pg_reload_conf()")
        end = time.monotonic() + 30
        while self.execute("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
            assert time.monotonic() < end
            time.sleep(0.05)

    def promote(self) -> None:
        self.execute("SELECT pg_promote(true, 60)")

    @property
    def is_running(self) -> bool:
        return self._server is not None and self._server.poll() is None

    def kill(self) -> None:
        """As a power cut would, but for what the system has in memory: nobody is asked to end."""
        assert self._server is not None
        _signal_all(self._server.pid, signal.SIGKILL)
        self._server.wait()

    def freeze(self) -> None:
        """It hangs: connections stay, nothing is answered."""
        assert self._server is not None
        _signal_all(self._server.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._server is not None
        _signal_all(self._server.pid, signal.SIGCONT)

    def stop(self) -> None:
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(signal.SIGINT)
            try:
                self._server.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _signal_all(parent: int, number: int) -> None:
    """To a server and to its processes, each of which leads a group of its own."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for process in (parent, *map(int, children)):
        with suppress(ProcessLookupError):
            os.kill(process, number)


def as_server_user() -> dict[str, str]:
    """Servers refuse to run as root."""
    return {"user": ROLE, "group": ROLE} if os.geteuid() == 0 else {}


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGINT)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@functools.cache
def shared_cluster() -> Cluster:
    """One for all tests of this process. Skips the test where there can be none."""
    if why := reason_not():
        raise unittest.SkipTest(why)
    cluster = Cluster()
    cluster.start()
    atexit.register(cluster.stop)
    return cluster
