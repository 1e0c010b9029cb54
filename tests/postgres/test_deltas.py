"""The pieces of a coming answer reach other processes, and nothing of them stays."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'chatfold[postgres]'")

from chatfold import Agent, Store
from chatfold.agent.models import Piece
from chatfold.eventlog import Log, Noted
from chatfold.eventlog.postgres.storage import PostgresStorage
from tests.support.postgres import shared_cluster
from tests.support.slow_model import SlowModel


@pytest.fixture
def address() -> str:
    return shared_cluster().address()


def rows_left(address: str) -> int:
    schema = address.partition("schema=")[2]
    [(count,)] = shared_cluster().execute(
        f"SELECT (SELECT count(*) FROM {schema}.answer) + (SELECT count(*) FROM {schema}.piece)"
    )
    return int(str(count))


async def first_of(storage: PostgresStorage, chat: str) -> tuple[AsyncGenerator[bytes], bytes]:
    """A follower, and the first piece that it gets, when there is one."""
    async with asyncio.timeout(10):
        while True:
            follower = storage.follow_deltas(chat)
            if piece := await anext(follower, None):
                return follower, piece
            await asyncio.sleep(0.01)


async def pass_answer(address: str) -> None:
    """In some other chat, until it has reached another process."""
    async with PostgresStorage(address) as one, PostgresStorage(address) as other:
        await one.pass_delta("some other", b"piece")
        follower, _ = await first_of(other, "some other")
        await one.end_deltas("some other")
        assert await anext(follower, None) is None


async def test_another_storage_gets_each_piece_from_the_first_on(address: str) -> None:
    pieces = [b"", b"\0\xff"] + [f"piece {number}".encode() * (number % 7) for number in range(3000)]
    async with PostgresStorage(address) as one, PostgresStorage(address) as other:
        await one.pass_delta("a", b"The")
        early, piece = await first_of(other, "a")
        assert piece == b"The"
        for number, some in enumerate(pieces):
            await one.pass_delta("a", some)
            if number % 100 == 0:
                await asyncio.sleep(0.001)
        late = other.follow_deltas("a")
        async with asyncio.timeout(10):
            assert [await anext(early) for _ in pieces] == pieces
            assert [await anext(late) for _ in range(len(pieces) + 1)] == [b"The", *pieces]
            ends = asyncio.gather(anext(early, None), anext(late, None))
            await one.end_deltas("a")
            assert {*await ends} == {None}
        assert [piece async for piece in other.follow_deltas("a")] == []
    assert rows_left(address) == 0


async def test_a_piece_arrives_long_before_the_next_look(address: str) -> None:
    async with PostgresStorage(address) as one, PostgresStorage(address) as other:
        await one.pass_delta("a", b"0")
        follower, _ = await first_of(other, "a")
        loop, took = asyncio.get_running_loop(), []
        for number in range(1, 21):
            coming = asyncio.ensure_future(anext(follower))
            await asyncio.sleep(0.02)
            began = loop.time()
            await one.pass_delta("a", b"%d" % number)
            assert await coming == b"%d" % number
            took.append(loop.time() - began)
        assert sorted(took)[10] < 0.5  # a hint that never comes costs a second


async def test_pieces_are_in_no_chat_and_wake_no_follower_of_chats(address: str) -> None:
    async with PostgresStorage(address) as one, Log(PostgresStorage(address)) as other:
        await other.append("a", Noted("one"))
        await one.pass_delta("b", b"The")
        assert [key async for key in other.chats()] == ["a"]
        async with aclosing(other.follow_chats()) as changes:
            assert (await anext(changes)).key == "a"
            waiting = asyncio.ensure_future(anext(changes))
            await one.pass_delta("b", b" answer")
            assert not (await asyncio.wait([waiting], timeout=0.2))[0]
            await other.append("a", Noted("two"))
            assert (await waiting).key == "a"


async def test_answers_of_several_chats_and_the_next_of_one_are_kept_apart(address: str) -> None:
    async with PostgresStorage(address) as one, PostgresStorage(address) as other:
        for chat in ("a", "b", "a\0", "é"):
            for turn in range(2):
                text = f"{chat} {turn}".encode()
                await one.pass_delta(chat, text)
                follower, piece = await first_of(other, chat)
                assert piece == text
                await one.end_deltas(chat)
                assert await anext(follower, None) is None
    assert rows_left(address) == 0


async def test_a_chat_is_followed_with_the_pieces_of_an_agent_elsewhere(address: str) -> None:
    model = SlowModel(["Because ", "of it."])
    async with Agent(model, store=address) as agent, Store(address) as store:
        chat = await store.chat("a")
        async with asyncio.timeout(20), aclosing(chat.follow(pieces=True)) as following:
            await agent.submit("Why?", chat="a")
            seen: list[str] = []
            while (one := await anext(following)) and "of it." not in seen:
                seen.append(one.text if isinstance(one, Piece) else type(one.event).__name__)
                if seen[-1] in ("ModelCalled", *model.words):
                    model.go_on.release()
            assert seen[-3:] == ["ModelCalled", "Because ", "of it."]
    assert rows_left(address) == 0


async def test_a_storage_that_is_closed_ends_its_answers(address: str) -> None:
    async with PostgresStorage(address) as other:
        async with PostgresStorage(address) as one:
            await one.pass_delta("a", b"The")
            follower, _ = await first_of(other, "a")
        assert await anext(follower, None) is None
    assert rows_left(address) == 0


async def test_the_answer_of_a_killed_process_ends_and_is_removed(address: str) -> None:
    pid = os.fork()
    if not pid:

        async def run() -> None:
            async with PostgresStorage(address, lease_seconds=1) as storage:
                await storage.pass_delta("a", b"secret")
                await asyncio.sleep(60)

        asyncio.run(run())
        os._exit(1)
    try:
        async with PostgresStorage(address, lease_seconds=1) as other:
            follower, piece = await first_of(other, "a")
            assert piece == b"secret"
            os.kill(pid, signal.SIGKILL)
            async with asyncio.timeout(10):
                assert [piece async for piece in follower] == []
            assert rows_left(address) == 2
            await pass_answer(address)
    finally:
        await asyncio.to_thread(os.waitpid, pid, 0)
    assert rows_left(address) == 0


async def test_a_process_that_stood_still_passes_its_answer_from_the_start(address: str) -> None:
    """The others thought it dead, and removed what was there."""
    async with PostgresStorage(address, lease_seconds=0.3) as one, PostgresStorage(address) as other:
        await one.pass_delta("a", b"The")
        follower, _ = await first_of(other, "a")
        time.sleep(0.5)  # noqa: ASYNC251 (that is what is tested)
        await pass_answer(address)
        await one.pass_delta("a", b" answer")
        async with asyncio.timeout(10):
            again, piece = await first_of(other, "a")
            assert [piece, await anext(again)] == [b"The", b" answer"]
        await follower.aclose()


async def test_a_deleted_chat_leaves_no_piece_of_a_killed_process(address: str) -> None:
    schema = address.partition("schema=")[2]
    async with Log(PostgresStorage(address)) as log:
        await log.append("a", Noted("one"))
        shared_cluster().execute(
            f"INSERT INTO {schema}.answer VALUES ('a', 1, now() + interval '1 hour');"
            f"INSERT INTO {schema}.piece VALUES (1, 1, 'secret')"
        )
        await log.delete("a")
    assert rows_left(address) == 0
