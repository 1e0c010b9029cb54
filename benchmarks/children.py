"""The processes in which peers do their jobs; see ``child``.

Each order has a process of its own: a fork of one that has imported the peer, since the imports of some take seconds, or a new one.
A fork copies a page when it first writes to it, which costs a millisecond or two in all; in a full run most of that is done before the
clock starts, and what opening costs is measured in new processes.
"""

import os
import subprocess
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import msgspec

from benchmarks.environment import python_of
from benchmarks.machine import HERE
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

    def __enter__(self) -> Self:
        progress("importing the peers")
        options = ("--forks",) if self.quick else ("--forks", "--touched")
        started = {module: _start(module, *options) for module in {one.module for one in PEERS.values()}}
        for module, child in started.items():
            hello = _answer(child)
            if "error" in hello:
                _end(child)
                self.missing |= {one.label: hello["error"] for one in PEERS.values() if one.module == module}
            else:
                self.running[module] = child
            self.versions |= hello.get("versions", {})
            self.jobs |= {label: set(jobs) for label, jobs in hello.get("jobs", {}).items()}
        for label, why in self.missing.items():
            progress(f"{label} is not measured: {why}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for child in self.running.values():
            _end(child)

    def order(self, label: str, job: str, *, new: bool = False, **what: object) -> dict[str, Any]:
        """``new``: in a new process, unless this is a quick run."""
        new = new and not self.quick
        module = PEERS[label].module
        child = _start(module) if new else self.running[module]
        try:
            if new:
                _answer(child)
            assert child.stdin
            child.stdin.write(msgspec.json.encode({"peer": label, "job": job, **what}) + b"\n")
            child.stdin.flush()
            answer = _answer(child)
        except BaseException:
            child.kill()
            raise
        finally:
            if new:
                _end(child)
        if trouble := answer.get("error") or answer.get("wrong"):
            raise Failed(trouble)
        return answer


def _start(module: str, *options: str) -> "subprocess.Popen[bytes]":
    command = [python_of(module), "-W", "ignore", "-m", "benchmarks.child", module, *options]
    environment = {**os.environ, "OPENAI_AGENTS_DISABLE_TRACING": "1", "PYTHONDONTWRITEBYTECODE": ""}
    return subprocess.Popen(
        command,
        cwd=HERE.parent,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _answer(child: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert child.stdout
    line = child.stdout.readline()
    if not line:
        return {"error": f"the process ended with {child.wait()}"}
    answer: dict[str, Any] = msgspec.json.decode(line)
    return answer


def _end(child: "subprocess.Popen[bytes]") -> None:
    with suppress(OSError):
        assert child.stdin
        child.stdin.close()
    child.wait()
    assert child.stdout
    child.stdout.close()
