"""What a run did, in a few lines: made from its entries when it is asked for, so that nothing is written twice."""

from collections import deque
from collections.abc import Iterable

import msgspec

from chatfold.eventlog import (
    Entry,
    MessageAdded,
    RunFinished,
    RunStarted,
    SendConfirmed,
    SendRequested,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.shapes.values import result_text
from chatfold.projections.text import clip, text_of

WINDOW = 200
_PREVIEW = 2000
_ERROR = 200


class ToolUse(msgspec.Struct):
    """``success`` is None while there is no result."""

    tool: str
    success: bool | None = None
    error: str = ""


class RunDigest(msgspec.Struct):
    """``outcome`` is empty for a run that has not ended, or never will."""

    request_id: str
    started: int
    user_preview: str = ""
    output_preview: str = ""
    tool_calls: list[ToolUse] = []
    finished: int = 0
    outcome: str = ""
    error: str = ""


def run_digests(entries: Iterable[Entry], window: int = WINDOW) -> list[RunDigest]:
    """The last ``window`` runs of these entries, in the order they started."""
    runs: deque[RunDigest] = deque(maxlen=window)
    open_runs: dict[str | None, _Run] = {}
    asked = ""
    for entry in entries:
        match entry.event:
            case MessageAdded(role="user", origin="exec", parts=parts):
                asked = clip(text_of(parts), _PREVIEW)
            case RunStarted():
                run = open_runs[entry.run] = _Run(RunDigest(entry.run or "", entry.seq, asked))
                runs.append(run.told)
        if entry.run in open_runs:
            open_runs[entry.run].take(entry)
            if type(entry.event) is RunFinished:
                del open_runs[entry.run]
    return list(runs)


class _Run:
    def __init__(self, told: RunDigest) -> None:
        self.told = told
        self.uses: dict[str, list[ToolUse]] = {}  # without a result yet, by the id of the call
        self.sends: dict[str, str] = {}
        self.sent = False

    def take(self, entry: Entry) -> None:
        told = self.told
        match entry.event:
            case MessageAdded(role="user", origin="exec", parts=parts) if not told.user_preview:
                told.user_preview = clip(text_of(parts), _PREVIEW)
            case MessageAdded(role="assistant", origin="exec", parts=parts) if not self.sent:
                told.output_preview = clip(text_of(parts), _PREVIEW) or told.output_preview
            case ToolCalled(call=call, name=name):
                use = ToolUse(name)
                self.uses.setdefault(call, []).append(use)
                told.tool_calls.append(use)
            case ToolReturned(call=call, failed=failed, parts=parts) if self.uses.get(call):
                use = self.uses[call].pop(0)
                use.success, use.error = not failed, clip(result_text(parts), _ERROR) if failed else ""
            case SendRequested(send=send, parts=parts):
                self.sends[send] = clip(text_of(parts), _PREVIEW)
            case SendConfirmed(send=send) if send in self.sends:  # what reached the user is what was said
                told.output_preview, self.sent = self.sends[send], True
            case RunFinished(outcome=outcome, error=error):
                told.finished, told.outcome, told.error = entry.seq, outcome, clip(error, _ERROR)
