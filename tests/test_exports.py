"""The public names of each package. A name that goes missing breaks somebody; one that is added is kept for ever."""

import ast
from pathlib import Path
from types import ModuleType

import pytest

from chatfold import agent, eventlog, projections
from chatfold.eventlog import events

VOCABULARY = """
    ChatStarted CheckpointSet Compacted CompactionReverted ContextCleared ContextOpened ContextRecalled
    ContextSwitched Data Entry Event File Forked Head Injected Json Lost MessageAdded ModelCalled ModelReturned
    Noted Origin Part Reasoning Redacted Rewound Role RunFinished RunStarted SendConfirmed SendFailed SendRequested
    SkillActivated SkillDeactivated Text ToolCalled ToolReturned Unknown
"""

NAMES = """
    ChatDeleted ChatExists ChatfoldError Closed Conflict CorruptLog Disk DiskFull Durability DurabilityUnknown FileStorage
    ForkedProcess Hit IdConflict InvalidEvent InvalidKey Log MemoryStorage NewerFormat NoSuchChat NoSuchPoint Problem ReadOnly Report
    Storage check repair salvage scan
"""

PROJECTIONS = """
    Contexts Cut Execution IndexRow Lifetime MAIN Message OutOfOrder Outline Projection STANDARD Tokens
    Usage View Window anthropic archived calls contexts cut digests estimate executions first_difference
    fold from_anthropic_messages from_openai_messages from_ui_messages index lifetimes lineage markdown messages openai_chat openai_responses outline previews
    projection sends skills start transcript turn ui_messages usage window
"""

AGENT = """
    Agent Answer AnthropicModel Asked CHAT_TOOLS CannotFit Chat HISTORY IN_MEMORY Listed Material Model
    ModelFailed Moment NoSuchContext NoSuchPoint NotRunning OpenAIModel Opened OtherHistory Policy
    Result ScriptedModel Step Store SummaryFailed Tool assistant inject_assistant_once
    inject_system_once keep_view open_view shell_tool system tool user window_entries
"""

TAGS = """
    chat_started checkpoint_set compacted compaction_reverted context_cleared context_opened context_recalled
    context_switched forked injected lost message_added model_called model_returned noted redacted rewound
    run_finished run_started send_confirmed send_failed send_requested skill_activated skill_deactivated tool_called
    tool_returned
"""


def exported() -> set[str]:
    """What ``eventlog/__init__.py`` re-exports, as it is written there."""
    tree = ast.parse(Path(eventlog.__file__).read_text())
    names = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return names - {"*"} | set(events.__all__)


def test_the_vocabulary_is_what_it_was() -> None:
    assert sorted(events.__all__) == VOCABULARY.split()


def test_eventlog_exports_what_it_did() -> None:
    assert sorted(exported() - set(VOCABULARY.split())) == NAMES.split()


@pytest.mark.parametrize(("package", "names"), [(projections, PROJECTIONS), (agent, AGENT)])
def test_the_other_packages_export_what_they_did(package: ModuleType, names: str) -> None:
    assert package.__file__ is not None
    for name in names.split():
        getattr(package, name)  # some are imported when they are first used
    shown = {name for name in vars(package) if not name.startswith("_")} - {
        "Any",
        "TYPE_CHECKING",
        "import_module",
    }
    modules = {path.stem for path in Path(package.__file__).parent.glob("*.py")}
    assert sorted(shown - modules) == names.split()


def test_every_exported_name_is_there() -> None:
    assert all(hasattr(eventlog, name) for name in exported())


def test_every_error_is_a_chatfold_error() -> None:
    errors = [
        value
        for name in NAMES.split()
        if isinstance(value := getattr(eventlog, name), type) and issubclass(value, Exception)
    ]
    assert len(errors) == 16
    assert all(issubclass(error, eventlog.ChatfoldError) for error in errors)


def test_the_names_of_events_on_disk_are_what_they_were() -> None:
    kinds = set(eventlog.Event.__args__) - {eventlog.Unknown}
    assert sorted(kind.__struct_config__.tag for kind in kinds) == TAGS.split()
