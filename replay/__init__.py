"""replay is the debugger: what happened in a chat, what the model saw, why it forgot, and whether it would happen again.

    async with replaying("./chats", "lexer-bug") as replay:     # or an export, a chat's folder, a Store
        await replay.seek("c2^")                                # before the second compaction
        await replay.messages("openai")                         # what the model would have been sent

    assert_replays("recordings/refund.jsonl", build_agent)      # in your own tests

What is promised. It reads: no lock is taken, nothing on disk is changed, no model and no tool is reached, unless the verb says
so (``fork``, ``import``, ``check --repair``, ``rerun --live``). It shows what the folds say at any point, with the same code that
was running then. What users, models and tools said reaches a terminal or a page only after it was made harmless.

Where to look. ``inspect``: which point is meant, what is there, what differs, where a text went; pure values, for the command and
for others. ``judging``: a recording folded or run again, and the first thing that is not as it was. ``stepping``: the terminal
stepper. ``commands``: the verbs, which print what these say; ``output`` and ``terminal`` how. ``redacting``: exports for others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatfold.replay.inspect.cursor import Replay, replaying
    from chatfold.replay.judging.rehearsal import rehearse
    from chatfold.replay.judging.rerunning import rerun
    from chatfold.replay.judging.verdict import verdict
    from chatfold.replay.testing import assert_chat_replays, assert_replays

# The command is to start at once: these are imported when they are first used.
_LATE = {
    "Replay": "chatfold.replay.inspect.cursor",
    "assert_chat_replays": "chatfold.replay.testing",
    "assert_replays": "chatfold.replay.testing",
    "rehearse": "chatfold.replay.judging.rehearsal",
    "replaying": "chatfold.replay.inspect.cursor",
    "rerun": "chatfold.replay.judging.rerunning",
    "verdict": "chatfold.replay.judging.verdict",
}

__all__ = [
    "Replay",
    "assert_chat_replays",
    "assert_replays",
    "rehearse",
    "replaying",
    "rerun",
    "verdict",
]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'chatfold.replay' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATE[name]), name)
    return value
