"""A thread of LangGraph in a process of its own: ``python -m benchmarks.langgraph_child ours|sqlite JOB FOLDER``.

Answers a number. ``200`` and ``999``: seconds that so many checkpoints take, three a turn, of two messages of 400 characters a turn; ``first``: ms until a new process has the state then, without its imports.
"""

import sys
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from chatfold import sync
from chatfold.adapters.langgraph import LangGraphSaver

CONFIG: Any = {"configurable": {"thread_id": "thread"}}


def _opened(name: str, folder: Path) -> AbstractContextManager[Any]:
    @contextmanager
    def ours() -> Any:
        with sync.Store(folder / "chats") as store:
            yield LangGraphSaver(store)

    return ours() if name == "ours" else SqliteSaver.from_conn_string(str(folder / "graph.sqlite"))


def _answer(state: MessagesState) -> Any:
    return {"messages": [AIMessage(f"{len(state['messages'])} ".ljust(400, "x"))]}


def _graph(saver: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("answer", _answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


def run(name: str, job: str, folder: Path) -> float:
    if job == "first":
        began = perf_counter()
        with _opened(name, folder) as saver:
            assert len(_graph(saver).get_state(CONFIG).values["messages"]) == 666
            return 1000 * (perf_counter() - began)
    turns = int(job) // 3
    with _opened(name, folder) as saver:
        graph = _graph(saver)
        began = perf_counter()
        for turn in range(turns):
            graph.invoke({"messages": [HumanMessage(f"{turn} ".ljust(400, "y"))]}, CONFIG)
        return perf_counter() - began


if __name__ == "__main__":
    print(run(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
