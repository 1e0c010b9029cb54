"""What changes more than one chat, or reads before it writes: a transaction that holds the parts of all chats that it touches.

Everybody locks parts in their order, and a chat only under the lock of its part: no two transactions wait for each other.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from psycopg.types.numeric import Int4

from chatfold.eventlog.postgres.schema import Connection
from chatfold.eventlog.postgres.server import Server
from chatfold.eventlog.postgres.statements import LOCK

_T = TypeVar("_T")
_MOVE = "UPDATE @part SET pos = pos + 1 WHERE part = ANY(%b::int[])"
_MARK = """WITH p AS (UPDATE @part p SET pos = p.pos + 1 FROM @chat c WHERE c.id = %b AND p.part = c.part RETURNING p.pos)
    UPDATE @chat c SET pos = p.pos FROM p WHERE c.id = %b"""


class Locked:
    """A transaction, and the parts that it holds."""

    def __init__(self, server: Server, connection: Connection, parts: Collection[int]) -> None:
        self._server = server
        self._connection = connection
        self.parts = parts

    async def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        cursor = await self._connection.execute(self._server.sql(text), values, binary=True)
        return await cursor.fetchall() if cursor.description else []

    async def many(self, text: str, values: Sequence[Sequence[object]]) -> None:
        async with self._connection.cursor(binary=True) as cursor:
            await cursor.executemany(self._server.sql(text), values)

    async def mark_changed(self, ids: Sequence[int]) -> None:
        """Each has a place of its own among the changes of its part."""
        await self.many(_MARK, [(one, one) for one in ids])


class MoreParts(Exception):
    """The transaction found that it touches more: once more from the start, with these locked, too."""

    def __init__(self, parts: Collection[int]) -> None:
        super().__init__(parts)
        self.parts = parts


async def with_parts(
    server: Server, parts: Collection[int], work: Callable[[Locked], Awaitable[_T]], chat: str
) -> _T:
    """What the work gives, committed. It may be begun several times, also after it was committed."""
    wanted = set(parts)

    async def attempt(connection: Connection) -> _T:
        async with connection.transaction():
            values = [*map(Int4, sorted(wanted))]
            locked = Locked(server, connection, wanted)
            await locked.rows(LOCK, values)
            await locked.rows(_MOVE, values)
            return await work(locked)

    while True:
        try:
            return await server.retry(attempt, chat)
        except MoreParts as more:
            wanted |= {*more.parts}
