"""A saver of ours next to upstream's in memory, and the chats that it writes."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from chatfold import Store, sync
from chatfold.adapters.langgraph import LangGraphSaver
from chatfold.eventlog import ContextCleared, MessageAdded, Rewound

THREAD: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    with sync.Store(tmp_path / "store", durability="off") as opened:
        yield opened


async def test_conformance(tmp_path: Path) -> None:
    @checkpointer_test(name="chatfold")  # type: ignore[untyped-decorator]
    async def saver() -> Any:
        async with Store(tmp_path / "conformance", durability="off") as opened:
            yield LangGraphSaver(opened)

    report = await validate(saver)
    failures = [one for result in report.results.values() for one in result.failures or ()]
    assert not failures
    assert sum(result.tests_passed for result in report.results.values()) >= 81
    assert all(result.passed for result in report.results.values())


# --- graphs ----------------------------------------------------------------------------------------------


def _answer(state: MessagesState) -> dict[str, Any]:
    asked = state["messages"][-1].content
    return {"messages": [AIMessage(f"answer to {asked}")]}


def _graph(saver: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("model", _answer)
    builder.add_edge(START, "model")
    builder.add_edge("model", END)
    return builder.compile(checkpointer=saver)


def _shown(store: Any, key: str = "t") -> list[Any]:
    return [(one["role"], one["content"]) for one in store.chat(key).messages("openai")]


def _said(graph: Any, config: Any = None) -> list[Any]:
    roles = {"human": "user", "ai": "assistant"}
    return [(roles[one.type], one.content) for one in graph.get_state(config or THREAD).values["messages"]]


def test_chat_shows_what_the_state_holds(store: Any) -> None:
    graph = _graph(LangGraphSaver(store))
    for turn in range(3):
        graph.invoke({"messages": [HumanMessage(f"question {turn}")]}, THREAD)
        assert _shown(store) == _said(graph)
    messages = [e for e in store.chat("t").entries() if isinstance(e.event, MessageAdded)]
    assert len(messages) == 6, "each is recorded once, although it is input, write and state"


def test_log_leaves_out_the_notes(store: Any, tmp_path: Path) -> None:
    _graph(LangGraphSaver(store)).invoke({"messages": [HumanMessage("question")]}, THREAD)

    def kinds(*more: str) -> list[str]:
        command = [sys.executable, "-m", "chatfold", "log", "t", "--store", str(tmp_path / "store"), *more]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return [line.split("\t")[3] for line in done.stdout.splitlines()]

    assert kinds() == ["chat_started", "message_added", "message_added"]
    assert set(kinds("--kind", "noted")) == {"noted"}


def test_time_travel_rewinds_the_chat(store: Any) -> None:
    graph = _graph(LangGraphSaver(store))
    for turn in range(3):
        graph.invoke({"messages": [HumanMessage(f"question {turn}")]}, THREAD)
    before = next(one for one in graph.get_state_history(THREAD) if len(one.values["messages"]) == 2)
    graph.invoke({"messages": [HumanMessage("another question")]}, before.config)
    assert _shown(store) == _said(graph)
    assert [text for _, text in _shown(store)][2:] == ["another question", "answer to another question"]
    assert any(isinstance(entry.event, Rewound) for entry in store.chat("t").entries())


def test_removed_messages_leave_the_chat(store: Any) -> None:
    graph = _graph(LangGraphSaver(store))
    graph.invoke({"messages": [HumanMessage("my number is 4711", id="h")]}, THREAD)
    graph.update_state(THREAD, {"messages": [RemoveMessage(id="h")]}, as_node="model")
    assert _shown(store) == _said(graph) == [("assistant", "answer to my number is 4711")]
    assert any(isinstance(entry.event, ContextCleared) for entry in store.chat("t").entries())


def test_changed_message_is_another_one(store: Any) -> None:
    graph = _graph(LangGraphSaver(store))
    graph.invoke({"messages": [HumanMessage("old words", id="h")]}, THREAD)
    graph.update_state(THREAD, {"messages": [HumanMessage("new words", id="h")]}, as_node="model")
    assert _said(graph)[0] == ("user", "new words")
    assert sorted(_shown(store)) == sorted(_said(graph))


def test_interrupt_survives_another_process(store: Any, tmp_path: Path) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"you said {interrupt('really?')}")]}

    def build(saver: Any) -> Any:
        builder = StateGraph(MessagesState)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        return builder.compile(checkpointer=saver)

    build(LangGraphSaver(store)).invoke({"messages": [HumanMessage("do it")]}, THREAD)
    with sync.Store(tmp_path / "store", durability="off") as other:
        graph = build(LangGraphSaver(other))
        assert graph.get_state(THREAD).next == ("ask",)
        graph.invoke(Command(resume="yes"), THREAD)
        assert _said(graph)[-1] == ("assistant", "you said yes")
    assert _shown(store)[-1] == ("assistant", "you said yes")


def test_killed_graph_goes_on_where_it_was(tmp_path: Path) -> None:
    program = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from typing import Any
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from chatfold import sync
from chatfold.adapters.langgraph import LangGraphSaver

def first(state: MessagesState) -> Any:
    open({str(tmp_path / "first")!r}, "a").write("x")
    return {{"messages": [AIMessage("first", id="one")]}}

def second(state: MessagesState) -> Any:
    if len(sys.argv) > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {{"messages": [AIMessage("second", id="two")]}}

builder = StateGraph(MessagesState)
builder.add_node("first", first)
builder.add_node("second", second)
builder.add_edge(START, "first")
builder.add_edge("first", "second")
store = sync.Store({str(tmp_path / "store")!r})
graph = builder.compile(checkpointer=LangGraphSaver(store))
config = {{"configurable": {{"thread_id": "t"}}}}
graph.invoke({{"messages": [HumanMessage("go", id="h")]}} if len(sys.argv) > 1 else None, config, durability="sync")
print([one.content for one in graph.get_state(config).values["messages"]])
"""
    died = subprocess.run([sys.executable, "-c", program, "die"], check=False, capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    lived = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert lived.stdout.strip() == "['go', 'first', 'second']"
    assert (tmp_path / "first").read_text() == "x", "what was done is not done again"


def test_encrypted_state_is_not_in_the_log(store: Any, tmp_path: Path) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"1234567890123456")
    graph = _graph(LangGraphSaver(store, serde=serde))
    graph.invoke({"messages": [HumanMessage("the secret word is xylophone")]}, THREAD)
    assert _said(graph)[0] == ("user", "the secret word is xylophone")
    assert not _shown(store)
    assert not _holding(tmp_path, b"xylophone")


