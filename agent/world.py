"""World: all that a run asks for which is not in the log. A live run asks models and tools; a rehearsal asks a recording.

What is not here, a run takes from its agent, which says what it is and what it tells a model, and from its chat.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

from chatfold.agent.messages import ToolCall
from chatfold.agent.model_summary import summarise_with
from chatfold.agent.models import Model, ModelReply, Piece
from chatfold.agent.summary import Material, summarise_by_rules
from chatfold.agent.threads import in_thread
from chatfold.agent.tools import Outcome, Tool, use_tool
from chatfold.eventlog import Json, Part

if TYPE_CHECKING:
    from chatfold.agent.agent import Agent


class World(Protocol):
    def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        """Asks the model; the last thing it gives is the reply. Raises ``ModelFailed``."""

    async def use_tool(self, tool: Tool, call: ToolCall) -> Outcome:
        """What came of a call. Raises nothing: a failure is an outcome."""

    async def after_crash(self, tool: Tool, call: ToolCall) -> Literal["again", "interrupted"]:
        """What becomes of a call that a crash left without a result."""

    def summarise(self, material: Material) -> str | Awaitable[str]:
        """The text that stands for these messages."""

    def draw(self, run: str, name: str, make: Callable[[], Json]) -> Json:
        """A value that comes from nowhere in the log: a time, an id, a random number."""

    async def pause(self, seconds: float) -> None:
        """Waits before a model is asked again."""

    @property
    def send(self) -> Callable[[str, str, tuple[Part, ...]], Awaitable[None]] | None:
        """Brings parts to the user of a chat: (chat key, an id that stays the same when it is tried again, parts)."""

    def must_yield(self) -> bool:
        """Shall the run end, although there is a new message, because another chat waits?"""


class LiveWorld:
    """The agent's own model and tools, its summariser and its way to the user."""

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent

    def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        return self._agent.model.ask(payload)

    async def use_tool(self, tool: Tool, call: ToolCall) -> Outcome:
        return await use_tool(tool, call.args, seconds=self._agent.limits.tool_seconds)

    async def after_crash(self, tool: Tool, call: ToolCall) -> Literal["again", "interrupted"]:
        decide = tool.after_crash
        return decide if isinstance(decide, str) else await decide(call)

    async def summarise(self, material: Material) -> str:
        summarise, model = self._agent.summarise, self._agent.model
        if summarise is None:
            return (
                await summarise_with(model, material)
                if _can_summarise(model)
                else summarise_by_rules(material)
            )
        here = inspect.iscoroutinefunction(summarise)
        summary = summarise(material) if here else await in_thread("summarise", summarise, material)
        return summary if isinstance(summary, str) else await summary

    def draw(self, _run: str, _name: str, make: Callable[[], Json]) -> Json:
        return make()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    @property
    def send(self) -> Callable[[str, str, tuple[Part, ...]], Awaitable[None]] | None:
        return self._agent.send

    def must_yield(self) -> bool:
        return self._agent.lanes.is_crowded


def _can_summarise(model: Model) -> bool:
    """A model may say ``can_summarise = False``: one that follows a script has no line for it."""
    return bool(getattr(model, "can_summarise", True))
