"""One scripted store for the tests of the command: the same bytes whenever it is made.

lexer-bug             turns, tools, a failure, a checkpoint, a compaction, two switches, a rewind, an injection,
                      requests that can be proved, text that wants to steer the terminal, Chinese
lexer-bug-what-if     a fork of it, at the checkpoint
日本語                 a key that is wide
"""

from pathlib import Path

from chatfold.agent import Chat, Store, assistant, system, user
from chatfold.agent.models import Request, fingerprint, scripted_payload
from chatfold.eventlog import (
    CheckpointSet,
    Compacted,
    ContextOpened,
    ContextSwitched,
    FileStorage,
    Injected,
    ModelCalled,
    ModelReturned,
    Noted,
    RunFinished,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.contexts import MAIN
from chatfold.projections.shapes import PROMPT_RULES
from tests.support.clock import TickingClock

CHAT, FORK, WIDE = "lexer-bug", "lexer-bug-what-if", "日本語"
HOSTILE = "\x1b[2J\x1b]0;mine\x07\x9b31m\u202eevil\u2066 \ud800 [bold]x[/bold] \r\b\x00\x7f\u2028 end"
"""What a tool, a user or a model may say."""
_SYSTEM = "You read code."
_MARKS = {"system": fingerprint({"system": _SYSTEM}), "tools": fingerprint({"tools": []})}


class Seconds(TickingClock):
    """A second passes between two readings."""

    def __call__(self) -> int:
        self.now += 1000
        return self.now


async def scripted(root: Path) -> Path:
    async with Store(FileStorage(root, clock=Seconds(), durability="off")) as store:
        chat = await store.chat(CHAT)
        await _lexer(chat)
        branch = await chat.fork(FORK, at="before-tools")
        await branch.record(assistant("A fork: here nothing is read."))
        wide = await store.chat(WIDE)
        await wide.record(user("为什么词法分析器会丢失换行符。"), assistant("因为 strip() 会删除它们。"))
    return root


async def _lexer(chat: Chat) -> None:
    await chat.record(system("Be brief."))
    await chat.record(user("Why does the lexer drop newlines?"), id="tg-1")
    await chat.record(CheckpointSet("before-tools"))
    await chat.record(RunStarted("helper"), run="r1")
    await chat.record(Noted("chatfold.system", _SYSTEM), id=f"system:{_MARKS['system']}", run="r1")
    await chat.record(Noted("chatfold.tools", []), id=f"tools:{_MARKS['tools']}", run="r1")
    await _asked(chat, "r1")
    await chat.record(ToolCalled("call-1", "read_file", {"path": "lexer.py"}), run="r1")
    await chat.record(ToolReturned("call-1", (Text("no such file"),), failed=True), run="r1")
    await _asked(chat, "r1")
    await chat.record(ToolCalled("call-2", "read_file", {"path": "src/lexer.py"}), run="r1")
    await chat.record(ToolReturned("call-2", (Text("def lines(text):\n\treturn text.split()\n"),)), run="r1")
    await chat.record(assistant("Because of split(): it splits at any blank."), run="r1")
    await chat.record(RunFinished("done"), run="r1")
    await chat.record(user("You must not touch vendor/. " + "And keep it short. " * 8))
    await chat.record(assistant("Understood."))
    await chat.record(Compacted(2, 18, 8, "Newlines are lost in split(). Keep vendor/ untouched.", "tokens"))
    await chat.record(ContextOpened("ctx-docs", "docs build", "another topic"))
    await chat.record(user("为什么文档构建失败。"), assistant("缺少一页。"))
    await chat.record(ContextSwitched(MAIN, reason="back to the lexer"))
    await chat.record(user(HOSTILE))
    await chat.record(ToolCalled("call-3", "shell", {"cmd": HOSTILE}))
    await chat.record(ToolReturned("call-3", (Text(HOSTILE + "\nline two"),)))
    await chat.record(assistant("That was strange."))
    await chat.rewind(chat.seq - 4, "it was strange")
    await chat.record(Injected("user", "f1", (Text("Today is Thursday."),), "calendar"))
    await chat.record(user("And Windows line endings?"))
    await chat.record(RunStarted("helper"), run="r2")
    await _asked(chat, "r2", error="the provider is overloaded")
    await chat.record(RunFinished("failed", "the provider is overloaded"), run="r2")


async def _asked(chat: Chat, run: str, error: str = "") -> None:
    """A request, as an agent records it, and its answer."""
    mark = fingerprint(scripted_payload(Request(_SYSTEM, await chat.messages())))
    asked = ModelCalled(
        "scripted", mark, {**_MARKS, "noted": {"system": 5, "tools": 6}}, (), "scripted", PROMPT_RULES
    )
    usage = {} if error else {"input_tokens": 40 + chat.seq, "output_tokens": 7}
    await chat.record(asked, run=run)
    await chat.record(ModelReturned(usage, "" if error else "stop", error), run=run)
