"""agent is what an embedder holds: a ``Store`` of chats, a ``Chat`` to write and read, an ``Agent`` to answer.

    async with Store("./chats") as store:                       # or Store.memory()
        chat = await store.chat("telegram-42")                  # nothing on disk until the first event
        await chat.user("Why does the lexer drop newlines?")    # durable on return
        await chat.messages("openai")                           # what the model is sent next
        then = await chat.at(2)                                 # the same folds, stopped earlier

        agent = Agent(model, store=store, tools=[read_file])
        result = await agent.run("and the docs?", chat="telegram-42")

What is promised. Everything a chat shows is folded from its log, everything it does is an event; a verb that refuses has
left no trace. Any number of processes may hold one chat: each takes in what the others wrote. Async is what may wait; what
is in memory is read without ``await``. An agent keeps nothing that is not in the log: kill it anywhere, and it goes on.

Where a line belongs:

| chats | |
|---|---|
| ``store``, ``chat``, ``moment`` | the verbs: of many chats, of one, and what can be read of it at one entry |
| ``live``, ``views``, ``kept_prompt``, ``kept_history`` | how a chat keeps up with its log; how a view is reached; the prompt that goes on; where things stand |
| ``messages``, ``client_history`` | what people and providers give, as events; what is new in a history that a client sent |
| ``contexts``, ``compaction``, ``summary``, ``model_summary`` | pure decisions: which events change a context, what to hide, and behind which words |
| ``exporting``, ``errors``, ``checks``, ``masking`` | files; what is refused, and wrong types; secrets as dots |

| agents | |
|---|---|
| ``agent``, ``conversations``, ``lanes``, ``limits`` | messages that arrive, and whose turn it is |
| ``run``, ``request``, ``result``, ``world`` | one run: what is sent, what came of it, and what it asks of the world |
| ``system_prompt``, ``run_context`` | what a model is told besides; what a tool knows of its run |
| ``progress``, ``pieces``, ``telemetry``, ``threads`` | what is told while it goes on: steps, words, spans; functions that may never return |
| ``models/``, ``tools/`` | the models and the tools there are |
"""

from typing import TYPE_CHECKING

from chatfold.agent.chat import Chat
from chatfold.agent.compaction import Policy
from chatfold.agent.errors import NoSuchContext, OtherHistory, PromptTooLarge, SummaryFailed
from chatfold.agent.messages import ToolCall, assistant, system, user
from chatfold.agent.moment import Moment
from chatfold.agent.run_context import NotRunning, RunContext, current_run
from chatfold.agent.store import Store
from chatfold.late import late

if TYPE_CHECKING:
    from chatfold.agent.agent import Agent
    from chatfold.agent.limits import Limits
    from chatfold.agent.models import Model, ModelFailed, ModelReply, ScriptedModel
    from chatfold.agent.models.anthropic import AnthropicModel
    from chatfold.agent.models.function import model_from
    from chatfold.agent.models.openai import OpenAIModel
    from chatfold.agent.progress import Step
    from chatfold.agent.result import Result
    from chatfold.agent.tools import Tool, tool
    from chatfold.agent.tools.chat import CHAT_TOOLS
    from chatfold.agent.tools.mcp import Http, Stdio, mcp_tools
    from chatfold.agent.tools.shell import shell_tool
    from chatfold.agent.tools.skills import SkillFiles
else:  # a program that only keeps or reads chats does not wait for what an agent needs
    __getattr__ = late(
        __name__,
        {
            "AnthropicModel": "chatfold.agent.models.anthropic",
            "CHAT_TOOLS": "chatfold.agent.tools.chat",
            "Http": "chatfold.agent.tools.mcp",
            "Stdio": "chatfold.agent.tools.mcp",
            "mcp_tools": "chatfold.agent.tools.mcp",
            "ModelReply": "chatfold.agent.models",
            "Model": "chatfold.agent.models",
            "ModelFailed": "chatfold.agent.models",
            "ScriptedModel": "chatfold.agent.models",
            "OpenAIModel": "chatfold.agent.models.openai",
            "Limits": "chatfold.agent.limits",
            "model_from": "chatfold.agent.models.function",
            "Result": "chatfold.agent.result",
            "SkillFiles": "chatfold.agent.tools.skills",
            "Agent": "chatfold.agent.agent",
            "shell_tool": "chatfold.agent.tools.shell",
            "Step": "chatfold.agent.progress",
            "Tool": "chatfold.agent.tools",
            "tool": "chatfold.agent.tools",
        },
    )

__all__ = [
    "CHAT_TOOLS",
    "Agent",
    "AnthropicModel",
    "Chat",
    "Http",
    "Limits",
    "Model",
    "ModelFailed",
    "ModelReply",
    "Moment",
    "NoSuchContext",
    "NotRunning",
    "OpenAIModel",
    "OtherHistory",
    "Policy",
    "PromptTooLarge",
    "Result",
    "RunContext",
    "ScriptedModel",
    "SkillFiles",
    "Stdio",
    "Step",
    "Store",
    "SummaryFailed",
    "Tool",
    "ToolCall",
    "assistant",
    "current_run",
    "mcp_tools",
    "model_from",
    "shell_tool",
    "system",
    "tool",
    "user",
]
