"""Chat: one chat, to be written and read. Everything it shows is folded from its log; everything it does is an event.

Other processes may write the same chat. Whatever a verb appends, what they wrote before it is folded first; a verb
that decides something (which context, what to compact) decides it about the chat as it is at that very moment,
and again if another writer was quicker. A verb that refuses has left no trace.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from chatfold.agent.compaction import DEFAULT, Policy, Summarise, compact, compact_after, due, run_aside
from chatfold.agent.contexts import clear_context, open_context, recall_context, switch_context
from chatfold.agent.errors import NoSuchContext
from chatfold.agent.exporting import Form
from chatfold.agent.live import Live
from chatfold.agent.messages import (
    Content,
    Given,
    ToolCall,
    assistant,
    events_of,
    is_empty,
    make_injection,
    new_id,
    parse_args,
    user,
)
from chatfold.agent.moment import Moment
from chatfold.agent.summary import summarise_by_rules
from chatfold.agent.views import go_on, open_view
from chatfold.eventlog import (
    CheckpointSet,
    CompactionReverted,
    Entry,
    Event,
    Head,
    InvalidEvent,
    Json,
    NoSuchPoint,
    Noted,
    Redacted,
    Rewound,
    Role,
    SkillActivated,
    SkillDeactivated,
    ToolCalled,
)
from chatfold.projections import contexts, estimate, lineage
from chatfold.projections.contexts import TITLED
from chatfold.projections.tokens import Counter

if TYPE_CHECKING:
    from chatfold.agent.models import Piece

Point: TypeAlias = int | str | datetime
"""A seq, or one counted back from the end (-1: before the last entry), the name of a checkpoint, or a time."""
Followed: TypeAlias = "Entry | Piece"
"""What who watches a chat is given: what stands in the log, and what passes."""


class Chat(Live):
    """One chat, at its end: it can be written, and it takes in what others write. ``await store.chat(key)`` gives one.

    What is in memory is read without ``await``: ``chat.seq``, ``chat[usage].tokens``. Every verb is one append, or nothing; an
    ``await`` that was cancelled may have happened: do it again with its ``id``.
    """

    # --- recording ---------------------------------------------------------------------------------------

    async def user(
        self,
        *content: Content,
        id: str | None = None,
        said_at: datetime | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> Entry:
        """Records what the user said: text, files, or parts as a provider writes them; returns its entry, durable.

            await chat.user("What is this?", File("image/png", data), id="telegram-991")

        ``id``: the platform's. A message that is delivered twice is recorded once, and the first entry is returned again.
        ``said_at``: when it was said, if that was not now. Raises ``InvalidEvent`` if nothing is said.
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
        """Records what the assistant said; returns its entry. A reply as the provider gave it, with its tool calls, is for ``record``."""
        return (await self.record(assistant(*content, meta=meta), id=id, run=run, said_at=said_at))[0]

    async def tool_call(
        self, name: str, args: Json = None, *, call: str | None = None, run: str | None = None
    ) -> ToolCall:
        """Records a call before the tool runs; ``record(call.result(x))`` answers it.

        ``args``: JSON, or the text of a JSON object, as OpenAI writes it. ``call``: the provider's id of the call, if there is one.
        """
        call, args = call or new_id("call"), parse_args(args)
        [entry] = await self.record(ToolCalled(call, name, args), run=run)
        return ToolCall(call, name, args, entry.seq)

    async def activate_skill(
        self, name: str, text: str = "", *, fingerprint: str = "", run: str | None = None
    ) -> Entry:
        """Gives the model this text in the system prompt from now on, in this context; returns the entry.

        The text is kept as it is now: a file that changes later changes nothing here. ``fingerprint``: of the text, for who asks
        whether this version is in use: ``chat[skills].active``.
        """
        return (await self.record(SkillActivated(name, fingerprint, text), run=run))[0]

    async def deactivate_skill(self, name: str) -> Entry:
        """Takes the skill's text out of the system prompt again; returns the entry."""
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
        event = make_injection(role, content, fingerprint, source)

        async def once(now: Moment) -> Iterable[Event]:
            prompt = await now._whole_prompt()  # noqa: SLF001 (a chat is a moment)
            return () if event.fingerprint in prompt.injected else (event,)

        return await self.append_if(once, run=run)

    async def merge(self, history: Iterable[Given]) -> list[Entry]:
        """Records what is new of a history that a client sent whole: messages of OpenAI, Anthropic or the AI SDK, or events.

        Nothing is recorded twice, compactions stay, and where the client went back the chat is rewound. ``client_history`` says
        what is new. Raises ``OtherHistory`` if the two have nothing in common.
        """
        from chatfold.agent.client_history import find_new  # noqa: PLC0415 (for those who have such clients)

        sent = events_of(history)

        async def new(now: Moment) -> Iterable[Event]:
            whole = await now.context_entries(everything=True) if now[contexts].shelf else ()
            events = find_new(await now.context_entries(), sent, chat=self.key, whole=whole, seq=now.seq)
            match events:
                case (Rewound(to=to, reason=reason), *rest) if not await self._is_here(to, now):
                    # Before the question was carried here we were elsewhere: it stays, and what follows is new.
                    return (Rewound(now[contexts].since, reason), *rest)
            return events

        return await self.append_if(new)

    async def _is_here(self, seq: int, now: Moment) -> bool:
        """Was the context that is active now the active one after this entry?"""
        return (await self.at(seq))[contexts].active.id == now[contexts].active.id

    # --- contexts ----------------------------------------------------------------------------------------

    async def new_context(self, title: str = "", reason: str = "", *, run: str | None = None) -> str:
        """Shelves this line of thought and begins another, with the question being asked; gives its id."""
        new = new_id("ctx")
        await self.append_if(lambda now: open_context(now, new, title, reason), run=run)
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
        await self.append_if(lambda now: switch_context(now, chosen, reason), run=run)
        return chosen

    async def clear_context(self, reason: str = "", *, run: str | None = None) -> str:
        """Puts an empty context in the place of this one, which goes to the shelf; returns the new one's id."""
        await self.append_if(lambda now: clear_context(now, reason), run=run)
        return self[contexts].active.id

    async def rename_context(self, query: str, title: str) -> Entry:
        """Gives a context another title; returns the entry. ``query``: its id, its title, or anything that was said in it.

        Raises ``NoSuchContext`` if none fits.
        """
        data: Json = {"context": await self._context_of(query), "title": title}
        return (await self.record(Noted(TITLED, data)))[0]

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
        """Shows the model an archived context for reference only, labelled; returns the entry. The active context stays.

        ``query``: its id, its title, or anything that was said in it. ``mode``: its newest summary or its last lines, its last
        messages, or all of it.
        """
        try:
            context_id = await self._context_of(query)
        except (NoSuchContext, ValueError):  # no letter to search for is no context either
            raise NoSuchContext(f"there is no context {query!r}", chat=self.key, seq=self.seq) from None
        shown = await self.messages(context=context_id)
        return (await self.record(recall_context(context_id, mode, shown), run=run))[0]

    # --- compaction --------------------------------------------------------------------------------------

    async def compact(
        self,
        policy: Policy = DEFAULT,
        *,
        summarise: Summarise = summarise_by_rules,
        trigger: str = "manual",
        count: Counter = estimate,
    ) -> list[Entry]:
        """Puts older messages behind a summary, and keeps them in the log. Gives the compactions: none if there was nothing to do, or
        another writer did it. Raises ``SummaryFailed``, or ``PromptTooLarge`` if it cannot fit; then nothing was changed.
        """
        return await compact(self, policy, summarise, trigger, count)

    async def compact_if_due(
        self,
        policy: Policy = DEFAULT,
        *,
        summarise: Summarise = summarise_by_rules,
        count: Counter = estimate,
    ) -> list[Entry]:
        """The same, if there are more messages or tokens than the policy allows."""
        now = await self.now()
        messages = await now.messages()
        trigger = await run_aside(messages, lambda: due(now.view, messages, policy, count))
        return await compact(self, policy, summarise, trigger, count) if trigger else []

    async def compact_after(
        self,
        error: BaseException,
        policy: Policy = DEFAULT,
        *,
        summarise: Summarise = summarise_by_rules,
        count: Counter = estimate,
    ) -> list[Entry]:
        """The same, to half the size, after a provider refused the prompt as too long. Any other error is raised.

        If half the size cannot be reached, as small as possible; PromptTooLarge if that is no smaller than what was refused.
        """
        return await compact_after(self, error, policy, summarise, count)

    async def revert_compaction(self, seq: int, reason: str = "") -> list[Entry]:
        """Shows again what the compaction of entry ``seq`` hid; returns the entry, nothing if that is not in force."""

        def events(now: Moment) -> Iterable[Event]:
            return (CompactionReverted(seq, reason),) if now[contexts].context_of(seq) else ()

        return await self.append_if(events)

    # --- time --------------------------------------------------------------------------------------------

    async def checkpoint(self, name: str) -> Entry:
        """Names this point, for ``at``, ``rewind`` and ``fork``; returns the entry. The same name again moves it."""
        return (await self.record(CheckpointSet(name)))[0]

    async def at(self, point: Point, *, as_said: bool = False) -> Moment:
        """The chat as it was after an entry, which stays as it is. Raises ``NoSuchPoint``.

        ``as_said``: a time is that at which something was said, not that at which it was recorded; see ``said_at``.

        await chat.at(12)               # after entry 12; -3: three entries ago
        await chat.at("before-tools")   # at a checkpoint
        await chat.at(datetime(2026, 2, 5, tzinfo=UTC))
        """
        seq = await self.seq_of(point, as_said=as_said)
        opened = await open_view(self.log, self.key, at=seq, projections=self._opened.projections)
        return Moment(self.log, self.key, opened, history=self.kept_history)

    async def rewind(self, to: Point, reason: str = "") -> Entry:
        """Goes back: what the model sees is again what it was there; returns the entry. Raises ``NoSuchPoint``.

        What lies between stays in the log: it is found by ``search``, and ``at`` still leads there.
        """
        return (await self.record(Rewound(await self.seq_of(to), reason)))[0]

    async def fork(self, key: str, at: Point | None = None) -> "Chat":
        """Begins a chat of its own that has everything up to ``at``, or all, and then goes its own way; returns it.

        Its cost does not grow with the history. Deleting either of the two leaves the other whole. Raises ``ChatExists``.
        """
        first = await self.log.fork(self.key, key, None if at is None else await self.seq_of(at))
        if Head(first.seq - 1, first.prev) == self._head:
            opened = self.opened.then(first)  # it goes on from what we know
        else:
            opened = await open_view(self.log, key, projections=self._opened.projections, later=self._later)
        return Chat(self.log, key, opened, self._later)

    async def seq_of(self, point: Point, *, as_said: bool = False) -> int:
        """The seq of the entry that is meant. Raises ``NoSuchPoint``."""
        now = await self.now()
        match point:
            case str() if point in now[lineage].checkpoints:
                return now[lineage].checkpoints[point]
            case int() if -now.seq <= point <= now.seq:
                return point if point >= 0 else now.seq + point
            case datetime():
                return await self._seq_at(round(point.timestamp() * 1000), now.seq, as_said=as_said)
        raise NoSuchPoint(f"there is no point {point!r}", chat=self.key, seq=now.seq)

    async def _seq_at(self, ts: int, high: int, *, as_said: bool) -> int:
        """The last entry that was recorded by then, or said, as far as the clock went forward."""
        low = 0
        while low < high:
            middle = (low + high + 1) // 2
            [entry] = [entry async for entry in self.log.read(self.key, middle, middle)]
            low, high = (middle, high) if (entry.time if as_said else entry.ts) <= ts else (low, middle - 1)
        return low

    @overload
    def follow(self, after: int = 0, *, pieces: Literal[False] = False) -> AsyncGenerator[Entry]: ...
    @overload
    def follow(self, after: int = 0, *, pieces: Literal[True]) -> AsyncGenerator[Followed]: ...
    async def follow(self, after: int = 0, *, pieces: bool = False) -> AsyncGenerator[Followed]:
        """The entries after this seq: what is there, then what comes, from any process. It ends when it is left.

        ``pieces``: between the entries also the ``Piece``s of an answer, while an agent of any process is given them by its model.
        They are in no log: when the answer stands, it comes as an entry, whole, and its pieces are gone.

            async for one in chat.follow(chat.seq, pieces=True):
                print(one.text if not isinstance(one, Entry) else one.event)
        """
        if pieces:
            from chatfold.agent.pieces import follow_with_pieces  # noqa: PLC0415 (for those who watch an agent)

            async with aclosing(follow_with_pieces(self, after)) as found:
                async for one in found:
                    yield one
            return
        async for entry in self.log.follow(self.key, min(after, (await self.now()).seq)):
            if entry.seq > after:
                yield entry

    async def moments(self, after: int = 0) -> AsyncIterator[Moment]:
        """The chat as it was after each entry from ``after`` on: what was, then what comes, from any process."""
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
        """Erases what these entries say, for good, here and in forks; returns the erased seqs by the key of the chat.

        The entries stay, without their content, and the chain of the log still verifies.
        """
        erased = await self.log.redact(self.key, *seqs, reason=reason)
        await self._reopen()
        return erased

    async def export_bytes(self, form: Form = "jsonl", *, model: str = "") -> AsyncGenerator[bytes]:
        chunks = (
            self.log.storage.export(self.key) if form == "jsonl" else super().export_bytes(form, model=model)
        )
        async for data in chunks:
            yield data
