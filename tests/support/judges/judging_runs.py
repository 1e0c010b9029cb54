"""What must be true of a run that was killed, as it is left, and when somebody has gone on with it."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from chatfold.agent import Agent, Chat, Result, Store
from chatfold.agent.models import Request, ToolSpec, fingerprint
from chatfold.agent.tools.sending import UNKNOWN
from chatfold.eventlog import (
    Compacted,
    ContextOpened,
    Data,
    Entry,
    FileStorage,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Part,
    RunFinished,
    RunStarted,
    SendConfirmed,
    ToolCalled,
    ToolReturned,
    check,
)
from chatfold.projections import executions, sends, turn
from chatfold.projections.labels import INTERRUPTED
from chatfold.projections.text import text_of
from tests.support.judges.talk import is_clean
from tests.support.oracles.rules import check_anthropic, check_openai_chat
from tests.support.processes.killed_runs import (
    AGAIN,
    CHAT,
    FIRST,
    LATE,
    MEMO,
    SCRIPT,
    SECOND,
    STEPS,
    TALK,
    World,
    in_database,
)

_VARIES = re.compile(r"run_[0-9a-f]{16}|ctx_[0-9a-f]{16}|\d{4}-\d\d-\d\d \d\d:\d\d")
CALLS = {f"s{step}-{name}": name for step, made in SCRIPT.items() for name, _ in made}


async def entries_of(chat: Chat) -> list[Entry]:
    """Those of the run, and what was said meanwhile."""
    return [entry async for entry in chat.entries(TALK + 1)]


async def prompt_is_valid(chat: Chat) -> None:
    """For a provider of either shape."""
    check_openai_chat(await chat.messages("openai"))
    check_anthropic(await chat.messages("anthropic"))


async def judge_left(folder: Path) -> list[Entry]:
    """As the kill left it, to somebody who only looks. The entries that are there."""
    is_files = (folder / "root").exists()
    assert not is_files or check(folder / "root" / "chats" / CHAT).ok
    reader = FileStorage(folder / "root", read_only=True) if is_files else in_database(folder, read_only=True)
    async with Store(reader) as store:
        chat = await store.chat(CHAT)
        await prompt_is_valid(chat)
        entries = await entries_of(chat)
        _calls_come_before_deeds(entries, World(folder))
        return entries


def _calls_come_before_deeds(entries: Sequence[Entry], world: World) -> None:
    """Whatever was done, and whatever went out, the log knows of it: of the call, and of what came of earlier ones."""
    called = {entry.event.call for entry in entries if isinstance(entry.event, ToolCalled)}
    assert set(world.lines("deeds")) <= called
    assert {line.split()[1] for line in world.lines("outbox")} <= called
    if world.lines("deeds"):
        step = max(int(call[1]) for call in world.lines("deeds"))
        earlier = {call for call in CALLS if int(call[1]) < step}
        returned = {entry.event.call for entry in entries if isinstance(entry.event, ToolReturned)}
        assert earlier <= returned


# --- going on ----------------------------------------------------------------------------------------------------


class Ending(NamedTuple):
    """How a run ended: what the calls gave, by their ids; the last words; what the model would see next."""

    results: dict[str, str]
    words: str
    prompt: list[Any]


async def revive(agent: Agent, left: Sequence[Entry]) -> Result:
    """Goes on with what a kill has ``left``, and then meets a platform that delivers once more what was not answered."""
    resumed = await agent.resume(CHAT)
    is_new = not any(entry.id == FIRST.id for entry in left)
    is_over = any(isinstance(entry.event, RunFinished) for entry in left)
    assert (resumed is None) == (is_new or is_over)
    result = await agent.run(FIRST.text, chat=CHAT, id=FIRST.id)
    assert resumed in (None, result)
    await agent.wait_idle()
    end = (await agent.store.chat(CHAT)).seq
    assert await agent.resume(CHAT) is None
    assert await agent.resume_all() == []
    assert (await agent.store.chat(CHAT)).seq == end
    return result


async def judge(agent: Agent, world: World, result: Result, known: Ending | None) -> Ending:
    """``known``: how the same run ends that nobody kills."""
    chat = await agent.store.chat(CHAT)
    entries = await entries_of(chat)
    ending = await _ending(chat, entries)
    await _one_run(chat, entries, result)
    _every_message_answered(entries, ending)
    _nothing_done_twice(world, ending, known or ending)
    _sent_once(chat, entries, world, ending)
    await requests_are_proved(agent, chat, entries)
    await prompt_is_valid(chat)
    assert sum(isinstance(entry.event, Compacted) for entry in entries) >= 1
    if any(isinstance(entry.event, ContextOpened) for entry in entries):
        assert sum(MEMO in str(message) for message in ending.prompt) == 1
        if known is not None:
            assert ending.prompt == known.prompt
    assert ending.words == (known or ending).words
    return ending


def judge_closed(folder: Path) -> None:
    assert not (folder / "root").exists() or is_clean(folder / "root" / "chats" / CHAT)


def _value(parts: Sequence[Part]) -> str:
    found = str([part.data if isinstance(part, Data) else text_of((part,)) for part in parts])
    return _VARIES.sub("…", found)


async def _ending(chat: Chat, entries: Sequence[Entry]) -> Ending:
    returned = [entry.event for entry in entries if isinstance(entry.event, ToolReturned)]
    assert Counter(event.call for event in returned) == Counter(CALLS.keys())
    words = [
        text_of(entry.event.parts)
        for entry in entries
        if isinstance(entry.event, MessageAdded) and entry.event.role == "assistant" and entry.run
    ]
    assert len(set(words)) == len(words)
    prompt = [
        (message["role"], message.get("tool_call_id") or _VARIES.sub("…", str(message)))
        for message in await chat.messages("openai")
        if message.get("content") not in words[:-1]
    ]
    return Ending({event.call: _value(event.parts) for event in returned}, words[-1], prompt)


async def _one_run(chat: Chat, entries: Sequence[Entry], result: Result) -> None:
    """Begun once, ended once, well, and within its steps, however often it was killed."""
    events = [entry.event for entry in entries]
    assert Counter(event.call for event in events if isinstance(event, ToolCalled)) == Counter(CALLS.keys())
    assert sum(isinstance(event, RunStarted) for event in events) == 1
    assert [event.outcome for event in events if isinstance(event, RunFinished)] == ["done"]
    assert isinstance(events[-1], RunFinished)
    assert sum(isinstance(event, ModelReturned) and not event.error for event in events) <= STEPS
    [row] = await chat.runs()
    assert (row.request_id, row.outcome) == (result.run, "done")
    assert (result.outcome, result.error, len(result.tool_calls)) == ("done", "", len(CALLS))
    assert {entry.run for entry in entries} == {None, result.run}
    assert not chat[executions].running
    assert not chat[turn].is_waiting


def _every_message_answered(entries: Sequence[Entry], ending: Ending) -> None:
    ids = [entry.id for entry in entries if entry.id and entry.id.startswith("tg-")]
    assert ids == [FIRST.id, SECOND.id, LATE.id]
    assert all(said.text in ending.words for said in (FIRST, SECOND, LATE))


def _nothing_done_twice(world: World, ending: Ending, known: Ending) -> None:
    """Unless its tool says so; and what has a result was done."""
    done = Counter(world.lines("deeds"))
    for call, name in CALLS.items():
        if name.startswith("chat_"):
            continue
        result = ending.results[call]
        if name in AGAIN:
            assert result == known.results[call]
            assert done[call] >= 1
        else:
            assert result in (known.results[call], str([INTERRUPTED]))
            assert done[call] == 1 or (done[call] == 0 and result == str([INTERRUPTED]))
    assert ending.results["s5-chat_context_new"] in (known.results["s5-chat_context_new"], str([INTERRUPTED]))


def _sent_once(chat: Chat, entries: Sequence[Entry], world: World, ending: Ending) -> None:
    """What is confirmed went out, what nobody knows of is told as such, and nothing went out twice."""
    confirmed = any(isinstance(entry.event, SendConfirmed) for entry in entries)
    assert len(world.lines("outbox")) <= 1
    if confirmed:
        assert len(world.lines("outbox")) == 1
    assert [*chat[sends].open] == ([] if confirmed else ["s3-chat_send"])
    expected = {"success": True} if confirmed else {"success": False, "error": UNKNOWN}
    assert ending.results["s3-chat_send"] == str([expected])


async def requests_are_proved(agent: Agent, chat: Chat, entries: Sequence[Entry]) -> None:
    """What any model was ever sent is what the log says now, by its fingerprint."""
    kept: dict[str, Any] = {entry.key: getattr(entry.event, "data", None) for entry in entries if entry.key}
    for entry in entries:
        if isinstance(entry.event, ModelCalled):
            params = entry.event.params
            messages = await (await chat.at(entry.seq - 1)).messages()
            offered = msgspec.convert(kept[f"tools:{params['tools']}"], tuple[ToolSpec, ...])
            request = Request(kept[f"system:{params['system']}"], messages, offered)
            assert fingerprint(agent.model.payload(request)) == entry.event.request
