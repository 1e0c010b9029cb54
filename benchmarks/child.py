"""One job of one peer, in a process of its own: ``python -m benchmarks.child MODULE``, an order a line on stdin, JSON back.

The first line that comes back says which jobs the peers of the module can do, by label. An order is ``{"peer", "job", "place", …}``. The clock starts when the peer is imported and its store, where the job is not about opening
it, is open. What a peer gives back is told as a digest, so that whoever ordered it sees that nothing is missing or
other than it was. With ``--forks`` each order is carried out by a fork of this process, which saves the imports.
"""

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from benchmarks.conversation import SUMMARY, Message, conversation, history, short
from benchmarks.peers import PEERS, jobs_of, module_of, store_of

Order = dict[str, Any]
Answer = dict[str, Any]
CHAT = "chat"
_GROUP = 200  # turns in one append, when a long chat is built
_MASK = (1 << 64) - 1


def digest(messages: Iterable[Message]) -> str:
    """How many, and a number that is the same for the same messages in any order: some peers are asked by many at once."""
    count = total = 0
    for message in messages:
        total = total + xxh3_64_intdigest(msgspec.json.encode(message, order="sorted")) & _MASK
        count += 1
    return f"{count}:{total:016x}"


class Jobs:
    """``order`` says where, and how much."""

    def __init__(self, order: Order) -> None:
        self.peer = PEERS[order["peer"]]
        self.order = order
        self.place = Path(order["place"])
        self.module: Any = module_of(self.peer.module)

    def open(self) -> Any:
        self.place.mkdir(exist_ok=True)
        durable = self.order.get("durable", True)
        return store_of(self.peer)(self.place, durable=durable, setting=self.peer.setting)

    async def opened(self, chat: str = CHAT) -> Any:
        store = self.open()
        if hasattr(store, "ready"):
            await store.ready(chat)
        return store

    def native(self, turns: Iterable[list[Message]]) -> Iterable[list[Any]]:
        return ([self.module.native(message) for message in turn] for turn in turns)

    def digest(self, items: Iterable[Any]) -> str:
        return digest(map(self.module.plain, items))

    # --- making ------------------------------------------------------------------------------------------

    async def build(self) -> Answer:
        """A long chat, in the quickest way there is."""
        store = await self.opened()
        await _built(store, CHAT, self.native(history(self.order["seed"], self.order["count"])))
        await store.close()
        return {"value": 0}

    async def build_small(self) -> Answer:
        """Many short chats."""
        store = self.open()
        for number in range(self.order["chats"]):
            chat = f"chat-{number}"
            if hasattr(store, "ready"):
                await store.ready(chat)
            await _built(store, chat, self.native(short(number, self.order["count"])))
        await store.close()
        return {"value": 0}

    # --- writing -----------------------------------------------------------------------------------------

    async def append(self) -> Answer:
        """Turns a second, of so many appenders on so many chats, until the time is over or the turns are."""
        appenders, chats = self.order["appenders"], self.order["chats"]
        store = self.open()
        names = [f"chat-{number}" for number in range(chats)]
        first = max(
            self.order.get("calm", 5), chats
        )  # turns that make the files and start the threads before the clock
        turns = islice(conversation(self.order["seed"]), self.order["turns"] + first)
        said = [(turn, items) for turn in turns for items in self.native([turn])]
        calm, said = said[:first], said[first:]
        for name in names:
            if hasattr(store, "ready"):
                await store.ready(name)
        for number, (_, items) in enumerate(calm):
            await store.append(names[number % chats], items)
        done: list[list[Message]] = [turn for turn, _ in calm]
        gc.collect()
        gc.freeze()
        start = perf_counter()
        end = start + self.order["seconds"]

        async def one(number: int) -> None:
            for turn, items in said[number::appenders]:
                await store.append(names[number % chats], items)
                done.append(turn)
                if perf_counter() > end:  # not before the first, however busy the machine is
                    return

        await asyncio.gather(*map(one, range(appenders)))
        elapsed = perf_counter() - start
        await store.close()
        wrong = await self._kept(names, done)
        return {"value": (len(done) - len(calm)) / elapsed, "wrong": wrong}

    async def _kept(self, names: list[str], said: list[list[Message]]) -> str:
        """Read back by a new store: nothing, if all is there."""
        there: list[Message] = []
        for name in names:
            store = await self.opened(name)
            there += [self.module.plain(item) for item in await store.replay(name)]
            await store.close()
        kept, meant = digest(there), digest(message for turn in said for message in turn)
        return "" if kept == meant else f"kept {len(there)} of {sum(map(len, said))} messages"

    async def grow(self) -> Answer:
        """A new process goes on with a long chat: milliseconds to its first turn, and of each after that."""
        turns = list(islice(self.native(conversation(self.order["seed"])), self.order["turns"] + 1))
        start = perf_counter()
        store = self.open()
        await store.append(CHAT, turns[0])
        first = perf_counter() - start
        taken = []
        for turn in turns[1:]:
            start = perf_counter()
            await store.append(CHAT, turn)
            taken.append(perf_counter() - start)
        # The chat is as in all jobs: what the model is sent does not become longer from round to round.
        summary = {"role": "assistant", "content": f"{SUMMARY}All went well, and the chat goes on."}
        for turn in self.native([[summary]]):
            await store.append(CHAT, turn)
        await store.close()
        return {"value": first * 1e3, "append": median(taken) * 1e3}

    # --- reading -----------------------------------------------------------------------------------------

    async def next(self) -> Answer:
        """From nothing to the messages of the next call; ``again``: once more in the same process; the memory it took."""
        first, items = await self._next()
        peak = _peak()
        again = (await self._next())[0] if self.order.get("again", True) else 0.0
        return {"value": first, "again": again, "peak": peak, "digest": self.digest(items)}

    async def _next(self) -> tuple[float, list[Any]]:
        start = perf_counter()
        store = self.open()
        items = await store.last(CHAT, self.order["window"])
        elapsed = perf_counter() - start
        await store.close()
        return elapsed * 1e3, items

    async def last(self) -> Answer:
        """The same in a store that is open and was asked before."""
        store = await self.opened()
        value, items = await _timed(lambda: store.last(CHAT, self.order["window"]), self.order["times"])
        return {"value": value, "digest": self.digest(items)}

    async def at(self) -> Answer:
        """The prompt as it was at earlier points."""
        store = await self.opened()
        await store.last(CHAT, self.order["window"])
        taken, seen = [], []
        for upto, count in self.order["points"]:
            start = perf_counter()
            items = await store.last(CHAT, count, upto)
            taken.append((perf_counter() - start) * 1e3)
            seen += items
        return {"value": median(taken), "digest": self.digest(seen)}

    async def replay(self) -> Answer:
        """Messages a second."""
        store = await self.opened()
        gc.collect()
        gc.freeze()
        count = 0
        start = perf_counter()
        for _ in await store.replay(CHAT):
            count += 1
        elapsed = perf_counter() - start
        check = self.order["check"]
        return {"value": count / elapsed, "digest": self.digest(await store.replay(CHAT)) if check else ""}

    async def small(self) -> Answer:
        """Milliseconds a chat, to open it and read all that it has."""
        store = self.open()
        seen = []
        start = perf_counter()
        for number in range(self.order["chats"]):
            seen += await store.last(f"chat-{number}", self.order["count"])
        elapsed = perf_counter() - start
        return {"value": elapsed * 1e3 / self.order["chats"], "digest": self.digest(seen)}

    async def search(self) -> Answer:
        """Milliseconds to the first hits; the first query of all, which may make an index, is not counted."""
        store = await self.opened()
        start = perf_counter()
        await store.search(CHAT, self.order["queries"][0])
        index = perf_counter() - start
        taken = []
        for query in self.order["queries"]:
            start = perf_counter()
            hits = await store.search(CHAT, query)
            taken.append((perf_counter() - start) * 1e3)
            assert hits, query
        await store.close()
        return {"value": median(taken), "index": index}

    # --- more than appending -----------------------------------------------------------------------------

    async def fork(self) -> Answer:
        """Opening included."""
        start = perf_counter()
        store = self.open()
        await store.fork(CHAT, "fork", self.order["at"])
        elapsed = perf_counter() - start
        items = await store.last("fork", self.order["window"] - 1)
        await store.forget("fork")
        await store.close()
        return {"value": elapsed * 1e3, "digest": self.digest(items)}

    async def compact(self) -> Answer:
        store = await self.opened()
        await store.last(CHAT, self.order["window"])
        start = perf_counter()
        items = await store.compact(CHAT, self.order["summary"], self.order["keep"])
        elapsed = perf_counter() - start
        await store.close()
        return {"value": elapsed * 1e3, "digest": self.digest(items)}

    async def switch(self) -> Answer:
        store = await self.opened()
        await store.last(CHAT, self.order["window"])
        start = perf_counter()
        items = await store.switch(CHAT)
        elapsed = perf_counter() - start
        await store.close()
        return {"value": elapsed * 1e3, "digest": self.digest(items)}


