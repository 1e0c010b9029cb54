"""PostgreSQL for longer: many writers and a follower, a primary that is killed and its standby that takes over, a full disk."""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'chatfold[postgres]'")

from chatfold.eventlog import (
    ChatfoldError,
    DiskFull,
    LeaseLost,
    Log,
    MessageAdded,
    Noted,
    Text,
    Unavailable,
)
from chatfold.eventlog.postgres.storage import PostgresStorage
from chatfold.testing.telling import is_whole
from tests.support.disk.mounts import reason_not as reason_not_mounted
from tests.support.postgres import ROLE, Cluster, reason_not

_SECONDS = 60


@pytest.fixture
def primary() -> Iterator[Cluster]:
    if why := reason_not():
        pytest.skip(why)
    cluster = Cluster(fsync=True, options=("wal_level=replica", "max_wal_senders=4", "wal_keep_size=128MB"))
    cluster.start()
    yield cluster
    cluster.stop()


async def test_a_follower_misses_none_of_twelve_writers_in_a_minute(primary: Cluster) -> None:
    address = primary.address()
    logs = [Log(PostgresStorage(address)) for _ in range(4)]
    written: dict[str, int] = {}
    seen: dict[str, int] = {}
    end = time.monotonic() + _SECONDS

    async def write(number: int) -> None:
        turn = 0
        while time.monotonic() < end:
            chat = f"chat {(number * 7 + turn) % 50}"
            entries = await logs[number % 4].append(
                chat, *(Noted(f"{number}-{turn}") for _ in range(1 + turn % 5))
            )
            written[chat] = max(written.get(chat, 0), entries[-1].seq)
            turn += 1

    async def follow(log: Log) -> None:
        async with aclosing(log.follow_chats()) as changes:
            async for change in changes:
                async for entry in log.read(change.key, seen.get(change.key, 0) + 1):
                    assert entry.seq == seen.get(change.key, 0) + 1
                    seen[change.key] = entry.seq

    async with Log(PostgresStorage(address)) as reader, asyncio.timeout(_SECONDS + 60):
        following = asyncio.create_task(follow(reader))
        await asyncio.gather(*(write(number) for number in range(12)))
        with suppress(TimeoutError):
            async with asyncio.timeout(20):
                while seen != written and not following.done():  # noqa: ASYNC110 (it is looked at once in a while)
                    await asyncio.sleep(0.1)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    assert sum(written.values()) > 1000
    assert seen == written
    await asyncio.gather(*(log.storage.close() for log in logs))


async def test_a_standby_that_takes_over_has_all_that_was_acknowledged(primary: Cluster) -> None:
    standby = primary.standby()
    schema = primary.address().partition("?")[2]
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    address = (
        f"postgresql://{ROLE}@{hosts}/postgres?target_session_attrs=read-write&connect_timeout=2&{schema}"
    )
    acknowledged: dict[int, str] = {}
    is_over = False

    async def write(log: Log, number: int) -> None:
        turn = 0
        while not is_over:
            text = f"{number}-{turn}"
            [entry] = await log.append("a", Noted(text), id=text)
            acknowledged[entry.seq] = text
            turn += 1

    async def hold(log: Log, other: Log) -> None:
        """Appends under a lease from before the failover until after it; the other cannot have the chat, nor append under its own."""
        await log.append("held", Noted("first"))
        async with log.storage.lease("held") as epoch:
            while not is_over:
                await log.append("held", Noted("more"), lease=epoch)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2), other.storage.lease("held"):
                    raise AssertionError("two have it")
            with pytest.raises(LeaseLost):
                await other.append("held", Noted("theirs"), lease="0" * 16)
            await log.append("held", Noted("last"), lease=epoch)

    try:
        standby.start()
        primary.synchronise()
        async with (
            Log(PostgresStorage(address, patience=60, lease_seconds=60)) as log,
            Log(PostgresStorage(address, patience=60)) as other,
            asyncio.timeout(180),
        ):
            await log.append("a", Noted("first"))
            async with asyncio.TaskGroup() as group:
                group.create_task(hold(log, other))
                for number in range(4):
                    group.create_task(write(log, number))
                await asyncio.sleep(2)
                before = len(acknowledged)
                primary.kill()
                standby.promote()
                while len(acknowledged) < before + 50:  # noqa: ASYNC110 (it is looked at once in a while)
                    await asyncio.sleep(0.05)
                is_over = True
            entries = [entry async for entry in log.read("a")]
            assert is_whole(entries)
            texts = {entry.seq: getattr(entry.event, "name", "") for entry in entries}
            assert {seq: texts.get(seq) for seq in acknowledged} == acknowledged
            assert len({*texts.values()}) == len(texts)
    finally:
        standby.stop()


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Where another user may go, too."""
    if why := reason_not() or reason_not_mounted():
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    folder.chmod(0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m,mode=777", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


async def test_a_full_disk_of_the_server_loses_nothing(small_disk: Path) -> None:
    cluster = Cluster(folder=small_disk / "pg", options=("max_wal_size=64MB", "min_wal_size=32MB"))
    try:
        cluster.start()
        address, filler, acknowledged = cluster.address(), small_disk / "filler", 1
        async with Log(PostgresStorage(address, patience=3)) as log:
            await log.append("a", Noted("one"))
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
            refused: ChatfoldError | None = None
            while refused is None and acknowledged < 3000:
                text = Text(f"{acknowledged} ".ljust(30_000, "x"))
                try:
                    await log.append("a", MessageAdded("user", (text,)), id=str(acknowledged))
                    acknowledged += 1
                except ChatfoldError as error:
                    refused = error
            assert isinstance(refused, DiskFull | Unavailable), refused
            filler.unlink()
            if not cluster.is_running:
                cluster.start()
        async with Log(PostgresStorage(address)) as log:
            entries = [entry async for entry in log.read("a")]
            assert is_whole(entries)
            assert acknowledged <= len(entries) <= acknowledged + 1
            await log.append("a", Noted("there is room again"))
    finally:
        cluster.stop()
