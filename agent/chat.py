"""Chat: one chat, to be written and read. Everything it shows is folded from its log; everything it does is an event.

Other processes may write the same chat. Whatever a verb appends, what they wrote before it is folded first; a verb
that decides something (which context, what to compact) decides it about the chat as it is at that very moment,
and again if somebody else was quicker. A verb that refuses has left no trace.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, Self, TypeAlias
from weakref import WeakMethod

from msgspec.structs import replace

from chatfold.agent.compaction import DEFAULT, Policy, Summarise, aside, compact, due, halved, size
from chatfold.agent.contexts import cleared, loaded, opened_anew, recalled
from chatfold.agent.errors import NoSuchContext, PromptTooLarge
from chatfold.agent.exporting import Form
from chatfold.agent.kept_prompt import IdleTimer, KeptPrompt
from chatfold.agent.messages import (
    EVENTS,
    Content,
    Given,
    ToolCall,
    assistant,
    events_of,
    injected,
    is_empty,
    new_id,
    parsed,
    user,
)
from chatfold.agent.moment import Moment
from chatfold.agent.summary import by_looking
from chatfold.agent.views import KEEP, MOST, PAUSE_S, Later, Opened, go_on, keep_up, open_view, put_off
from chatfold.eventlog import (
    ChatDeleted,
    CheckpointSet,
    CompactionReverted,
    Conflict,
    Durability,
    Entry,
    Event,
    Head,
    InvalidEvent,
    Json,
    Log,
    NoSuchPoint,
    Redacted,
    Rewound,
    Role,
    SkillActivated,
    SkillDeactivated,
    ToolCalled,
)
from chatfold.projections import contexts, estimate, lineage
from chatfold.projections.tokens import Counter

Point: TypeAlias = int | str | datetime
"""A seq, or one counted back from the end (-1: before the last entry), the name of a checkpoint, or a time."""


class Chat(Moment):
    """One chat, at its end: it can be written, and it takes in what others write. ``await store.chat(key)`` gives one.

    What is in memory is read without ``await``: ``chat.seq``, ``chat[usage].tokens``. Every verb is one append, or nothing; an
    ``await`` that was cancelled may have happened: do it again with its ``id``.
    """

    def __init__(self, log: Log, key: str, opened: Opened, later: Later) -> None:
        super().__init__(log, key, opened, KeptPrompt(opened))
        self._kept = opened.snapshot  # where the newest snapshot is, as far as we know
        self._kept_at = 0.0  # when, by the loop's clock
        self._idle = IdleTimer(WeakMethod(self.rest))
        self._head = opened.head
        self._new: list[Entry] = []  # up to the head, not folded yet: nobody has asked
        self._later = later

    # --- recording ---------------------------------------------------------------------------------------

    async def record(
        self,
        *messages: Given,
        after: int | None = None,
        id: str | None = None,
        run: str | None = None,
        keys: Sequence[str | None] = (),
        said_at: datetime | None = None,
        durability: Durability | None = None,
    ) -> list[Entry]:
        """Appends events and messages as one: all of them, durable on return, or none. Gives their entries.

        A message is an event, the dict of a provider, or the object of its SDK. ``after``: only if nothing came after this seq, else
        ``Conflict``. ``id``: recorded once, however often it is said; with other content it is ``IdConflict``. ``said_at``: when it
        was said, if that was not now. Raises ``InvalidEvent`` for what cannot be recorded. ``keys``: one for each event, or None: an event whose key was used before
        is not recorded again.
        """
        events = messages if all(type(one) in EVENTS for one in messages) else events_of(messages)
        entries = await self.log.append(
            self.key,
            *events,
            after=after,
            id=id,
            run=run,
            keys=keys,
            durability=durability,
            known=self._head,
            said_at=() if said_at is None else [round(said_at.timestamp() * 1000)] * len(events),
        )
        await self._take(entries)
        return entries

    async def user(
        self,
        *content: Content,
        id: str | None = None,
        said_at: datetime | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> Entry:
        """Records what the user said: text, files, or parts as a provider writes them. Raises ``InvalidEvent`` if that is nothing.

        ``id``: the platform's. A message that is delivered twice is recorded once.
        """
        event = user(*content, meta=meta)
        if is_empty(event.parts):
            raise InvalidEvent("a message of the user without content", chat=self.key)
        return (await self.record(event, id=id, said_at=said_at))[0]

    async def assistant(
        self,
        *content: Content,
        id: str | None = None,
        run: str | None = None,
        said_at: datetime | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> Entry:
        """Records what the assistant said. A reply as the provider gave it, with its tool calls, is for ``record``."""
        return (await self.record(assistant(*content, meta=meta), id=id, run=run, said_at=said_at))[0]

    async def tool_call(
        self, name: str, args: Json = None, *, call: str | None = None, run: str | None = None
    ) -> ToolCall:
        """Records a call before the tool runs; ``record(call.result(x))`` answers it.

        ``args``: JSON, or the text of a JSON object, as OpenAI writes it. ``call``: the provider's id of the call, if there is one.
        """
        call, args = call or new_id("call"), parsed(args)
        [entry] = await self.record(ToolCalled(call, name, args), run=run)
        return ToolCall(call, name, args, entry.seq)

    async def activate_skill(
        self, name: str, text: str = "", *, fingerprint: str = "", run: str | None = None
    ) -> Entry:
        """From now on the model is given this text in the system prompt."""
        return (await self.record(SkillActivated(name, fingerprint, text), run=run))[0]

    async def deactivate_skill(self, name: str) -> Entry:
        """From now on it is not."""
        return (await self.record(SkillDeactivated(name)))[0]

    async def inject(
        self,
        *content: Content,
        role: Role = "user",
        fingerprint: str | None = None,
        source: str = "",
        run: str | None = None,
    ) -> list[Entry]:
        """Shows the model what nobody said, once: records nothing if it sees one of this fingerprint already.

        Without a ``fingerprint`` that is the same content in the same role. ``source``: what added it.
        """
        event = injected(role, content, fingerprint, source)

        async def once(now: Moment) -> Iterable[Event]:
            prompt = await now._whole_prompt()  # noqa: SLF001 (a chat is a moment)
            return () if event.fingerprint in prompt.injected else (event,)

        return await self.append_if(once, run=run)

    async def merge(self, history: Iterable[Given]) -> list[Entry]:
        """Records what is new of a history that a client sent whole: messages of OpenAI, Anthropic or the AI SDK, or events.

        Nothing is recorded twice, compactions stay, and where the client went back the chat is rewound. ``client_history`` says
        what is new. Raises ``OtherHistory`` if the two have nothing in common.
        """
        from chatfold.agent.client_history import continued  # noqa: PLC0415 (for those who have such clients)

        sent = events_of(history)

        async def new(now: Moment) -> Iterable[Event]:
            whole = await now.context_entries(everything=True) if now[contexts].shelf else ()
            events = continued(await now.context_entries(), sent, chat=self.key, whole=whole, seq=now.seq)
            match events:
                case (Rewound(to=to, reason=reason), *rest) if not await self._is_here(to, now):
                    # Before the question was carried here we were elsewhere: it stays, and what follows is new.
                    return (Rewound(now[contexts].since, reason), *rest)
            return events

        return await self.append_if(new)

    async def _is_here(self, seq: int, now: Moment) -> bool:
        """Was the context that is active now the active one after this entry?"""
        return (await self.at(seq))[contexts].active.id == now[contexts].active.id

    # --- keeping up --------------------------------------------------------------------------------------

    @property
    def opened(self) -> Opened:
        if self._new:
            self._opened, self._new = self._opened.then(*self._new), []
        return self._opened

    @property
    def seq(self) -> int:
        return self._head.seq

    async def now(self) -> Moment:
        await self.refresh()
        self._idle.restart()
        return Moment(self.log, self.key, self.opened, self._prompt)

    async def refresh(self) -> Self:
        """Takes in what others have written since. Whatever is asked of a chat with ``await`` does this first."""
        known = self._head
        head = await self.log.head(self.key)
        if head.seq < known.seq:
            raise ChatDeleted("the chat was deleted", chat=self.key, seq=known.seq)
        if head.seq == known.seq and head.link != known.link:
            raise self._replaced()
        if head.seq > self.seq:
            await self._take(await self.log.last(self.key, head.seq - self.seq, head.seq))
        return self

    async def _take(self, entries: list[Entry]) -> None:
        """Takes in these entries, and before them what others wrote in between. Folded is what is asked for."""
        new = entries if entries[0].seq > self.seq else [entry for entry in entries if entry.seq > self.seq]
        while new and new[0].seq > self.seq + 1:
            between = [entry async for entry in self.log.read(self.key, self.seq + 1, new[0].seq - 1)]
            if not between:
                raise ChatDeleted("the chat was deleted", chat=self.key, seq=self.seq)
            # Another task may have taken some of them meanwhile.
            new = [entry for entry in (*between, *new) if entry.seq > self.seq]
        if not new:
            return
        if new[0].prev != self._head.link:
            raise self._replaced()
        if any(type(entry.event) is Redacted for entry in new):
            await self._reopen()
            return
        if any(type(entry.event) is Rewound for entry in new):
            before = self._head
            opened = await go_on(self.log, self.key, self.opened, new)
            if self._head != before:  # another task has taken them meanwhile, and more
                await self._take(entries)
                return
            self._opened, self._new = opened, []
        else:
            self._new += new
        self._head = Head(new[-1].seq, new[-1].link)
        behind, now = self.seq - self._kept, asyncio.get_running_loop().time()
        if behind >= MOST or (behind >= KEEP and now - self._kept_at >= PAUSE_S):
            put_off(keep_up(self.log, self.key, self._kept, self.opened), self._later)
            self._kept, self._kept_at = self.seq, now
        self._idle.restart()
        if self._prompt.is_due(new[-1]):
            self.keep_window()

    def keep_window(self) -> None:
        self._prompt.put_off(self.log, self.key, self.opened, self._kept, self._later)

    def rest(self) -> None:
        """Keeps the window for whoever opens the chat next, and lets go of the prompt."""
        self.keep_window()
        self._prompt.let_go()
        self._opened = self.opened.without_entries()

    def _replaced(self) -> ChatDeleted:
        return ChatDeleted("another chat of the same key took its place", chat=self.key, seq=self.seq)

    async def _reopen(self) -> None:
        """The history was changed: what was folded before may hold what was erased."""
        opened = await open_view(self.log, self.key, projections=self._opened.projections, later=self._later)
        if opened.seq >= self.seq:  # else another task has opened it since, and knows more
            self._opened, self._kept, self._head, self._new = opened, opened.snapshot, opened.head, []
            self._prompt = KeptPrompt(opened)

    async def append_if(
        self,
        events: Callable[[Moment], Iterable[Event] | Awaitable[Iterable[Event]]],
        *,
        run: str | None = None,
    ) -> list[Entry]:
        """Appends what ``events`` says about the chat as it is now; it is asked again if somebody else was quicker."""
        while True:
            now = await self.now()
            answer = events(now)
            wanted = tuple(await answer if isinstance(answer, Awaitable) else answer)
            if not wanted:
                return []
            try:
                return await self.record(*wanted, after=now.seq, run=run)
            except Conflict:
                continue

    # --- contexts ----------------------------------------------------------------------------------------

    async def new_context(self, title: str = "", reason: str = "", *, run: str | None = None) -> str:
        """Shelves this line of thought and begins another, with the question being asked; gives its id."""
        new = new_id("ctx")
        await self.append_if(lambda now: opened_anew(now.view, new, title, reason), run=run)
        return new

    async def load_context(
        self,
        query: str | None = None,
        *,
        context_id: str | None = None,
        reason: str = "",
        run: str | None = None,
    ) -> str:
        """Takes up an archived context again; gives its id. Raises ``NoSuchContext`` if none fits.

        ``query``: its id, its title, or anything that was said in it. ``context_id``: its id and nothing else.
        """
        if context_id is None and query is None:
            raise ValueError("which context? Give a query or a context_id")
        chosen = await self._context_of(query or "") if context_id is None else context_id
        await self.append_if(lambda now: loaded(now.view, chosen, reason, chat=self.key), run=run)
        return chosen

    async def clear_context(self, reason: str = "", *, run: str | None = None) -> str:
        """An empty context in the place of this one, which goes to the shelf; gives the new one's id."""
        await self.append_if(lambda now: cleared(now.view, reason), run=run)
        return self[contexts].active.id

    async def _context_of(self, query: str) -> str:
        state = (await self.now())[contexts]
        return query if query in state.shelf or query == state.active.id else await self.find_context(query)

    async def recall(
        self,
        query: str,
        mode: Literal["summary", "recent", "full"] = "summary",
        *,
        run: str | None = None,
    ) -> Entry:
        """Shows the model an archived context for reference only. The active one stays.

        ``query``: its id, its title, or anything that was said in it. ``mode``: its newest summary or its last lines, its last
        messages, or all of it.
        """
        try:
            context_id = await self._context_of(query)
        except (NoSuchContext, ValueError):  # no letter to search for is no context either
            raise NoSuchContext(f"there is no context {query!r}", chat=self.key, seq=self.seq) from None
        shown = await self.messages(context=context_id)
        return (await self.record(recalled(context_id, mode, shown), run=run))[0]

    # --- compaction --------------------------------------------------------------------------------------

    async def compact(
        self,
        policy: Policy = DEFAULT,
        *,
        summarise: Summarise = by_looking,
        trigger: str = "manual",
        count: Counter = estimate,
    ) -> list[Entry]:
        """Puts older messages behind a summary, and keeps them in the log. Gives the compactions: none if there was nothing to do, or
        another writer did it. Raises ``SummaryFailed``, or ``PromptTooLarge`` if it cannot fit; then nothing was changed.
        """
        return await compact(self, policy, summarise, trigger, count)

    async def compact_if_due(
        self, policy: Policy = DEFAULT, *, summarise: Summarise = by_looking, count: Counter = estimate
    ) -> list[Entry]:
        """The same, if there are more messages or tokens than the policy allows."""
        now = await self.now()
        messages = await now.messages()
        trigger = await aside(messages, lambda: due(now.view, messages, policy, count))
        return await compact(self, policy, summarise, trigger, count) if trigger else []

    async def compact_after(
        self,
        error: BaseException,
        policy: Policy = DEFAULT,
        *,
        summarise: Summarise = by_looking,
        count: Counter = estimate,
    ) -> list[Entry]:
        """The same, to half the size, after a provider refused the prompt as too long. Any other error is raised.

        If half the size cannot be reached, as small as possible; PromptTooLarge if that is no smaller than what was refused.
        """
        from chatfold.agent.models.errors import is_too_long  # noqa: PLC0415 (for those who ask models)

        if not is_too_long(error):
            raise error
        now = await self.now()
        prompt = await now.cut(count=count)
        refused = max(size(now.view, prompt.messages, count), prompt.tokens.count)
        tighter = halved(policy, refused)
        try:
            return await compact(self, tighter, summarise, "provider_error", count)
        except PromptTooLarge as least:
            if least.tokens >= refused:
                raise
            tighter = replace(tighter, budget=least.tokens)
            return await compact(self, tighter, summarise, "provider_error", count)

    async def revert_compaction(self, seq: int, reason: str = "") -> list[Entry]:
        """Shows again what the compaction of entry ``seq`` hid. Nothing if it is not in force."""

        def events(now: Moment) -> Iterable[Event]:
            return (CompactionReverted(seq, reason),) if now[contexts].context_of(seq) else ()

        return await self.append_if(events)

    # --- time --------------------------------------------------------------------------------------------

    async def checkpoint(self, name: str) -> Entry:
        """Names this point; the same name again moves it."""
        return (await self.record(CheckpointSet(name)))[0]

    async def at(self, point: Point) -> Moment:
        """The chat as it was after an entry: by its seq, by the name of a checkpoint, or by the time."""
        seq = await self.seq_of(point)
        opened = await open_view(self.log, self.key, at=seq, projections=self._opened.projections)
        return Moment(self.log, self.key, opened)

    async def rewind(self, to: Point, reason: str = "") -> Entry:
        """Goes back: what the model sees is again what it was there. What lies between stays in the log."""
        return (await self.record(Rewound(await self.seq_of(to), reason)))[0]

    async def fork(self, key: str, at: Point | None = None) -> "Chat":
        """A chat of its own that has everything up to ``at`` (default: all) and then goes its own way."""
        first = await self.log.fork(self.key, key, None if at is None else await self.seq_of(at))
        if Head(first.seq - 1, first.prev) == self._head:
            opened = self.opened.then(first)  # it goes on from what we know
        else:
            opened = await open_view(self.log, key, projections=self._opened.projections, later=self._later)
        return Chat(self.log, key, opened, self._later)

    async def seq_of(self, point: Point) -> int:
        """Which entry is meant."""
        now = await self.now()
        match point:
            case str() if point in now[lineage].checkpoints:
                return now[lineage].checkpoints[point]
            case int() if -now.seq <= point <= now.seq:
                return point if point >= 0 else now.seq + point
            case datetime():
                return await self._seq_at(round(point.timestamp() * 1000), now.seq)
        raise NoSuchPoint(f"there is no point {point!r}", chat=self.key, seq=now.seq)

    async def _seq_at(self, ts: int, high: int) -> int:
        """The last entry that was written by then, as far as the clock went forward."""
        low = 0
        while low < high:
            middle = (low + high + 1) // 2
            [entry] = [entry async for entry in self.log.read(self.key, middle, middle)]
            low, high = (middle, high) if entry.time <= ts else (low, middle - 1)
        return low

    async def follow(self, after: int = 0) -> AsyncIterator[Entry]:
        """The entries after this seq: what is there, then what comes, from any process."""
        async for entry in self.log.follow(self.key, min(after, (await self.now()).seq)):
            if entry.seq > after:
                yield entry

    async def moments(self, after: int = 0) -> AsyncIterator[Moment]:
        """The chat as it was after each of these entries: what was, then what comes."""
        projections = self._opened.projections
        start = min(after, (await self.now()).seq)
        opened = await open_view(self.log, self.key, at=start, projections=projections)
        async for entry in self.log.follow(self.key, opened.seq):
            if isinstance(entry.event, Redacted):  # what was folded before may hold what was erased
                opened = await open_view(self.log, self.key, at=entry.seq, projections=projections)
            else:
                opened = await go_on(self.log, self.key, opened, (entry,))
            if entry.seq > after:
                yield Moment(self.log, self.key, opened)

    async def redact(self, *seqs: int, reason: str = "") -> dict[str, list[int]]:
        """Erases what these entries say, for good, here and in forks; says where that was."""
        erased = await self.log.redact(self.key, *seqs, reason=reason)
        await self._reopen()
        return erased

    async def export_bytes(self, form: Form = "jsonl", *, model: str = "") -> AsyncGenerator[bytes]:
        chunks = (
            self.log.storage.export(self.key) if form == "jsonl" else super().export_bytes(form, model=model)
        )
        async for data in chunks:
            yield data