def test_erased_message_is_nowhere(store: Any, tmp_path: Path) -> None:
    graph = _graph(LangGraphSaver(store))
    graph.invoke({"messages": [HumanMessage("the secret word is xylophone")]}, THREAD)
    graph.invoke({"messages": [HumanMessage("and?")]}, THREAD)
    chat = store.chat("t")
    seqs = [hit.seq for hit in chat.search("xylophone", everything=True)]
    chat.redact(*seqs)
    with sync.Store(tmp_path / "store") as other:
        graph = _graph(LangGraphSaver(other))
        assert [text for _, text in _said(graph)] == ["and?", "answer to and?"]
        graph.invoke({"messages": [HumanMessage("go on")]}, THREAD)
        assert [one for one in _shown(other) if one[1] != "[redacted]"] == _said(graph)
    assert not _holding(tmp_path, b"xylophone")


def _holding(folder: Path, word: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and word in path.read_bytes()]


def test_threads_at_once(store: Any) -> None:
    saver = LangGraphSaver(store)
    graph = _graph(saver)

    def chat(number: int) -> list[Any]:
        config = {"configurable": {"thread_id": f"t{number}"}}
        for turn in range(4):
            graph.invoke({"messages": [HumanMessage(f"{number} {turn}")]}, config)
        return _said(graph, config)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(chat, range(8)))
    assert [_shown(store, f"t{number}") for number in range(8)] == found


def test_two_savers_write_one_thread(store: Any, tmp_path: Path) -> None:
    with sync.Store(tmp_path / "store", durability="off") as other:
        graphs = [_graph(LangGraphSaver(store)), _graph(LangGraphSaver(other))]
        for turn in range(6):
            graphs[turn % 2].invoke({"messages": [HumanMessage(f"question {turn}")]}, THREAD)
        assert _said(graphs[0]) == _said(graphs[1]) == _shown(store)
        assert len(_said(graphs[0])) == 12


def test_bytes_grow_with_what_is_said(store: Any, tmp_path: Path) -> None:
    graph = _graph(LangGraphSaver(store))
    sizes = []
    for turn in range(60):
        graph.invoke({"messages": [HumanMessage(f"question {turn} {'x' * 300}")]}, THREAD)
        if turn in (19, 39, 59):
            sizes.append(sum(p.stat().st_size for p in (tmp_path / "store/chats").rglob("*.jsonl")))
    assert sizes[2] - sizes[1] < 1.2 * (sizes[1] - sizes[0])


def test_copied_thread_is_a_fork(store: Any) -> None:
    saver = LangGraphSaver(store)
    graph = _graph(saver)
    graph.invoke({"messages": [HumanMessage("hello")]}, THREAD)
    saver.copy_thread("t", "copy")
    copy: Any = {"configurable": {"thread_id": "copy"}}
    graph.invoke({"messages": [HumanMessage("more")]}, copy)
    assert len(_said(graph)) == 2
    assert len(_said(graph, copy)) == 4
    assert _shown(store, "copy") == _said(graph, copy)


# --- next to upstream's saver ------------------------------------------------------------------------------

