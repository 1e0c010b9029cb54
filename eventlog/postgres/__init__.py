"""Chats in PostgreSQL, for any number of machines. Needs ``chatfold[postgres]``.

storage     PostgresStorage: reading, listing; whom each verb is passed to
place       the address of a database and a schema; passwords stay in it
schema      the tables; made and migrated
server      connections, and what becomes of lost ones
writer      appends: groups, what is sent again; turn: those of one chat numbered, without I/O
wire        the connection of appends: statements sent together, and their answers
statements  the SQL of appending and reading, and its values
locking     transactions over several chats; family: fork, redact, delete; transfer: import
news        hints that a chat has grown; leases: who may run it; snapshots: caches; deltas: answers that are coming
"""
