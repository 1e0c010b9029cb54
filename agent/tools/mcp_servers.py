"""Where an MCP server is, and what is said when it is lost."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO, TypeAlias

import msgspec

from chatfold.agent.masking import masked


class Stdio:
    """A program to start, spoken to through its standard input and output.

    Of our environment it sees ``PATH``, ``HOME`` and a few more like them, and what ``env`` says. What it writes to its
    standard error goes to ``stderr``, an open file, or to ours.
    """

    back = "died; it was restarted"
    gone = "died, and did not start again"

    def __init__(
        self,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.command = command
        self.args = args
        self.env = dict(env or {})
        self.cwd = cwd
        self.stderr = stderr

    def __str__(self) -> str:
        return masked(shlex.join((self.command, *self.args)))


class Http(msgspec.Struct, frozen=True):
    """A server that runs elsewhere, spoken to over streamable HTTP."""

    url: str
    headers: Mapping[str, str] = {}
    silence: float = 300.0  # seconds without a byte after which the connection counts as lost

    back = "was lost; it is connected again"
    gone = "was lost, and cannot be reached again"

    def __str__(self) -> str:
        return masked(self.url)


Address: TypeAlias = Stdio | Http
