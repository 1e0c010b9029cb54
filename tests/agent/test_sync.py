"""Without ``await``: the same names, from any thread, and a stub that says what there is."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import chatfold
from chatfold import ChatfoldError, InvalidEvent, NoSuchContext, ScriptedModel, events, sync
from chatfold.bridge import InLoop
from chatfold.projections import outline
from tests.support.sync_stub import is_current


def test_the_stub_is_not_stale() -> None:
    assert is_current(), "run python -m tests.support.sync_stub"


def test_a_chat_is_kept_and_read_without_await(tmp_path: Path) -> None:
    with sync.Store(tmp_path) as store:
        chat = store.chat("a")
        assert chat.user("hi", id="tg-1").seq == chat.user("hi", id="tg-1").seq == 1
        call = chat.tool_call("read", {"path": "a.py"})
        chat.record(call.result("text"), chatfold.assistant("done"))
        assert chat.seq == 4
        assert [message["role"] for message in chat.messages("openai")] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        assert chat[outline].title == "hi"
        assert repr(chat) == "sync.Chat('a', at entry 4)"
        assert [entry.seq for entry in chat.entries()] == [1, 2, 3, 4]
    with sync.Store(tmp_path) as store:
        assert [row.key for row in store.chats()] == ["a"]


def test_what_a_verb_gives_is_without_await_too() -> None:
    with sync.Store.memory() as store:
        chat = store.chat("a")
        chat.user("hi")
        chat.new_context("docs")
        then, fork = chat.at(1), chat.fork("b")
        assert (type(then), type(fork)) == (sync.Moment, sync.Chat)
        assert len(then.messages()) == 1
        fork.user("elsewhere")
        assert (chat.seq, fork.seq) == (2, 4)
        assert store.import_chat(fork, "c").seq == 4  # a proxy is taken where the object is
        with pytest.raises(NoSuchContext, match=r"chat\.contexts\(\)"):
            chat.load_context("nothing like it")
        with pytest.raises(InvalidEvent):
            chat.user("")


def test_a_decision_reads_what_is_in_memory_and_is_told_that_it_cannot_wait() -> None:
    chat = sync.Store.memory().chat("a")
    [entry] = chat.append_if(lambda now: [events.Noted("seen", now.seq)])
    assert entry.event == events.Noted("seen", 0)
    with pytest.raises(InLoop, match="it was called on the event loop"):
        chat.append_if(lambda now: [events.Noted(str(now.messages()))])


def test_followers_are_iterators_that_can_be_left() -> None:
    chat = sync.Store.memory().chat("a")
    chat.user("one")
    following = chat.follow()
    assert next(following).seq == 1
    threading.Timer(0.05, chat.user, ["two"]).start()
    assert next(following).seq == 2
    following.close()
    assert next(chat.moments()).messages()[0].role == "user"


def test_many_threads_share_a_chat(tmp_path: Path) -> None:
    with sync.Store(tmp_path, durability="off") as store, ThreadPoolExecutor(8) as threads:
        chat = store.chat("a")
        seqs = [entry.seq for entry in threads.map(lambda number: chat.user(f"message {number}"), range(200))]
        assert sorted(seqs) == [*range(1, 201)]
        assert len({message.parts for message in chat.messages()}) == 200


def test_an_agent_answers_in_the_current_conversation(tmp_path: Path) -> None:
    path = tmp_path / "chats" / "task-001.jsonl"
    with sync.Agent(model=ScriptedModel(["Hello.", "Well."])) as agent:
        agent.new_conversation(path)
        assert agent.run("hello").text == "Hello."
    with sync.Agent(model=ScriptedModel(["Well."])) as agent:
        assert agent.load_conversation(path).seq > 2
        fork = agent.fork_conversation(path.with_name("task-001-retry.jsonl"))
        assert agent.run("and?").text == "Well."
        assert fork.messages()[-1].role == "assistant"


async def test_a_program_with_a_loop_of_its_own_may_call_it() -> None:
    assert sync.Store.memory().chat("a").user("hi").seq == 1  # as a notebook does


def test_what_was_asked_for_is_cancelled_by_ctrl_c() -> None:
    chat = sync.Store.memory().chat("a")
    main = threading.get_ident()

    def interrupt() -> None:
        time.sleep(0.1)
        import signal

        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        next(chat.follow())
    assert chat.user("hi").seq == 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_begins_anew(tmp_path: Path) -> None:
    sync.Store.memory().chat("a").user("hi")
    if not (child := os.fork()):
        try:
            with sync.Store(tmp_path) as store:
                store.chat("a").user("from the child")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert sync.Store(tmp_path).chat("a").seq == 1


def test_errors_are_those_of_chatfold() -> None:
    with sync.Store.memory() as store, pytest.raises(ChatfoldError):
        store.chat("").user("hi")
    with pytest.raises(AttributeError, match="nonsense"):
        sync.Store.memory().nonsense  # type: ignore[attr-defined]  # noqa: B018
