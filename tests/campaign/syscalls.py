"""Killed at every system call: right before the first one of an operation that may change a file, the second, and so on.

``dying`` kills at the calls of our own disk; here the kernel tells of the calls, on whatever thread, and nothing of ours
decides where. Also while the next life mends what the last one left.
"""

import copy
import os
import shutil
import traceback
from pathlib import Path
from typing import NamedTuple

from chatfold.eventlog.files.chat_dir import NOTE
from tests.support.figures import Figures, share
from tests.support.judges.account import Account, Lost
from tests.support.processes.births import Plan, born, in_peace, warm
from tests.support.processes.tracing import reason_not, run, seize

_SEGMENT_BYTES = 1_500
_BEFORE = ("say", "say", "say", "fork", "burst", "snapshot", "burst", "say", "burst")


class Operation(NamedTuple):
    """``torn``: of every chat whose segment is open the last line is. ``erasing``: an erasure was cut short."""

    verbs: tuple[str, ...]
    torn: bool = False
    erasing: bool = False


OPERATIONS = {
    "snapshot": Operation(("snapshot",)),  # has the fewest calls: a quick campaign does the first
    "append": Operation(("say",)),
    "delete": Operation(("delete",)),
    "fork": Operation(("fork",)),
    "redact": Operation(("redact",)),
    "roll": Operation(("say",) * 6),
    "appends that share a sync": Operation(("burst",)),
    "compact": Operation(("compact",)),
    "list": Operation(("list",)),
    "close and open": Operation(("say", "reopen", "say")),
    "mend a torn tail": Operation(("say",), torn=True),
    "end an erasure": Operation(("say",), erasing=True),
}


def campaign(number: int, seed: int, folder: Path) -> Figures:
    """``number``: of operations; see ``share``."""
    figures = Figures(reason=reason_not())
    if figures.reason:
        return figures
    figures.count("lost", 0)
    folder.mkdir(parents=True, exist_ok=True)
    warm(folder)
    for name in share(OPERATIONS, number, seed):
        template = folder / "template"
        account = _prepared(template, OPERATIONS[name], f"{seed}")
        calls = _everywhere(name, folder, account, figures, f"{seed}")
        figures.count(f"calls, {name}", calls)
        shutil.rmtree(template)
    return figures


def _prepared(template: Path, operation: Operation, name: str) -> Account:
    account = Account()
    born(template, f"{name}.before", account, Plan(_BEFORE, segment_bytes=_SEGMENT_BYTES)).end()
    account.judge(template)
    for chat in (template / "chats").iterdir() if operation.torn else ():
        with max(chat.glob("*.jsonl")).open("a+b") as segment:
            segment.seek(0)
            if b'\n{"seal"' not in segment.read():  # nobody writes in a full one, which a fork may share
                segment.write(b'{"seq":99,"ts":17')
    nth = 0
    while operation.erasing and not list(template.glob(f"{NOTE}*")):
        nth += 1
        assert _killed(template, f"{name}.erasing.{nth}", account, ("redact",), nth)
        account.judge(template)
    account.entries = account.torn = 0
    return account


def _everywhere(name: str, folder: Path, before: Account, figures: Figures, seed: str) -> int:
    """At how many calls it was killed until it got through."""
    nth = 0
    while True:
        nth += 1
        root = folder / "store"
        shutil.copytree(folder / "template", root)
        account = copy.deepcopy(before)
        dead = _killed(root, f"{seed}.x", account, OPERATIONS[name].verbs, nth)
        _judged(f"{name}, killed at call {nth}, seed {seed}", root, account, figures)
        shutil.rmtree(root)
        if not dead:
            return nth - 1
        figures.tried += 1


def _killed(root: Path, name: str, account: Account, verbs: tuple[str, ...], nth: int) -> bool:
    """Was it? Or did it get through?"""
    waiting, gate = os.pipe()
    life = born(root, name, account, Plan(verbs, segment_bytes=_SEGMENT_BYTES, gate=waiting))
    seize(life.pid)
    os.write(gate, b"!")
    dead = run(life.pid, nth)
    life.ear.listen()
    os.close(gate)
    os.close(waiting)
    return dead


def _judged(where: str, root: Path, account: Account, figures: Figures) -> None:
    figures.count("entries acknowledged", account.entries)
    try:
        account.judge(root)
        in_peace(root, "after", account)
    except Exception as error:  # noqa: BLE001 (counted)
        traceback.print_exc()
        figures.count("lost", isinstance(error, Lost))
        figures.violated(where, error)
    figures.count("torn tails", account.torn)
