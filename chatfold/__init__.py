"""chatfold keeps the chats of LLM agents: every chat is an append-only log of events, everything else is a fold over it.

    from chatfold import Agent, OpenAIModel, Store, tool

    async with Store("./chats") as store:                       # or Store.memory()
        chat = await store.chat("telegram-42")                  # nothing on disk until the first event
        await chat.user("Why does the lexer drop newlines?")    # durable on return
        await chat.messages("openai")                           # what the model is sent next

        agent = Agent(store=store, model=OpenAIModel("gpt-5"))
        result = await agent.run("and the docs?", chat="telegram-42")

This is the front door: it has the names that an embedder needs. Authors of extensions go one level down: ``chatfold.eventlog``
(storages), ``chatfold.projections`` (folds and shapes), ``chatfold.agent`` (models and tools), ``chatfold.replay`` (the debugger).
``python -m chatfold`` is the command.
"""

import os.path
from typing import TYPE_CHECKING

if not os.path.isdir(os.path.join(__path__[0], "eventlog")):  # noqa: PTH112, PTH118 (pathlib takes longer to import)
    raise ImportError(
        f"{__path__[0]} has no packages: this is a clone without symbolic links. Clone again with"
        " 'git clone -c core.symlinks=true', or install a wheel."
    )

from chatfold.late import late

if TYPE_CHECKING:
    from chatfold import sync
    from chatfold.agent import (
        CHAT_TOOLS,
        Agent,
        AnthropicModel,
        Chat,
        Http,
        Limits,
        ModelFailed,
        ModelReply,
        Moment,
        NoSuchContext,
        OpenAIModel,
        Policy,
        PromptTooLarge,
        Result,
        RunContext,
        ScriptedModel,
        SkillFiles,
        Stdio,
        Step,
        Store,
        Tool,
        ToolCall,
        assistant,
        current_run,
        mcp_tools,
        model_from,
        shell_tool,
        system,
        tool,
        user,
    )
    from chatfold.eventlog import (
        ChatDeleted,
        ChatExists,
        ChatfoldError,
        Conflict,
        CorruptLog,
        Data,
        DiskFull,
        DurabilityUnknown,
        Entry,
        File,
        IdConflict,
        InvalidEvent,
        NewerFormat,
        NoSuchChat,
        NoSuchPoint,
        ReadOnly,
        Reasoning,
        Text,
        Unavailable,
        events,
    )
    from chatfold.projections import (
        View,
        projection,
    )
    from chatfold.replay import (
        Replay,
        assert_replays,
        replaying,
    )
else:  # importing a module that is not used would make every command and every program start later
    __getattr__ = late(
        __name__,
        {
            "Agent": "chatfold.agent",
            "ModelReply": "chatfold.agent",
            "AnthropicModel": "chatfold.agent",
            "CHAT_TOOLS": "chatfold.agent",
            "ToolCall": "chatfold.agent",
            "PromptTooLarge": "chatfold.agent",
            "Chat": "chatfold.agent",
            "RunContext": "chatfold.agent",
            "Http": "chatfold.agent",
            "ModelFailed": "chatfold.agent",
            "Moment": "chatfold.agent",
            "NoSuchContext": "chatfold.agent",
            "OpenAIModel": "chatfold.agent",
            "Policy": "chatfold.agent",
            "Limits": "chatfold.agent",
            "model_from": "chatfold.agent",
            "Result": "chatfold.agent",
            "SkillFiles": "chatfold.agent",
            "ScriptedModel": "chatfold.agent",
            "Stdio": "chatfold.agent",
            "Step": "chatfold.agent",
            "Store": "chatfold.agent",
            "Tool": "chatfold.agent",
            "assistant": "chatfold.agent",
            "current_run": "chatfold.agent",
            "mcp_tools": "chatfold.agent",
            "shell_tool": "chatfold.agent",
            "system": "chatfold.agent",
            "tool": "chatfold.agent",
            "user": "chatfold.agent",
            "ChatDeleted": "chatfold.eventlog",
            "ChatExists": "chatfold.eventlog",
            "ChatfoldError": "chatfold.eventlog",
            "Conflict": "chatfold.eventlog",
            "CorruptLog": "chatfold.eventlog",
            "Data": "chatfold.eventlog",
            "DiskFull": "chatfold.eventlog",
            "DurabilityUnknown": "chatfold.eventlog",
            "Entry": "chatfold.eventlog",
            "File": "chatfold.eventlog",
            "IdConflict": "chatfold.eventlog",
            "InvalidEvent": "chatfold.eventlog",
            "NewerFormat": "chatfold.eventlog",
            "NoSuchChat": "chatfold.eventlog",
            "NoSuchPoint": "chatfold.eventlog",
            "ReadOnly": "chatfold.eventlog",
            "Reasoning": "chatfold.eventlog",
            "Text": "chatfold.eventlog",
            "Unavailable": "chatfold.eventlog",
            "events": "chatfold.eventlog",
            "sync": "chatfold.sync",
            "View": "chatfold.projections",
            "projection": "chatfold.projections",
            "Replay": "chatfold.replay",
            "assert_replays": "chatfold.replay",
            "replaying": "chatfold.replay",
        },
    )

__all__ = [
    "CHAT_TOOLS",
    "Agent",
    "AnthropicModel",
    "Chat",
    "ChatDeleted",
    "ChatExists",
    "ChatfoldError",
    "Conflict",
    "CorruptLog",
    "Data",
    "DiskFull",
    "DurabilityUnknown",
    "Entry",
    "File",
    "Http",
    "IdConflict",
    "InvalidEvent",
    "Limits",
    "ModelFailed",
    "ModelReply",
    "Moment",
    "NewerFormat",
    "NoSuchChat",
    "NoSuchContext",
    "NoSuchPoint",
    "OpenAIModel",
    "Policy",
    "PromptTooLarge",
    "ReadOnly",
    "Reasoning",
    "Replay",
    "Result",
    "RunContext",
    "ScriptedModel",
    "SkillFiles",
    "Stdio",
    "Step",
    "Store",
    "Text",
    "Tool",
    "ToolCall",
    "Unavailable",
    "View",
    "assert_replays",
    "assistant",
    "current_run",
    "events",
    "mcp_tools",
    "model_from",
    "projection",
    "replaying",
    "shell_tool",
    "sync",
    "system",
    "tool",
    "user",
]
