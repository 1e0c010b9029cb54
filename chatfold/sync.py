"""chatfold without ``await``: for a program without an event loop, a notebook, a thread.

    with chatfold.sync.Store("./chats") as store:
        store.chat("a").user("hi")

``Store``, ``Chat``, ``Moment`` and ``Agent`` have the methods of ``chatfold``, with the same names and promises; all other names come
from ``chatfold`` itself. Any thread may use them. See ``chatfold.bridge``; ``sync.pyi``, which is written from the signatures, is what
type checkers and editors see.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from chatfold import agent
from chatfold.bridge import Proxy, call, proxy_of
from chatfold.eventlog import Entry, Event


class Store(Proxy):
    of = agent.Store


class Moment(Proxy):
    of = agent.Moment


class Chat(Moment):
    of = agent.Chat

    def append_if(
        self, events: Callable[[Any], Iterable[Event] | Awaitable[Iterable[Event]]], **how: Any
    ) -> list[Entry]:
        """``events`` is called on the loop's thread, with a ``Moment`` of which it may read what is in memory."""
        appended: list[Entry] = call(self._it.append_if, lambda now: events(proxy_of(now)), **how)
        return appended


class Agent(Proxy):
    of = agent.Agent


__all__ = ["Agent", "Chat", "Moment", "Store"]
