"""Moment: a chat as it was after one entry, and everything that can be read of it there."""

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from agent.errors import NoSuchContext
from agent.opening import Opened, entries_of
from eventlog import Entry, Hit, Log
from projections import (
    Cut,
    Execution,
    IndexRow,
    Message,
    Projection,
    View,
    Window,
    anthropic,
    archived,
    contexts,
    cut,
    digests,
    estimate,
    executions,
    index,
    openai_chat,
    openai_responses,
    previews,
    window,
)
from projections.prompt import build
from projections.spans import includes
from projections.tokens import Counter

S = TypeVar("S")

SHAPES: dict[str, Callable[..., Any]] = {
    "neutral": lambda messages, **_: messages,
    "openai": lambda messages, **_: openai_chat(messages),
    "openai-responses": openai_responses,
    "anthropic": anthropic,
}
"""What ``messages`` come as; ``model=`` is for those that take reasoning back."""


class Moment:
    """What is in memory is read without ``await``: ``moment.seq``, ``moment[usage].tokens``."""

    def __init__(self, log: Log, key: str, opened: Opened) -> None:
        self.log = log
        self.key = key
        self.view: View = opened.view
        self._recent = opened.recent  # ends at the view's seq, or is empty

    def __getitem__(self, projection: Projection[S]) -> S:
        return self.view[projection]

    @property
    def seq(self) -> int:
        return self.view.seq

    async def entries(self, first: int = 1, last: int | None = None) -> AsyncIterator[Entry]:
        """The entries ``first`` … ``last``, or up to here."""
        last = self.seq if last is None else min(last, self.seq)
        async for entry in self.log.read(self.key, first, last):
            yield entry

    # --- what the model is sent --------------------------------------------------------------------------

    async def messages(
        self,
        shape: str = "neutral",
        *,
        model: str = "",
        most: int | None = None,
        tokens: int | None = None,
        count: Counter = estimate,
    ) -> Any:
        """What the model is sent next, in one of the ``SHAPES``, the newest ``most`` messages or ``tokens`` of it."""
        if shape not in SHAPES:
            raise ValueError(f"no such shape: {shape!r}; there are: {', '.join(SHAPES)}")
        return SHAPES[shape]((await self.prompt(most=most, tokens=tokens, count=count)).messages, model=model)

    async def prompt(
        self, *, most: int | None = None, tokens: int | None = None, count: Counter = estimate
    ) -> Cut:
        """The same, neutral, with its size and what was left out."""
        return cut(await self.shown(), most=most, tokens=tokens, count=count)

    async def shown(self, context_id: str | None = None) -> tuple[Message, ...]:
        """All that a model sees of the active context, or would see of another."""
        part = self._window(context_id)
        return build(part, await entries_of(self.log, self.key, part.entries, self._recent))

    def _window(self, context_id: str | None = None) -> Window:
        state = self.view[contexts]
        if context_id is not None and context_id != state.active.id and context_id not in state.shelf:
            raise NoSuchContext(f"there is no context {context_id!r}", chat=self.key, seq=self.seq)
        return window(state, self.seq, context_id)

    async def search(self, query: str, *, limit: int = 20, everything: bool = False) -> list[Hit]:
        """What was ever said that holds all words of the query, best first: archived, compacted, rewound.

        What the model sees anyway is not found, unless ``everything`` is asked for.
        """
        seen = () if everything else self._window().spans
        return await self.log.search(self.key, query, limit=limit, without=((*seen, (self.seq + 1, 1 << 62))))

    async def find_context(self, query: str) -> str:
        """The id of the archived context that fits best: by its title, else by anything said in it."""
        state = self.view[contexts]
        words = query.casefold().split()
        for context in archived(state):
            if words and all(word in context.title.casefold() for word in words):
                return context.id
        here = state.spans(state.active.id, self.seq)
        for hit in await self.log.search(self.key, query, limit=200, without=here):
            for context in archived(state):
                if includes(context.spans, hit.seq):
                    return context.id
        raise NoSuchContext(f"no archived context matches {query!r}", chat=self.key)

    # --- what else there is ------------------------------------------------------------------------------

    async def list_contexts(self, limit: int | None = 20) -> list[IndexRow]:
        """The archived contexts, last left first."""
        state = self.view[contexts]
        shelf = archived(state, limit)
        wanted = tuple((seq, seq) for seq in previews(state, shelf))
        return index(state, shelf, await entries_of(self.log, self.key, wanted, self._recent))

    async def executions(self, limit: int = 200) -> list[Execution]:
        """What the last runs did, in a few words each."""
        since = self.view[executions].since(limit)
        return digests([entry async for entry in self.entries(since)], limit)
