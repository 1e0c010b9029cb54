"""What the suite asks of a storage under test: how it is opened, and, if that can be, how it is broken."""

from collections.abc import Awaitable, Callable
from typing import Literal

from chatfold.eventlog import Storage


class Backend:
    """One place that keeps chats, empty when it is made. Subclasses say how it is opened.

    ``open`` is called several times: all the storages that it gives are of the same place.
    """

    can_crash = False
    """Does ``crash`` do what it says?"""

    can_interrupt = False
    """Does ``interrupt`` do what it says? Else what it would interleave is raced."""

    races: tuple[Literal["threads", "processes"], ...] = ()
    """What may use the place at the same time, each with a storage of its own. For processes it must be possible to pickle it."""

    def open(self, clock: Callable[[], int]) -> Storage:
        raise NotImplementedError

    def forget_caches(self) -> None:
        """Removes everything that may be removed at any time."""

    def crash(self, storage: Storage, chat: str, keep: float) -> None:
        """The process dies, and of what was not synced in ``chat`` only this part (0 to 1) is kept."""
        raise NotImplementedError

    def abandon(self, storage: Storage) -> None:
        """The process of ``storage`` dies with the other, and has nothing that is not synced."""
        raise NotImplementedError

    def interrupt(self, storage: Storage, work: Callable[[], Awaitable[object]]) -> None:
        """The next append of ``storage`` waits for ``work``, once, after it was numbered and before it is written."""
        raise NotImplementedError

    def remove(self) -> None:
        """Removes the place."""
