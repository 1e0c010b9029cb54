"""What is told of a run while it goes on: the model's words as they come, and in a few words what each tool did.

A person sees digests, never raw output: at most 500 characters, failures and both streams of a command included, passwords
and keys in commands masked. What really was said and returned is in the log.
"""

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from agent.says import Called
from agent.tools import Outcome
from eventlog import Data, Json, Part, Text
from projections.text import clipped, text_of
from projections.wire import json_text

MOST = 500


class Step(msgspec.Struct, frozen=True):
    """``piece``: some of an answer. ``assistant``: what the model said. ``step_finish``: what a tool did."""

    type: Literal["piece", "assistant", "step_finish"]
    text: str
    run: str = ""
    kind: str = "text"  # of a piece: or reasoning
    tool: str = ""
    failed: bool = False


def answer_step(parts: Iterable[Part], run: str) -> Step | None:
    text = readable(text_of(parts))
    return Step("assistant", text, run) if text else None


def tool_step(call: Called, outcome: Outcome, run: str) -> Step:
    told = _shell(call, outcome) if call.name == "exec_shell" else _any(call, outcome)
    return Step("step_finish", clipped(told, MOST), run, tool=call.name, failed=outcome.failed)


def readable(text: str) -> str:
    """Without superfluous white space."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _any(call: Called, outcome: Outcome) -> str:
    how = "failed" if outcome.failed else "done"
    return f"{call.name} {how}: {_told(outcome.parts)}".rstrip(": ")


def _told(parts: Iterable[Part]) -> str:
    texts = []
    for part in parts:
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, Data):
            texts.append(_error(part.data) or json_text(part.data))
    return readable("\n".join(texts))


def _error(value: Json) -> str:
    """What an object that says it failed says about it."""
    if not isinstance(value, dict) or value.get("success") is not False:
        return ""
    return str(value.get("error") or value.get("stderr") or "")


def _shell(call: Called, outcome: Outcome) -> str:
    """The command, how it ended, and the beginnings of both of its streams."""
    said = next((part.data for part in outcome.parts if isinstance(part, Data)), None)
    command = call.args.get("command", "") if isinstance(call.args, dict) else call.args
    first = f"$ {clipped(masked(str(command)), 120)}"
    if not isinstance(said, dict):
        return f"{first}\n{_told(outcome.parts)}"
    streams = [(name, readable(str(said.get(name) or ""))) for name in ("stdout", "stderr")]
    shown = [(name, text) for name, text in streams if text]
    room = (MOST - len(first) - 40) // max(1, len(shown))
    texts = [f"{name}: {clipped(text, room)}" for name, text in shown]
    return "\n".join([first, f"exit code {said.get('exit_code')}", *texts])


_SECRETS = (
    re.compile(
        r"(?i)(\b[\w-]*(?:api[_-]?key|token|passw(?:or)?d|secret|credential)s?[\w-]*\b\s*[=:]\s*|"
        r"--(?:password|token|api-key|secret)[= ]\s*)(\"[^\"]*\"|'[^']*'|\S+)"
    ),
    re.compile(r"(?i)(\b(?:bearer|basic)\s+)([\w.~+/=-]{6,})"),
    re.compile(r"(://[^\s/:@]*:)([^\s/@]+)(?=@)"),
    re.compile(r"()(\b(?:sk|pk|ghp|gho|xox[abp]|AKIA)[-_]?[\w-]{12,})"),
)


def masked(command: str) -> str:
    """The command with what looks like a password or a key as dots."""
    for secret in _SECRETS:
        command = secret.sub(r"\1•••", command)
    return command
