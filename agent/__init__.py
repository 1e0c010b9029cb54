"""agent is what an embedder holds: a ``Store`` of chats, a ``Chat`` to write and read, an ``Agent`` to answer.

    async with Store("./chats") as store:                       # or Store.memory()
        chat = await store.chat("telegram-chat-42")             # nothing on disk until the first event
        await chat.user("Why does the lexer drop newlines?")    # durable on return
        await chat.messages("openai")                           # what the model is sent next
        then = await chat.at(2)                                 # the same folds, stopped earlier

        agent = Agent(store=store, model=model, tools=[read_file])
        result = await agent.run("telegram-chat-42", "and the docs?")

What is promised. Everything a chat shows is folded from its log, everything it does is an event; a verb that refuses has
left no trace. Any number of processes may hold one chat: each takes in what the others wrote. Async is what may wait; what
is in memory is read without ``await``. An agent keeps nothing that is not in the log: kill it anywhere, and it goes on.

Where to look. ``store``, ``chat`` what can be done, ``moment`` what can be read, ``opening`` how a view is reached, ``shelf`` and
``compaction`` how it is decided. ``runtime`` the agent, ``running`` one run, ``lanes`` whose turn it is, ``assembly`` what the model is told;
``models`` and ``tools`` what they are; ``chat_tools``, ``shell``, ``skill_files``, ``mcp_tools`` the tools there are.
"""

from agent.anthropic_model import AnthropicModel as AnthropicModel
from agent.chat import Chat as Chat
from agent.chat_tools import CHAT_TOOLS as CHAT_TOOLS
from agent.compaction import HISTORY as HISTORY
from agent.compaction import IN_MEMORY as IN_MEMORY
from agent.compaction import Policy as Policy
from agent.errors import CannotFit as CannotFit
from agent.errors import NoSuchContext as NoSuchContext
from agent.errors import OtherHistory as OtherHistory
from agent.errors import SummaryFailed as SummaryFailed
from agent.execution import NotRunning as NotRunning
from agent.execution import execution as execution
from agent.execution import inject_assistant_once as inject_assistant_once
from agent.execution import inject_system_once as inject_system_once
from agent.listing import Listed as Listed
from agent.models import Answer as Answer
from agent.models import Asked as Asked
from agent.models import Model as Model
from agent.models import ModelFailed as ModelFailed
from agent.models import ScriptedModel as ScriptedModel
from agent.moment import Moment as Moment
from agent.openai_model import OpenAIModel as OpenAIModel
from agent.opening import Opened as Opened
from agent.opening import keep_view as keep_view
from agent.opening import open_view as open_view
from agent.opening import window_entries as window_entries
from agent.results import Result as Result
from agent.runtime import Agent as Agent
from agent.says import assistant as assistant
from agent.says import system as system
from agent.says import user as user
from agent.shell import shell_tool as shell_tool
from agent.steps import Step as Step
from agent.store import Store as Store
from agent.summary import Material as Material
from agent.tools import Tool as Tool
from agent.tools import tool as tool
from eventlog import NoSuchPoint as NoSuchPoint
