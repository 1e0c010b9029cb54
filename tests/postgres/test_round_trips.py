"""How often the server is asked: what a user waits for is a number of round trips, whatever the distance."""

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'chatfold[postgres]'")

from chatfold.agent import Store, assistant, user
from chatfold.eventlog import Log
from chatfold.eventlog.postgres.server import Server
from chatfold.eventlog.postgres.storage import PostgresStorage
from chatfold.testing.strategies import LONG_TEXTS
from chatfold.testing.telling import said
from tests.support.postgres import shared_cluster


@pytest.fixture
def address() -> str:
    return shared_cluster().address()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions to all servers; a test clears it when it begins to count."""
    texts: list[str] = []
    ask = Server.rows

    async def rows(server: Server, text: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if "pg_notify" not in text:  # nobody waits for a hint
            texts.append(text)
        return await ask(server, text, values)

    monkeypatch.setattr(Server, "rows", rows)
    return texts


async def test_a_list_of_what_did_not_change_asks_for_the_mark_and_the_page(
    address: str, asked: list[str]
) -> None:
    async with Store(address) as store:
        for key in ("a", "b", "c"):
            await (await store.chat(key)).record(user(f"hello {key}"))
        first = [one async for one in store.chats()]
        asked.clear()
        assert [one async for one in store.chats()] == first
        assert len(asked) == 2
        await (await store.chat("b")).record(user("again"))
        asked.clear()
        changed = [one.outline.messages async for one in store.chats()]
        assert changed == [1, 2, 1]
        assert 2 < len(asked) <= 6  # the erasures, the head, what is new and the row of one chat
    assert [one.outline.title for one in first] == ["hello a", "hello b", "hello c"]


async def test_a_long_chat_is_opened_and_its_messages_are_there_after_three(
    address: str, asked: list[str]
) -> None:
    async with Store(address) as store:
        chat = await store.chat("long")
        for number in range(1_500):
            await chat.record(user(f"{number}"), assistant("so it is"))
        await chat.new_context("next")
        for number in range(50):
            await chat.record(user(f"question {number}"), assistant(f"answer {number}"))
    async with Store(address) as store:
        await store.chat("long")  # leaves a snapshot
    async with Store(address) as store:
        asked.clear()
        messages = await (await store.chat("long")).messages("openai")
        assert len(asked) <= 3
    assert [message["content"] for message in messages][-1] == "answer 49"
    assert len(messages) == 100


async def test_the_server_plans_an_append_once(address: str) -> None:
    async with Log(PostgresStorage(address)) as log:
        for number in range(20):
            await log.append("a", *(said(f"{number} {text}") for text in LONG_TEXTS), id=f"{number}")
        storage = log.storage
        assert isinstance(storage, PostgresStorage)
        wire = storage._writer._wire
        assert wire is not None
        plans = b"SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE 'WITH p AS%'"
        [answer] = await wire.run([(plans, ())])
        assert sum(generic for generic, _ in answer.rows()) == 20
        assert sum(custom for _, custom in answer.rows()) == 0
