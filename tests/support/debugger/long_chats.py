"""Long chats, made quickly: turns with calls, now and then an error, a compaction, another context."""

from pathlib import Path

from chatfold.agent import Store, assistant, user
from chatfold.eventlog import Compacted, ContextOpened, Event, Text, ToolCalled, ToolReturned

TURN = 4


def long_history(
    entries: int, *, errors: int = 400, compactions: int = 2000, switches: int = 5000
) -> list[Event]:
    """``errors``: every so many turns one call fails; ``compactions``, ``switches``: so many entries apart."""
    events: list[Event] = []
    begun = 1
    while len(events) < entries:
        seq = len(events) + 1
        number = seq // TURN
        if seq % switches < TURN and seq > TURN:
            events.append(ContextOpened(f"ctx-{seq}", f"topic {seq}", "something else"))
            begun = seq + 1
        elif seq % compactions < TURN and seq > begun + 100:
            events.append(Compacted(begun, seq - 50, 10, f"summary of e{begun} to e{seq - 50}"))
        call = f"call-{number}"
        events += [
            user(f"question {number}: what does line {number} of the file say?"),
            ToolCalled(call, "read_file", {"path": f"src/file_{number}.py", "line": number}),
            ToolReturned(
                call, (Text(f"line {number}: value = {number * 7}"),), failed=number % errors == errors - 1
            ),
            assistant(f"It sets the value to {number * 7}, as line {number} says."),
        ]
    return events[:entries]


async def recorded(root: Path, key: str, events: list[Event]) -> None:
    async with Store(root, durability="off") as store:
        chat = await store.chat(key)
        for at in range(0, len(events), 1000):
            await chat.record(*events[at : at + 1000])
