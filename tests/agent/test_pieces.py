"""An answer can be followed while it is coming, in this process and in others; when it stands, its pieces are gone."""

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from chatfold import Agent, Entry, ModelReply, ScriptedModel, Store, assistant, events, user
from chatfold.agent.models import Piece
from chatfold.eventlog import MemoryStorage, Storage
from tests.support.processes.children import started
from tests.support.slow_model import SlowModel

WORDS = ["Because ", "of ", "split(). ", "\ud83d", "It is fixed."]


@pytest.fixture(params=["files", "memory"])
def two_stores(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], tuple[Store, Store]]:
    """Of one place: those of files know nothing of each other, as if they were in two processes."""

    def make() -> tuple[Store, Store]:
        storage: Storage = MemoryStorage()
        return (
            (Store(tmp_path), Store(tmp_path))
            if request.param == "files"
            else (Store(storage), Store(storage))
        )

    return make


def described(one: Entry | Piece) -> str:
    return one.text if isinstance(one, Piece) else type(one.event).__name__


async def wait_for_pieces(store: Store, chat: str) -> None:
    async with asyncio.timeout(20):
        while chat not in store.log.storage._answers:  # noqa: ASYNC110 (nothing tells us)
            await asyncio.sleep(0.005)


async def next_of(following: AsyncGenerator[Entry | Piece], count: int = 1) -> list[str]:
    async with asyncio.timeout(20):
        return [described(await anext(following)) for _ in range(count)]


async def test_another_store_gets_the_entries_and_between_them_the_pieces(
    two_stores: Callable[[], tuple[Store, Store]],
) -> None:
    here, there = two_stores()
    model = SlowModel(WORDS)
    async with here, there, Agent(model, store=here) as agent:
        chat = await there.chat("a")
        async with aclosing(chat.follow(pieces=True)) as following:
            await agent.submit("Why?", chat="a")
            assert (await next_of(following, 6))[-1] == "ModelCalled"
            for word in WORDS[:2]:
                model.go_on.release()
                assert await next_of(following) == [word]
            await chat.record(events.Noted("in between"))
            assert await next_of(following) == ["Noted"]
            async with aclosing(
                chat.follow(chat.seq, pieces=True)
            ) as late:  # one who comes later misses nothing
                for word in WORDS[2:]:
                    model.go_on.release()
                    assert await next_of(following) == [word]
                assert await next_of(late, 5) == WORDS
                model.go_on.release()
                assert await next_of(late, 2) == ["ModelReturned", "MessageAdded"]
            assert await next_of(following, 2) == ["ModelReturned", "MessageAdded"]
        await agent.wait_idle()
        assert [piece async for piece in there.log.storage.follow_deltas("a")] == []


async def test_who_reads_an_old_answer_is_given_no_piece_of_the_one_that_is_coming() -> None:
    store = Store.memory()
    await Agent(ScriptedModel(["one"]), store=store).run("first?", chat="a")
    model = SlowModel(["two"])
    async with Agent(model, store=store) as agent:
        await agent.submit("second?", chat="a")
        model.go_on.release()
        await wait_for_pieces(store, "a")
        chat = await store.chat("a")
        async with aclosing(chat.follow(pieces=True)) as following:
            seen = await next_of(following, chat.seq + 1)
            assert (seen.count("ModelCalled"), seen[-1]) == (2, "two")
            assert "two" not in seen[:-1]
        model.go_on.release()


async def test_a_refused_or_interrupted_answer_leaves_no_pieces() -> None:
    class Failing(SlowModel):
        async def ask(self, _payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
            yield Piece("half")
            raise ZeroDivisionError

    store = Store.memory()
    with pytest.raises(ZeroDivisionError):
        await Agent(Failing([]), store=store).run("now?", chat="a")
    assert store.log.storage._answers == {}
    model = SlowModel(["one"])
    agent = Agent(model, store=store)
    run = asyncio.ensure_future(agent.run("and now?", chat="b"))
    model.go_on.release()
    await wait_for_pieces(store, "b")
    run.cancel()
    await asyncio.wait((run,))
    assert store.log.storage._answers == {}


async def test_another_process_is_followed_until_it_is_killed(tmp_path: Path) -> None:
    async with Store(tmp_path) as store:
        chat = await store.chat("a")
        await chat.record(user("Why?"), assistant("Wait."), user("So?"))
        async with aclosing(chat.follow(chat.seq, pieces=True)) as following:
            with started("answering_slowly", tmp_path, "a") as child:
                seen: list[str] = []
                while len(seen) < 40:
                    seen += await next_of(following)
                words = [word for word in seen if word.startswith("word")]
                assert words == [f"word {number} " for number in range(len(words))]
                assert len(words) > 20
                assert (tmp_path / "chats" / "a" / "cache" / "answer").is_file()
                child.send_signal(signal.SIGKILL)
                child.wait()
            assert [piece async for piece in store.log.storage.follow_deltas("a")] == []
            await chat.record(events.Noted("later"))
            rest = ["word"]
            while rest[-1].startswith("word"):
                rest += await next_of(following)
            assert rest[-1] == "Noted"
        async with Agent(ScriptedModel(["Because."]), store=store) as agent:
            assert (result := await agent.resume("a")) is not None
            assert result.text == "Because."
