"""The suite that holds a storage to the contract of ``chatfold.eventlog.storage``. A test file runs it with two lines:

    TestMineAgrees = agreement(Mine)    # a state machine: any history of operations, judged by MemoryStorage
    TestMineStories = stories(Mine)     # the histories that break storages, one test each

``Mine`` is a ``Backend``. Both names are test cases of ``unittest``, which pytest collects, too.
"""

from chatfold.testing.agreement import Agreement, agreement
from chatfold.testing.backend import Backend
from chatfold.testing.stories import stories
from chatfold.testing.telling import STORIES

__all__ = ["STORIES", "Agreement", "Backend", "agreement", "stories"]
