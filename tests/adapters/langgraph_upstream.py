"""A plugin for pytest: the tests of LangGraph, which use its savers for SQLite, on a saver of ours instead.

NO_DOCKER=true PYTHONPATH=…/tests/adapters pytest -p langgraph_upstream -k sqlite tests/test_time_travel.py     # in its sources
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from chatfold import Store, sync
from chatfold.adapters.langgraph import LangGraphSaver

USED: list[int] = []


@contextmanager
def _sync(place: str, **_: Any) -> Iterator[LangGraphSaver]:
    USED.append(1)
    with tempfile.TemporaryDirectory() as folder, sync.Store(folder, durability="off") as store:
        yield LangGraphSaver(store)


@asynccontextmanager
async def _async(place: str, **_: Any) -> AsyncIterator[LangGraphSaver]:
    USED.append(1)
    with tempfile.TemporaryDirectory() as folder:
        async with Store(folder, durability="off") as store:
            yield LangGraphSaver(store)


SqliteSaver.from_conn_string = _sync
AsyncSqliteSaver.from_conn_string = _async


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not USED and session.testscollected:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR  # nothing was tested on ours
