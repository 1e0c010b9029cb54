"""What open chats take in memory: ``python -m benchmarks.open_chats FOLDER``, in a process of its own.

Two figures, in megabytes above the process before: with the prompt of each chat, and after all have been idle.
"""

import asyncio
import ctypes
import gc
import sys
from pathlib import Path

from benchmarks.conversation import short
from benchmarks.workload import event_of
from chatfold.agent import Chat, Store

CHATS, MESSAGES = 1_000, 50


async def record(place: Path, chats: int = CHATS) -> None:
    async with Store(place, durability="off") as store:
        for number in range(chats):
            turns = short(number, MESSAGES)
            await store.log.append(f"chat-{number}", *(event_of(one) for turn in turns for one in turn))


async def _measure(place: Path) -> None:
    before = _resident()
    async with Store(place, durability="off") as store:
        chats: list[Chat] = []
        for folder in sorted((place / "chats").iterdir()):
            chats.append(await store.chat(folder.name))
            await chats[-1].messages()
        with_prompts = _resident() - before
        for chat in chats:
            chat.rest()
            await asyncio.gather(*store._later)  # noqa: SLF001 (until the windows are written)
        print(with_prompts, _resident() - before)


def _resident() -> float:
    """Without what was freed and not given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmRSS:"))
    return int(line.split()[1]) / 1e3


if __name__ == "__main__":
    asyncio.run(_measure(Path(sys.argv[1])))
