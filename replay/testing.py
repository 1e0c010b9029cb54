"""For your own test suite: does the agent, as it is today, still do what was recorded?

    from chatfold.replay.testing import assert_replays

    def test_the_refund_still_goes_as_it_went():
        assert_replays("tests/recordings/refund.jsonl", build)      # def build(store) -> Agent

A recording is an export, a chat's folder, a store's folder (all its chats), or ``(folder, key)``. No model is asked, no tool is
called, nothing is written; see ``rehearsal``. It fails with the first divergence: where, which field, both values.
"""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeAlias

from chatfold.agent import Moment
from chatfold.replay.inspect.places import find_chat, open_place
from chatfold.replay.verify.divergence import Verdict
from chatfold.replay.verify.rehearsal import Factory, rehearse
from chatfold.replay.verify.verdict import verdict

Recorded: TypeAlias = Path | str | tuple[Path | str, str]


def assert_replays(recording: Recorded, factory: Factory | None = None) -> list[Verdict]:
    """Of each chat. Without a factory the recording alone is judged: see ``verdict``.

    It has an event loop of its own, on a thread of its own: so it may be called from a test that is async, too.
    """
    place, name = recording if isinstance(recording, tuple) else (recording, "")
    return [
        _assert_holds(one, str(place), is_store=bool(name))
        for one in _run_apart(_verdicts(recording, factory))
    ]


async def assert_chat_replays(chat: Moment, factory: Factory | None = None) -> Verdict:
    """The same for a chat of a store that is open."""
    return _assert_holds(await _judge(chat, factory))


async def _verdicts(recording: Recorded, factory: Factory | None) -> list[Verdict]:
    place, name = recording if isinstance(recording, tuple) else (recording, "")
    async with open_place(place) as (store, key):
        chosen = [key or name] if key or name else sorted([one async for one in store.log.chats()])
        return [await _judge(await find_chat(store, one), factory) for one in chosen]


async def _judge(chat: Moment, factory: Factory | None) -> Verdict:
    return await verdict(chat) if factory is None else await _rehearse(chat, factory)


async def _rehearse(chat: Moment, factory: Factory) -> Verdict:
    found = await rehearse(chat, factory)
    # A recording that says nothing about the agent would be held by any agent.
    assert found.runs or found.divergence, f"chat {chat.key!r} has no run of this agent: record one first"
    return found


def _assert_holds(found: Verdict, place: str = "", *, is_store: bool = False) -> Verdict:
    if found.divergence is not None:
        is_store = is_store or Path(place, "chats").is_dir()
        more = found.divergence.command(
            found.chat if is_store or not place else place, place if is_store else ""
        )
        raise AssertionError(f"chat {found.chat!r} does not replay\n{found.divergence}\n  more      {more}")
    return found


def _run_apart(work: Coroutine[Any, Any, list[Verdict]]) -> list[Verdict]:
    done: list[list[Verdict]] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 (raised again, where it is waited for)
            failed.append(error)

    thread = threading.Thread(target=run, name="chatfold-replay")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
