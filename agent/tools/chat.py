"""The chat's own tools: what a model may do with the chat that it is in.

    Agent(model=model, tools=[*CHAT_TOOLS, read_file], send=send)

``chat_send`` is the only way to the user: see ``sending``. ``chat_context_*`` are for another line of thought: the question and
the call itself go along, so the run simply goes on there; nothing is lost, and what is refused changes nothing. The others
bring back what the model no longer sees, labelled: see ``history_tools``.
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from chatfold.agent.errors import NoSuchContext
from chatfold.agent.run_context import current_run
from chatfold.agent.tools import Tool, tool
from chatfold.agent.tools.history import HISTORY_TOOLS
from chatfold.agent.tools.sending import send_tool
from chatfold.projections import contexts

_Object: TypeAlias = dict[str, Any]
_Mode: TypeAlias = Literal["summary", "recent", "full"]
_Id = Meta(description="as chat_context_list says it; counts first")
_Limit = Annotated[int, Meta(ge=1, le=200)]


@tool
async def chat_context_new(
    title: Annotated[str, Meta(max_length=120, description="of the new context")] = "",
    reason: Annotated[str, Meta(max_length=200, description="why the current one is left")] = "",
) -> _Object:
    """Shelves the current context and goes on with an empty one and the current question.

    For when the background is long or muddled and has little to do with the question. chat_context_load takes it up again.
    """
    left = await _active()
    await current_run().chat.new_context(title, reason, run=current_run().run)
    return await _report_move(left)


@tool
async def chat_context_load(
    query: Annotated[str, Meta(max_length=2000, description="words of its title or of it")] | None = None,
    contextId: Annotated[str | None, _Id] = None,  # noqa: N803 (as results spell it)
    mode: _Mode | None = None,
) -> _Object:
    """Takes up an archived context again, in the place of the current one, which is shelved.

    With a mode it only shows the context, for reference: its summary, its recent messages, or all of it; the current one stays.
    """
    left, chat = await _active(), current_run().chat
    try:
        if mode is not None:
            return await _show(contextId or await chat.find_context(query or ""), mode)
        chosen = await chat.load_context(query or None, context_id=contextId or None, run=current_run().run)
    except (NoSuchContext, ValueError) as refused:
        return _fail(str(refused.args[0]))
    return (
        {"success": True, "contextId": chosen, "changed": False}
        if chosen == left
        else await _report_move(left)
    )


@tool(after_crash="again")
async def chat_context_list(limit: _Limit = 20) -> _Object:
    """The archived contexts, last left first, and the active one's id."""
    return {
        "success": True,
        "active": await _active(),
        "contexts": await current_run().chat.contexts(limit),
    }


@tool
async def chat_context_clear_active() -> _Object:
    """Puts an empty context in the place of the current one, which is shelved."""
    left = await _active()
    await current_run().chat.clear_context("cleared", run=current_run().run)
    return await _report_move(left)


@tool
async def chat_context_recall(
    contextId: Annotated[str, _Id],  # noqa: N803 (as results spell it)
    mode: _Mode = "summary",
) -> _Object:
    """Shows an archived context for reference, without going back to it."""
    return await _show(contextId, mode)


async def _show(context: str, mode: _Mode) -> _Object:
    if context == await _active():
        return _fail("this is the active context")
    try:
        await current_run().chat.recall(context, mode, run=current_run().run)
    except NoSuchContext as refused:
        return _fail(str(refused.args[0]))
    return {"success": True, "contextId": context, "mode": mode}


def _fail(why: str) -> _Object:
    return {"success": False, "error": f"{why}; chat_context_list tells which contexts there are"}


async def _active() -> str:
    return (await current_run().chat.now())[contexts].active.id


async def _report_move(left: str) -> _Object:
    """Where we are now, and what became of the context that was left: nothing, if there was nothing in it."""
    current_run().begin_anew()
    now = await current_run().chat.now()
    state = now[contexts]
    archived = [row for row in await now.contexts(1) if row.context_id == left]
    return {
        "success": True,
        "contextId": state.active.id,
        "title": state.active.title,
        "createdAt": state.active.created,
        "messageCount": (await now.history()).messages(state.spans(state.active.id, now.seq)),
        "archived": archived[0] if archived else None,
    }


CHAT_TOOLS: tuple[Tool, ...] = (
    send_tool(),
    chat_context_new,
    chat_context_load,
    chat_context_list,
    chat_context_clear_active,
    chat_context_recall,
    *HISTORY_TOOLS,
)
"""All of them."""
