"""``python -m benchmarks setup``: the peers, in environments of their own; and which Python runs which of them.

``benchmarks/.venv`` gets this package with the extra ``bench``, under the Python that runs the setup. A peer that needs a newer one gets
``benchmarks/.venv-newer``, if such a Python is found. What cannot be installed is named, then and in every run.
"""

import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from benchmarks.machine import HERE
from benchmarks.measure import progress

_ROOT = HERE.parent
_NEWER = ("openhands",)  # modules of peers that need Python 3.12
_NEWER_NEEDS = ("msgspec", "xxhash", "openhands-sdk>=1.58")


def python_of(module: str) -> str:
    """The interpreter for the peers of this module: that of its environment or, if there is none, this one."""
    folder = ".venv-newer" if module in _NEWER else ".venv"
    python = HERE / folder / "bin" / "python"
    if module in _NEWER and not python.exists():
        python = HERE / ".venv" / "bin" / "python"
    return str(python) if python.exists() else sys.executable


def setup(newer: str | None = None) -> list[str]:
    """What could not be installed. ``newer``: a Python of 3.12 or newer, if it is not on the path."""
    python = _environment(HERE / ".venv", sys.executable)
    missing = []
    if not _install(python, "-e", f"{_ROOT}[bench,test]"):
        progress("not all at once; one by one")
        _install(python, "-e", f"{_ROOT}[test]")
        extra = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        missing = [name for name in extra["bench"] if not _install(python, name)]
    if sys.version_info < (3, 12):
        found = newer or _newer()
        done = found and _install(_environment(HERE / ".venv-newer", found), *_NEWER_NEEDS)
        missing += [] if done else [f"{_NEWER_NEEDS[-1]} (needs Python 3.12 or newer)"]
    return missing


def _environment(folder: Path, python: str) -> str:
    progress(f"making {folder}")
    if python == sys.executable:
        venv.create(folder, with_pip=True, clear=True)
    else:
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    return str(folder / "bin" / "python")


def _install(python: str, *what: str) -> bool:
    progress(f"installing {' '.join(what)}")
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *what]
    return subprocess.run(command, check=False).returncode == 0


def _newer() -> str | None:
    for name in ("python3.12", "python3.13", "python3.14"):
        path = shutil.which(name)
        runs = path and not subprocess.run([path, "-V"], check=False, capture_output=True).returncode
        if path and runs:
            return path
    return None
