"""``chatfold view`` as its users start it: a process of its own, with a state folder and a cache of its own."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

_T = TypeVar("_T")
_PROGRAM = "from chatfold.replay.cli import main; main()"


class Answer:
    """What was answered, whole."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.getheaders()
        self.body = response.read()

    def getheader(self, name: str) -> str | None:
        return next((value for one, value in self.headers if one.lower() == name), None)


class Server:
    def __init__(self, process: "subprocess.Popen[str]", link: str) -> None:
        self.process = process
        self.link = link
        self.base, _, _ = link.partition("/?") if "/?" in link else link.partition("/c/")
        self.token = re.findall(r"token=([\w-]+)", link)[0]
        self.port = int(self.base.rpartition(":")[2])
        self._session = ""

    def send(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """Exactly this; with our Host unless another is given, and no cookie."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {"Host": f"127.0.0.1:{self.port}", **(headers or {})}
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        try:
            return Answer(connection.getresponse())
        finally:
            connection.close()

    @property
    def cookie(self) -> str:
        """Of a session, had for the token."""
        if not self._session:
            response = self.send("GET", f"/?token={self.token}")
            assert response.status == 303, response.status
            self._session = (response.getheader("set-cookie") or "").partition(";")[0]
        return self._session

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, {"Cookie": self.cookie, **headers})

    def ask(self, question: str, **query: Any) -> Any:
        """A value of the page, as it is given."""
        response = self.get(f"/api/v1/{question}?{urlencode(query)}")
        value = json.loads(response.body)
        assert value["v"] == 1
        return value

    def end(self, signum: int = signal.SIGINT) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signum)
        return self.process.wait(timeout=30)


def apart(function: Callable[..., _T], *given: Any, **named: Any) -> _T:
    """In a thread of its own: a browser's driver holds the event loop of this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *given, **named).result()


@contextmanager
def serving(place: Path | str, state: Path, *arguments: str, port: int = 0) -> Iterator[Server]:
    """``state``: the folder of the user's own files."""
    environment = {
        **os.environ, "XDG_STATE_HOME": str(state / "state"), "XDG_CACHE_HOME": str(state / "cache"), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    command = [
        sys.executable,
        "-c",
        _PROGRAM,
        "view",
        "--no-open",
        "--store",
        str(place),
        f"--port={port}",
        *arguments,
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        if found is None:
            raise AssertionError(process.stderr.read())
        server = Server(process, found[0])
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)
        process.stdout.close()
        process.stderr.close()
