"""A chat in memory that holds the events it is given, and a longer one with everything that moves a context."""

from collections.abc import Iterable

from chatfold.agent import Chat, Policy, Store, assistant, system, user
from chatfold.eventlog import Event, MemoryStorage, Text, ToolCalled, ToolReturned
from chatfold.projections.contexts import MAIN
from tests.support.clock import TickingClock

KEEP_LITTLE = Policy(keep=4, budget=None)


def memory() -> Store:
    return Store(MemoryStorage(clock=TickingClock()))


async def told(store: Store, events: Iterable[Event], key: str = "chat") -> Chat:
    chat = await store.chat(key)
    for event in events:
        await chat.record(event)
    return chat


async def long_talk(store: Store, key: str = "talk") -> Chat:
    """1 system, 2-13 talk, 14 c1, 15 s1, 16-19 another context, 20 s2, 21-26 talk, 27 c2, 28-29 a detour, 30 back, 31."""
    chat = await store.chat(key)
    await chat.record(system("You are careful."))
    await chat.record(user("You must not touch vendor/"), assistant("Understood."))
    for number in range(5):
        await chat.record(user(f"question {number}"), assistant(f"answer {number} " * 20))
    await chat.compact(KEEP_LITTLE, summarise=lambda _: "Constraints: keep vendor/ untouched.")
    await chat.new_context(title="docs build")
    await chat.record(user("why does the docs build fail?"))
    await chat.record(ToolCalled("c1", "read_log", {"path": "docs.log"}))
    await chat.record(ToolReturned("c1", (Text("Error: missing page"),), failed=True))
    await chat.record(assistant("A page is missing."))
    await chat.load_context(context_id=MAIN)
    for number in range(5, 8):
        await chat.record(user(f"question {number}"), assistant(f"answer {number} " * 20))
    await chat.compact(KEEP_LITTLE, summarise=lambda _: "They asked many questions.", trigger="tokens")
    await chat.record(user("a detour"), assistant("that leads nowhere"))
    await chat.rewind(chat.seq - 2, "a detour")
    await chat.record(user("the end?"))
    return chat
