"""A plugin for pytest: the tests of the OpenAI Agents SDK, which use its ``SQLiteSession``, on a session of ours instead.

PYTHONPATH=…/tests/adapters pytest -p openai_agents_upstream tests/memory/test_session.py        # in the folder of its sources
"""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import agents
import agents.memory
import agents.memory.sqlite_session
import pytest

with suppress(ImportError):  # it treats upstream's own class specially: that name stays what it was
    import agents.extensions.memory.encrypt_session

from chatfold import Store
from chatfold.adapters.openai_agents import OpenAIAgentsSession

_FOLDER = Path(tempfile.mkdtemp(prefix="sessions-"))


class Stand(OpenAIAgentsSession):
    """Made as ``SQLiteSession`` is. A database is a store, one in memory as well."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: Any = None,
    ) -> None:
        if str(db_path) == ":memory:":
            place = Path(tempfile.mkdtemp(dir=_FOLDER))
        else:
            place = Path(f"{db_path}.{sessions_table}.{messages_table}")
        super().__init__(Store(place, durability="off"), session_id, session_settings=session_settings)
        self.db_path = db_path


for module in (agents, agents.memory, agents.memory.sqlite_session):
    module.SQLiteSession = Stand


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(_FOLDER, ignore_errors=True)
