"""A key that a provider or a transport echoes is in no byte of the store."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chatfold.agent import Agent, ModelFailed, ModelReply, ScriptedModel, ToolCall
from chatfold.agent.models import Piece

KEY = "sk-proj-4f9aQz81LmNpXw27RtYv"


class Echoing(ScriptedModel):
    def __init__(self, script: Any, settings: dict[str, Any]) -> None:
        super().__init__(script)
        self.payload_settings = settings

    async def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
        async for one in super().ask(payload):
            yield one


FAILURES = (
    ModelFailed(f"AuthenticationError: Incorrect API key provided: {KEY}"),
    ModelFailed(f"ConnectError: https://user:{KEY}@api.example/v1", again=True, after=0.0),
    ModelFailed(f"request was {{'Authorization': 'Bearer {KEY}'}}", again=True, after=0.0),
    ModelFailed(f"prompt is too long; api_key={KEY}"),
    RuntimeError(f"x-api-key: {KEY}"),
)
SETTINGS = (
    {"extra_headers": {"X-Guard": KEY}},
    {"extra_query": {"k": KEY}},
    {"extra_body": {"guard": {"api_key": KEY}}},
    {"extra_body": {"guard": KEY}},
    {"user": "me", "metadata": {"token": KEY}},
)


def all_bytes(place: Path) -> bytes:
    return b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())


@pytest.mark.parametrize("failure", FAILURES, ids=range(len(FAILURES)))
@pytest.mark.parametrize("settings", SETTINGS, ids=range(len(SETTINGS)))
async def test_a_key_is_in_no_byte_of_the_store(
    tmp_path: Path, failure: Exception, settings: dict[str, Any]
) -> None:
    model = Echoing([failure] * 9, settings)
    async with Agent(model, store=tmp_path) as agent:
        with suppress(RuntimeError):  # a bug, which is the caller's to see
            await agent.run("hi", chat="a")
    assert KEY.encode() not in all_bytes(tmp_path)


async def test_settings_without_a_key_are_kept_so_that_requests_can_be_proved(tmp_path: Path) -> None:
    model = Echoing([ModelReply(calls=(ToolCall("c", "x"),)), "done"], {"extra_body": {"top_k": 20}})
    async with Agent(model, store=tmp_path) as agent:
        await agent.run("hi", chat="a")
    assert b'"top_k":20' in all_bytes(tmp_path)
