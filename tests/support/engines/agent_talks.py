"""An agent at work, by either engine: scripts for its model, tools, and what replays say of the recording.

The tools are async and wait for nothing, so that calls which are made side by side come back in one order.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
from hypothesis import strategies as st

from tests.support.engines.old_engine import Engine
from tests.support.engines.one_engine import Work
from tests.support.engines.plain_values import plain

KEY = "desk"
_LONG = "what the file says, again and again. " * 30


class Line(NamedTuple):
    """What the model does when it is asked: says something, calls tools, or fails."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    fails: str = ""


Talk = list[tuple[str, list[Line]]]
"""Questions, and the lines that answer each."""

_PURE: tuple[tuple[str, Any], ...] = (
    ("read_file", {"path": "a.txt"}),
    ("read_file", {"path": "a.txt", "most": 7}),
    ("read_file", {"path": 3}),
    ("break_down", {"why": "no such order"}),
    ("not_there", None),
)
_OF_THE_CHAT: tuple[tuple[str, Any], ...] = (
    ("remember", {"text": "likes tea"}),
    ("throw_dice", {}),
    ("chat_send", {"text": "it is on its way"}),
    ("chat_context_new", {"title": "orders", "reason": "new topic"}),
    ("chat_context_list", {}),
    ("chat_context_load", {"query": "orders"}),
    ("chat_history_search", {"query": "tea"}),
)
_SAID = ("hello", "", "日本 \ud800", _LONG)
_FAILURES = ("busy", "busy", "prompt is too long: 9 tokens > 8 maximum", "no")
_QUESTIONS = ("where is it?", "and the other one?", _LONG, "日本語")


@st.composite
def _lines(draw: st.DrawFn) -> Line:
    """Of the calls that look at the chat or write to it, one at a time: side by side, it is chance which comes first."""
    text = draw(st.sampled_from(_SAID))
    match draw(st.integers(0, 7)):
        case 0:
            return Line(text)
        case 1:
            return Line(fails=draw(st.sampled_from(_FAILURES)))
        case 2 | 3 | 4:
            return Line(text, (draw(st.sampled_from(_OF_THE_CHAT)),))
    return Line(text, tuple(draw(st.lists(st.sampled_from(_PURE), min_size=1, max_size=3))))


@st.composite
def talks(draw: st.DrawFn) -> Talk:
    questions = draw(st.lists(st.sampled_from(_QUESTIONS), min_size=1, max_size=4))
    return [(question, draw(st.lists(_lines(), max_size=4))) for question in questions]


def _run_of(engine: Engine) -> Any:
    return engine.function(engine.agent, "current_run")()


def tools_of(engine: Engine) -> list[Any]:
    async def read_file(path: str, most: int = 5000) -> str:
        """The beginning of a file."""
        return _LONG[:most]

    async def break_down(why: str) -> str:
        raise ValueError(why)

    async def remember(text: str) -> dict[str, Any]:
        """Shows the model a text in every step."""
        return {"refused": await engine.module("agent.execution").inject_system_once(text, fingerprint=text)}

    async def throw_dice() -> int:
        number: int = await engine.function(_run_of(engine), "draw")("dice", lambda: 4)
        return number

    own = [engine.agent.tool(one) for one in (read_file, break_down, remember, throw_dice)]
    # Those of contexts say more now (issue 23): a request that offers them is another.
    chat = [one for one in engine.agent.CHAT_TOOLS if "context" not in one.name]
    return [*chat, *own]


def agent_of(engine: Engine, store: Any, script: list[Line], **changes: Any) -> Any:
    setup = {
        "model": engine.agent.ScriptedModel([_answer(engine, line, at) for at, line in enumerate(script)]),
        "tools": tools_of(engine),
        "store": store,
        "instructions": "Be short.",
        "policy": engine.agent.Policy(keep=2, budget=1500, above=6),
        "send": _send,
    }
    if engine.name == "old":
        agent = engine.agent.Agent(**setup | {"retries": 1} | changes)
        agent.pause = _pause
    else:
        agent = engine.agent.Agent(**setup | {"limits": engine.agent.Limits(retries=1)} | changes)
        agent.world.pause = _pause
    return agent


