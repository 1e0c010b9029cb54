"""``python -m benchmarks.properties_child MACHINE SECONDS PATIENCE FOLDER``: searches that long, and prints what it did.

If it has not come to an end so many seconds of patience later, it says where every thread stands.
"""

import faulthandler
import logging
import os
import random
import shutil
import sys
import tempfile
import traceback
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

import chatfold
from benchmarks.properties import Searched

_TOP = Path(chatfold.__file__).parents[1]
_CRASHES = (
    ("tests.support.machines.two_stores", "Files", "die"),
    ("tests.eventlog.test_storage_agreement", "Files", "crash"),
)  # where a process dies
_FIRST, _FEW, _MANY = 2, 5, 200
"""Examples of one seed. The first is always the simplest, and what hypothesis remembers of them grows."""


def search(module: str, case: str, seconds: float) -> Searched:
    """Anew each time: neither the seed nor what was found before is known."""
    from hypothesis import Phase, settings  # noqa: PLC0415 (after the path is set)
    from hypothesis.stateful import run_state_machine_as_test  # noqa: PLC0415

    test = getattr(import_module(module), case)
    found = Searched()
    machine = _counting(test.runTest._hypothesis_state_machine_class, found)  # noqa: SLF001
    _count_crashes(found)
    profile = settings(
        test.settings,
        derandomize=False,
        database=None,
        phases=[Phase.generate],  # to shrink what was found would take the time of the search
        report_multiple_bugs=False,
    )
    start = monotonic()
    examples = _FIRST
    while examples:
        try:
            run_state_machine_as_test(machine, settings=settings(profile, max_examples=examples))
        except Exception as error:  # noqa: BLE001 (whatever it is, it is what we search for)
            _violated(found, error)
        spent = monotonic() - start
        left = int((seconds - spent) * found.examples / spent)  # as many as fit
        examples = min(max(left, _FEW), _MANY) if spent < seconds else 0
    return found


def _violated(found: Searched, error: Exception, where: str = "") -> None:
    traceback.print_exception(error)  # with the program that led to it
    found.violations += 1
    found.first = found.first or where + _told(error)


def _told(error: Exception) -> str:
    inner = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
    return f"{type(inner).__name__}: {inner}".replace("\n", " ")


def _counting(machine: Any, found: Searched) -> Any:
    """The machine, counting its examples and steps."""

    class Counting(machine):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            found.examples += 1

        def check_invariants(self, *args: Any, **kwargs: Any) -> None:
            found.operations += 1  # after each step
            super().check_invariants(*args, **kwargs)

    return Counting


def _count_crashes(found: Searched) -> None:
    for module, kind, method in _CRASHES:
        if module in sys.modules:
            _count(getattr(sys.modules[module], kind), method, found)


def _count(kind: Any, method: str, found: Searched) -> None:
    crash = getattr(kind, method)

    def counted(*args: Any) -> Any:
        found.crashes += 1
        return crash(*args)

    setattr(kind, method, counted)


def kills(seconds: float) -> Searched:
    """Operations are killed before their first change to the disk, their second, and so on; then in the middle of each write."""
    operations = import_module("tests.support.processes.operations")
    found = Searched()
    end = monotonic() + seconds
    names = list(operations.OPERATIONS)
    random.shuffle(names)
    for name in names:
        place = Path(tempfile.mkdtemp())
        found.examples += 1
        found.crashes += _killed(name, place, found)
        for left in sorted(place.glob("[0-9]*")):
            found.operations += 1
            try:
                operations.judge(name, left / "store", (left / "told").read_text().split())
            except Exception as error:  # noqa: BLE001 (whatever it is, it is what we search for)
                _violated(found, error, f"{name}, killed at {left.name}: ")
        shutil.rmtree(place)
        if monotonic() > end:
            break
    return found


def _killed(name: str, place: Path, found: Searched) -> int:
    """How often it was. What its process says is told only if it failed: that torn tails were cut off is no news."""
    children = import_module("tests.support.processes.children")
    spoken = place / "stderr"
    ours = os.dup(2)
    with spoken.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        with children.started("dying", name, place) as child:
            [[number]] = children.told(child)
        return int(number)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is what we search for)
        os.write(ours, spoken.read_bytes())
        _violated(found, error, f"{name}, while it was killed: ")
        return 0
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def main() -> None:
    what, seconds, patience, folder = sys.argv[1:]
    faulthandler.dump_traceback_later(float(seconds) + float(patience))
    os.environ["HYPOTHESIS_PROFILE"] = "long"
    tempfile.tempdir = folder  # all stores are made there
    said = os.dup(1)
    os.dup2(2, 1)  # what tests print is no answer
    logging.disable()  # that a torn tail was cut off is what they are about
    sys.path.insert(0, str(_TOP))
    import_module("tests.conftest")  # has the profiles
    if what == "kills":
        found = kills(float(seconds))
    else:
        module, _, case = what.partition(":")
        found = search(module, case, float(seconds))
    os.write(said, msgspec.json.encode(found))


if __name__ == "__main__":
    main()
