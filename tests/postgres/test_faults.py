"""Servers, connections and clients that die or hang: nothing that was acknowledged is lost, nothing is there twice."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'chatfold[postgres]'")

from chatfold.eventlog import (
    ChatfoldError,
    DurabilityUnknown,
    LeaseLost,
    Log,
    MessageAdded,
    NewerFormat,
    NoSuchStore,
    Noted,
    Text,
    Unavailable,
)
from chatfold.eventlog.errors import ForkedProcess
from chatfold.eventlog.postgres.storage import PostgresStorage
from chatfold.testing.strategies import LONG_TEXTS
from chatfold.testing.telling import is_whole, said
from tests.support.postgres import Cluster, reason_not, shared_cluster

_CHATS = ("a", "b", "c")


@pytest.fixture
def address() -> str:
    return shared_cluster().address()


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """One that may be killed, and that syncs."""
    if why := reason_not():
        pytest.skip(why)
    cluster = Cluster(fsync=True)
    cluster.start()
    yield cluster
    cluster.stop()


class Writers:
    """Tasks that append until they are told to stop, and what they were answered."""

    def __init__(self, log: Log, group: asyncio.TaskGroup, count: int) -> None:
        self.log = log
        self.acknowledged: dict[str, dict[int, str]] = {chat: {} for chat in _CHATS}
        self.wrote = asyncio.Event()
        self.is_over = False
        for number in range(count):
            group.create_task(self.run(number))

    async def write_more(self, count: int) -> None:
        """Returns when so many more were acknowledged."""
        for _ in range(count):
            self.wrote.clear()
            await self.wrote.wait()

    async def run(self, number: int) -> None:
        turn = 0
        while not self.is_over:
            chat, text = _CHATS[turn % len(_CHATS)], f"{number}-{turn}"
            name = text if turn % 2 else None
            [entry] = await self.log.append(chat, Noted(text), id=name)
            assert entry.seq not in self.acknowledged[chat]
            self.acknowledged[chat][entry.seq] = text
            self.wrote.set()
            turn += 1

    async def judge(self) -> None:
        for chat, answers in self.acknowledged.items():
            entries = [entry async for entry in self.log.read(chat)]
            assert is_whole(entries)
            texts = {entry.seq: getattr(entry.event, "name", "") for entry in entries}
            assert {seq: texts.get(seq) for seq in answers} == answers
            assert max(Counter(texts.values()).values()) == 1
            assert len(texts) == len(answers)  # what was not acknowledged was tried again until it was


async def test_a_killed_server_loses_nothing_that_was_acknowledged(own_cluster: Cluster) -> None:
    async with Log(PostgresStorage(own_cluster.address())) as log:
        await log.append("d", Noted("makes the tables"))
        async with asyncio.timeout(90), asyncio.TaskGroup() as group:
            writers = Writers(log, group, 5)
            for _ in range(2):
                await writers.write_more(30)
                own_cluster.kill()
                await asyncio.sleep(0.1)
                own_cluster.start()  # by the thread that it dies with
            await writers.write_more(10)
            writers.is_over = True
        await writers.judge()


async def test_lost_connections_lose_and_double_nothing(own_cluster: Cluster) -> None:
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    async with Log(PostgresStorage(own_cluster.address())) as log:
        await log.append("d", Noted("makes the tables"))
        async with asyncio.timeout(90), asyncio.TaskGroup() as group:
            writers = Writers(log, group, 4)
            for _ in range(12):
                await writers.write_more(3)
                await asyncio.to_thread(own_cluster.execute, cut)
            writers.is_over = True
        await writers.judge()


async def test_a_server_that_hangs_is_unavailable_and_a_retry_tells(own_cluster: Cluster) -> None:
    async with Log(PostgresStorage(own_cluster.address(), patience=1)) as log:
        await log.append("a", Noted("one"))
        own_cluster.freeze()
        try:
            async with asyncio.timeout(20):
                with pytest.raises(Unavailable):
                    await log.append("a", Noted("two"), id="mine")
                with pytest.raises(Unavailable):
                    await log.head("a")
        finally:
            own_cluster.thaw()
        await asyncio.to_thread(own_cluster.wait)
        [entry] = await log.append("a", Noted("two"), id="mine")
        assert entry.seq == 2
        assert len([entry async for entry in log.read("a")]) == 2


async def test_a_commit_whose_answer_was_lost_is_recognised(address: str) -> None:
    """Two appends of the same content at the same moment: each is there once, whatever the connection does."""
    async with Log(PostgresStorage(address, clock=lambda: 1)) as log:
        storage = log.storage
        assert isinstance(storage, PostgresStorage)
        await log.append("a", Noted("same"))
        send = storage._writer._send

        async def lose_the_answer(*args: object) -> object:
            storage._writer._send = send  # type: ignore[method-assign]
            await send(*args)  # type: ignore[arg-type]
            wire = storage._writer._wire
            assert wire is not None
            await wire.close()
            await wire.connection.execute("SELECT 1")
            raise AssertionError("it was closed")

        for name in (None, "mine"):
            storage._writer._send = lose_the_answer  # type: ignore[method-assign, assignment]
            [entry] = await log.append("a", Noted("same"), id=name)
            assert entry == [one async for one in log.read("a")][-1]
        assert [entry.seq async for entry in log.read("a")] == [1, 2, 3]


async def test_a_commit_that_no_standby_has_is_not_called_durable(own_cluster: Cluster) -> None:
    """The server answers as if all were well when somebody ends its wait for a standby."""
    cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    async with Log(PostgresStorage(own_cluster.address())) as log:
        await log.append("a", Noted("one"))
        own_cluster.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        own_cluster.execute("SELECT pg_reload_conf()")
        try:
            await asyncio.sleep(0.3)
            waiting = asyncio.ensure_future(log.append("a", Noted("two"), id="mine"))
            while not waiting.done():
                await asyncio.sleep(0.1)
                own_cluster.execute(cancel)
            with pytest.raises(DurabilityUnknown):
                await waiting
        finally:
            own_cluster.execute("ALTER SYSTEM RESET synchronous_standby_names")
            own_cluster.execute("SELECT pg_reload_conf()")
        [entry] = await log.append("a", Noted("two"), id="mine")
        assert entry.seq == 2


async def test_more_readers_than_connections_wait_for_each_other(address: str) -> None:
    async with Log(PostgresStorage(address)) as log:
        await log.append("a", *(Noted(str(number)) for number in range(300)))

        async def count() -> int:
            return len([entry async for entry in log.read("a")])

        assert await asyncio.gather(*(count() for _ in range(40))) == [300] * 40


_CLIENT = """
import asyncio, sys
from chatfold.eventlog import Log, Noted
from chatfold.eventlog.postgres.storage import PostgresStorage

