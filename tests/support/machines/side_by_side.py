"""Driving files, memory and the naive model side by side, and comparing them after every step."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from chatfold.agent import Chat, Moment
from chatfold.eventlog import (
    ChatfoldError,
    Compacted,
    CompactionReverted,
    ContextCleared,
    ContextOpened,
    ContextSwitched,
    Entry,
    Event,
    Forked,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Redacted,
    Rewound,
    Role,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.eventlog.erasure import scrub
from chatfold.projections import calls, contexts, lineage, skills
from chatfold.testing.strategies import same, same_entries
from tests.support.machines.two_stores import Files, Memory, Side, Who
from tests.support.oracles.naive_chat import NaiveChat, Refused, Said
from tests.support.oracles.naive_prompt import render, rows

NOON = 1_738_713_600_000
KEYS = ("a", "b", "C/ü", "d")
_SMALL = {  # so that a chat need not be long to be read from snapshots, and from more than one place
    "chatfold.agent.views.KEEP": 6,
    "chatfold.agent.live.KEEP": 6,
    "chatfold.agent.views._KNOWN": 9,
    "chatfold.agent.views._NEAR": 12,
    "chatfold.agent.store._NEAR": 5,
    "chatfold.eventlog.memory._BORDER": 8,
}

F = TypeVar("F", bound=Callable[..., None])
Move: TypeAlias = tuple[str, dict[str, Any]]
Verb: TypeAlias = Callable[[Chat], Awaitable[Any]]


class Tokens:
    """In the place of ``new_id``: both stores are given the same names."""

    def __init__(self) -> None:
        self.time = self.made = 0

    def start(self, time: int) -> None:
        self.time, self.made = time, 0

    def __call__(self, kind: str) -> str:
        self.made += 1
        return f"{kind}_{self.time}-{self.made}"


class Moves:
    """A group of things to do, as one rule: hypothesis leaves out rules from a run, and a run wants many of these.

    ``@moves(3, key=keys)`` puts a method into the group, three times as likely as others.
    """

    def __init__(self) -> None:
        self.known: list[tuple[str, dict[str, st.SearchStrategy[Any]]]] = []

    def __call__(self, times: int = 1, **fields: st.SearchStrategy[Any]) -> Callable[[F], F]:
        def take(method: F) -> F:
            self.known += [(method.__name__, fields)] * times
            return method

        return take

    def one(self) -> st.SearchStrategy[Move]:
        return _one(tuple(self.known))


@st.composite
def _one(draw: st.DrawFn, known: Sequence[tuple[str, dict[str, st.SearchStrategy[Any]]]]) -> Move:
    name, fields = draw(st.sampled_from(known))
    return name, {field: draw(strategy) for field, strategy in fields.items()}


class SideBySide(RuleBasedStateMachine):
    first_side: ClassVar[type[Side]] = Files

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.time = NOON
        self.tokens = Tokens()
        others: dict[str, object] = {**_SMALL, "chatfold.agent.chat.new_id": self.tokens}
        self.patches = [mock.patch(name, other) for name, other in others.items()]
        for patch in self.patches:
            patch.start()
        self.files = self.first_side(self.clock)
        self.sides: tuple[Side, Side] = (self.files, Memory(self.clock))
        self.side: Side = self.files  # the one that is being driven
        self.models: dict[str, NaiveChat] = {}
        self.recorded: dict[str, list[Entry]] = {}
        self.sound = True

    def clock(self) -> int:
        return self.time

    def run(self, work: Awaitable[Any]) -> Any:
        return self.runner.get_loop().run_until_complete(
            work
        )  # the runner itself takes a millisecond each time

    def model(self, key: str) -> NaiveChat:
        return self.models.get(key) or NaiveChat(key)

    def make(self, move: Move) -> None:
        name, fields = move
        getattr(self, name)(**fields)

    # --- doing -------------------------------------------------------------------------------------------

    def do(self, who: Who, key: str, verb: Verb, naive: Callable[[NaiveChat], Any]) -> Any:
        """Both stores do it and so does the model, or all of them refuse for the same reason."""
        self.time += 1
        self.sound = False
        model = self.model(key)
        before = self.heads()
        refused = ""
        try:
            naive(model)
        except Refused as error:
            refused = str(error)
        outcomes = [self.outcome(side, who, key, verb) for side in self.sides]
        self.files.settle()
        assert [_error(outcome) for outcome in outcomes] == [refused] * 2, outcomes
        if refused:
            assert self.heads() == before
        elif model.seq:
            self.models[key] = model
        self.compare(who, key)
        self.sound = True
        return outcomes[0]

    def outcome(self, side: Side, who: Who, key: str, verb: Verb) -> Any:
        """What the verb gives, or the error that it raises."""

        async def attempt() -> Any:
            self.side = side
            self.tokens.start(self.time)
            try:
                return await verb(await side.chat(who, key))
            except (ChatfoldError, ValueError) as error:
                return error

        return self.run(attempt())

    def heads(self) -> list[dict[str, Any]]:
        async def heads(side: Side) -> dict[str, Any]:
            return {key: await side.stores[0].log.head(key) for key in KEYS}

        return [self.run(heads(side)) for side in self.sides]

    # --- comparing ---------------------------------------------------------------------------------------

    def compare(self, who: Who, key: str) -> None:
        model = self.model(key)
        moments = [self.run(_now(side, who, key)) for side in self.sides]
        for moment in moments:
            agree(self.run(looked(moment)), expected(model, model.seq))
        assert moments[0].view.fingerprint == moments[1].view.fingerprint
        self._read_on(who, model)

    def _read_on(self, who: Who, model: NaiveChat) -> None:
        """What is new in the log is what the model knows, and the same everywhere."""
        known = self.recorded.setdefault(model.key, [])
        facts = model.facts[len(known) :]
        new, other = (self.run(_entries(side, who, model.key, len(known) + 1)) for side in self.sides)
        assert same_entries(new, other, sums=False)
        assert [(entry.seq, entry.ts, about(entry.event)) for entry in new] == [
            (fact.seq, fact.ts, fact.about) for fact in facts
        ]
        known += new

    @invariant()
    def the_lists_of_chats_agree(self) -> None:
        wanted = {key: model.outline() for key, model in self.models.items()}
        self.sound = False
        for side in self.sides:
            agree(self.run(_listed(side, self.time % 2)), wanted)
        self.sound = True

    def teardown(self) -> None:
        try:
            if self.sound:  # else a step has failed, and it is that which is told
                self.everything_is_still_there()
        finally:
            for side in self.sides:
                self.run(side.close())
            self.runner.close()
            self.files.remove()
            for patch in self.patches:
                patch.stop()

    def everything_is_still_there(self) -> None:
        """All that was recorded, and the same views made from nothing but the log."""
        before = {key: self.run(_now(self.files, 0, key)).view.fingerprint for key in self.models}
        for side in self.sides:
            self.run(side.reopen(0))
        self.files.forget_caches()
        for key, model in self.models.items():
            self.compare(0, key)
            assert self.run(_now(self.files, 0, key)).view.fingerprint == before[key]
            for side in self.sides:
                left = [entry.event for entry in self.run(_entries(side, 0, key))]
                told = zip(self.recorded[key], model.facts, strict=True)
                assert same(left, [scrub(e.event) if fact.erased else e.event for e, fact in told])
        self.files.check()


def _error(outcome: Any) -> str:
    return type(outcome).__name__ if isinstance(outcome, Exception) else ""


async def _now(side: Side, who: Who, key: str) -> Moment:
    return await (await side.chat(who, key)).now()


async def _entries(side: Side, who: Who, key: str, first: int = 1) -> list[Entry]:
    return [entry async for entry in (await side.chat(who, key)).entries(first)]


async def _listed(side: Side, store: int) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    async for chat in side.stores[store].chats():
        one = chat.outline
        parent = (chat.parent.parent, chat.parent.at) if chat.parent else None
        found[chat.key] = (
            one.title,
            one.messages,
            one.turns,
            one.role,
            one.preview,
            one.created,
            one.active,
            parent,
        )
    return found


# --- what can be seen ------------------------------------------------------------------------------------


async def looked(moment: Moment) -> dict[str, object]:
    """Everything that a moment shows, as plain values."""
    index = await moment.contexts(limit=None)
    return {
        "seq": moment.seq,
        "active": moment[contexts].active.id,
        "messages": [_row(message) for message in await moment.messages("openai")],
        "index": [tuple(getattr(row, name) for name in row.__struct_fields__) for row in index],
        "skills": list(moment[skills].active),
        "calls": [call.seq for call in moment[calls].open],
        "checkpoints": moment[lineage].checkpoints,
    }


def agree(actual: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    differing = {
        k: (actual.get(k), wanted.get(k)) for k in {*actual, *wanted} if actual.get(k) != wanted.get(k)
    }
    assert not differing, f"(what there is, what there should be): {differing}"


def expected(model: NaiveChat, seq: int) -> dict[str, object]:
    """The same of the model, as it was after entry ``seq``."""
    state = model.states[seq]
    return {
        "seq": seq,
        "active": state.active.id,
        "messages": rows(render(state.active.items)),
        "index": model.index(state),
        "skills": list(state.skills),
        "calls": [call.seq for call in state.calls],
        "checkpoints": model.checkpoints(seq),
    }


def _row(message: dict[str, Any]) -> tuple[object, ...]:
    content = message.get("content", "")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content)
    if message["role"] == "tool":
        return "tool", message["tool_call_id"], content
    made = [(call["id"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]
    return message["role"], content, *made


# --- events ----------------------------------------------------------------------------------------------


def event(said: Said) -> Event:
    roles: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
    match said.kind:
        case "call":
            return ToolCalled(said.name, "read", {"path": said.text})
        case "result":
            return ToolReturned(said.name, (Text(said.text),), said.failed)
        case "asked":
            return ModelCalled("a model", "a request")
        case "returned":
            return ModelReturned()
        case "audit" | "internal" as origin:
            return MessageAdded("user", (Text(said.text),), origin)
        case kind:
            return MessageAdded(roles[kind], (Text(said.text),))


def about(event: Event) -> tuple[int, ...]:
    """The seqs that an event is about, and how many messages a summary stands for."""
    match event:
        case Compacted(first=first, last=last, count=count):
            return first, last, count
        case ContextOpened(carry=carry) | ContextSwitched(carry=carry) | ContextCleared(carry=carry):
            return carry
        case CompactionReverted(seq=seq) | Rewound(to=seq) | Forked(at=seq):
            return (seq,)
        case Redacted(seqs=seqs):
            return seqs
    return ()
