"""A projection that computes something else than before gets a new version, or old snapshots would be believed."""

import pytest
from xxhash import xxh3_64_hexdigest

from chatfold.eventlog import (
    ChatStarted,
    CheckpointSet,
    ContextOpened,
    ContextSwitched,
    Event,
    Forked,
    ModelCalled,
    ModelReturned,
    Rewound,
    RunFinished,
    RunStarted,
    SkillActivated,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections import STANDARD, Projection, fold, start
from tests.support.histories import assistant, compacted, entries, user

HISTORY: tuple[Event, ...] = (
    ChatStarted("key", "A title"),
    user("why"),
    RunStarted(),
    ModelCalled("model", "request"),
    ModelReturned({"input_tokens": 12, "output_tokens": 3}),
    SkillActivated("skill", "print"),
    ToolCalled("c1", "read", {"path": "a"}),
    ToolReturned("c1"),
    assistant("because"),
    RunFinished("done"),
    CheckpointSet("here"),
    ContextOpened("other", "Another", "topic", (2,)),
    user("and"),
    compacted(2, 13),
    ContextSwitched("main"),
    Rewound(13),
    Forked("parent", 15),
    RunStarted(),
    ModelCalled("model", "request"),
    ToolCalled("c2", "read"),
)

KNOWN = {
    ("chatfold.projections.contexts.contexts", 5): "1bac8da4218caeaf",
    ("chatfold.projections.contexts.contexts", 6): "1bac8da4218caeaf",
    ("chatfold.projections.contexts.contexts", 7): "c6736debffd6fcb6",
    ("chatfold.projections.contexts.contexts", 8): "c6736debffd6fcb6",
    ("chatfold.projections.activity.turn", 2): "78d444991772d9cc",
    ("chatfold.projections.activity.sends", 3): "01beb805b64754ae",
    ("chatfold.projections.activity.calls", 4): "0b94cd7a6739901c",
    ("chatfold.projections.activity.skills", 5): "aa01a8ee6eac5ae5",
    ("chatfold.projections.activity.executions", 1): "af84a064dd8a0ce1",
    ("chatfold.projections.activity.executions", 2): "efc45e8f3fdf9fb5",
    ("chatfold.projections.usage.usage", 1): "6faa5ee30ffac044",
    ("chatfold.projections.usage.usage", 2): "c04b97651927d046",
    ("chatfold.projections.listing.outline", 2): "f63a2b89da8559ac",
    ("chatfold.projections.listing.outline", 3): "f63a2b89da8559ac",
    ("chatfold.projections.listing.lineage", 3): "032239d3e4965a48",
}


@pytest.mark.parametrize("projection", STANDARD, ids=lambda one: one.name)
def test_what_is_in_a_snapshot_changes_only_with_the_version(projection: Projection[object]) -> None:
    state = fold(start([projection]), entries(HISTORY))[projection]
    digest = xxh3_64_hexdigest(projection.dump(state))
    assert KNOWN[projection.name, projection.version] == digest, (
        "raise the version, and note the new digest here"
    )