async def _send(_key: str, _id: str, _parts: object) -> None:
    """To nobody."""


async def _pause(_seconds: float) -> None:
    """For no time."""


def _answer(engine: Engine, line: Line, number: int) -> Any:
    agent = engine.agent
    if line.fails:
        return agent.ModelFailed(line.fails, again=line.fails == "busy")
    reply, wanted = engine.function(agent, "ModelReply"), engine.function(agent, "ToolCall")
    calls = tuple(wanted(f"c{number}-{at}", *call) for at, call in enumerate(line.calls))
    parts = (engine.eventlog.Text(line.text),) if line.text else ()
    return reply(parts, calls, {"input": 10 * number, "output": 3}, "tool_calls" if calls else "stop")


class _Stopped(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime(2026, 1, 2, 3, 4, tzinfo=tz or UTC)


@contextmanager
def _at_one_minute(engine: Engine) -> Iterator[None]:
    """An agent tells the model what time it is, to the minute; one may begin between the two engines."""
    with patch.object(engine.module("agent.runtime"), "datetime", _Stopped):
        yield


async def record(engine: Engine, root: Path, talk: Talk) -> list[Any]:
    """Has the talk recorded; the results."""
    async with Work(engine, root, **_how(talk)) as work:
        results = []
        for question, script in talk:
            work.time += 1000
            with work.outside(), _at_one_minute(engine):
                agent = agent_of(engine, work.store, [*script, Line("done")])
                asked = (KEY, question) if engine.name == "old" else (question,)
                results.append(await agent.run(*asked, **({} if engine.name == "old" else {"chat": KEY})))
        return [plain(result, root) for result in results]


def _how(talk: Talk) -> dict[str, Any]:
    """Results that come at the same time are written in one go or in two, by chance: what is durable when the second is written,
    and where a segment ends, then differs. So where there are such, nothing is synced, and there is one segment."""
    at_once = any(len(line.calls) > 1 for _, script in talk for line in script)
    return {"durability": "off", "segment_bytes": 1 << 23} if at_once else {}


async def judge(engine: Engine, root: Path, place: int) -> dict[str, Any]:
    """All that this engine's replays say of the recording in ``root``, and of one that somebody changed at ``place``."""
    async with engine.agent.Store(root, read_only=True) as store:
        chat = await store.chat(KEY)
        requests = engine.module("replay.judging.requests")
        rebuild = requests.sent if engine.name == "old" else requests.rebuild_request
        total = chat[engine.projections.usage].called
        found = {
            "verdict": await engine.replay.verdict(chat),
            "rehearsed": await engine.replay.rehearse(chat, _factory(engine)),
            "other agent": await engine.replay.rehearse(chat, _factory(engine, instructions="Be long.")),
            "without tools": await engine.replay.rehearse(chat, _factory(engine, tools=())),
            "sent": [await rebuild(chat, number) for number in range(1, total + 1)],
            "changed": await _judge_changed(engine, chat, place),
        }
        return {name: plain(one, root) for name, one in found.items()}


def _factory(engine: Engine, **changes: Any) -> Callable[[Any], Any]:
    return lambda store: agent_of(engine, store, [], **changes)


async def _judge_changed(engine: Engine, chat: Any, place: int) -> list[Any]:
    """The chat with one entry changed, by somebody who computed all sums anew."""
    entries = [entry async for entry in chat.entries()]
    spoken = [at for at, entry in enumerate(entries) if hasattr(entry.event, "parts")]
    at = spoken[place % len(spoken)]
    parts = (engine.eventlog.Text("not what was said"),)
    entries[at] = msgspec.structs.replace(
        entries[at], event=msgspec.structs.replace(entries[at].event, parts=parts)
    )
    async with engine.agent.Store.memory() as store:
        while entries:
            size = int((entries[0].batch or "1/1").partition("/")[2])
            batch, entries = entries[:size], entries[size:]
            keys = {} if engine.name == "old" else {"keys": [one.key for one in batch]}
            await store.log.append(
                KEY, *(one.event for one in batch), id=batch[0].id, run=batch[0].run, **keys
            )
        other = await store.chat(KEY)
        return [await engine.replay.verdict(other), await engine.replay.rehearse(other, _factory(engine))]
