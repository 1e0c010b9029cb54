"""A tool's output is recorded whole. A model is shown the beginning and the end of what is long, and told how to see the rest."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Chat, Store
from chatfold.agent.limits import Limits
from chatfold.agent.models import ScriptedModel
from chatfold.agent.tools import tool
from chatfold.eventlog import Data, File, Part, Text, ToolReturned
from chatfold.projections.labels import SHOWN, shorten_result
from chatfold.projections.shapes.values import result_text
from tests.support.acting import are_proved
from tests.support.agent_runs import agent, events, ran, returned, step
from tests.support.chats import a_store  # noqa: F401

LONG = "".join(f"{number:06}\n" for number in range(1000))
READ = 9  # the entry of its result
LIMITS = Limits(tool_output=1000)
GAP = re.compile(
    r"\n… (\d+) of (\d+) characters left out; chat_tool_output\(entry=(\d+), offset=(\d+)\) shows them …\n"
)


@tool
async def read() -> str:
    """A long file."""
    return LONG


async def reading(store: Store, *later: tuple[str, Any], **more: Any) -> tuple[Chat, ScriptedModel]:
    return await ran(
        store, [read], step(("read", {})), *(step(call, ids=["x"]) for call in later), limits=LIMITS, **more
    )


def offered(payload: dict[str, Any]) -> list[str]:
    return [one["name"] for one in payload["tools"]]


async def test_the_log_has_all_of_it_and_the_model_the_beginning_the_end_and_the_place(store: Store) -> None:
    chat, model = await reading(store)
    [result] = await events(chat, ToolReturned)
    assert (result.parts, result.meta) == ((Text(LONG),), {SHOWN: 1000})
    [shown] = [m["results"][0]["parts"][0]["text"] for m in model.payloads[1]["messages"] if m["results"]]
    [found] = GAP.finditer(shown)
    assert (shown[: found.start()], shown[found.end() :]) == (LONG[:500], LONG[-500:])
    [seq] = [entry.seq async for entry in chat.entries() if entry.event == result]
    assert found.groups() == (str(len(LONG) - 1000), str(len(LONG)), str(seq), "500")
    assert await are_proved(chat, model)


async def test_every_shape_shortens_it_and_people_see_all(store: Store) -> None:
    chat, _ = await reading(store)
    for shape in ("neutral", "openai", "openai-responses", "anthropic"):
        told = str(await chat.messages(shape))
        assert ("000500" in told, "000001" in told, "000999" in told) == (False, True, True)
    assert "000500" in str(await chat.messages("ui"))


async def test_the_tool_that_shows_the_rest_is_there_as_soon_as_something_is_left_out(store: Store) -> None:
    chat, model = await reading(store, ("chat_tool_output", {"entry": READ, "offset": 500, "max_chars": 700}))
    assert [offered(payload) for payload in model.payloads] == [
        ["read"],
        *([["read", "chat_tool_output"]] * 2),
    ]
    assert (await returned(chat))[1] == f"[characters 500 to 1200 of {len(LONG)}]\n{LONG[500:1200]}"
    assert await are_proved(chat, model)


async def test_a_tool_of_ones_own_of_that_name_stays(store: Store) -> None:
    @tool
    async def chat_tool_output(entry: int, offset: int) -> str:
        """Mine."""
        return f"mine {entry} {offset}"

    call = step(("chat_tool_output", {"entry": READ, "offset": 1}), ids=["x"])
    chat, _ = await ran(store, [read, chat_tool_output], step(("read", {})), call, limits=LIMITS)
    assert (await returned(chat))[1] == f"mine {READ} 1"


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        ({"entry": READ, "find": "000500"}, LONG[3500:4500]),
        ({"entry": READ, "find": "000500", "offset": 3501}, "'000500' is not in 3501 … 7000"),
        ({"entry": READ, "offset": 7000}, "there are no characters in 7000 … 7000"),
        ({"entry": 1}, "entry 1 is no result of a tool"),
        ({"entry": 999}, "entry 999 is no result of a tool"),
    ],
)
async def test_it_finds_a_place_and_says_what_there_is_not(store: Store, args: Any, answer: str) -> None:
    chat, _ = await reading(store, ("chat_tool_output", args))
    last = (await returned(chat))[1]
    assert (last["error"] if isinstance(last, dict) else last.partition("\n")[2]) == answer


async def test_what_it_shows_is_not_shortened_again(store: Store) -> None:
    whole = ("chat_tool_output", {"entry": READ, "max_chars": 50_000})
    chat, _ = await reading(store, whole)
    [_, shown] = await events(chat, ToolReturned)
    assert shown.meta == {}
    assert result_text(shown.parts).partition("\n")[2] == LONG[:1000]


async def test_a_call_of_it_that_a_crash_left_open_is_made_again(store: Store) -> None:
    chat, _ = await reading(store)
    await chat.user("and the rest?")
    first, model = agent(
        store, [step(("chat_tool_output", {"entry": READ, "offset": 6990}), ids=["x"]), "done"], [read]
    )
    await first.resume("chat")
    assert (await returned(chat))[-1].endswith(LONG[6990:])
    assert len(model.payloads) == 2


def sizes(store: Path, files: str) -> list[int]:
    return [path.stat().st_size for path in store.glob(f"chats/*/{files}")]


async def test_what_is_very_large_is_kept_beside_the_lines(tmp_path: Path) -> None:
    text = "x" * (3 << 20) + "the end"

    @tool
    async def flood() -> str:
        """A lot."""
        return text

    async with Store(tmp_path) as store:
        await ran(store, [flood], step(("flood", {})))
    assert sizes(tmp_path, "blobs/*") == [len(text)]
    assert max(sizes(tmp_path, "*.jsonl")) < 1 << 20
    async with Store(tmp_path) as store:
        chat = await store.chat("chat")
        assert await returned(chat) == [text]
        assert len(str(await chat.messages("openai"))) < 60_000


PARTS = st.lists(
    st.one_of(
        st.text(max_size=900).map(Text),
        st.text(max_size=900).map(lambda text: Data("json", {"text": text})),
        st.just(File("image/png", b"x")),
    ),
    max_size=4,
).map(tuple)


@given(PARTS, st.integers(1, 300))
def test_what_is_shown_and_what_is_left_out_are_the_whole(parts: tuple[Part, ...], most: int) -> None:
    shown = shorten_result(ToolReturned("c", parts, meta={SHOWN: most}), 7)
    whole = result_text(parts)
    assert len(shown) == len(parts)
    for part, now in zip(parts, shown, strict=True):
        text = result_text((part,))
        if now is part:
            assert isinstance(part, File) or len(text) <= most + 200
            continue
        assert isinstance(now, Text)
        found = next(GAP.finditer(now.text))
        left, offset = int(found[1]), int(found[4])
        begin, end = now.text[: found.start()], now.text[found.end() :]
        assert begin + whole[offset : offset + left] + end == text
