"""PostgreSQL does what MemoryStorage does: the suite of ``chatfold.testing``."""

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'chatfold[postgres]'")

from chatfold.testing.conformance import agreement, stories
from tests.postgres.backend import Postgres
from tests.support.profile import searched

TestPostgresAgreesWithMemory = agreement(Postgres, "full", "off", search=searched(1 / 10))
TestPostgresWritesTheSameBytesAsMemory = agreement(Postgres, "full", storages=1, search=searched(1 / 10))
TestStoriesOfPostgres = stories(Postgres)
