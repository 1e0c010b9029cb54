"""usage: what the models say they were given and gave. Nothing here is estimated; see ``tokens`` for that."""

from collections.abc import Mapping

import msgspec

from chatfold.eventlog import Entry, ModelCalled, ModelReturned
from chatfold.projections.columns import Seqs
from chatfold.projections.fold import projection

_MODELS = 64
_OTHER = "(other models)"
_ASKED = 16
EVERY = 64
"""Of so many calls one is marked: any call is found by its number without reading more than these."""


class Spent(msgspec.Struct, frozen=True):
    """Tokens over some calls. ``input`` includes what was read from or written to a cache."""

    calls: int = 0
    errors: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0

    @property
    def tokens(self) -> int:
        return self.input + self.output

    def __add__(self, other: "Spent") -> "Spent":
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Spent(*(one + more for one, more in zip(mine, theirs, strict=True)))


class Usage(msgspec.Struct, frozen=True):
    total: Spent = Spent()
    models: dict[str, Spent] = {}  # the first 64 by name, all others together
    last: Spent = Spent()  # the newest call that said what it cost: how full the context was
    at: int = 0  # its seq
    asked: dict[str, str] = {}  # run -> the model that has not returned yet
    called: int = 0  # how often a model was asked
    marks: Seqs = Seqs()  # where: the first time and every 64th after it

    @property
    def tokens(self) -> int:
        return self.total.tokens


@projection(Usage, version=1, on=(ModelCalled, ModelReturned))
def usage(state: Usage, entry: Entry) -> Usage:
    event = entry.event
    if type(event) is ModelCalled:
        asked = {run: model for run, model in state.asked.items() if run != (entry.run or "")}
        asked[entry.run or ""] = event.model
        if len(asked) > _ASKED:  # runs that died while they waited
            del asked[next(iter(asked))]
        marks = state.marks if state.called % EVERY else state.marks.append(entry.seq)
        return msgspec.structs.replace(state, asked=asked, called=state.called + 1, marks=marks)
    if type(event) is not ModelReturned:
        return state
    cost = spent(event.usage, failed=bool(event.error))
    asked = dict(state.asked)
    model = asked.pop(entry.run or "", "")
    if model not in state.models and len(state.models) >= _MODELS:
        model = _OTHER
    models = {**state.models, model: state.models.get(model, Spent()) + cost}
    last, at = (cost, entry.seq) if cost.tokens else (state.last, state.at)
    return Usage(state.total + cost, models, last, at, asked, state.called, state.marks)


def spent(usage: Mapping[str, int], *, failed: bool) -> Spent:
    """Providers use different names for the same counts, and one of them counts the cache apart."""

    def one_of(*names: str) -> int:
        return next((usage[name] for name in names if 0 < usage.get(name, 0) < 1 << 53), 0)

    read = one_of("cache_read_input_tokens")
    written = one_of("cache_creation_input_tokens")
    return Spent(
        1,
        int(failed),
        one_of("input_tokens", "prompt_tokens", "input") + read + written,
        one_of("output_tokens", "completion_tokens", "output"),
        read or one_of("cached_tokens", "cached_input_tokens", "cached"),
        one_of("reasoning_tokens", "reasoning"),
    )
