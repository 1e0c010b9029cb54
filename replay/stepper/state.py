"""What the stepper shows, as a value, and what its keys work on."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from chatfold.agent import Store
from chatfold.replay.inspect.cursor import Replay
from chatfold.replay.inspect.forks import Branch, family
from chatfold.replay.inspect.selection import kind_filter, parse_kinds
from chatfold.replay.render.line import Line  # noqa: TC001 (see the annotation)
from chatfold.replay.stepper.filter import Sieve, Tell, tell_nobody

Tab: TypeAlias = Literal["context", "messages", "diff", "event", "tree", "why"]
TABS: tuple[Tab, ...] = ("context", "messages", "diff", "event", "tree")


class State(msgspec.Struct, frozen=True):
    chat: str
    cursor: int  # the seq of the entry it stands on; 0: before the first
    end: int
    seen: int = 0  # the end when the cursor was last there, or when it all began
    tab: Tab = "context"
    mark: int | None = None  # A
    kinds: tuple[str, ...] = ()  # as typed, of what is listed; none: all
    errors: bool = False  # nothing but errors is listed
    query: str = ""
    hits: tuple[int, ...] = ()
    asked: int = 0  # why: of this entry
    in_detail: bool = False  # the detail pane has the focus
    line: int = 0  # the line of it that is chosen
    prompt: Literal["", ":", "/", "f"] = ""
    typed: str = ""
    message: str = ""
    help: bool = False
    following: bool = False
    code: int | None = None  # with which the stepper ends

    @property
    def new(self) -> int:
        """How many entries came since the end was last seen."""
        return self.end - self.seen

    @property
    def filters(self) -> bool:
        """Are there entries that are not listed?"""
        return bool(self.kinds or self.errors)

    @property
    def place(self) -> tuple[object, ...]:
        """What the detail pane is about."""
        return self.chat, self.cursor, self.tab, self.mark, self.asked

    @property
    def address(self) -> str:
        return f"{self.chat}@e{self.cursor}"


class Session:
    """What the keys work on. ``page``: lines of a pane. ``has_one_pane``: the terminal is too small for both. ``lines``: what the detail pane shows, for whoever chooses one."""

    def __init__(self, store: Store, replay: Replay, *, place: str = "") -> None:
        self.store = store
        self.replay = replay
        self.place = place
        self.page = 20
        self.has_one_pane = False
        self.lines: Sequence[Line] = ()
        self.tell: Tell = tell_nobody
        self._other: Replay | None = None
        self._sieves: dict[tuple[str, tuple[str, ...], bool], Sieve] = {}

    async def open(self, key: str) -> None:
        self.replay = Replay(await self.store.chat(key))
        self._other = None

    async def at(self, seq: int) -> Replay:
        """The same chat elsewhere: a second cursor, so that the first stays where it is."""
        if self._other is None:
            self._other = Replay(self.replay.chat)
        return await self._other.seek(seq)

    def sieve(self, kinds: tuple[str, ...], *, errors: bool) -> Sieve:
        name = self.replay.key, kinds, errors
        if name not in self._sieves:
            self._sieves[name] = Sieve(
                self.replay.log, self.replay.key, kind_filter(parse_kinds(" ".join(kinds)), errors=errors)
            )
        return self._sieves[name]

    async def family(self) -> list[Branch]:
        return family([one async for one in self.store.chats()], self.replay.key)


Action: TypeAlias = Callable[[Session, State], Awaitable[State]]
"""What a key does."""

Plain: TypeAlias = Callable[[State], State]
"""The same, where nothing has to be read for it."""
