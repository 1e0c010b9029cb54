"""The bridge from programs without ``await`` to the event loop: one thread runs one loop for the whole process.

A proxy stands for an object of ``chatfold.agent``. Whatever is asked of it is done on the loop's thread, also reading what is in
memory: so any number of threads may hold one proxy. A call costs two thread switches. Results that are such objects come as
proxies, asynchronous iterators as iterators.
"""

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

from chatfold.eventlog import ChatfoldError


class InLoop(ChatfoldError):
    next_step = "Use the async object there, or do it from another thread"


class _Loop:
    """The one of this process. The thread is a daemon: it keeps no program from ending."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="chatfold", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


_lock = threading.Lock()
_current: _Loop | None = None


def _loop() -> _Loop:
    global _current  # noqa: PLW0603 (one a process)
    with _lock:
        if (
            _current is None or _current.pid != os.getpid()
        ):  # a forked process has no other thread than its own
            _current = _Loop()
        return _current


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the function gives, or what it gives when awaited; done on the loop's thread."""
    there = _loop()
    if threading.current_thread() is there.thread:
        value = function(*args, **kwargs)
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise InLoop("this waits, and it was called on the event loop of chatfold.sync")
        return value
    future = asyncio.run_coroutine_threadsafe(_done(function, *args, **kwargs), there.loop)
    try:
        return future.result()
    except BaseException:  # Ctrl-C above all: nobody waits for it any more
        future.cancel()
        raise


async def call_from(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The same, for a coroutine of any event loop, which goes on meanwhile."""
    there = _loop()
    work = _done(function, *args, **kwargs)
    if asyncio.get_running_loop() is there.loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, there.loop))


async def _done(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    value = function(*args, **kwargs)
    return await value if inspect.isawaitable(value) else value


def iterate(values: AsyncIterator[Any]) -> Iterator[Any]:
    async def following() -> tuple[Any, ...]:
        try:
            return (await anext(values),)
        except StopAsyncIteration:
            return ()

    try:
        while found := call(following):
            yield proxy_of(found[0])
    finally:
        if close := getattr(values, "aclose", None):
            call(close)


class _Kind(type):
    """Class methods of what it stands for are those of the proxy, too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _bridge(getattr(cls.of, name))


class Proxy(metaclass=_Kind):
    """An object of the class ``of``, without ``await``."""

    of: ClassVar[type]
    kinds: ClassVar[dict[type, type["Proxy"]]] = {}
    _it: Any

    def __init_subclass__(cls) -> None:
        Proxy.kinds[cls.of] = cls

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._it = call(self.of, *map(async_of, args), **_async_values(kwargs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _bridge(call(getattr, self._it, name))

    def __getitem__(self, key: Any) -> Any:
        return call(self._it.__getitem__, key)

    def __enter__(self) -> Self:
        call(self._it.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        call(self._it.__aexit__, kind, error, where)

    def __dir__(self) -> list[str]:
        return dir(self._it)

    def __repr__(self) -> str:
        return f"sync.{call(repr, self._it)}"


def proxy_of(value: Any) -> Any:
    """A proxy if there is one for values of this class; the value itself if there is none."""
    kind = Proxy.kinds.get(type(value))
    if kind is None:
        return value
    proxy = kind.__new__(kind)
    proxy._it = value  # noqa: SLF001 (it is made here)
    return proxy


def async_of(value: Any) -> Any:
    """What a proxy stands for; any other value as it is."""
    return value._it if isinstance(value, Proxy) else value  # noqa: SLF001


def _async_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: async_of(value) for name, value in values.items()}


def _bridge(value: Any) -> Any:
    """A method as one without ``await``; anything else as it is, or as a proxy."""
    if not inspect.isroutine(value):
        return proxy_of(value)

    def method(*args: Any, **kwargs: Any) -> Any:
        found = call(value, *map(async_of, args), **_async_values(kwargs))
        return iterate(found) if hasattr(found, "__anext__") else proxy_of(found)

    method.__name__, method.__doc__ = value.__name__, value.__doc__
    return method
