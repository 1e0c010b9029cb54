"""Threads and tasks for what may never return: a program ends without waiting for them."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_running: dict[threading.Thread, str] = {}


async def in_thread(name: str, function: Callable[..., T], *args: Any, **fields: Any) -> T:
    """What the function returns or raises, on a daemon thread. If we are cancelled, the thread is left behind."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(value) if error is None else future.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(function, *args, **fields)
        except BaseException as raised:  # noqa: BLE001 (raised where it is awaited)
            error = raised if not isinstance(raised, StopIteration) else RuntimeError("StopIteration")
        _running.pop(threading.current_thread(), None)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, error)

    thread = threading.Thread(target=work, name=f"chatfold {name}", daemon=True)
    _running[thread] = name
    thread.start()
    return await future


def left_behind() -> list[str]:
    """The names of the functions that still run."""
    return sorted(_running.values())


def leave_behind(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Lets ``asyncio.run`` end although some of these ignore that they are cancelled: it waits for all tasks it knows of."""
    for task in tasks:
        if not task.done():
            asyncio._unregister_task(task)  # noqa: SLF001 (documented, for loops of one's own)
