"""A place to build and install: one wheel of this checkout, and virtual environments that have it, or something else.

``CHATFOLD_WHEEL=dist/chatfold-….whl`` has that wheel tested, not one built here.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

TOP = Path(__file__).parents[2]
Done = subprocess.CompletedProcess[str]

_NOT_COPIED = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "results")
_PATIENCE = 300.0  # seconds, for whatever another worker makes or the registry gives
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CHATFOLD_STORE")  # of whoever runs the tests
_NOTHING: Mapping[str, str] = MappingProxyType({})
_SDIST = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"


def ran(*words: object, cwd: Path, more: Mapping[str, str] = _NOTHING) -> Done:
    """A program that knows nothing of the environment that the tests are in."""
    kept = {name: value for name, value in os.environ.items() if name not in _OURS}
    known = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUTF8": "1"}
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=kept | known | dict(more),
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
        stdin=subprocess.DEVNULL,
    )


def succeeded(done: Done) -> str:
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Workshop:
    """Shared by all workers of a run: what one of them makes, the others wait for."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """The folder of this name, made by whoever comes first: ``mkdir`` has one winner."""
        folder = self._root / name
        ready, failed = self._root / f"{name}.ready", self._root / f"{name}.failed"
        try:
            folder.mkdir()
        except FileExistsError:
            end = time.monotonic() + _PATIENCE
            while not ready.exists():
                assert not failed.exists(), f"{name} could not be made; see the test that tried first"
                assert time.monotonic() < end, f"{name} is not ready"
                time.sleep(0.1)
            return folder
        try:
            make(folder)
        except BaseException:
            failed.touch()
            raise
        ready.touch()
        return folder

    @property
    def python(self) -> Path:
        """With pip, which works for the other environments too, and what builds a wheel: downloaded once."""

        def make(folder: Path) -> None:
            succeeded(ran(sys.executable, "-m", "venv", folder, cwd=self._root))
            pip = (folder / "bin" / "python", "-m", "pip", "install", "-q", "setuptools>=77")
            succeeded(ran(*pip, cwd=self._root))

        return self.once("workshop", make) / "bin" / "python"

    def pip(self, python: Path, *words: object) -> Done:
        """pip, for that environment."""
        return ran(self.python, "-m", "pip", "--python", python, *words, cwd=self._root)

    def venv(self, name: str, *installed: object) -> Path:
        """The ``bin`` of an environment that has what is to be installed."""

        def make(folder: Path) -> None:  # without a pip of its own, which takes longer than all else
            succeeded(ran(sys.executable, "-m", "venv", "--without-pip", folder, cwd=self._root))
            succeeded(self.pip(folder / "bin" / "python", "install", "-q", *installed))

        return self.once(name, make) / "bin"

    def built(self, source: Path, into: Path) -> Path:
        """The wheel of a project."""
        words = ("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", into, source.absolute())
        succeeded(self.pip(self.python, *words))
        [wheel] = into.glob("*.whl")
        return wheel

    def checkout(self, name: str) -> Path:
        """A copy of this checkout: to build leaves files, and files that were left would be built."""

        def make(folder: Path) -> None:
            shutil.copytree(TOP, folder, symlinks=True, ignore=_NOT_COPIED, dirs_exist_ok=True)

        return self.once(name, make)

    def wheel(self) -> Path:
        if given := os.environ.get("CHATFOLD_WHEEL"):
            return Path(given).absolute()
        folder = self.once("wheel", lambda folder: void(self.built(self.checkout("source"), folder)))
        [wheel] = folder.glob("*.whl")
        return wheel

    def wheel_of_sdist(self, scratch: Path) -> Path:
        succeeded(ran(self.python, "-c", _SDIST, scratch, cwd=self.checkout("source of sdist")))
        [packed] = scratch.glob("*.tar.gz")
        return self.built(packed, scratch)


def void(_: object) -> None:
    """For a callback that is to give nothing."""
