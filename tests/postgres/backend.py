"""PostgreSQL as the suite of ``chatfold.testing`` uses it: a schema is a place."""

from collections.abc import Awaitable, Callable
from typing import Literal

from chatfold.eventlog import Storage
from chatfold.eventlog.postgres.storage import PostgresStorage
from chatfold.testing.conformance import Backend
from tests.support.postgres import shared_cluster


class Postgres(Backend):
    can_interrupt = True
    races: tuple[Literal["threads", "processes"], ...] = ("threads", "processes")

    def __init__(self) -> None:
        self.address = shared_cluster().address()

    def open(self, clock: Callable[[], int]) -> Storage:
        return PostgresStorage(self.place(), clock=clock)

    def place(self) -> str:
        return self.address

    def forget_caches(self) -> None:
        schema = self.address.partition("schema=")[2]
        cluster = shared_cluster()
        if cluster.execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'"):
            cluster.execute(f"DELETE FROM {schema}.snapshot; DELETE FROM {schema}.listing")

    def interrupt(self, storage: Storage, work: Callable[[], Awaitable[object]]) -> None:
        assert isinstance(storage, PostgresStorage)
        writer = storage._writer
        send, write = writer._send, writer._write

        async def interrupted_send(*args: object) -> list[int]:
            writer._send = send  # type: ignore[method-assign]
            await work()
            return await send(*args)  # type: ignore[arg-type]

        async def interrupted_write(*args: object, **options: object) -> list[int | None]:
            writer._write = write  # type: ignore[method-assign]
            # One that had nothing to write was answered from before: it is numbered once more.
            return [count or 0 for count in await write(*args, **options)]  # type: ignore[arg-type]

        writer._send = interrupted_send  # type: ignore[method-assign, assignment]
        writer._write = interrupted_write  # type: ignore[method-assign]

    def remove(self) -> None:
        shared_cluster().execute(f"DROP SCHEMA IF EXISTS {self.address.partition('schema=')[2]} CASCADE")
