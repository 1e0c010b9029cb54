"""stats: what a chat adds up to, from one reading of it."""

from collections import Counter as Counts

import msgspec

from chatfold.agent import Moment
from chatfold.eventlog import Entry, ToolCalled, ToolReturned
from chatfold.projections import contexts, estimate, executions, lineage, outline, usage
from chatfold.projections.tokens import Counter
from chatfold.projections.usage import TokenCounts
from chatfold.replay.inspect.entries import is_failure, kind_name
from chatfold.replay.inspect.sizes import Chart, Progress, Sizes


class Spending(msgspec.Struct, frozen=True):
    """What the models reported. ``last``: the newest call that said what it cost, and ``at`` its seq."""

    total: TokenCounts
    models: dict[str, TokenCounts]
    last: TokenCounts
    at: int
    called: int  # how often a model was asked


class ToolCount(msgspec.Struct, frozen=True):
    calls: int = 0
    failed: int = 0
    unanswered: int = 0


class Stats(msgspec.Struct, frozen=True):
    """Everything that ever happened up to the moment counts, also what was rewound."""

    chat: str
    title: str
    entries: int
    first: int  # when, in epoch milliseconds
    last: int
    kinds: dict[str, int]  # entries by the name of their event, the most first
    turns: int
    messages: int  # of users and assistants
    usage: Spending
    tools: dict[str, ToolCount]  # by name, the most called first
    errors: int  # as many as ``log --errors`` lists
    runs: dict[str, int]  # by outcome; "running": those without an end
    compactions: int
    hidden_tokens: int  # what the compactions took out of sight, less their summaries, when they did
    contexts: int  # the active one included
    forks: int  # how often this history was forked off another
    picture: Chart


async def stats(
    moment: Moment, *, width: int = 60, count: Counter = estimate, progress: Progress | None = None
) -> Stats:
    """Reads the whole chat once, in pages."""
    now = await moment.now()
    sizes, tally = Sizes(count), _Tally()
    async for page in now.log.pages(now.key, 1, now.seq):
        for entry in page:
            sizes.take(entry)
            tally.take(entry)
        if progress is not None:
            progress(page[-1].seq, now.seq)
    told, state, done, spent = now[outline], now[contexts], now[executions], now[usage]
    seen = sizes.chart(await now.history(), width)
    hides = [mark.before - mark.after for mark in seen.marks if mark.kind == "compacted"]
    return Stats(
        now.key,
        told.title,
        now.seq,
        told.created,
        told.active,
        dict(tally.kinds.most_common()),
        told.turns,
        told.messages,
        Spending(spent.total, spent.models, spent.last, spent.at, spent.called),
        tally.tools(),
        tally.errors,
        {**done.outcomes, **({"running": len(done.running)} if done.running else {})},
        len(hides),
        sum(hides),
        1 + len(state.shelf),
        len(now[lineage].forks),
        seen,
    )


class _Tally:
    """What is counted that no projection keeps."""

    def __init__(self) -> None:
        self.kinds: Counts[str] = Counts()
        self.errors = 0
        self._tools: dict[str, list[int]] = {}  # name -> calls, failures, answers
        self._open: dict[str, list[str]] = {}  # the names of the calls of an id that have no result yet

    def take(self, entry: Entry) -> None:
        event = entry.event
        self.kinds[kind_name(event)] += 1
        self.errors += is_failure(event)
        match event:
            case ToolCalled(call=call, name=name):
                self._tools.setdefault(name, [0, 0, 0])[0] += 1
                self._open.setdefault(call, []).append(name)
            case ToolReturned(call=call, failed=failed) if self._open.get(call):
                counts = self._tools[self._open[call].pop(0)]
                counts[1] += failed
                counts[2] += 1

    def tools(self) -> dict[str, ToolCount]:
        most = sorted(self._tools.items(), key=lambda tool: -tool[1][0])
        return {name: ToolCount(calls, failed, calls - answers) for name, (calls, failed, answers) in most}
