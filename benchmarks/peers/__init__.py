"""What people would pick instead, each in a module that shows how it is used.

A peer is a class ``Store`` with these methods; what it does not have, it cannot do, and the tables say "no such job":

    Store(place, durable, setting)     opens or makes a store in this folder; setting: what the list below says
    ready(chat)                        optional: what is done once before a chat is used, outside of the clock
    append(chat, items)                one turn, acknowledged as the peer acknowledges it
    build(chat, turns)                 the quickest way to many turns, if that is not an append of many
    last(chat, count, upto)            the last so many messages, or those up to message number ``upto``
    replay(chat)                       all of them, in the peer's own types, one after the other
    fork(chat, new, at), forget(new)   a chat with the first ``at`` messages of another; and without it again
    compact(chat, summary, keep)       a summary and the last ``keep`` messages in the place of everything
    search(chat, text)                 how many of the first 20 hits there are
    switch(chat)                       leaves this line of thought for another and comes back: the prompt there
    close()

and two functions, used outside of the clock: ``native(message)`` makes what ``append`` takes from a message of the workload,
``plain(item)`` makes the message again from what ``last`` and ``replay`` give. So every peer is given its own types, and
what it gives back is checked against what was said.
"""

from importlib import import_module
from inspect import signature
from typing import Any, NamedTuple


class Peer(NamedTuple):
    """``most``: the longest chat that is built for it; more would take more than some minutes. ``why``: that."""

    label: str
    module: str
    setting: str = ""
    needs: str = ""  # the distribution
    framework: bool = False
    only: tuple[str, ...] = ()  # jobs, if it is here for some of them only
    pace: int = 8_000  # more turns a second than that it does not append: so many are made ready
    most: int = 1_000_000
    why: str = ""


OURS = "chatfold"
LOG = "chatfold, the log alone"
HOP = "write + fdatasync in a thread"
FULL = "raw SQLite WAL FULL"
NORMAL = "raw SQLite WAL NORMAL"
LIKE = "raw SQLite WAL FULL, LIKE"
GROUP = "write + fdatasync, shared by all who wait"
DECODE = "msgspec decode alone"

_SLOW = "one transaction and one connection a message"
_SQUARE = "its checkpoints grow with the square of the chat"
PEERS = {
    peer.label: peer
    for peer in (
        Peer(OURS, "chatfold", needs="chatfold"),
        Peer(LOG, "chatfold", "log", only=("append", "relaxed")),
        Peer(HOP, "bare", "append", only=("append", "relaxed")),
        Peer(GROUP, "bare", "group", only=("append",), pace=15_000),
        Peer(DECODE, "bare", "replay", only=("replay",)),
        Peer(FULL, "sqlite"),
        Peer(f"{FULL}, a file a chat", "sqlite", "files", only=("append",)),
        Peer(NORMAL, "sqlite", "normal", only=("relaxed",)),
        Peer(LIKE, "sqlite", "like", only=("search",)),
        Peer("LMDB", "lmdb_store", needs="lmdb"),
        Peer("naive JSONL", "jsonl"),
        Peer(
            "OpenAI Agents SQLiteSession", "openai_agents", needs="openai-agents", framework=True, pace=4_000
        ),
        Peer(
            "OpenAI Agents AdvancedSQLiteSession",
            "openai_agents",
            "advanced",
            "openai-agents",
            framework=True,
            pace=2_000,
            most=100_000,
            why="its forks copy every message",
        ),
        Peer(
            "LangGraph SqliteSaver",
            "langgraph_saver",
            "sync",
            "langgraph-checkpoint-sqlite",
            framework=True,
            pace=500,
            most=1_000,
            why=_SQUARE,
        ),
        Peer(
            "LangGraph SqliteSaver, one checkpoint a turn",
            "langgraph_saver",
            "exit",
            "langgraph-checkpoint-sqlite",
            framework=True,
            pace=500,
            most=1_000,
            why=_SQUARE,
        ),
        Peer(
            "LangGraph SqliteSaver, DeltaChannel",
            "langgraph_saver",
            "delta",
            "langgraph-checkpoint-sqlite",
            framework=True,
            pace=500,
            most=1_000,
            why="its turns take longer the longer the chat is",
        ),
        Peer(
            "Google ADK SqliteSessionService",
            "google_adk",
            needs="google-adk",
            framework=True,
            pace=200,
            most=10_000,
            why=_SLOW,
        ),
        Peer(
            "Google ADK SqliteSessionService, WAL",
            "google_adk",
            "wal",
            "google-adk",
            framework=True,
            pace=200,
            only=("append",),
        ),
        Peer(
            "eventsourcing SQLite",
            "eventsourcing_store",
            needs="eventsourcing",
            framework=True,
            pace=3_000,
            most=100_000,
            why="a million events take it minutes to write",
        ),
        Peer(
            "OpenHands EventLog",
            "openhands",
            needs="openhands-sdk",
            framework=True,
            pace=400,
            most=10_000,
            why="a file a message",
        ),
    )
}


def module_of(name: str) -> Any:
    return import_module(f"benchmarks.peers.{name}")


def store_of(peer: Peer) -> Any:
    module = module_of(peer.module)
    return module.STORES[peer.setting] if hasattr(module, "STORES") else module.Store


def jobs_of(peer: Peer) -> set[str]:
    """What it can do, by the methods that it has."""
    store = store_of(peer)
    has = {
        name for name in ("append", "replay", "fork", "compact", "search", "switch") if hasattr(store, name)
    }
    if "append" in has and peer.setting in getattr(module_of(peer.module), "RELAXED", ()):
        has.add("relaxed")
    if hasattr(store, "last"):
        has |= {"next", "last", "small"}
        if "upto" in signature(store.last).parameters:
            has.add("at")
    return has & set(peer.only) if peer.only else has
