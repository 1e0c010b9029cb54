"""Where the stores of these tests are."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """In memory if there is such a place: for thousands of small stores whose syncs need not be real."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="chatfold-", dir=memory))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
