"""replay is the debugger: what happened in a chat, what the model saw, why it forgot, and whether it would happen again.

    async with replaying("./chats", "lexer-bug") as replay:     # or an export, a chat's folder, a Store
        await replay.seek("c2^")                                # before the second compaction
        await replay.messages("openai")                         # what the model would have been sent

    assert_replays("recordings/refund.jsonl", build_agent)      # in your own tests

What is promised. It reads: no lock is taken, nothing on disk is changed, no model and no tool is reached, unless the verb says
so (``fork``, ``import``, ``check --repair``, ``rerun``). It shows what the folds say at any point, with the same code that
was running then. What users, models and tools said reaches a terminal or a page only after it was made harmless.

Where to look. ``inspect``: which point is meant, what is there, what differs, where a text went; pure values. ``render``: values as lines,
which the ``verbs`` print and the ``stepper`` shows. ``verify``: a recording folded or run again, and the first thing that is not as
it was. ``command``, ``output`` and ``terminal``: what all verbs have in common. ``redact``: exports for others.
"""

from typing import TYPE_CHECKING

from chatfold.late import late

if TYPE_CHECKING:
    from chatfold.replay.inspect.cursor import Replay, replaying
    from chatfold.replay.testing import assert_chat_replays, assert_replays
    from chatfold.replay.verify.divergence import Divergence, Verdict
    from chatfold.replay.verify.rehearsal import rehearse
    from chatfold.replay.verify.rerun_turn import rerun
    from chatfold.replay.verify.verdict import verdict
else:  # the command starts at once
    __getattr__ = late(
        __name__,
        {
            "Replay": "chatfold.replay.inspect.cursor",
            "replaying": "chatfold.replay.inspect.cursor",
            "rehearse": "chatfold.replay.verify.rehearsal",
            "rerun": "chatfold.replay.verify.rerun_turn",
            "verdict": "chatfold.replay.verify.verdict",
            "Divergence": "chatfold.replay.verify.divergence",
            "Verdict": "chatfold.replay.verify.divergence",
            "assert_chat_replays": "chatfold.replay.testing",
            "assert_replays": "chatfold.replay.testing",
        },
    )

__all__ = [
    "Divergence",
    "Replay",
    "Verdict",
    "assert_chat_replays",
    "assert_replays",
    "rehearse",
    "replaying",
    "rerun",
    "verdict",
]
