"""The verdict on a recording: read and folded again from the first entry on, does everything come out as it was recorded?

    found = await verdict(chat)
    found.ok, found.proved, found.divergence

Compared are the chain of the lines (by the reader: damage raises ``CorruptLog``), the fingerprint of every
request, those of the entries that came into it, those of the system texts, tools and settings, and every snapshot.
One pass forward, which reaches no model and no tool: nothing here can.
"""

from collections.abc import Callable, Iterable, Sequence

from chatfold.agent import Moment
from chatfold.agent.models import fingerprint
from chatfold.agent.request import SHOWN
from chatfold.agent.views import Opened, fold_on
from chatfold.eventlog import Entry, Head, ModelCalled, Noted, Rewound, ToolCalled
from chatfold.eventlog.search_text import OURS
from chatfold.projections import STANDARD, View, fold, outline, start
from chatfold.projections.documents.describe import REDACTED_EXPORT
from chatfold.projections.shapes import PROMPT_RULES
from chatfold.projections.snapshot import load
from chatfold.projections.spans import Spans, includes, spans
from chatfold.replay.inspect.entries import kind_name
from chatfold.replay.verify.divergence import Divergence, Verdict
from chatfold.replay.verify.requests import Notes, Payload, Sent, changed_entry, note, rebuild

Progress = Callable[[int, int], None]
"""Told how far it is: (seq, the last one)."""

_RECENT = 4096  # entries that are remembered, so that the messages of the next call need no reading


async def verdict(
    chat: Moment,
    *,
    first: int = 1,
    last: int | None = None,
    payload: Payload | None = None,
    goes_on: bool = False,
    progress: Progress | None = None,
) -> Verdict:
    """Of the entries ``first`` … ``last``, or up to the end. ``payload``: of a model that only you have.

    ``goes_on``: past the first divergence, to name every one.
    """
    divergences: list[Divergence] = []
    end = chat.seq if last is None else min(last, chat.seq)
    kept = {head.seq: (head, data) async for head, data in chat.log.storage.load_snapshots(chat.key, end)}
    judge = _Judge(chat, payload, {seq: one for seq, one in kept.items() if seq >= first})
    judge.redacted = await redacted_spans(chat)
    async for page in chat.log.pages(chat.key, 1, end):
        judge.recent = [*judge.recent, *page][-(_RECENT + len(page)) :]
        for entry in page:
            if found := await judge.take(entry, compared=entry.seq >= first):
                divergences.append(found)
                if not goes_on:
                    return judge.came_to(divergences)
        if progress is not None:
            progress(page[-1].seq, end)
    return judge.came_to(divergences)


async def redacted_spans(chat: Moment) -> Spans:
    """Where something was left out when the chat was exported: there fingerprints cannot match, and are not compared."""
    found = []
    for seq in await chat.log.grep(chat.key, REDACTED_EXPORT):
        match (await chat.log.last(chat.key, 1, seq))[0].event:
            case Noted(name=name, data={"first": int(first)}) if name == REDACTED_EXPORT and first > 0:
                found.append((first, seq))
    return spans(found)


