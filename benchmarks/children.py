"""The processes in which peers do their jobs; see ``child``.

Each order has a process of its own: a fork of one that has imported the peer, since the imports of some take seconds, or a new one.
A fork copies a page when it first writes to it, which costs a millisecond or two in all; in a full run most of that is done before the
clock starts, and what opening costs is measured in new processes.
"""

import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Self

import msgspec

from benchmarks.environment import python_of
from benchmarks.machine import HERE, environment
from benchmarks.measure import progress
from benchmarks.peers import PEERS


class Failed(Exception):
    """A peer could not do what it was asked for, or not rightly."""


class Children:
    """``jobs``: what each peer can do, by label; ``missing``: why one cannot be measured at all."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self.jobs: dict[str, set[str]] = {}
        self.missing: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.spare: dict[
            str, subprocess.Popen[bytes]
        ] = {}  # new processes that wait for their one order, by label

    def __enter__(self) -> Self:
        progress("importing the peers")
        options = ("--forks",) if self.quick else ("--forks", "--touched")
        self.running = {module: _start(module, *options) for module in {one.module for one in PEERS.values()}}
        try:
            for module in list(self.running):
                self._met(module, _answer(self.running[module]))
        except BaseException:
            self.kill()
            raise
        for label, why in self.missing.items():
            progress(f"{label} is not measured: {why}")
        if self.missing:
            progress("python -m benchmarks setup installs what can be installed")
        return self

    def _met(self, module: str, hello: dict[str, Any]) -> None:
        if "error" in hello:
            _end(self.running.pop(module))
            self.missing |= {one.label: hello["error"] for one in PEERS.values() if one.module == module}
        self.versions |= hello.get("versions", {})
        self.jobs |= {label: set(jobs) for label, jobs in hello.get("jobs", {}).items()}

    def __exit__(self, *_: object) -> None:
        self.kill()  # they have nothing to finish, and to take down what they imported takes some of them seconds
        for child in (*self.running.values(), *self.spare.values()):
            _end(child)

    def kill(self) -> None:
        for child in (*self.running.values(), *self.spare.values()):
            _kill(child)

    def import_anew(self, labels: Iterable[str]) -> None:
        """New processes for all of these. They import side by side, and the clock starts when all of them have."""
        started = {label: _start(PEERS[label].module) for label in labels if label not in self.spare}
        self.spare |= started
        for child in started.values():
            _answer(child)

    def order(self, label: str, job: str, *, new: bool = False, **what: object) -> dict[str, Any]:
        """``new``: in a new process, unless this is a quick run."""
        new = new and not self.quick
        if new and label not in self.spare:
            self.import_anew([label])
        child = self.spare.pop(label) if new else self.running[PEERS[label].module]
        try:
            assert child.stdin
            child.stdin.write(msgspec.json.encode({"peer": label, "job": job, **what}) + b"\n")
            child.stdin.flush()
            answer = _answer(child)
        except OSError as error:
            raise Failed(f"its process is gone: {error}") from None
        except BaseException:
            _kill(child)
            raise
        finally:
            if new:
                _end(child)
        if trouble := answer.get("error") or answer.get("wrong"):
            raise Failed(trouble)
        return answer


def _start(module: str, *options: str) -> "subprocess.Popen[bytes]":
    command = [python_of(module), "-W", "ignore", "-m", "benchmarks.child", module, *options]
    return subprocess.Popen(
        command,
        cwd=HERE.parent,
        env={**environment(), "OPENAI_AGENTS_DISABLE_TRACING": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,  # its own and its forks'
    )


def _answer(child: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert child.stdout
    line = child.stdout.readline()
    if not line:
        return {"error": f"the process ended with {child.wait()}"}
    answer: dict[str, Any] = msgspec.json.decode(line)
    return answer


def _kill(child: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _end(child: "subprocess.Popen[bytes]") -> None:
    with suppress(OSError):
        assert child.stdin
        child.stdin.close()
    child.wait()
    assert child.stdout
    child.stdout.close()
