"""Appends, reads and news of a PostgreSQL server, next to the bare statement on the same server, in the same run.

The server is one of our own, with fsync. Its processes and ours share the cores, so only the ratios say anything.
"""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

import msgspec

from benchmarks.environment import python_of
from benchmarks.measure import Case, Row, absent, at_least, at_most, compared, interleave, limited, progress
from benchmarks.postgres_child import TABLES, write
from chatfold.agent import Store
from chatfold.eventlog import Log, MessageAdded, Noted, Text
from chatfold.eventlog.postgres.storage import PostgresStorage
from tests.support.postgres import Cluster

_PEERS = {
    "chatfold": "chatfold",
    "langgraph": "LangGraph AsyncPostgresSaver",
    "agents": "OpenAI Agents SQLAlchemySession",
    "eventsourcing": "eventsourcing PostgreSQL",
}
_SIZES = {"1 entry of 400 B": False, "8 entries of 1.75 kB": True}
_WRITERS = 8


def rows(folder: Path, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    cluster = Cluster(fsync=True, options=("shared_buffers=256MB",))
    try:
        cluster.start()
        cluster.execute(TABLES)
        bench = _Bench(cluster, rounds=3 if quick else 7, seconds=0.3 if quick else 0.5)
        for size, big in _SIZES.items():
            yield from bench.appends(size, big=big)
        yield from bench.peers()
        yield from bench.one_chat()
        yield from bench.chat_record()
        yield from bench.reading(4_000 if quick else 100_000)
        yield from bench.following()
    finally:
        cluster.stop()


class _Bench:
    def __init__(self, cluster: Cluster, *, rounds: int, seconds: float) -> None:
        self.cluster = cluster
        self.rounds = rounds
        self.seconds = seconds
        self.address = cluster.address()

    # --- appending -----------------------------------------------------------------------------------------

    def appends(self, size: str, *, big: bool) -> Iterator[Row]:
        progress(f"append, {size}")
        cases: dict[str, Case] = {}
        for writers in (1, _WRITERS):
            cases[f"bare {writers}"] = partial(self._bare, writers, big=big)
            cases[f"ours {writers}"] = partial(self._ours, writers, writers, big=big)
            cases[f"ids {writers}"] = partial(self._ours, writers, writers, big=big, ids=True)
        samples = interleave(self.rounds, cases)
        for writers, bound in ((1, 0.7), (_WRITERS, 0.8)):
            what = f"append of {size}, {writers} on as many chats"
            pair = f"ours {writers}", f"bare {writers}"
            yield compared(what, "appends/s", samples, *pair, at_least(bound))
            pair = f"ids {writers}", f"bare {writers}"
            yield compared(f"{what}, with an id", "appends/s", samples, *pair, at_least(0.7))

    def one_chat(self) -> Iterator[Row]:
        """Next to bare writers of one row: whatever does the writing, those who share a row wait for each other."""
        progress("append to one chat")
        slow: list[float] = []
        cases: dict[str, Case] = {
            "bare on one row": partial(self._processes, "shared", _WRITERS, big=False),
            "bare 1": partial(self._bare, 1, big=False),
            "one process": partial(self._ours, _WRITERS, 1, big=False),
            "processes": partial(self._processes, "storage", _WRITERS, big=False, slow=slow),
        }
        samples = interleave(self.rounds, cases)
        what = f"append of 1 entry, {_WRITERS} on one chat"
        yield compared(
            f"{what}, one process", "appends/s", samples, "one process", "bare on one row", at_least(2)
        )
        yield compared(
            f"{what}, a process each", "appends/s", samples, "processes", "bare on one row", at_least(0.3)
        )
        yield compared(f"{what}, a process each", "appends/s", samples, "processes", "bare 1")
        yield limited(f"{what}, a process each, p99", "ms", slow, "", at_most(80))

    def _bare(self, writers: int, *, big: bool) -> float:
        return self._processes("bare", writers, big=big)

    def _processes(self, kind: str, writers: int, *, big: bool, slow: list[float] | None = None) -> float:
        command = [
            sys.executable,
            "-m",
            "benchmarks.postgres_child",
            kind,
            self.address,
            "one chat",
            str(int(big)),
            "0",
        ]
        running = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(writers)
        ]
        for one in running:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        answers = [msgspec.json.decode(one, type=list[float]) for one in _run_all(running, self.seconds)]
        if slow is not None:
            slow.append(1000 * quantiles(chain.from_iterable(answers), n=100)[98])
        return sum(map(len, answers)) / self.seconds

    def _ours(self, writers: int, chats: int, *, big: bool, ids: bool = False) -> float:
        async def run() -> float:
            async with PostgresStorage(self.address) as storage:
                keys = [f"chat {number % chats}" for number in range(writers)]
                for seconds in (0.05, self.seconds):
                    began = perf_counter()
                    done = await asyncio.gather(
                        *(write(storage, key, seconds, big=big, ids=ids) for key in keys)
                    )
                return sum(map(len, done)) / (perf_counter() - began)

        return asyncio.run(run())

    def chat_record(self) -> Iterator[Row]:
        """What an embedder calls: with the fold, the window and a snapshot now and then."""
        progress("Chat.record")

        async def run() -> float:
            async with Store(self.address) as store:
                chat = await store.chat(f"recorded {perf_counter()}")
                await chat.user("hello")
                count, end = 0, perf_counter() + self.seconds
                while perf_counter() < end:
                    await chat.user(f"{count} ".ljust(250, "x"))
                    count += 1
                return count / self.seconds

        samples = interleave(
            self.rounds, {"bare": partial(self._bare, 1, big=False), "record": lambda: asyncio.run(run())}
        )
        yield compared(
            "Chat.record of 1 message of 400 B, one writer", "messages/s", samples, "record", "bare"
        )

    # --- peers ---------------------------------------------------------------------------------------------

    def peers(self) -> Iterator[Row]:
        """Each in a process of its own, in the environment of the peers."""
        ours, *others = _PEERS
        for job, writers, what, unit in (
            ("append", 1, "a message of 250 characters, acknowledged", "messages/s"),
            ("append", _WRITERS, f"the same, {_WRITERS} chats of one process", "messages/s"),
            ("open", 1, "open, read the last 50 messages of 1,000, close", "times/s"),
        ):
            progress(what)
            able = [name for name in others if self._peer(name, job, writers) is not None]
            cases: dict[str, Case] = {
                _PEERS[name]: partial(self._figure, name, job, writers) for name in (ours, *able)
            }
            samples = interleave(self.rounds, cases, warm_up=False)
            for name in others:
                if name in able:
                    yield compared(what, unit, samples, _PEERS[ours], _PEERS[name], at_least(1))
                else:
                    yield absent(what, _PEERS[name], "not installed: python -m benchmarks setup")

    def _figure(self, name: str, job: str, writers: int) -> float:
        figure = self._peer(name, job, writers)
        assert figure is not None
        return figure

    def _peer(self, name: str, job: str, writers: int) -> float | None:
        """None: it is not installed."""
        chat = f"{job} {writers} {perf_counter()}"
        command = [python_of("postgres"), "-m", "benchmarks.postgres_peer", name, self.cluster.dsn]
        done = subprocess.run(
            [*command, job, chat, str(writers)],
            input=f"{self.seconds}\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if "ModuleNotFoundError" in done.stderr:
            return None
        assert done.returncode == 0, done.stderr
        return float(done.stdout.split()[1])

    # --- reading -------------------------------------------------------------------------------------------

    def reading(self, entries: int) -> Iterator[Row]:
        progress(f"a chat of {entries:,}")

        async def build() -> None:
            async with Log(PostgresStorage(self.address)) as log:
                for start in range(0, entries, 500):
                    some = [
                        MessageAdded(
                            "user" if n % 2 else "assistant", (Text(f"{start + n} ".ljust(250, "x")),)
                        )
                        for n in range(500)
                    ]
                    await log.append("long", *some)
            async with Store(self.address) as store:  # leaves a snapshot, and a window that is not all of it
                chat = await store.chat("long")
                await chat.new_context("next")
                for number in range(100):
                    await chat.user(f"and now? {number}")
            async with Store(self.address) as store:
                await store.chat("long")

        async def read() -> float:
            async with Log(PostgresStorage(self.address)) as log:
                await log.head("long")
                began, count = perf_counter(), 0
                async for page in log.pages("long"):
                    count += len(page)
                return count / (perf_counter() - began)

        async def open_chat() -> int:
            async with Store(self.address) as store:
                storage = store.log.storage
                assert isinstance(storage, PostgresStorage)
                await storage.head("long")
                asked = _count_questions(storage)
                chat = await store.chat("long")
                await chat.messages("openai")
                return len(asked)

        asyncio.run(build())
        values = [asyncio.run(read()) for _ in range(self.rounds)]
        yield limited(
            f"read of a chat of {entries:,} entries, decoded", "entries/s", values, "", at_least(80_000)
        )
        trips = [float(asyncio.run(open_chat())) for _ in range(2)]
        yield limited(f"open and messages of a chat of {entries:,}", "round trips", trips, "", at_most(3))

    def following(self) -> Iterator[Row]:
        progress("follow")
        took = [asyncio.run(self._follow()) for _ in range(self.rounds)]
        yield limited("news of an append in another storage, p50", "ms", took, "", at_most(20))

    async def _follow(self, count: int = 30) -> float:
        took: list[float] = []
        async with Log(PostgresStorage(self.address)) as log, Log(PostgresStorage(self.address)) as other:
            await log.append("followed", Noted("one"))
            async with aclosing(other.follow("followed", (await log.head("followed")).seq)) as follower:
                for _ in range(count):
                    coming = asyncio.ensure_future(anext(follower))
                    await asyncio.sleep(0.05)  # it waits by now
                    began = perf_counter()
                    await log.append("followed", Noted("more"))
                    await coming
                    took.append(1000 * (perf_counter() - began))
        return median(took)


def _count_questions(storage: PostgresStorage) -> list[str]:
    """Each statement that is waited for from now on."""
    asked: list[str] = []
    rows: Callable[..., Awaitable[list[tuple[object, ...]]]] = storage._server.rows  # noqa: SLF001 (what a round trip is, only it knows)

    async def counted(text: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        asked.append(text)
        return await rows(text, values)

    storage._server.rows = counted  # type: ignore[method-assign, assignment]  # noqa: SLF001
    return asked


def _run_all(running: list["subprocess.Popen[str]"], seconds: float) -> list[str]:
    for one in running:
        assert one.stdin is not None
        one.stdin.write(f"{seconds}\n")
        one.stdin.flush()
    return [one.communicate(timeout=60)[0] for one in running]
