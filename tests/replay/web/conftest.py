"""A store with a story in it, and a server that shows it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.replay.web.browser import started
from tests.replay.web.serving import Server, apart, serving
from tests.replay.web.story import record


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only to be looked at."""
    folder = tmp_path_factory.mktemp("view") / "agents"
    apart(asyncio.run, record(folder))
    return folder


@pytest.fixture(scope="module")
def server(story: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(story, tmp_path_factory.mktemp("state")) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as browser:
        yield browser
