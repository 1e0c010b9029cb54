"""What users type: the code of the public face's page, as it is written there. ``MISSING`` lists what does not work yet.

Line 7 and ``postgresql://``, 10 and 12 stand in tests of their own rooms.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import chatfold

MISSING: dict[str, str] = {}
"""Names that are not there yet, and why. Nothing is missing today."""

NAMES = [
    "Store",
    "Chat",
    "Moment",
    "Entry",
    "Policy",
    "events",
    "user",
    "assistant",
    "system",
    "ToolCall",
    "Text",
    "File",
    "Reasoning",
    "Data",
    "Agent",
    "Result",
    "Step",
    "tool",
    "Tool",
    "RunContext",
    "current_run",
    "shell_tool",
    "CHAT_TOOLS",
    "mcp_tools",
    "OpenAIModel",
    "AnthropicModel",
    "ScriptedModel",
    "model_from",
    "ModelReply",
    "projection",
    "View",
    "Replay",
    "assert_replays",
    "ChatfoldError",
    "Conflict",
    "IdConflict",
    "CorruptLog",
    "DiskFull",
    "DurabilityUnknown",
    "Unavailable",
    "ReadOnly",
    "InvalidEvent",
    "NoSuchChat",
    "NoSuchContext",
    "NoSuchPoint",
    "ChatExists",
    "ChatDeleted",
    "PromptTooLarge",
    "ModelFailed",
]

LINES = {
    "1": """
async with Store("./chats") as store:                       # or Store.memory(), or Store("postgresql://…")
    chat = await store.chat("telegram-42")                  # nothing on disk until the first event
    await chat.user("Why does the lexer drop newlines?", id="tg-991")       # durable; delivered twice, recorded once
    reply = await client.chat.completions.create(model=m, messages=await chat.messages("openai"))
    await chat.record(reply.choices[0].message)             # dicts and SDK objects as they are
""",
    "2": """
    call = await chat.tool_call("read_file", {"path": "lexer.py"})
    await chat.record(call.result(text), assistant("Because of split()."))
""",
    "3": """
    await chat.merge(request.messages)                      # records what is new, keeps compactions
""",
    "4": """
    await chat.new_context("docs build")
    await chat.load_context("lexer")                        # by id, title, or anything said in it
    await chat.recall("docs build")                         # for reference only, labelled
    await chat.contexts()                                   # the archive index
""",
    "5": """
    await chat.compact_if_due(Policy(budget=120_000, keep=30))
    await chat.revert_compaction(seq)
""",
    "6": """
    await chat.checkpoint("before-tools")
    branch = await chat.fork("what-if", at="before-tools")
    await chat.rewind("before-tools")
    then = await chat.at(-3)                                # a Moment: messages, contexts, search as of then
""",
    "8": """
async with Agent(OpenAIModel("gpt-5"), store="./chats", tools=[read_file]) as agent:
    result = await agent.run("and the docs?", chat="telegram-42")   # .text, .tool_calls, .usage, .outcome
    async for step in agent.stream("go on", chat="telegram-42"): ...
    await agent.submit("by the way", chat="telegram-42")    # answered in the background
    await agent.regenerate("telegram-42")
    await agent.resume_all()                                # after a crash or a restart: nothing is forgotten

    await agent.run("hello")                                # without chat=: the current conversation
""",
    "9": """
@projection(int)
def questions(count, entry):
    return count + (entry.event.role == "user") if isinstance(entry.event, events.MessageAdded) else count
store = Store("./chats", projections=[questions]); chat[questions]      # a value in memory
await chat.fold(questions)                                  # for one the store was not opened with
""",
    "11": """
with chatfold.sync.Store("./chats") as store:
    store.chat("a").user("hi")
""",
}  # fmt: skip


class Completions:
    """A client of OpenAI that answers without a network."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.chat = self.completions = self

    async def create(self, *, model: str, messages: list[dict[str, Any]]) -> Any:
        from openai.types.chat import ChatCompletion

        self.sent.append(messages)
        message = {"role": "assistant", "content": f"Because of {model}.", "refusal": None}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        whole = {"id": "x", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}
        return ChatCompletion.model_validate(whole)


