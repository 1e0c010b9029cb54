"""Runs the tests of a framework on our adapter: ``python -m tests.adapters.upstream FRAMEWORK [--all] [-- ARGUMENTS OF PYTEST]``.

The tests come with the framework's source distribution, which pip downloads into ``.upstream/`` and which stays there; so does an
environment of its own. None of them is in this repository. A plugin next to this module puts our adapter in the place of the framework's
own store, and a list has the tests that are excused, each with the reason: one that passes after all is a failure, too.
"""

import argparse
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLACE = ROOT / ".upstream"


class Framework(NamedTuple):
    """``choice``: the files of tests that are run every time; ``more``: the others that use what the adapter replaces."""

    version: str
    extras: str
    needs: tuple[str, ...]
    choice: tuple[str, ...]
    more: tuple[str, ...]
    arguments: tuple[str, ...] = ()  # of pytest
    env: Mapping[str, str] = {}

    def files(self, *, is_all: bool) -> tuple[str, ...]:
        return (*self.choice, *self.more) if is_all else self.choice


FRAMEWORKS = {
    "openai-agents": Framework(
        "0.24.0",
        "[encrypt,sqlalchemy]",
        ("aiosqlite", "fakeredis", "inline-snapshot", "pytest-asyncio", "pytest-mock", "pytest-timeout", "websockets"),
        (
            "tests/memory/test_session.py",
            "tests/memory/test_session_limit.py",
            "tests/memory/test_compaction_suffix.py",
            "tests/memory/test_session_context_wrapper.py",
        ),
        (
            "tests/memory/test_compaction_model_visibility.py",
            "tests/memory/test_openai_responses_compaction_session.py",
            "tests/extensions/memory/test_encrypt_session.py",
            "tests/test_agent_runner.py",
            "tests/test_agent_runner_streamed.py",
            "tests/test_max_turns.py",
            "tests/test_native_tool_failure_history.py",
            "tests/test_programmatic_tool_calling.py",
            "tests/test_run_impl_resume_paths.py",
            "tests/test_soft_cancel.py",
            "tests/test_tool_batch_failure_history.py",
            "tests/test_tool_failure_boundaries.py",
        ),
    ),
    "langgraph": Framework(
        "1.2.22",
        "",
        (
            "aiosqlite",
            "httpx",
            "langgraph-checkpoint-postgres",
            "langgraph-checkpoint-sqlite",
            "psycopg-pool",
            "psycopg[binary]",
            "pycryptodome",
            "pytest",
            "pytest-dotenv",
            "pytest-mock",
            "pytest-repeat",
            "redis",
            "syrupy",
            "uvloop",
        ),
        (
            "tests/test_time_travel.py",
            "tests/test_time_travel_async.py",
            "tests/test_interruption.py",
            "tests/test_subgraph_persistence.py",
            "tests/test_subgraph_persistence_async.py",
        ),
        (
            "tests/test_pregel.py",
            "tests/test_pregel_async.py",
            "tests/test_large_cases.py",
            "tests/test_large_cases_async.py",
            "tests/test_delta_channel_fork.py",
            "tests/test_delta_channel_update_state.py",
        ),
        ("-k", "sqlite"),  # the others run on other savers
        {"NO_DOCKER": "true"},
    ),
}  # fmt: skip


def excused(name: str) -> dict[str, str]:
    """The reason of each excused test: of one, or of all parameters of one."""
    found: dict[str, str] = {}
    for line in (HERE / f"{_module(name)}_excused.txt").read_text().splitlines():
        test, _, reason = line.partition("  # ")
        if test and not line.startswith("#"):
            assert reason, f"why is {test} excused?"
            found[test.strip()] = reason
    return found


def _module(name: str) -> str:
    return name.replace("-", "_")


def python_of(name: str, framework: Framework) -> Path:
    """An environment with the framework at its version, and this package."""
    folder = PLACE / f"{name}-{framework.version}-venv"
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    if not stamp.exists():
        venv.create(folder, with_pip=True, clear=True)
        wanted = [f"{name}{framework.extras}=={framework.version}", *framework.needs, "-e", str(ROOT)]
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True)
        stamp.touch()
    return python


def sources_of(name: str, version: str) -> Path:
    """The unpacked source distribution."""
    folder = PLACE / f"{name}-{version}"
    if not (folder / "unpacked").exists():
        folder.mkdir(parents=True, exist_ok=True)
        download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
        command = [*download, "--no-binary", name, "-d", str(folder), f"{name}=={version}"]
        subprocess.run(command, check=True)
        [archive] = folder.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        (folder / "unpacked").touch()
    [found] = (one for one in folder.iterdir() if one.is_dir())
    return found


def run(name: str, *, is_all: bool, more: list[str]) -> int:
    framework = FRAMEWORKS[name]
    python, folder = python_of(name, framework), sources_of(name, framework.version)
    files = framework.files(is_all=is_all)
    path = f"{ROOT}:{HERE}"
    command = [str(python), "-m", "pytest", "-q", "-p", f"{_module(name)}_upstream", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--tb=short", "-rfE", *framework.arguments, *files, *more],
        cwd=folder,
        env={"PATH": str(python.parent), "PYTHONPATH": path, "HOME": str(PLACE), **framework.env},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return judge(name, files, done.stdout, done.returncode)


def judge(name: str, files: tuple[str, ...], output: str, code: int) -> int:
    """0 if the tests that failed are the excused ones of these files."""
    failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE))
    allowed = {test for test in excused(name) if test.partition("::")[0] in files}
    wrong = {test for test in failed if not {test, test.partition("[")[0]} & allowed}
    passed = {
        test for test in allowed if not any(one == test or one.startswith(f"{test}[") for one in failed)
    }
    print(output.strip().rpartition("\n")[2])
    print(f"{len(failed) - len(wrong)} excused, {len(wrong)} failed, {len(passed)} excused but did not fail")
    if wrong or code not in (0, 1):
        print(output)
    for test in sorted(passed):
        print(f"excused, but it did not fail: {test}")
    return 1 if wrong or passed or code not in (0, 1) else 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.adapters.upstream")
    parser.add_argument("framework", choices=FRAMEWORKS)
    parser.add_argument("--all", action="store_true", help="also the tests that take minutes")
    arguments, more = parser.parse_known_args()
    sys.exit(run(arguments.framework, is_all=arguments.all, more=[one for one in more if one != "--"]))


if __name__ == "__main__":
    main()