class _Judge:
    """What is known so far. Entries are folded when a comparison needs them."""

    def __init__(self, chat: Moment, payload: Payload | None, kept: dict[int, tuple[Head, bytes]]) -> None:
        self.view = start(STANDARD)
        self.recent: list[Entry] = []
        self.redacted: Spans = ()
        self._chat = chat
        self._payload = payload
        self._kept = kept
        self._waiting: list[Entry] = []  # to be folded
        self._notes: Notes = {}
        self._new: dict[int, Entry] = {}  # what came since the last request that was proved
        self._other_rules: set[int] = set()
        self._calls = self._tools = self._proved = self._unprovable = self._snapshots = 0

    async def take(self, entry: Entry, *, compared: bool) -> Divergence | None:
        found = None
        known = not includes(self.redacted, entry.seq)
        compared = compared and known
        match entry.event:
            case ModelCalled() as event:
                self._calls += 1
                self._unprovable += not known
                if compared:
                    found = await self._request(entry, event)
            case ToolCalled():
                self._tools += 1
            case Noted():
                note(self._notes, entry)
                found = self._compare_note(entry) if compared else None
        if isinstance(entry.event, SHOWN):
            self._new[entry.seq] = entry
        self._waiting.append(entry)
        if isinstance(entry.event, Rewound):  # what it goes back to may have to be read
            log, key = self._chat.log, self._chat.key
            self.view, self._waiting = await fold_on(log, key, self.view, self._waiting), []
        return found or self._snapshot(entry)

    def came_to(self, found: Sequence[Divergence]) -> Verdict:
        view = self._fold()
        return Verdict(
            chat=self._chat.key,
            entries=view.seq,
            turns=view[outline].turns,
            model_calls=self._calls,
            tool_calls=self._tools,
            proved=self._proved,
            unprovable=self._unprovable,
            other_rules=tuple(sorted(self._other_rules)),
            snapshots=self._snapshots,
            divergence=found[0] if found else None,
            more=tuple(found[1:]),
        )

    def _fold(self) -> View:
        self.view, self._waiting = fold(self.view, self._waiting), []
        return self.view

    # --- what is compared --------------------------------------------------------------------------------

    async def _request(self, entry: Entry, event: ModelCalled) -> Divergence | None:
        before = Moment(self._chat.log, self._chat.key, Opened(self._fold(), self.recent))
        made = await rebuild(entry, event, self._calls, before, self._notes, self._payload)
        wrong = changed_entry(event, {seq: one.event for seq, one in self._new.items()})
        if wrong and self._new[wrong].was:  # erased, and said so
            wrong = 0
        if made.proved is False:
            return self._differs(entry, made, event, wrong)
        if wrong:
            what = "this is not what was there when the model was asked"
            return self._at(self._new[wrong], "(all of it)", cause=what)
        self._proved += made.proved is True
        self._unprovable += made.proved is None
        if made.proved is None and event.rules != PROMPT_RULES:
            self._other_rules.add(event.rules)
        self._new = {}
        return None

    def _differs(self, entry: Entry, made: Sent, event: ModelCalled, wrong: int) -> Divergence:
        cause = wrong or next(iter(self._new)) if len(self._new) == 1 else wrong
        if cause:
            told = f"e{cause} {kind_name(self._new[cause].event)} is not what it was when the model was asked"
        elif isinstance(event.params.get("seen"), dict):
            told = "the entries are what they were: the code that makes requests from them is another"
        else:
            told = f"one of the entries since the last request: {_list_entries(self._new.values())}"
        return self._at(
            entry, "request", event.request, made.rebuilt, call=self._calls, cause=told, cause_seq=cause
        )

    def _compare_note(self, entry: Entry) -> Divergence | None:
        event = entry.event
        assert isinstance(event, Noted)
        name, _, mark = (entry.key or entry.id or "").partition(":")
        if event.name != OURS + name or not mark or entry.was:
            return None
        made = fingerprint({name: event.data})
        return None if made == mark else self._at(entry, "data", mark, made)

    def _snapshot(self, entry: Entry) -> Divergence | None:
        if entry.seq not in self._kept:
            return None
        head, data = self._kept[entry.seq]
        view = self._fold()
        loaded = load(data, head, view.projections) if head == view.head else None
        if loaded is None:  # of another history or version: opening passes it over, too
            return None
        self._snapshots += 1
        if loaded.fingerprint == view.fingerprint:
            return None
        wrong = next(p for p in view.projections if p.dump(loaded[p]) != p.dump(view[p]))
        told = "the snapshot kept here is wrong: delete the cache folder of the chat"
        return Divergence(self._chat.key, entry.seq, "snapshot", wrong.name, cause=told)

    def _at(
        self,
        entry: Entry,
        field: str,
        recorded: str | None = None,
        new: str | None = None,
        *,
        call: int = 0,
        cause: str = "",
        cause_seq: int = 0,
    ) -> Divergence:
        turns = self._fold()[outline].turns
        return Divergence(
            self._chat.key,
            entry.seq,
            kind_name(entry.event),
            field,
            recorded,
            new,
            turns,
            call,
            cause,
            cause_seq,
        )


def _list_entries(entries: Iterable[Entry]) -> str:
    return ", ".join(f"e{entry.seq} {kind_name(entry.event)}" for entry in entries) or "none"