async def run_line(number: str, **names: Any) -> dict[str, Any]:
    """Runs the line as it is written, with these names besides those of chatfold; gives what it has defined."""
    code = "\n".join(
        line[4:] if line.startswith("    ") and number in "123456" and number != "1" else line
        for line in LINES[number].splitlines()
    )
    body = "\n".join(f"    {line}" for line in code.splitlines())
    if "questions" in code:  # the chat that is asked is one of this store
        body = body.replace(
            "; chat[questions]", '; chat = await store.chat("telegram-42"); found = chat[questions]'
        )
    space = {**{name: getattr(chatfold, name) for name in chatfold.__all__}, "chatfold": chatfold, **names}
    exec(f"async def line():\n{body}\n    return locals()", space)  # the one way to run a text that awaits
    found: dict[str, Any] = await space["line"]()
    return found


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_the_names_are_there() -> None:
    wanted = [name for name in NAMES if name not in MISSING]
    assert {name for name in wanted if not hasattr(chatfold, name)} == set()
    assert not [name for name in MISSING if name in NAMES and hasattr(chatfold, name)], "no longer missing"


async def a_chat() -> chatfold.Chat:
    chat = await chatfold.Store("./chats").chat("telegram-42")
    await chat.record(chatfold.user("What about the lexer?"), chatfold.assistant("It splits lines."))
    return chat


async def test_1_a_loop_is_kept() -> None:
    client = Completions()
    await run_line("1", client=client, m="split()")
    assert client.sent == [[{"role": "user", "content": "Why does the lexer drop newlines?"}]]
    async with chatfold.Store("./chats") as store:
        messages = await (await store.chat("telegram-42")).messages("openai")
    assert messages[1] == {"role": "assistant", "content": "Because of split()."}


async def test_2_a_call_is_answered() -> None:
    chat = await a_chat()
    await run_line("2", chat=chat, text="return text.split()")
    assert [message["role"] for message in await chat.messages("openai")][1:] == [
        "assistant",
        "tool",
        "assistant",
    ]


async def test_3_a_client_sends_its_history() -> None:
    chat = await a_chat()

    history = [*await chat.messages("openai"), {"role": "user", "content": "And now?"}]
    request = SimpleNamespace(messages=history)
    await run_line("3", chat=chat, request=request)
    await run_line("3", chat=chat, request=request)
    assert chat.seq == 3


async def test_4_contexts_are_shelved_and_taken_up() -> None:
    chat = await a_chat()
    await chat.new_context("docs build")
    await chat.record(chatfold.user("They do not build."), chatfold.assistant("A missing page."))
    await run_line("4", chat=chat)
    [row] = await chat.contexts()
    assert row.title == "docs build"
    assert "reference" in (await chat.messages("openai"))[-1]["content"]


async def test_5_old_messages_are_marked() -> None:
    chat = await a_chat()
    for _ in range(3):
        await chat.record(chatfold.user("word " * 50), chatfold.assistant("ok"))
    [done] = await chat.compact(chatfold.Policy(keep=2, budget=None))
    await run_line("5", chat=chat, seq=done.seq)
    assert len(await chat.messages()) == 8


async def test_6_going_back() -> None:
    chat = await a_chat()
    found = await run_line("6", chat=chat)
    assert (found["branch"].key, found["then"].seq) == ("what-if", chat.seq - 3)


async def test_8_an_agent_answers() -> None:
    model = chatfold.ScriptedModel([f"Answer {number}." for number in range(9)])
    async with chatfold.Store("./chats") as store:
        await (await store.chat("telegram-42")).user("Hi")
    found = await run_line("8", OpenAIModel=lambda name: model, read_file=lambda path: path)
    assert (found["result"].text, found["result"].outcome) == ("Answer 0.", "done")


async def test_9_a_fold_of_ones_own() -> None:
    chat = await a_chat()
    found = await run_line("9", chat=chat)
    assert found["found"] == 1