async def _built(store: Any, chat: str, turns: Iterable[list[Any]]) -> None:
    """As the peer has it, or many turns with each append."""
    if hasattr(store, "build"):
        await store.build(chat, turns)
        return
    stream = iter(turns)
    while group := list(islice(stream, _GROUP)):
        await store.append(chat, [item for turn in group for item in turn])


async def _timed(work: Callable[[], Awaitable[list[Any]]], times: int) -> tuple[float, list[Any]]:
    """The median of the milliseconds, and what came of it."""
    items = await work()
    taken = []
    for _ in range(times):
        start = perf_counter()
        items = await work()
        taken.append((perf_counter() - start) * 1e3)
    return median(taken), items


def _peak() -> int:
    """The most memory that the process had, in bytes; ``getrusage`` would include what its parent had."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


# --- the process ---------------------------------------------------------------------------------------------


def carry_out(order: Order) -> Answer:
    try:
        return asyncio.run(getattr(Jobs(order), order["job"])())
    except Exception as error:  # noqa: BLE001 (a peer may fail in any way, and that it did is the answer)
        text = str(error).strip().splitlines() or [""]
        return {"error": f"{type(error).__name__}: {text[0]}"[:300]}


def main() -> None:
    name, *options = sys.argv[1:]
    said = os.dup(1)
    os.dup2(2, 1)  # what a peer prints is no answer
    try:
        module_of(name)
        peers = [peer for peer in PEERS.values() if peer.module == name]
        jobs = {peer.label: sorted(jobs_of(peer)) for peer in peers}
        versions = {peer.needs: version(peer.needs) for peer in peers if peer.needs}
    except Exception as error:  # noqa: BLE001 (not installed, or not in the way that we know)
        os.write(said, msgspec.json.encode({"error": f"{type(error).__name__}: {error}"[:300]}) + b"\n")
        return
    os.write(said, msgspec.json.encode({"jobs": jobs, "versions": versions}) + b"\n")
    if "--forks" in options:
        list(islice(conversation(0), 50))  # the pools of texts are made once, too
    for line in sys.stdin.buffer:
        if "--forks" in options and (pid := os.fork()):
            os.waitpid(pid, 0)
            continue
        if "--touched" in options:
            gc.collect()  # writes to every object: the pages are copied now, and not while the clock runs
        os.write(said, msgspec.json.encode(carry_out(msgspec.json.decode(line))) + b"\n")
        if "--forks" in options:
            os._exit(0)


if __name__ == "__main__":
    main()
