"""A session of the OpenAI Agents SDK in a process of its own: ``python -m benchmarks.adapters_child ours|sqlite JOB FOLDER``.

Answers a number. ``append``: items of 400 characters added one by one, in a second; ``build``: 2,000 of them, and the bytes that are on the disk then;
``first``: ms until a new process has all of them, without its imports; ``load``: ms in a session that has loaded before; ``last``: ms for
the last 20 there;
``closed``: the bytes on the disk when all are closed.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from agents import SQLiteSession

from chatfold import Store
from chatfold.adapters.openai_agents import OpenAIAgentsSession

ITEMS = 2000
Opened = Callable[[], tuple[Any, Callable[[], Awaitable[None]]]]


def item(number: int) -> dict[str, str]:
    return {"role": "assistant" if number % 2 else "user", "content": f"{number} ".ljust(400, "x")}


def opener(name: str, folder: Path) -> Opened:
    """Opens a session, and says how it is closed."""

    def ours() -> tuple[Any, Callable[[], Awaitable[None]]]:
        store = Store(folder / "chats")
        return OpenAIAgentsSession(store, "session"), store.close

    def sqlite() -> tuple[Any, Callable[[], Awaitable[None]]]:
        session = SQLiteSession("session", folder / "sessions.sqlite")
        return session, lambda: asyncio.to_thread(session.close)

    return ours if name == "ours" else sqlite


async def run(opened: Opened, job: str, folder: Path) -> float:
    began = perf_counter()
    session, close = opened()
    try:
        match job:
            case "append":
                return await _append(session)
            case "build":
                for number in range(ITEMS):
                    await session.add_items([item(number)])
                return _bytes(folder)
            case "closed":
                pass
            case "first":
                assert len(await session.get_items()) == ITEMS
                return 1000 * (perf_counter() - began)
            case "load" | "last":
                limit = None if job == "load" else 20
                return await _read(session, limit)
    finally:
        await close()
    return _bytes(folder)


def _bytes(folder: Path) -> float:
    return float(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))


async def _append(session: Any, seconds: float = 1.0) -> float:
    await session.add_items([item(0)])
    count, began = 0, perf_counter()
    while perf_counter() < began + seconds:
        count += 1
        await session.add_items([item(count)])
    return count / (perf_counter() - began)


async def _read(session: Any, limit: int | None) -> float:
    expected = [item(number) for number in range(ITEMS)][-(limit or ITEMS) :]
    assert await session.get_items(limit) == expected
    took = []
    for _ in range(15):
        began = perf_counter()
        await session.get_items(limit)
        took.append(1000 * (perf_counter() - began))
    return median(took)


def main() -> None:
    name, job, place = sys.argv[1:]
    folder = Path(place)
    print(asyncio.run(run(opener(name, folder), job, folder)))


if __name__ == "__main__":
    main()
