"""The tables, made and migrated by the first to come, while the others wait for it.

    meta        one row: the format, how many parts there are
    part        a row a part. A chat belongs to one part for ever; who changes a chat locks the row of its part first, so
                changes of a part are in one order, and ``pos`` counts them
    chat        a row a chat: where it ends, how often it was erased in, who has the lease, what it was forked from
    line        the lines, byte for byte. A fork has only its own; the others are its parent's
    print       which lines may hold a fingerprint
    blob        contents too large for a line, in chunks
    snapshot    caches
    answer      who is being answered, and until when that is believed; piece: what has come of it. Not logged
    listing     caches, too: what a list of chats shows of each, and the token that it was made at

A deleted chat that has forks keeps its row, without a key, and the lines that they share. In SQL texts ``@`` stands before the
name of a table; it becomes the schema.
"""

from typing import Any

from psycopg import AsyncConnection, errors

from chatfold.eventlog.errors import InvalidPlace, NewerFormat, NoSuchStore
from chatfold.eventlog.postgres.place import Place

FORMAT = 1
PARTS = 256
Connection = AsyncConnection[tuple[Any, ...]]

_TABLES = """
CREATE TABLE @part (part int PRIMARY KEY, pos bigint NOT NULL DEFAULT 0) WITH (fillfactor = 10);
INSERT INTO @part (part) SELECT generate_series(0, {parts} - 1);
CREATE TABLE @chat (
    id bigint PRIMARY KEY,
    key bytea UNIQUE,
    part int NOT NULL,
    pos bigint NOT NULL,
    origin text NOT NULL,
    parent bigint,
    base bigint NOT NULL DEFAULT 0,
    head_seq bigint NOT NULL,
    head_link text NOT NULL,
    erased bigint NOT NULL DEFAULT 0,
    lease text NOT NULL DEFAULT '',
    lease_until timestamptz
) WITH (fillfactor = 70);
CREATE INDEX chat_part ON @chat (part);
CREATE INDEX chat_origin ON @chat (origin);
CREATE INDEX chat_parent ON @chat (parent) WHERE parent IS NOT NULL;
CREATE TABLE @line (chat bigint, seq bigint, token bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (chat, seq));
CREATE TABLE @print (chat bigint, fingerprint bigint, seq bigint, PRIMARY KEY (chat, fingerprint, seq));
CREATE TABLE @blob (chat bigint, digest text, number int, data bytea NOT NULL, PRIMARY KEY (chat, digest, number));
CREATE UNLOGGED TABLE @answer (key bytea PRIMARY KEY, id bigint NOT NULL, until timestamptz NOT NULL);
CREATE UNLOGGED TABLE @piece (answer bigint, number bigint, data bytea NOT NULL, PRIMARY KEY (answer, number));
CREATE TABLE @listing (chat bigint PRIMARY KEY, token text NOT NULL, data bytea NOT NULL);
CREATE TABLE @snapshot (
    chat bigint, slot bigint, seq bigint NOT NULL, link text NOT NULL, data bytea NOT NULL, PRIMARY KEY (chat, slot)
);
INSERT INTO @meta (format, parts) VALUES ({format}, {parts});
"""
_MIGRATIONS: tuple[str, ...] = ()
"""The SQL from each format to the next."""


def statement(schema: str, sql: str) -> bytes:
    return sql.replace("@", f'"{schema}".').encode()


async def prepare_schema(connection: Connection, place: Place, *, read_only: bool) -> int:
    """Makes or migrates what is not there yet; gives the number of parts."""
    schema = place.schema
    if not place.pooler:
        await _check_direct(connection)
    while True:
        try:
            found, parts = await _read_meta(connection, schema)
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            found, parts = 0, 0
        if found > FORMAT:
            raise NewerFormat(f"the schema is in format {found}, this chatfold reads up to {FORMAT}")
        if found == FORMAT:
            return parts
        if read_only:
            raise NoSuchStore(f"there are no chats in the schema {schema!r}, or those of an older chatfold")
        try:
            async with connection.transaction():
                await _migrate(connection, schema)
        except (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateSchema):
            continue  # another one made it at the same moment


async def _check_direct(connection: Connection) -> None:
    """Behind a pooler that nobody told of, a prepared statement may be one that another client has given the same name."""
    cursor = await connection.execute("SELECT pg_backend_pid()", prepare=False)
    row = await cursor.fetchone()
    if row is None or row[0] != connection.info.backend_pid:
        raise InvalidPlace("this is a pooler: add pooler=transaction or pooler=session to the address")


async def _read_meta(connection: Connection, schema: str) -> tuple[int, int]:
    cursor = await connection.execute(statement(schema, "SELECT format, parts FROM @meta"))
    row = await cursor.fetchone()
    return (int(row[0]), int(row[1])) if row else (0, 0)


async def _migrate(connection: Connection, schema: str) -> None:
    cursor = await connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,))
    if await cursor.fetchone() is None:  # who has one made for them need not be allowed to make one
        await connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
    await connection.execute(
        statement(schema, "CREATE TABLE IF NOT EXISTS @meta (format int NOT NULL, parts int NOT NULL)")
    )
    await connection.execute(statement(schema, "LOCK TABLE @meta IN ACCESS EXCLUSIVE MODE"))
    found, _ = await _read_meta(connection, schema)
    if found == 0:
        tables = _TABLES.format(format=FORMAT, parts=PARTS)
        await connection.execute(statement(schema, tables), prepare=False)
    for number in range(found, FORMAT) if found else ():
        await connection.execute(statement(schema, _MIGRATIONS[number - 1]), prepare=False)
        await connection.execute(statement(schema, f"UPDATE @meta SET format = {number + 1}"))
