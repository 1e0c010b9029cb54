"""The demo: runs of an agent that really runs, with a model that follows a script; a fork of its chat, and a compaction."""

from pathlib import Path

from chatfold.agent import Agent, Chat, ModelReply, Policy, ScriptedModel, Store, ToolCall, tool
from chatfold.eventlog import Entry, Text
from chatfold.projections import executions, turn

CHAT = "lexer-bug"
_SOURCE = "def lines(text):\n    return [line.strip() for line in text.split()]\n"
_TURNS = (
    (
        "Why does the lexer drop newlines?",
        "split() without an argument splits at any blank: use split('\\n').",
    ),
    ("And with Windows line endings?", "split('\\n') leaves a '\\r' at each end: splitlines() handles both."),
    ("Has that file changed since?", "No, it is as it was: splitlines() is still what you want."),
)


@tool(after_crash="again")
def read_file(path: str) -> str:  # noqa: ARG001 (there is only one file in this world)
    """What a file says."""
    return _SOURCE


async def record(folder: Path) -> dict[str, list[Entry]]:
    """What was recorded: the entries of the chat, and those that only the fork has, each under a line about them.

    Three turns the first time, one turn more each time it is called again.
    """
    async with Store(folder) as store:
        runs = (await store.chat(CHAT))[executions]
        first = sum(runs.outcomes.values()) + len(runs.running) + 1
        chat = await answer(store, first)
        asked = chat[turn].said
        branch = await chat.fork(f"{CHAT}-what-if-{first}", at=asked)
        await branch.assistant("A fork: here I answer without looking at the file.")
        if first == 1:
            chat = await answer(store, 2)
        await chat.compact(Policy(keep=2))
        if first == 1:
            chat = await answer(store, 3)
        return {
            f"{CHAT} (run {first} of this demo)": [entry async for entry in chat.entries()],
            f"{branch.key}: everything up to seq {asked}, then its own way": [
                entry async for entry in branch.entries(asked + 1)
            ],
        }


async def answer(store: Store, number: int) -> Chat:
    """Turn ``number``: the question, and the agent's run that answers it."""
    question, text = _TURNS[min(number, len(_TURNS)) - 1]
    call = ToolCall(f"call-{number}", "read_file", {"path": "lexer.py"})
    model = ScriptedModel(
        [ModelReply(calls=(call,), stop="tool_calls"), ModelReply((Text(text),), stop="stop")]
    )
    agent = Agent(store=store, model=model, tools=[read_file], name="demo")
    await agent.run(question, chat=CHAT, id=f"inbound-{number}")  # the id: delivered twice, it is one message
    return await store.chat(CHAT)
