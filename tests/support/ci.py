"""What CI asks of a run besides that it passes: no file takes too long, and nothing is skipped that is not on the list.

``pytest --processor-seconds 10`` prints which files took most and fails if one took more than that. Processor time is what a test
and the processes it waited for used: it does not depend on what else the machine does. With ``CI`` in the environment a skipped
test must match a line of ``tests/skips.txt``.
"""

import os
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

_LISTED = Path(__file__).parents[1] / "skips.txt"
_SHOWN = 10


def _used() -> float:
    return sum(os.times()[:4])


def listed_skips() -> list[str]:
    """Patterns of test ids; what follows the first blank of a line is the reason."""
    lines = _LISTED.read_text().splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith("#")]


class Account:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._limit: float = config.getoption("--processor-seconds")
        self._is_ci = bool(os.environ.get("CI"))
        self._used: Counter[str] = Counter()
        self._skipped: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        before = _used()
        result = yield
        self._used[item.nodeid.partition("::")[0]] += _used() - before  # type: ignore[assignment]  # mypy: Counter of int
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped[report.nodeid] = str(
                report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            )

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):  # one of several processes: the first one adds up
            session.config.workeroutput["used"] = dict(self._used)
        elif self.complaints() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._used.update(getattr(node, "workeroutput", {}).get("used", {}))

    def complaints(self) -> list[str]:
        slow = [
            f"{file} took {used:.1f} s of processor time, more than {self._limit:g}: see tests/README.md"
            for file, used in self._used.most_common()
            if self._limit and used > self._limit and not file.startswith("tests/campaign/")
        ]
        patterns = listed_skips()
        unlisted = [
            f"{test} was skipped ({reason}) and is not in tests/skips.txt"
            for test, reason in self._skipped.items()
            if self._is_ci and not any(fnmatchcase(test, pattern) for pattern in patterns)
        ]
        return slow + unlisted

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._limit:
            terminalreporter.section(f"processor time, {sum(self._used.values()):.0f} s in all")
            for file, used in self._used.most_common(_SHOWN):
                terminalreporter.line(f"{used:6.1f} s  {file}")
        for complaint in self.complaints():
            terminalreporter.line(complaint, red=True)
