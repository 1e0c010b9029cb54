"""A short chat with everything the stepper's keys look for, and hands that press them."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from chatfold.agent import Store, assistant, user
from chatfold.eventlog import (
    CheckpointSet,
    Compacted,
    ContextOpened,
    ContextSwitched,
    Event,
    MemoryStorage,
    ModelReturned,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.replay.inspect.cursor import Replay
from chatfold.replay.stepper.keymap import begin, press
from chatfold.replay.stepper.state import Session, State
from tests.support.clock import TickingClock

STORY: tuple[Event, ...] = (
    user("Where is the lexer?"),  # 1
    ToolCalled("c1", "find", {"name": "lexer"}),
    ToolReturned("c1", (Text("no such file"),), failed=True),  # 3: an error
    assistant("Nowhere."),
    user("And the parser?"),  # 5
    assistant("In parser.py."),
    Compacted(1, 4, 3, "the lexer is nowhere"),  # 7
    ContextOpened("b", "Topic B", "something else"),  # 8
    user("What is the weather like?"),  # 9
    assistant("Wet."),
    Compacted(9, 10, 2, "it rains"),  # 11
    user("And tomorrow?"),  # 12
    ModelReturned(error="overloaded"),  # 13: an error
    CheckpointSet("here"),
    ContextSwitched("main", reason="back"),  # 15
    assistant("Goodbye."),  # 16
)
END = len(STORY)


@asynccontextmanager
async def sessions(events: Iterable[Event] = STORY, key: str = "chat") -> AsyncIterator[Session]:
    async with Store(MemoryStorage(clock=TickingClock())) as store:
        chat = await store.chat(key)
        if some := tuple(events):
            await chat.record(*some)
        yield Session(store, Replay(chat), place="/stores/one")


async def pressed(session: Session, *keys: str, at: int | None = None, state: State | None = None) -> State:
    """The state after these keys, from the end or from entry ``at``."""
    if at is not None:
        await session.replay.seek(at)
    state = state or begin(session)
    for key in keys:
        state = await press(session, state, key)
        assert session.replay.seq == state.cursor
    return state


def typed(prompt: str, text: str) -> tuple[str, ...]:
    return (prompt, *text, "enter")
