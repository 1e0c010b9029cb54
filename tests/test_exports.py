"""The public names of each package. A name that goes missing breaks somebody; one that is added is kept for ever."""

import ast
from pathlib import Path
from types import ModuleType

import pytest

import chatfold
from chatfold import agent, eventlog, projections, replay
from chatfold.eventlog import events

VOCABULARY = """
    ChatStarted CheckpointSet Compacted CompactionReverted ContextCleared ContextOpened ContextRecalled
    ContextSwitched Data Entry Event File Forked Head Injected Json Lost MessageAdded ModelCalled ModelReturned
    Noted Origin Part Reasoning Redacted Rewound Role RunFinished RunStarted SendConfirmed SendFailed SendRequested
    SkillActivated SkillDeactivated Text ToolCalled ToolReturned Unknown
"""

FRONT = """
    Agent ModelReply AnthropicModel CHAT_TOOLS ToolCall PromptTooLarge Chat ChatDeleted ChatExists ChatfoldError Conflict CorruptLog
    Data DiskFull DurabilityUnknown Entry RunContext File Http IdConflict InvalidEvent ModelFailed Moment NewerFormat NoSuchChat
    NoSuchContext NoSuchPoint OpenAIModel Policy ReadOnly Reasoning Replay Result ScriptedModel Stdio Step Store Text Tool
    Unavailable View assert_replays assistant events current_run mcp_tools projection replaying shell_tool sync system tool user Limits SkillFiles model_from
"""

EVENTLOG = """
    ChatDeleted ChatExists ChatfoldError Closed Conflict CorruptLog DiskFull Durability DurabilityUnknown FileStorage
    IdConflict InvalidEvent InvalidKey InvalidPlace LeaseLost Log MemoryStorage NewerFormat NoSuchChat NoSuchPoint NoSuchStore
    ReadOnly SearchHit Storage Unavailable check repair salvage scan storage_of
"""

PROJECTIONS = """
    Contexts Cut RunDigest ArchiveRow Lifetime Message NeedsEarlier OutOfOrder Outline Projection STANDARD Tokens
    Usage View Window to_anthropic calls contexts estimate executions
    fold from_anthropic from_messages from_openai from_openai_responses from_ui lifetimes lineage to_markdown messages to_openai
    to_openai_responses outline projection sends skills start transcript turn to_ui usage
"""

AGENT = """
    Agent ModelReply AnthropicModel CHAT_TOOLS ToolCall PromptTooLarge Chat RunContext Http Model ModelFailed Moment NoSuchContext
    NotRunning OpenAIModel OtherHistory Policy Result ScriptedModel Stdio Step Store SummaryFailed Tool assistant current_run
    mcp_tools shell_tool system tool user Limits SkillFiles model_from
"""

REPLAY = """
    Divergence Replay Verdict assert_chat_replays assert_replays rehearse replaying rerun verdict
"""

DOORS = [
    (chatfold, FRONT),
    (eventlog, EVENTLOG + VOCABULARY),
    (projections, PROJECTIONS),
    (agent, AGENT),
    (replay, REPLAY),
]

TAGS = """
    chat_started checkpoint_set compacted compaction_reverted context_cleared context_opened context_recalled
    context_switched forked injected lost message_added model_called model_returned noted redacted rewound
    run_finished run_started send_confirmed send_failed send_requested skill_activated skill_deactivated tool_called
    tool_returned
"""


def test_the_vocabulary_is_what_it_was() -> None:
    assert sorted(events.__all__) == VOCABULARY.split()


@pytest.mark.parametrize(("package", "names"), DOORS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_package_exports_these_names(package: ModuleType, names: str) -> None:
    assert sorted(package.__all__) == sorted(names.split())
    assert len({*package.__all__}) == len(package.__all__)


@pytest.mark.parametrize("package", [package for package, _ in DOORS], ids=lambda package: package.__name__)
def test_every_exported_name_is_there(package: ModuleType) -> None:
    assert all(getattr(package, name) is not None for name in package.__all__)


@pytest.mark.parametrize("package", [package for package, _ in DOORS], ids=lambda package: package.__name__)
def test_a_type_checker_sees_the_exported_names_and_no_others(package: ModuleType) -> None:
    """Late names stand twice: once for type checkers, once for ``late``. A star, too, gives what is exported."""
    space: dict[str, object] = {}
    exec(f"from {package.__name__} import *", space)  # the one way to see what a star gives
    assert {*space} - {"__builtins__"} == {*package.__all__}
    assert package.__file__ is not None
    tree = ast.parse(Path(package.__file__).read_text())
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    own = {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]
    vocabulary = {*events.__all__} if "*" in imported else set()
    helpers = {"*", "late", "TYPE_CHECKING", "Any", "events"} - {*package.__all__}
    assert imported - helpers | own | vocabulary == {*package.__all__}


def test_a_name_that_does_not_exist_is_named_with_its_package() -> None:
    with pytest.raises(AttributeError, match="module 'chatfold' has no attribute 'Sotre'"):
        chatfold.Sotre  # type: ignore[attr-defined]  # noqa: B018


def test_every_error_is_a_chatfold_error() -> None:
    errors = [
        value
        for name in EVENTLOG.split()
        if isinstance(value := getattr(eventlog, name), type) and issubclass(value, Exception)
    ]
    assert len(errors) == 19
    assert all(issubclass(error, eventlog.ChatfoldError) for error in errors)


def test_the_names_of_events_on_disk_are_what_they_were() -> None:
    kinds = set(eventlog.Event.__args__) - {eventlog.Unknown}
    assert sorted(kind.__struct_config__.tag for kind in kinds) == TAGS.split()
