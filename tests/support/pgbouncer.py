"""PgBouncer in front of a server of our own, pooling transactions."""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.postgres import ROLE, Cluster, as_server_user, die_with_parent, free_port

_SETTINGS = """[databases]
postgres = host=127.0.0.1 port={server} user={role}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 500
"""


def program() -> str | None:
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")


def reason_not() -> str:
    """Why it cannot be started here; nothing if it can."""
    return (
        "" if program() else "PgBouncer is not installed: apt-get install --no-install-recommends pgbouncer"
    )


class Bouncer:
    """``connections``: so many server processes serve all clients."""

    def __init__(self, cluster: Cluster, *, connections: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pgb-"))
        self.folder.chmod(0o755)
        self.port = free_port()
        settings = _SETTINGS.format(server=cluster.port, port=self.port, role=ROLE, connections=connections)
        (self.folder / "pgbouncer.ini").write_text(settings)
        self.start()

    def start(self) -> None:
        found = program()
        assert found is not None
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [found, self.folder / "pgbouncer.ini"],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=die_with_parent,  # noqa: PLW1509 (it calls the system once, and nothing of ours)
                **as_server_user(),  # type: ignore[call-overload]
            )

        self._wait()

    def _wait(self) -> None:
        import psycopg

        end = time.monotonic() + 30
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

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
