"""Writes the golden requests of a number of the prompt rules: ``python -m tests.golden.make_requests 1``.

A request that was recorded is proved by making it again. So what is made of a history may change only together with
the number of the prompt rules. Each file says what rules of that number make of the same histories, in every shape.
It is written once, when the number is raised, and never again.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from chatfold.agent.models import Request, ToolSpec
from chatfold.agent.models.anthropic import anthropic_payload
from chatfold.agent.models.openai import openai_payload
from chatfold.eventlog import (
    Compacted,
    ContextRecalled,
    Data,
    Event,
    File,
    Injected,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Reasoning,
    RunStarted,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections import (
    STANDARD,
    fold,
    from_anthropic,
    from_openai,
    from_ui,
    messages,
    start,
    to_anthropic,
    to_openai,
    to_openai_responses,
    to_ui,
)
from tests.support.histories import assistant, compacted, entries, user

HERE = Path(__file__).parent / "requests"
PNG = b"\x89PNG\r\n\x1a\n"
GPT, CLAUDE = ("openai", "gpt"), ("anthropic", "claude")
ASKED, ANSWERED = ModelCalled("gpt", ""), ModelReturned({"output_tokens": 7}, "stop")
READ = ToolSpec("read", "Reads a file.", {"properties": {"path": {"type": "string"}}})
ODD_TOOL = ToolSpec("server:read it", "", {})


def call(id: str, name: str = "read", args: Any = None) -> ToolCalled:
    return ToolCalled(id, name, args)


def result(id: str, *texts: str, failed: bool = False) -> ToolReturned:
    return ToolReturned(id, tuple(map(Text, texts)), failed)


def message(role: Any, *parts: Any, origin: Any = "exec") -> MessageAdded:
    return MessageAdded(role, parts, origin)


FILES = (
    File("image/png", PNG, "p.png"),
    File("image/jpeg", url="https://example.org/a.jpg"),
    File("image/tiff", b"II*\0", "scan.tiff"),
    File("audio/wav", b"RIFF", "hm.wav"),
    File("application/pdf", b"%PDF-1.4", "report"),
    File("application/pdf", url="https://example.org/b.pdf"),
    File("text/plain", "a text: é".encode(), "notes.txt"),
    File("image/png", url="file:///etc/passwd"),
)
FROM_OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
    {"role": "user", "name": "alice", "content": "What is in a.py and b.py?"},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Both are to be read.",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "read", "arguments": '{"path": "a.py"}'},
                "extra_content": {"google": {"thought_signature": "c2ln"}},
            },
            {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{oops"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c2", "name": "read", "content": "Error: no JSON"},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "def f(): ..."}]},
    {"role": "assistant", "content": "One function.", "annotations": [{"type": "url_citation"}]},
    {
        "role": "user",
        "name": "bob",
        "content": [
            {"type": "text", "text": "And this?"},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.gif", "detail": "low"}},
        ],
    },
]
FROM_ANTHROPIC: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is new?", "cache_control": {"type": "ephemeral"}},
            {
                "type": "document",
                "title": "a",
                "source": {"type": "text", "media_type": "text/plain", "data": "b"},
            },
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "aGlkZGVu"},
            {"type": "text", "text": "I look."},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "news"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
            {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "no such file", "is_error": True},
            {"type": "text", "text": "Go on."},
        ],
    },
]
FROM_UI: list[dict[str, Any]] = [
    {
        "id": "u1",
        "role": "user",
        "metadata": {"name": "alice"},
        "parts": [{"type": "text", "text": "Search."}],
    },
    {
        "id": "a1",
        "role": "assistant",
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm", "providerMetadata": {"anthropic": {"signature": "c2ln"}}},
            {
                "type": "tool-search",
                "toolCallId": "c1",
                "state": "output-available",
                "input": {"q": 1},
                "output": {"hits": []},
            },
            {"type": "step-start"},
            {"type": "text", "text": "Nothing.", "state": "done"},
        ],
    },
]

HISTORIES: dict[str, tuple[Event, ...]] = {
    "a talk": (
        message("system", Text("Be brief.")),
        message("developer", Text("Use tools.")),
        user("What is in a.py?"),
        message("assistant", Reasoning("hm", *GPT, "c2ln", "rs_1"), Text("I look.")),
        call("c1", args={"path": "a.py"}),
        result("c1", "def f(): ..."),
        message("assistant", Text("One function.  \n")),
        message("developer", Text("Today is Monday.")),
        user("Why?"),
    ),
    "thoughts": (
        user("Think."),
        message("assistant", Reasoning("hm", *CLAUDE, "c2ln"), Text("I thought.")),
        message("assistant", Reasoning("", *CLAUDE, "aGlkZGVu", redacted=True), Text("Again.")),
        call("c1"),
        result("c1"),
        message("assistant", Reasoning("ended so", *GPT, "c2ln", "rs_2")),
        message("assistant", Reasoning("twice", *GPT, "c2ln", "rs_2"), Text("So.")),
    ),
    "calls": (
        user("Do it."),
        *(call("c1", args={"n": 1}), call("c1", "server:read it", [1]), call("no id!", "x" * 70, "as it is")),
        *(result("c1", "of the first"), result("c1", "of the second", "and more", failed=True)),
        user("Still there?"),
        assistant("Yes."),
        result("no id!", "late"),
        *(call("c1"), call("c2")),
        ToolReturned("c2", (Data("json", {"b": [1, None]}), FILES[0]), failed=False),
        ToolReturned("c9", (Text("of no call"),)),
    ),
    "files": (
        message("user", Text("See:"), *FILES, Data("chart", [1])),
        message("assistant", Text("I see."), FILES[0]),
        call("c1"),
        ToolReturned("c1", FILES),
        call("c2"),
        ToolReturned("c2", FILES[:1], failed=True),
    ),
    "what was not said": (
        RunStarted("agent"),
        user("a"),
        assistant("b"),
        compacted(2, 3, "a and b"),
        ContextRecalled("old", "recent", "user: c"),
        message("user", Text("an audit"), origin="audit"),
        message("user", Text("Now: noon"), origin="internal"),
        user("d"),
        Injected("system", "p", (Text("a rule"),), "tool"),
        Injected("system", "p", (Text("a rule"),), "tool"),
        Compacted(1, 1, 1, "nothing"),
    ),
    "what an agent adds": (
        user("a"),
        Injected("system", "runtime:r1", (Text("Now: noon\nrequestId: r1"),), "runtime"),
        ASKED,
        ANSWERED,
        *(call("c1"), call("c2"), call("c3")),
        ToolReturned("c1", (Text("long " * 200), Data("json", {"long": "er " * 200})), meta={"shown": 50}),
        ToolReturned("c2", (Text("of " * 90),), True, {"shown": 100}),
        Injected("assistant", "h", (Text("quoted"), FILES[0]), "a tool] and\nmore"),
        Injected("user", "f", (FILES[0],), "a tool"),
        Injected("developer", "n", (), "a tool"),
        ASKED,
        ANSWERED,
        assistant("b"),
        ToolReturned("c3", (Text("late " * 99),), meta={"shown": 60}),
        Injected("system", "runtime:r2", (Text("Now: later\nrequestId: r2"),), "runtime"),
        user("c"),
    ),
    "while a model is asked": (
        user("a"),
        ASKED,
        user("b"),
        ANSWERED,
        assistant("of a"),
        call("c1"),
        user("c"),
        result("c1", "r"),
        ASKED,
        ANSWERED,
        assistant("of b and c"),
    ),
    "odd texts": (
        message("user", Text(" \n"), Text("half \ud83d"), Text("日本語 🎈 \0")),
        message("assistant", Text("")),
        call("", "", {"nan": float("nan")}),
        result("", " "),
    ),
    "from OpenAI": (*from_openai(FROM_OPENAI),),
    "from Anthropic": (
        *from_anthropic(FROM_ANTHROPIC, [{"type": "text", "text": "Be brief."}], model="claude"),
    ),
    "from the AI SDK": (*from_ui(FROM_UI),),
}


def requests(events: Iterable[Event]) -> dict[str, Any]:
    """What is made of a history, by the shape."""
    history = entries(events)
    prompt = messages(fold(start(STANDARD), history), history)
    request = Request("You are an agent.", prompt, (READ, ODD_TOOL))
    return {
        "openai": to_openai(prompt),
        "openai-responses": to_openai_responses(prompt, model="gpt"),
        "anthropic": to_anthropic(prompt, model="claude"),
        "ui": to_ui(history, chat_key="a chat"),
        "OpenAIModel": openai_payload(request, "gpt", {"temperature": 0}),
        "AnthropicModel": anthropic_payload(request, "claude", {"max_tokens": 99, "cache": True}),
    }


def written(events: Iterable[Event]) -> str:
    shapes = {"events": [msgspec.to_builtins(event) for event in events], **requests(events)}
    return ",\n".join(f" {json.dumps(shape)}: {json.dumps(made)}" for shape, made in shapes.items())


def main(number: str) -> None:
    path = HERE / f"{number}.json"
    if path.exists():
        sys.exit(f"{path} exists: golden requests are never made again")
    histories = (f"{json.dumps(name)}: {{\n{written(events)}\n}}" for name, events in HISTORIES.items())
    path.write_text("{" + ",\n".join(histories) + "}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
