"""Compaction: which messages to put behind a summary, and making sure that nothing is lost by it.

    plan = planned(moment, policy)          the range, fixed by seqs, before anybody is asked for a summary
    summary = await asked(summarise, …)     outside of any lock: others may go on writing
    committed(plan, summary, view)          only if what is to be hidden is still there as it was

Nothing is deleted: the range is marked, ``compaction_reverted`` takes the mark back, and search finds the originals.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import takewhile

import msgspec

from agent.errors import CannotFit, SummaryFailed
from agent.summary import Material
from eventlog import Compacted, Event
from projections import Message, View, contexts, estimate, usage, window
from projections.cutting import tokens_of
from projections.prompt import SUMMARY
from projections.spans import Spans, common
from projections.tokens import FRAMING, Counter

Summarise = Callable[[Material], str | Awaitable[str]]


class Policy(msgspec.Struct, frozen=True):
    """When to compact, and how much to keep. ``keep`` yields to the budget; the last message of the user never does."""

    keep: int = 30  # the newest messages that stay as they are
    budget: int | None = 128_000  # tokens of the whole prompt, the summary included
    above: int | None = None  # messages; more of them are a reason to compact, too
    summary: int = 2_000  # tokens a summary may have
    timeout: float = 120.0  # seconds it may take


DEFAULT = Policy()
"""A budget of about 128,000 tokens, the last 30 messages kept."""
IN_MEMORY = Policy(keep=30, budget=None, above=60)
"""More than 60 messages become a summary and the last 30: seed 002."""
HISTORY = Policy(keep=30, budget=12_000)
"""A budget of about 12,000 tokens, the last 30 messages kept: seed 004."""


class Plan(msgspec.Struct, frozen=True):
    first: int
    last: int
    context: str
    hidden: tuple[Message, ...]  # what the summary is to stand for
    kept: tuple[Message, ...]
    seen: Spans  # the entries that were visible in the range, when it was fixed
    tops: tuple[int, ...]  # the summaries that were

    @property
    def material(self) -> Material:
        return Material(self.hidden)


def due(view: View, messages: Sequence[Message], policy: Policy, count: Counter = estimate) -> str | None:
    """Why to compact now: ``count``, ``tokens``, or not at all. What a provider reported counts before estimates."""
    if policy.above is not None and len(messages) > policy.above:
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
        return reported.last.tokens + sum(tokens_of(m, count) for m in since)
    return sum(tokens_of(m, count) for m in messages)


def planned(
    view: View, messages: Sequence[Message], policy: Policy, *, count: Counter = estimate, chat: str = ""
) -> Plan | None:
    """What to hide so that the rest fits; None if there is nothing that could be hidden."""
    start = sum(1 for _ in takewhile(lambda message: message.is_system, messages))
    cuts = _cuts(messages, start)
    if not cuts:
        return None
    sizes = [tokens_of(message, count) for message in messages]
    room = None if policy.budget is None else policy.budget - policy.summary - FRAMING - sum(sizes[:start])
    chosen = next(
        (
            at
            for at in cuts
            if len(messages) - at <= policy.keep and (room is None or sum(sizes[at:]) <= room)
        ),
        cuts[-1],
    )
    kept = sum(sizes[chosen:])
    if policy.budget is not None and room is not None and kept > room:
        raise CannotFit(kept + policy.budget - room, policy.budget, chat=chat)
    hidden = tuple(messages[start:chosen])
    if all(message.kind == "summary" for message in hidden):
        return None
    return _plan(view, hidden, tuple(messages[chosen:]))


def _cuts(messages: Sequence[Message], start: int) -> list[int]:
    """Where the messages may be divided: tool blocks whole, the last question on the near side, seqs in order.

    A message that waited for a tool's result stands after it with a smaller seq: there is no cut between the two.
    """
    question = max(
        (i for i, m in enumerate(messages) if m.role == "user" and m.kind == "said"),
        default=len(messages) - 1,
    )
    cuts = []
    for at in range(start + 1, question + 1):
        before = max((seq for m in messages[:at] if m.kind != "summary" for seq in m.seqs), default=0)
        after = min((seq for m in messages[at:] if m.kind != "summary" for seq in m.seqs), default=before + 1)
        if messages[at].role != "tool" and messages[at].kind != "summary" and before < after:
            cuts.append(at)
    return cuts


def _plan(view: View, hidden: tuple[Message, ...], kept: tuple[Message, ...]) -> Plan:
    state = view[contexts]
    part = window(state, view.seq)
    summarised = {top.seq: top for top in part.summaries}
    seqs = [seq for message in hidden for seq in message.seqs]
    first = min((summarised[seq].first if seq in summarised else seq for seq in seqs), default=1)
    last = max((summarised[seq].last if seq in summarised else seq for seq in seqs), default=1)
    seen = common(part.spans, ((first, last),))
    tops = tuple(seq for seq, top in summarised.items() if first <= top.first and top.last <= last)
    return Plan(first, last, state.active.id, hidden, kept, seen, tops)


async def asked(summarise: Summarise, plan: Plan, policy: Policy, count: Counter, *, chat: str) -> str:
    """The summary; SummaryFailed if there is none that can be used."""
    try:
        async with asyncio.timeout(policy.timeout):
            answer = await asyncio.to_thread(summarise, plan.material)
            summary = await answer if inspect.isawaitable(answer) else answer
    except TimeoutError:
        raise SummaryFailed(f"no summary within {policy.timeout:g} s", chat=chat) from None
    except Exception as error:  # whatever it is, it is the summariser's, and told as such
        raise SummaryFailed(f"the summariser failed: {error!r}", chat=chat) from error
    if not isinstance(summary, str) or not summary.strip():
        raise SummaryFailed("the summary is empty", chat=chat)
    if (tokens := count(summary)) > policy.summary:
        raise SummaryFailed(f"the summary has {tokens} tokens, {policy.summary} are allowed", chat=chat)
    return summary


def committed(
    plan: Plan, summary: str, trigger: str, policy: Policy, view: View, count: Counter = estimate
) -> Iterable[Event]:
    """The event; nothing if somebody else has compacted, switched or rewound meanwhile."""
    state = view[contexts]
    part = window(state, view.seq)
    tops = tuple(top.seq for top in part.summaries if plan.first <= top.first and top.last <= plan.last)
    if state.active.id != plan.context or tops != plan.tops:
        return ()
    if common(part.spans, ((plan.first, plan.last),)) != plan.seen:
        return ()
    hidden = common(state.spans(plan.context, view.seq), ((plan.first, plan.last),))
    kept = sum(tokens_of(message, count) for message in plan.kept)
    tokens = {
        "before": kept + sum(tokens_of(message, count) for message in plan.hidden),
        "after": kept + FRAMING + count(SUMMARY + summary),
    }
    said = state.messages(hidden)
    return (Compacted(plan.first, plan.last, said, summary, trigger, msgspec.to_builtins(policy), tokens),)
