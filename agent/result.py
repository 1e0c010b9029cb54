"""What a run came to, read from its entries: so it is the same in any process, however often the run was killed."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from chatfold.agent.chat import Chat
from chatfold.eventlog import (
    Entry,
    Json,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    RunFinished,
    RunStarted,
    SendConfirmed,
    SendRequested,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.shapes.values import result_text
from chatfold.projections.text import text_of
from chatfold.projections.usage import TokenCounts, read_counts

Outcome: TypeAlias = Literal["", "done", "failed", "cancelled", "limit"]


class Use(msgspec.Struct):
    """A call of a tool. ``failed`` is None while there is no result."""

    call: str
    tool: str
    args: Json = None
    output: str = ""
    failed: bool | None = None


class Result(msgspec.Struct):
    """What a run came to.

    ``text``: what reached the user, if anything was sent; else what the model said last. ``tool_calls``: each with its output
    as text. ``usage``: the tokens of all its requests. ``outcome``: ``done``, ``failed``, ``cancelled``, or ``limit`` if it ran
    out of steps; empty while it goes on. ``error``: why it failed, without secrets.
    """

    run: str
    text: str = ""
    tool_calls: list[Use] = []
    usage: TokenCounts = TokenCounts()
    outcome: Outcome = ""  # empty while it goes on
    error: str = ""

    @property
    def had_tool_failure(self) -> bool:
        """Did any tool fail, whatever the model made of that?"""
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
                result.usage += read_counts(usage, failed=bool(error))
            case ToolCalled(call=call, name=name, args=args):
                use = Use(call, name, args)
                uses.setdefault(call, []).append(use)
                result.tool_calls.append(use)
            case ToolReturned(call=call, parts=parts, failed=failed) if uses.get(call):
                use = uses[call].pop(0)
                use.output, use.failed = result_text(parts), failed
            case SendRequested(send=send, parts=parts):
                sending[send] = text_of(parts)
            case SendConfirmed(send=send) if send in sending:
                sent = sending[send]
            case RunFinished(outcome=outcome, error=error):
                result.outcome, result.error = outcome, error
    result.text = sent or result.text
    return result


async def find_result(chat: Chat, seq: int) -> Result:
    """Of the first run that asked a model after this entry and was not cancelled; if there is none, of the last one."""
    found: Entry | None = None
    asked = False
    starts: dict[str | None, int] = {}
    async for entry in chat.entries(seq):
        if isinstance(entry.event, RunStarted):
            starts[entry.run] = entry.seq
        match entry.event:
            case _ if entry.run is None:
                continue
            case ModelCalled():
                found, asked = entry, True
            case RunFinished(outcome=outcome) if asked:
                if outcome != "cancelled":
                    break
                asked = False
            case _ if found is None or isinstance(entry.event, RunStarted):
                found = entry
    if found is None or found.run is None:  # it was answered without an agent
        said = [one.event async for one in chat.entries(seq) if isinstance(one.event, MessageAdded)]
        return Result("", next(text_of(one.parts) for one in said if one.role == "assistant"), outcome="done")
    began = starts.get(found.run) or (await chat.history()).run_at(found.seq)
    return result_of(found.run, [one async for one in chat.entries(began)])
