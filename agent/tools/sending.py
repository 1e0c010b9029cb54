"""chat_send: the only way to the user.

That something is to be sent is an event before, that it was sent, or why not, is one after; so a crash leaves a question, never
a wrong answer. A run that goes on reads in the log how far it came:

- confirmed, or failed: so it is, and it is not sent again.
- never begun: it is sent.
- begun, and nobody knows whether it arrived: the model is told so, and decides. Or, ``send_tool(after_crash="again")``, for an
  embedder whose ``send`` delivers each id once: it is sent again, by the same id.

A send that is cancelled, or out of time, is of the last kind, too: ``chat[sends].open`` has it.
"""

from contextlib import suppress
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from chatfold.agent.messages import ToolCall
from chatfold.agent.run_context import RunContext, call_id, current_run
from chatfold.agent.tools import Tool, tool
from chatfold.eventlog import IdConflict, SendConfirmed, SendFailed, SendRequested, Text
from chatfold.projections.shapes.values import replace_surrogates

UNKNOWN = "it was being sent when the process ended, and nobody knows whether it arrived"

_Sending: TypeAlias = SendRequested | SendConfirmed | SendFailed


def send_tool(*, after_crash: Literal["interrupted", "again"] = "interrupted") -> Tool:
    @tool(after_crash="again")  # what that means for this send, its events tell
    async def chat_send(text: Annotated[str, Meta(description="what the user will read")]) -> dict[str, Any]:
        """Sends a message to the user. Nothing reaches them in any other way."""
        run, parts = current_run(), (Text(replace_surrogates(text)),)
        if run.send is None:
            return _fail("this agent has no way to send anything")
        if not text.strip():
            return _fail("there is nothing to send")
        call = await _own_call(run)
        match before := await _find_before(run, call, parts):
            case SendConfirmed():
                return {"success": True}
            case SendFailed(error=error):
                return _fail(error)
            case SendRequested() if after_crash == "interrupted":
                return _fail(UNKNOWN)
        return await _send(run, before.send if before else await _request(run, call, parts), parts)

    return chat_send


def _fail(why: str) -> dict[str, Any]:
    return {"success": False, "error": why}


async def _own_call(run: RunContext) -> ToolCall:
    calls = [call for call in await run.chat.open_calls() if call.call == call_id()]
    return calls[-1] if calls else ToolCall(call_id(), "chat_send", seq=run.chat.seq)


def _ids(call: ToolCall) -> tuple[str, str]:
    """What a send may go by: the call's id; if a careless provider gave it to another call before, with the seq."""
    return call.call, f"{call.call}#{call.seq}"


async def _find_before(run: RunContext, call: ToolCall, parts: tuple[Text]) -> _Sending | None:
    """How far this very send came, if the call was made before."""
    last: _Sending | None = None
    async for entry in run.chat.entries(call.seq):
        match entry.event:
            case SendRequested(send=send, parts=same) if send in _ids(call) and same == parts:
                last = entry.event
            case SendConfirmed(send=send) | SendFailed(send=send) if last and send == last.send:
                last = entry.event
    return last


async def _request(run: RunContext, call: ToolCall, parts: tuple[Text]) -> str:
    for send in _ids(call):
        with suppress(IdConflict):
            [entry] = await run.record(SendRequested(send, parts), id=f"send:{send}")
            if entry.seq > call.seq:
                return send
    raise AssertionError("a seq is of one entry")


async def _send(run: RunContext, send: str, parts: tuple[Text]) -> dict[str, Any]:
    assert run.send is not None
    try:
        await run.send(run.chat.key, send, parts)
    except Exception as error:  # noqa: BLE001 (any bug of the embedder's)
        failure = SendFailed(send, f"{type(error).__name__}: {error}")
        await run.record(failure)
        return _fail(failure.error)
    await run.record(SendConfirmed(send))
    return {"success": True}