async def main():
    async with Log(PostgresStorage(sys.argv[1])) as log:
        for number in range(100000):
            entry, _ = await log.append("a", Noted(f"{sys.argv[2]}-{number}"), Noted("second"))
            print(entry.seq, f"{sys.argv[2]}-{number}", flush=True)

asyncio.run(main())
"""


async def test_a_killed_client_leaves_whole_batches(address: str) -> None:
    acknowledged: dict[int, str] = {}
    for turn in range(4):
        client = subprocess.Popen(  # noqa: ASYNC220 (there is nothing to wait for)
            [sys.executable, "-c", _CLIENT, address, str(turn)], stdout=subprocess.PIPE, text=True
        )
        assert client.stdout is not None
        lines = [client.stdout.readline() for _ in range(5 + turn)]
        client.send_signal(signal.SIGKILL)
        rest = client.communicate(timeout=30)[0].splitlines()
        for line in [*lines, *rest]:
            if len(line.split()) == 2:
                acknowledged[int(line.split()[0])] = line.split()[1]
    async with Log(PostgresStorage(address)) as log:
        entries = [entry async for entry in log.read("a")]
        assert is_whole(entries)
        assert len(entries) % 2 == 0
        names = {entry.seq: getattr(entry.event, "name", "") for entry in entries}
        assert {seq: names[seq] for seq in acknowledged} == acknowledged


async def test_an_append_under_a_lease_that_another_took_is_refused(address: str) -> None:
    stalled, quick = PostgresStorage(address, lease_seconds=0.3), PostgresStorage(address, lease_seconds=0.3)
    async with Log(stalled) as one, Log(quick) as other:
        await one.append("a", Noted("one"))
        async with one.storage.lease("a") as epoch:
            await one.append("a", Noted("two"), lease=epoch)
            renewing = [task for task in asyncio.all_tasks() if "_renew" in repr(task)]
            for task in renewing:
                task.cancel()  # as if this process stood still
            async with asyncio.timeout(20), other.storage.lease("a") as taken:
                with pytest.raises(LeaseLost):
                    await one.append("a", Noted("three"), lease=epoch)
                await other.append("a", Noted("three"), lease=taken)
            with pytest.raises(LeaseLost):
                await other.append("a", Noted("four"), lease=taken)
        assert [getattr(entry.event, "name", "") async for entry in one.read("a")] == ["one", "two", "three"]


async def test_a_lease_that_is_renewed_outlives_its_time(address: str) -> None:
    async with (
        Log(PostgresStorage(address, lease_seconds=0.3)) as one,
        Log(PostgresStorage(address)) as other,
    ):
        await one.append("a", Noted("one"))
        async with one.storage.lease("a") as epoch:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1), other.storage.lease("a"):
                    raise AssertionError("two have it")
            await one.append("a", Noted("two"), lease=epoch)


async def test_many_make_the_tables_at_the_same_moment(address: str) -> None:
    logs = [Log(PostgresStorage(address)) for _ in range(8)]
    await asyncio.gather(*(log.append("a", Noted(str(number))) for number, log in enumerate(logs)))
    assert len([entry async for entry in logs[0].read("a")]) == 8
    await asyncio.gather(*(log.storage.close() for log in logs))


async def test_a_newer_format_is_refused_and_not_touched(address: str) -> None:
    schema = address.partition("schema=")[2]
    async with Log(PostgresStorage(address)) as log:
        await log.append("a", Noted("one"))
    shared_cluster().execute(f"UPDATE {schema}.meta SET format = 99")
    for read_only in (True, False):
        async with Log(PostgresStorage(address, read_only=read_only)) as log:
            with pytest.raises(NewerFormat):
                await log.append("a", Noted("two")) if not read_only else await log.head("a")
    assert shared_cluster().execute(f"SELECT count(*) FROM {schema}.line") == [(1,)]


async def test_who_only_reads_makes_and_changes_nothing(address: str) -> None:
    async with Log(PostgresStorage(address, read_only=True)) as log:
        with pytest.raises(NoSuchStore):
            await log.head("a")
    async with Log(PostgresStorage(address)) as log:
        await log.append("a", Noted("one"))
    async with Log(PostgresStorage(address, read_only=True)) as log:
        assert (await log.head("a")).seq == 1
        with pytest.raises(ChatfoldError):
            await log.append("a", Noted("two"))
        storage = log.storage
        assert isinstance(storage, PostgresStorage)
        with pytest.raises(ChatfoldError):  # the server would refuse it, too
            await storage._server.rows("UPDATE @chat SET erased = 1 RETURNING 1")


async def test_a_child_of_os_fork_is_refused_and_its_parent_goes_on(address: str) -> None:
    async with Log(PostgresStorage(address)) as log:
        await log.append("a", Noted("one"))
        pid = os.fork()
        if not pid:
            code = 1
            with suppress(BaseException):
                for use in (log.append("a", Noted("two")), log.head("a")):
                    with pytest.raises(ForkedProcess):
                        asyncio.run(use)
                code = 0
            os._exit(code)
        status = (await asyncio.to_thread(os.waitpid, pid, 0))[1]
        assert os.waitstatus_to_exitcode(status) == 0
        [entry] = await log.append("a", Noted("two"))
        assert entry.seq == 2


async def test_a_fork_made_while_its_origin_is_redacted_has_no_erased_text(address: str) -> None:
    async with Log(PostgresStorage(address)) as log, Log(PostgresStorage(address)) as other:
        for turn in range(15):
            chat, fork = f"chat {turn}", f"fork {turn}"
            await log.append(chat, said(LONG_TEXTS[0]), Noted("two"))
            await asyncio.gather(log.fork(chat, fork, 2), other.redact(chat, 1))
            for key in (chat, fork):
                entries = [entry async for entry in other.read(key)]
                assert is_whole(entries)
                assert entries[0].was, (turn, key)


async def test_a_fork_made_while_its_origin_is_deleted_is_whole_or_not_there(address: str) -> None:
    async with Log(PostgresStorage(address)) as log, Log(PostgresStorage(address)) as other:
        for turn in range(15):
            chat, fork = f"chat {turn}", f"fork {turn}"
            await log.append(chat, said(LONG_TEXTS[0]), said("blob" * 300_000))
            forked, _ = await asyncio.gather(
                log.fork(chat, fork, 2), other.delete(chat), return_exceptions=True
            )
            entries = [entry async for entry in other.read(fork)]
            assert len(entries) == (0 if isinstance(forked, Exception) else 3)
            assert is_whole(entries)
        for turn in range(15):
            await log.delete(f"fork {turn}")
        tables = ("line", "print", "blob", "snapshot", "chat")
        schema = address.partition("schema=")[2]
        left = [shared_cluster().execute(f"SELECT count(*) FROM {schema}.{table}")[0][0] for table in tables]
        assert left == [0] * len(tables)


async def test_what_was_redacted_is_in_no_row(address: str) -> None:
    secret = "the secret of the house, which nobody may keep. " * 40
    large = "another secret, which is large. " * 50_000
    async with Log(PostgresStorage(address)) as log:
        await log.append("a", MessageAdded("user", (Text(secret),)), MessageAdded("user", (Text(large),)))
        await log.append("a", MessageAdded("user", (Text(secret),)))
        await log.fork("a", "b", 2)
        await log.storage.store_snapshot("b", await log.head("b"), secret.encode())
        await log.redact("a", 1, 2)
        schema = address.partition("schema=")[2]
        for table in ("line", "blob", "snapshot"):
            found = f"SELECT count(*) FROM {schema}.{table} WHERE position('secret' IN encode(data, 'escape')) > 0"
            assert shared_cluster().execute(found) == [(0,)], table


async def test_a_follower_of_all_chats_misses_none_of_many_writers(address: str) -> None:
    """In the order of the commits of each part; whoever goes on from a mark gets all that came after it."""
    logs = [Log(PostgresStorage(address)) for _ in range(4)]
    seen: dict[str, int] = {}

    async def write(number: int) -> None:
        for turn in range(30):
            await logs[number % 4].append(f"chat {(number + turn) % 9}", Noted(f"{number}-{turn}"))

    async def follow(log: Log) -> None:
        mark = ""
        while sum(seen.values()) < 12 * 30:
            async with aclosing(log.follow_chats(mark)) as changes:
                for _ in range(7):  # then from the mark on, as another process would
                    change = await anext(changes)
                    mark = change.mark
                    async for entry in log.read(change.key, seen.get(change.key, 0) + 1):
                        assert entry.seq == seen.get(change.key, 0) + 1
                        seen[change.key] = entry.seq
                    if sum(seen.values()) == 12 * 30:
                        break

    async with Log(PostgresStorage(address)) as reader, asyncio.timeout(60), asyncio.TaskGroup() as group:
        await reader.storage.erasure_epoch("a")
        group.create_task(follow(reader))
        for number in range(12):
            group.create_task(write(number))
    await asyncio.gather(*(log.storage.close() for log in logs))


async def test_chats_erased_together_are_each_told_also_from_a_mark_between_them(address: str) -> None:
    async with Log(PostgresStorage(address)) as log:
        await log.append("a", said(LONG_TEXTS[0]))
        for number in range(40):  # some of them in one part
            await log.fork("a", f"fork {number}", 1)
        before = (await anext(log.storage.chats())).mark
        await log.storage.redact("a", [1])
        mark, told = before, list[str]()
        while len(told) < 41:
            async with aclosing(log.follow_chats(mark)) as changes:
                change = await anext(changes)
            mark = change.mark
            told.append(change.key)
        assert len({*told}) == 41


async def test_a_reader_of_changes_misses_none_of_many_writers(address: str) -> None:
    """Whoever asks again and again which chats have changed, and reads those on, sees every entry, in order."""
    logs = [Log(PostgresStorage(address)) for _ in range(4)]
    seen: dict[str, int] = {}
    is_over = False

    async def write(number: int) -> None:
        for turn in range(40):
            await logs[number % 4].append(f"chat {(number + turn) % 9}", Noted(f"{number}-{turn}"))

    async def tail(log: Log) -> None:
        mark, last = "", False
        while not last:
            last = is_over
            pages = [page async for page in log.storage.chats(changed_since=mark)]
            mark = pages[0].mark
            for key in [row.key for page in pages for row in page.rows]:
                async for entry in log.read(key, seen.get(key, 0) + 1):
                    assert entry.seq == seen.get(key, 0) + 1
                    seen[key] = entry.seq

    async with Log(PostgresStorage(address)) as reader:
        await reader.head("a")
        tailing = asyncio.create_task(tail(reader))
        await asyncio.gather(*(write(number) for number in range(12)))
        is_over = True
        await tailing
        assert sum(seen.values()) == 12 * 40
    await asyncio.gather(*(log.storage.close() for log in logs))


@pytest.mark.parametrize("steps", range(6))
async def test_whoever_waits_is_cancelled_although_there_is_news_at_that_moment(
    address: str, steps: int
) -> None:
    """``wait_for`` loses a cancellation that comes between the news and its waking, and a follower goes on for ever."""
    async with Log(PostgresStorage(address)) as log, PostgresStorage(address) as other:
        await log.append("a", Noted("one"))
        await other.pass_delta("a", b"The")
        storage = log.storage
        assert isinstance(storage, PostgresStorage)

        async def all_of(values: AsyncGenerator[object]) -> None:
            async with aclosing(values) as some:
                async for _ in some:
                    pass

        waiting = [
            asyncio.create_task(all_of(values))
            for values in (log.follow("a"), log.follow_chats(), storage.follow_deltas("a"))
        ]
        await asyncio.sleep(0.3)  # they wait by now
        storage._news._wake([*storage._news._changed])
        for _ in range(steps):
            await asyncio.sleep(0)
        for one in waiting:
            one.cancel()
        async with asyncio.timeout(5):
            await asyncio.wait(waiting)
        assert all(one.cancelled() for one in waiting)