def test_11_a_sync_program() -> None:
    space = {"chatfold": chatfold}
    exec(LINES["11"], space)
    assert Path("chats").is_dir()


# --- what a debugger, a log or a notebook shows ------------------------------------------------------------


def an_error(kind: Any) -> object:
    if kind in (chatfold.PromptTooLarge, chatfold.Conflict):
        return kind(3, 2, chat="a")
    return kind("a reason") if kind is chatfold.ModelFailed else kind("a reason", chat="a")


async def an_object_of_each_name() -> dict[str, object]:
    key = "sk-proj-0123456789abcdefghijklmnop"
    store = chatfold.Store("./chats")
    chat = await store.chat("telegram-42")
    entry = await chat.user("What about the lexer?")
    agent = chatfold.Agent(chatfold.ScriptedModel(["ok"]), store=store, tools=[len_of], name="ship")
    result = await agent.run("and now?", chat="telegram-42")

    async def answer(_messages: Any) -> str:
        return "ok"

    given: dict[str, object] = {
        "Store": store,
        "Chat": chat,
        "Moment": await chat.at(1),
        "Entry": entry,
        "Policy": chatfold.Policy(),
        "user": chatfold.user("hi"),
        "assistant": chatfold.assistant("hi"),
        "system": chatfold.system("hi"),
        "ToolCall": chatfold.ToolCall("c1", "look"),
        "Text": chatfold.Text("hi"),
        "File": chatfold.File("image/png", b"\0" * 100_000, "lexer.png"),
        "Reasoning": chatfold.Reasoning("hm"),
        "Data": chatfold.Data("json", {"a": 1}),
        "Agent": agent,
        "Result": result,
        "Step": chatfold.Step("piece", "hi"),
        "Tool": agent.tools["len_of"],
        "tool": chatfold.tool(len_of),
        "shell_tool": chatfold.shell_tool("."),
        "RunContext": chatfold.RunContext(chat, "run_1"),
        "OpenAIModel": chatfold.OpenAIModel("gpt-5", api_key=key),
        "AnthropicModel": chatfold.AnthropicModel("claude", api_key=key),
        "ScriptedModel": chatfold.ScriptedModel(["ok"]),
        "model_from": chatfold.model_from(answer),
        "ModelReply": chatfold.ModelReply(),
        "projection": chatfold.projection(int)(lambda count, _: count),
        "View": chat.view,
        "Replay": chatfold.Replay(chat),
        "CHAT_TOOLS": chatfold.CHAT_TOOLS[0],
        "Stdio": chatfold.Stdio("server", "--token", key),
        "Http": chatfold.Http("https://example.com/mcp", {"authorization": f"Bearer {key}"}),
        "Limits": chatfold.Limits(),
        "SkillFiles": chatfold.SkillFiles("."),
        "sync": chatfold.sync.Store("./chats"),
    }
    names = {name: getattr(chatfold, name) for name in chatfold.__all__}
    kinds = {name: one for name, one in names.items() if isinstance(one, type) and issubclass(one, Exception)}
    return given | {name: an_error(kind) for name, kind in kinds.items()}


def len_of(text: str) -> int:
    """How long it is."""
    return len(text)


NO_OBJECTS = {"events", "current_run", "mcp_tools", "assert_replays", "replaying"}


async def test_everything_shows_what_it_is() -> None:
    shown = await an_object_of_each_name()
    assert {*NAMES, *chatfold.__all__} == {*shown} | NO_OBJECTS
    for name, one in shown.items():
        told = repr(one)
        assert " object at 0x" not in told, name
        assert 0 < len(told) <= 320, (name, told)
        assert "\n" not in told, name
        assert "sk-proj" not in told, name
    assert repr(shown["Store"]) == "Store(FileStorage('chats'))"
    assert repr(shown["Agent"]) == (
        "Agent('ship', ScriptedModel('scripted', asked 1 times), Store(FileStorage('chats')), tools: len_of)"
    )
    assert repr(shown["sync"]) == "sync.Store(FileStorage('chats'))"
