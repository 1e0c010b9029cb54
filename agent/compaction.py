"""Compaction: which messages to put behind a summary, and making sure that nothing is lost by it.

    plans = planned(view, messages, policy)     ranges, fixed by seqs, before anybody is asked for a summary
    summary = await asked(summarise, plan, …)   outside of any lock: others may go on writing
    committed(plans, summaries, …)              only if what is to be hidden is still there as it was

The oldest messages go first. The last question of the user stays, whatever the budget; of what was done since, the
oldest goes behind a summary of its own, but only if the prompt does not fit otherwise. Tool blocks stay whole.

Nothing is deleted: the range is marked, ``compaction_reverted`` takes the mark back, and search finds the originals.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from chatfold.agent.checks import check, check_fields
from chatfold.agent.errors import PromptTooLarge, SummaryFailed
from chatfold.agent.summary import Material
from chatfold.eventlog import Compacted, Entry, Event
from chatfold.projections import Message, View, calls, contexts, estimate, usage
from chatfold.projections.contexts import window
from chatfold.projections.cutting import tokens_of
from chatfold.projections.history import History
from chatfold.projections.labels import SUMMARY
from chatfold.projections.spans import Spans, common
from chatfold.projections.tokens import FRAMING, Counter

if TYPE_CHECKING:
    from chatfold.agent.chat import Chat
    from chatfold.agent.moment import Moment

T = TypeVar("T")

_MANY = 500  # messages: more of them are looked at on a thread
_LATE = 1 << 62  # later than any seq

Summarise = Callable[[Material], str | Awaitable[str]]


class Policy(msgspec.Struct, frozen=True):
    """When to compact, and how much to keep. ``keep`` yields to the budget; the last message of the user never does."""

    keep: int = 30  # the newest messages that stay as they are
    budget: int | None = 128_000  # tokens of the whole prompt, the summary included
    above: int | None = None  # messages; more of them are a reason to compact, too
    summary: int = 2_000  # tokens a summary may have
    timeout: float = 120.0  # seconds it may take

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def default(cls) -> Self:
        """About 128,000 tokens, the last 30 messages kept."""
        return cls()

    @classmethod
    def small(cls) -> Self:
        """About 12,000 tokens, the last 30 messages kept."""
        return cls(budget=12_000)

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | Path | str) -> Self:
        """The policy that these words say, wherever in the mapping they stand: a whole ``ship.json`` may be given, or its path.

        ``maxInputTokensApprox`` is the budget, ``inMemoryMaxMessages`` the messages above which to compact, ``keepLastMessages`` or
        ``compactKeepLastMessages`` those to keep; with ``inMemoryMaxMessages`` alone there is no budget. ``windowEntries`` is for
        ``chat.runs(limit)``. ``archiveOnCompact`` must be true: nothing is ever deleted. Raises ``ValueError`` for other values.
        """
        given = config if isinstance(config, Mapping) else msgspec.json.decode(Path(config).read_bytes())
        said = dict(_settings(given))
        if said.pop("archiveOnCompact", True) is not True:
            raise ValueError("archiveOnCompact: only true is possible, since a compaction deletes nothing")
        for word, value in said.items():
            if type(value) is not int or value < 1:
                raise ValueError(f"{word}: expected a number above 0, got {value!r}")
        above, budget = said.get("inMemoryMaxMessages"), said.get("maxInputTokensApprox")
        keep = said.get("keepLastMessages", said.get("compactKeepLastMessages", cls().keep))
        return cls(keep=keep, above=above, budget=budget if budget or above else cls().budget)


_WORDS = frozenset(
    {
        *("inMemoryMaxMessages", "compactKeepLastMessages", "windowEntries"),
        *("keepLastMessages", "maxInputTokensApprox", "archiveOnCompact"),
    }
)


def _settings(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for word, value in config.items():
        if isinstance(value, Mapping):
            yield from _settings(value)
        elif word in _WORDS:
            yield word, value


DEFAULT = Policy()


async def run_aside(messages: Sequence[Message], work: Callable[[], T]) -> T:
    """What is worked out about these messages: on a thread if they are many, so that the event loop goes on."""
    return await asyncio.to_thread(work) if len(messages) > _MANY else work()


class Plan(msgspec.Struct, frozen=True):
    first: int
    last: int
    context: str
    hidden: tuple[Message, ...]  # what the summary is to stand for
    tokens: int  # of the whole prompt, before
    seen: Spans  # the entries that were visible in the range, when it was fixed
    tops: tuple[int, ...]  # the summaries that were


async def compact(
    chat: "Chat", policy: Policy, summarise: Summarise, trigger: str, count: Counter = estimate
) -> list[Entry]:
    """See ``Chat.compact``."""
    check("policy", policy, Policy, expected="a Policy")
    done = await _compact_once(chat, policy, summarise, trigger, count)
    # What was injected twice was shown once: it is shown again when the first is hidden.
    while done and policy.budget is not None and await _tokens(chat, count) > policy.budget:
        try:
            more = await _compact_once(chat, policy, summarise, trigger, count)
        except (PromptTooLarge, SummaryFailed):
            break  # what was done stands, and a verb that refuses leaves no trace
        if not more:
            break
        done += more
    return done


async def compact_after(
    chat: "Chat", error: BaseException, policy: Policy, summarise: Summarise, count: Counter
) -> list[Entry]:
    """To half of what the provider refused. Raises the error if it is another one."""
    from chatfold.agent.models.errors import is_too_long  # noqa: PLC0415 (for those who ask models)

    if not is_too_long(error):
        raise error
    now = await chat.now()
    prompt = await now.cut(count=count)
    refused = max(size(now.view, prompt.messages, count), prompt.tokens.count)
    tighter = halve(policy, refused)
    try:
        return await compact(chat, tighter, summarise, "provider_error", count)
    except PromptTooLarge as least:
        if least.tokens >= refused:
            raise
        tighter = msgspec.structs.replace(tighter, budget=least.tokens)
        return await compact(chat, tighter, summarise, "provider_error", count)


async def _tokens(chat: "Chat", count: Counter) -> int:
    messages = await chat.messages()
    return await run_aside(messages, lambda: sum(tokens_of(message, count) for message in messages))


async def _compact_once(
    chat: "Chat", policy: Policy, summarise: Summarise, trigger: str, count: Counter
) -> list[Entry]:
    now = await chat.now()
    messages = await now.messages()
    plans = await run_aside(messages, lambda: make_plans(now.view, messages, policy, count, chat=chat.key))
    summaries = [await write_summary(summarise, plan, policy, count, chat=chat.key) for plan in plans]

    async def events(then: "Moment") -> list[Event]:
        return build_events(plans, summaries, trigger, policy, then.view, await then.history(), count)

    return await chat.append_if(events)


def due(view: View, messages: Sequence[Message], policy: Policy, count: Counter = estimate) -> str | None:
    """Why to compact now: ``count``, ``tokens``, or not at all. What a provider reported counts before estimates."""
    said = [message for message in messages if not message.is_injected]
    if policy.above is not None and len(said) > policy.above:
        return "count"
    if policy.budget is not None and size(view, messages, count) > policy.budget:
        return "tokens"
    return None


def size(view: View, messages: Sequence[Message], count: Counter = estimate) -> int:
    """The tokens of the prompt: as the provider last reported them, and an estimate of what came since."""
    reported = view[usage]
    state = view[contexts]
    if reported.last.input and reported.at > state.changed:  # since then nothing was taken out of sight
        since = [m for m in messages if m.seqs and min(m.seqs) > reported.at]
        return reported.last.input + sum(tokens_of(m, count) for m in since)
    return sum(tokens_of(m, count) for m in messages)


def halve(policy: Policy, tokens: int) -> Policy:
    """For a prompt of so many tokens, by our count, that a provider refused."""
    budget = min(tokens, policy.budget or tokens) // 2
    return msgspec.structs.replace(
        policy, keep=max(policy.keep // 2, 1), budget=budget, summary=min(policy.summary, budget // 2)
    )


def make_plans(
    view: View, messages: Sequence[Message], policy: Policy, count: Counter = estimate, *, chat: str = ""
) -> list[Plan]:
    """What to hide so that the rest fits: nothing, the oldest messages, or these and the oldest since the question."""
    estimated = [tokens_of(message, count) for message in messages]
    # What a provider counted more than we do, a system prompt and tools above all, stays whatever is hidden.
    besides = max(0, size(view, messages, count) - sum(estimated))
    summary = policy.summary + FRAMING + count(SUMMARY)
    waiting = {call.seq for call in view[calls].open}
    zones = _zones(messages, estimated, besides, summary, waiting)
    cut = zones.first_cut(policy)
    if policy.budget is not None and zones.left(*cut) > policy.budget:
        if zones.left(zones.start, zones.since) <= policy.budget:  # a summary would only make it larger
            return []
        raise PromptTooLarge(zones.left(*cut), policy.budget, chat=chat)
    parts = (messages[zones.start : cut[0]], messages[zones.since : cut[1]])
    return [_plan(view, tuple(part), sum(estimated)) for part in parts if part]


class _Zones(msgspec.Struct, frozen=True):
    """The messages that may be hidden: those before the question, and those since.

    A cut is two indexes: what is hidden ends before the first, and, of what came since the question, before the second.
    """

    sizes: list[int]  # of all messages before each index, and of all
    besides: int  # tokens that stay, whatever is hidden
    summary: int  # the most tokens of one
    start: int  # after the system messages
    since: int  # after the question
    before: list[int]  # where the first may be
    after: list[int]  # where the second may be
    counts: list[int]  # how many messages before each index are no summaries, and how many of all

    def left(self, first: int, second: int) -> int:
        """The tokens that are left by a cut, with the summaries as large as they may be."""
        sizes = self.sizes
        hidden = sizes[first] - sizes[self.start] + sizes[second] - sizes[self.since]
        summaries = (first > self.start) + (second > self.since)
        return self.besides + sizes[-1] - hidden + summaries * self.summary

    def first_cut(self, policy: Policy) -> tuple[int, int]:
        """The one that hides least; if nothing is small enough, the one that hides most.

        A prompt that is too large is brought down to half of the budget, if it can be: the next turns have room then.
        """
        cuts = [(first, self.since) for first in (self.start, *self.before)]
        enough = [cut for cut in cuts if self.counts[-1] - self.counts[cut[0]] <= policy.keep] or cuts[-1:]
        if policy.budget is None:
            return enough[0]
        cuts = [*enough, *((cuts[-1][0], second) for second in self.after)]
        is_large = self.besides + self.sizes[-1] > policy.budget
        goals = (policy.budget // 2, policy.budget) if is_large else (policy.budget,)
        return next((c for goal in goals for c in cuts if self.left(*c) <= goal), cuts[-1])


def _zones(
    messages: Sequence[Message], sizes: list[int], besides: int, summary: int, waiting: set[int]
) -> _Zones:
    start = sum(1 for _ in takewhile(lambda message: message.is_system, messages))
    asked = [i for i, m in enumerate(messages) if m.role == "user" and m.kind == "said"]
    question = max(asked, default=len(messages) - 1)
    since = question + 1
    # A call that is still running stays in sight: its result is to be seen.
    first_open = next((i for i, m in enumerate(messages) if not waiting.isdisjoint(m.seqs)), len(messages))
    borders = [at for at in _borders(messages) if at <= first_open]
    first, second = _first_that_says_more(messages, start), _first_that_says_more(messages, since)
    before = [at for at in borders if first < at <= question]
    after = [at for at in borders if second < at] if since in borders else []
    counts = accumulate(
        (message.kind != "summary" and not message.is_injected for message in messages), initial=0
    )
    sums = list(accumulate(sizes, initial=0))
    return _Zones(sums, besides, summary, start, since, before, after, list(counts))


def _borders(messages: Sequence[Message]) -> list[int]:
    """Where the messages may be divided: tool blocks whole, and the seqs before less than those after.

    A message that waited for a tool's result stands after it with a smaller seq: there is no border between the two.
    """
    # A late result says nothing without its call: the two are not divided.
    seqs = [(*m.seqs, m.answers or m.seqs[0]) if m.seqs and m.kind != "summary" else () for m in messages]
    highest = list(accumulate((max(some, default=0) for some in seqs), max, initial=0))
    lowest = list(accumulate((min(some, default=_LATE) for some in reversed(seqs)), min, initial=_LATE))[::-1]
    return [at for at, message in enumerate(messages) if message.role != "tool" and highest[at] < lowest[at]]


def _first_that_says_more(messages: Sequence[Message], start: int) -> int:
    """From there on, the first that is no summary: a summary of nothing but summaries would say nothing new."""
    return next((at for at in range(start, len(messages)) if messages[at].kind != "summary"), len(messages))


def _plan(view: View, hidden: tuple[Message, ...], tokens: int) -> Plan:
    state = view[contexts]
    part = window(state, view.seq)
    summarised = {top.seq: top for top in part.summaries}
    seqs = [seq for message in hidden for seq in message.seqs]
    first = min(summarised[seq].first if seq in summarised else seq for seq in seqs)
    last = max(summarised[seq].last if seq in summarised else seq for seq in seqs)
    seen = common(part.spans, ((first, last),))
    tops = tuple(seq for seq, top in summarised.items() if first <= top.first and top.last <= last)
    return Plan(first, last, state.active.id, hidden, tokens, seen, tops)


async def write_summary(
    summarise: Summarise, plan: Plan, policy: Policy, count: Counter, *, chat: str
) -> str:
    """The summary; SummaryFailed if there is none that can be used."""
    try:
        async with asyncio.timeout(policy.timeout) as limit:
            said = tuple(message for message in plan.hidden if message.kind != "runtime")
            material = Material(said, policy.summary, count)
            here = inspect.iscoroutinefunction(summarise)  # on a thread, nobody might be left to await it
            answer = summarise(material) if here else await asyncio.to_thread(summarise, material)
            summary = await answer if inspect.isawaitable(answer) else answer
    except Exception as error:  # any bug of the summariser's is told as such
        if limit.expired():
            raise SummaryFailed(f"no summary within {policy.timeout:g} s", chat=chat) from None
        raise SummaryFailed(f"the summariser failed: {error!r}", chat=chat) from error
    if not isinstance(summary, str) or not summary.strip():
        raise SummaryFailed("the summary is empty", chat=chat)
    if (tokens := count(summary)) > policy.summary:
        raise SummaryFailed(f"the summary has {tokens} tokens, {policy.summary} are allowed", chat=chat)
    return summary


def build_events(
    plans: Sequence[Plan],
    summaries: Sequence[str],
    trigger: str,
    policy: Policy,
    view: View,
    history: History,
    count: Counter = estimate,
) -> list[Event]:
    """The events; none if another writer has compacted, switched or rewound meanwhile."""
    if not all(_is_valid(plan, view) for plan in plans):
        return []
    state = view[contexts]
    events: list[Event] = []
    saved = 0
    for plan, summary in zip(plans, summaries, strict=True):
        before = plan.tokens - saved
        saved += (
            sum(tokens_of(message, count) for message in plan.hidden) - FRAMING - count(SUMMARY + summary)
        )
        tokens = {"before": before, "after": plan.tokens - saved}
        said = history.messages(common(state.spans(plan.context, view.seq), ((plan.first, plan.last),)))
        rules = msgspec.to_builtins(policy)
        events.append(Compacted(plan.first, plan.last, said, summary, trigger, rules, tokens))
    return events


def _is_valid(plan: Plan, view: View) -> bool:
    """Is what the summary stands for still what the model sees there?"""
    state = view[contexts]
    part = window(state, view.seq)
    tops = tuple(top.seq for top in part.summaries if plan.first <= top.first and top.last <= plan.last)
    seen = common(part.spans, ((plan.first, plan.last),))
    return (state.active.id, tops, seen) == (plan.context, plan.tops, plan.seen)
