"""What a run came to, read from its entries: so it is the same whoever began it, and however often it was killed."""

from collections.abc import Iterable

import msgspec

from chatfold.eventlog import (
    Entry,
    Json,
    MessageAdded,
    ModelReturned,
    RunFinished,
    SendConfirmed,
    SendRequested,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.shapes.values import words_of
from chatfold.projections.text import text_of
from chatfold.projections.usage import Spent, spent


class Use(msgspec.Struct):
    """A call of a tool. ``failed`` is None while there is no result."""

    call: str
    tool: str
    args: Json = None
    output: str = ""
    failed: bool | None = None


class Result(msgspec.Struct):
    """``text``: what reached the user, if anything was sent; else what the model said last."""

    run: str
    text: str = ""
    tool_calls: list[Use] = []
    usage: Spent = Spent()
    outcome: str = ""  # done, failed, cancelled, limit; empty while it goes on
    error: str = ""

    @property
    def had_tool_failure(self) -> bool:
        return any(use.failed for use in self.tool_calls)


def result_of(run: str, entries: Iterable[Entry]) -> Result:
    result = Result(run, tool_calls=[])
    uses: dict[
        str, list[Use]
    ] = {}  # without a result yet, by the id of the call, which may be another's, too
    sending: dict[str, str] = {}
    sent = ""
    for entry in entries:
        if entry.run != run:
            continue
        match entry.event:
            case MessageAdded(role="assistant", parts=parts):
                result.text = text_of(parts).strip() or result.text
            case ModelReturned(usage=usage, error=error):
                result.usage += spent(usage, failed=bool(error))
            case ToolCalled(call=call, name=name, args=args):
                use = Use(call, name, args)
                uses.setdefault(call, []).append(use)
                result.tool_calls.append(use)
            case ToolReturned(call=call, parts=parts, failed=failed) if uses.get(call):
                use = uses[call].pop(0)
                use.output, use.failed = words_of(parts), failed
            case SendRequested(send=send, parts=parts):
                sending[send] = text_of(parts)
            case SendConfirmed(send=send) if send in sending:
                sent = sending[send]
            case RunFinished(outcome=outcome, error=error):
                result.outcome, result.error = outcome, error
    result.text = sent or result.text
    return result