_texts = st.text(max_size=40)
_ids = st.sampled_from([None, "m1", "m2", "m3"])
_messages = st.one_of(
    st.builds(lambda text, name: HumanMessage(text, id=name), _texts, _ids),
    st.builds(lambda text, name: SystemMessage(text, id=name), _texts, _ids),
    st.builds(
        lambda text, name, calls: AIMessage(
            text,
            id=name,
            tool_calls=[{"name": "f", "args": {"a": text}, "id": f"c{n}"} for n in range(calls)],
        ),
        _texts,
        _ids,
        st.integers(0, 2),
    ),
    st.builds(lambda text: ToolMessage(text, tool_call_id="c0"), _texts),
    st.builds(
        lambda text: HumanMessage([{"type": "text", "text": text, "cache": 1}, text, {"type": "odd"}]), _texts
    ),
)
_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.sampled_from(["$", "of", "said"]), inner)
    ),
    max_leaves=8,
)


class Savers(RuleBasedStateMachine):
    """Ours does what upstream's does, also after it was opened again; and the chat shows the newest list of messages."""

    @initialize()
    def begin(self) -> None:
        self.store = Store.memory()
        self.ours, self.theirs = LangGraphSaver(self.store), InMemorySaver()
        self.ids: list[tuple[str, str]] = []
        self.lists: dict[tuple[str, str], list[Any]] = {}
        self.versions: dict[tuple[str, str], dict[str, Any]] = {}
        self.values: dict[tuple[str, str], dict[str, Any]] = {}
        self.count = 0

    @rule(
        data=st.data(),
        ns=st.sampled_from(["", "", "child:1"]),
        values=st.dictionaries(st.sampled_from(["a", "b", "__start__"]), _plain, max_size=2),
        more=st.lists(_messages, max_size=3),
        cut=st.integers(0, 3),
    )
    def put(self, data: Any, ns: str, values: dict[str, Any], more: list[Any], cut: int) -> None:
        self.count += 1
        mine = [name for at, name in self.ids if at == ns]
        parent = data.draw(st.sampled_from([None, *mine, *mine[-1:] * 5]))
        before = self.lists.get((ns, parent or ""), [])
        kept = before[: len(before) - cut] if cut < 2 else before[cut - 2 :]
        messages = [*kept, *more]
        versions = dict(self.versions.get((ns, parent or ""), {}))
        new = dict.fromkeys([*values, "messages"], self.count)
        versions |= new
        state = self.values.get((ns, parent or ""), {}) | values | {"messages": messages}
        checkpoint = empty_checkpoint() | {
            "id": f"{self.count:08}",
            "channel_values": state,
            "channel_versions": versions,
        }
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ns, "checkpoint_id": parent}}
        for saver in (self.ours, self.theirs):
            saver.put(config, checkpoint, {"step": self.count, "parents": {}}, new)
        self.ids.append((ns, checkpoint["id"]))
        self.values[ns, checkpoint["id"]] = state
        self.lists[ns, checkpoint["id"]], self.versions[ns, checkpoint["id"]] = messages, versions

    @precondition(lambda self: self.ids)
    @rule(
        data=st.data(),
        task=st.sampled_from(["x", "y"]),
        writes=st.lists(
            st.tuples(st.sampled_from(["a", "__error__", "__interrupt__"]), _plain)
            | st.tuples(st.just("messages"), st.lists(_messages, max_size=2)),
            max_size=3,
        ),
    )
    def write(self, data: Any, task: str, writes: list[tuple[str, Any]]) -> None:
        ns, name = data.draw(st.sampled_from(self.ids))
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ns, "checkpoint_id": name}}
        for saver in (self.ours, self.theirs):
            saver.put_writes(config, writes, task)

    @rule()
    def open_again(self) -> None:
        self.ours = LangGraphSaver(self.store)

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def look(self, data: Any) -> None:
        ns, name = data.draw(st.sampled_from(self.ids))
        exact: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ns, "checkpoint_id": name}}
        newest: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ns}}
        for config in (exact, newest):
            assert _told(self.ours.get_tuple(config)) == _told(self.theirs.get_tuple(config))

    @rule(limit=st.sampled_from([None, 1, 3]))
    def list_all(self, limit: int | None) -> None:
        ours, theirs = (
            [_told(one) for one in saver.list(THREAD, limit=limit)] for saver in (self.ours, self.theirs)
        )
        if limit is None:
            assert sorted(ours) == sorted(theirs)
        assert len(ours) == len(theirs)


def _told(found: Any) -> Any:
    """All that there is to know of a checkpoint, so that NaN equals NaN and the order of names does not matter."""
    if found is None:
        return None
    checkpoint = sorted(
        (name, value) for name, value in found.checkpoint.items() if name not in ("ts", "channel_values")
    )
    values = sorted(found.checkpoint["channel_values"].items(), key=lambda one: one[0])
    parent = found.parent_config and found.parent_config["configurable"]["checkpoint_id"]
    writes = [(task, channel, value) for task, channel, value in found.pending_writes or ()]
    return repr(
        (found.config["configurable"]["checkpoint_id"], checkpoint, values, found.metadata, parent, writes)
    )


TestSavers = Savers.TestCase
TestSavers.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
