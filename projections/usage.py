"""usage: what the models say they were given and gave. Nothing here is estimated; see ``tokens`` for that."""

from collections.abc import Mapping

import msgspec

from chatfold.eventlog import Entry, ModelCalled, ModelReturned
from chatfold.projections.fold import projection

_MODELS = 64
_OTHER = "(other models)"
_ASKED = 16


class TokenCounts(msgspec.Struct, frozen=True):
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

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        return TokenCounts(
            self.calls + other.calls,
            self.errors + other.errors,
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )


class Usage(msgspec.Struct, frozen=True):
    total: TokenCounts = TokenCounts()
    models: dict[str, TokenCounts] = {}  # the first 64 by name, all others together
    last: TokenCounts = TokenCounts()  # the newest call that said what it cost: how full the context was
    at: int = 0  # its seq
    asked: dict[str, str] = {}  # run -> the model that has not returned yet
    called: int = 0  # how often a model was asked

    @property
    def tokens(self) -> int:
        return self.total.tokens


@projection(Usage, version=2, on=(ModelCalled, ModelReturned))
def usage(state: Usage, entry: Entry) -> Usage:
    event, run = entry.event, entry.run or ""
    if type(event) is ModelCalled:
        asked = {other: model for other, model in state.asked.items() if other != run}
        asked[run] = event.model
        if len(asked) > _ASKED:  # runs that died while they waited
            del asked[next(iter(asked))]
        return Usage(state.total, state.models, state.last, state.at, asked, state.called + 1)
    if type(event) is not ModelReturned:
        return state
    cost = read_counts(event.usage, failed=bool(event.error))
    asked = dict(state.asked)
    model = asked.pop(run, "")
    if model not in state.models and len(state.models) >= _MODELS:
        model = _OTHER
    before = state.models.get(model)
    models = {**state.models, model: cost if before is None else before + cost}
    last, at = (cost, entry.seq) if cost.tokens else (state.last, state.at)
    return Usage(state.total + cost, models, last, at, asked, state.called)


def read_counts(usage: Mapping[str, int], *, failed: bool) -> TokenCounts:
    """Providers use different names for the same counts, and one of them counts the cache apart."""
    read = _one_of(usage, "cache_read_input_tokens")
    written = _one_of(usage, "cache_creation_input_tokens")
    return TokenCounts(
        1,
        int(failed),
        _one_of(usage, "input_tokens", "prompt_tokens", "input") + read + written,
        _one_of(usage, "output_tokens", "completion_tokens", "output"),
        read or _one_of(usage, "cached_tokens", "cached_input_tokens", "cached"),
        _one_of(usage, "reasoning_tokens", "reasoning"),
    )


def _one_of(usage: Mapping[str, int], *names: str) -> int:
    """The first of these that is a count."""
    for name in names:
        if name in usage and 0 < usage[name] < 1 << 53:
            return usage[name]
    return 0
