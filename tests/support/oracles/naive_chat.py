"""A chat as the seeds describe it, in the most obvious way: facts in a list, contexts as lists of facts, nothing shared.

The state after every fact is kept whole, so that going back is taking an earlier one. Each verb says what it recorded
by being reflected in ``facts``; ``Refused`` is raised where it must leave no trace.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

from tests.support.oracles.naive_prompt import (
    COST,
    INTERRUPTED,
    SAID,
    Fact,
    Item,
    Items,
    Message,
    Summary,
    extent,
    facts_of,
    folded,
    in_order,
    recollection,
    render,
    short,
    summaries_of,
    summed_up,
    to_hide,
    unfolded,
    without,
)


class Refused(Exception):
    """By its name: the error that the verb raises."""


class Said(NamedTuple):
    """Something to record, or that a client sends."""

    kind: str
    text: str = ""
    name: str = ""
    failed: bool = False


@dataclass(frozen=True)
class Context:
    id: str
    opened: Fact | None = None
    left: Fact | None = None  # the fact by which it was left; None: it is the active one
    items: Items = ()

    @property
    def said(self) -> list[Fact]:
        return [fact for fact in facts_of(self.items) if fact.kind in SAID]

    @property
    def answers(self) -> list[Fact]:
        return [fact for fact in self.said if fact.kind == "assistant"]

    @property
    def question(self) -> str:
        """The first thing that the user asked in it."""
        return next((short(fact.text, 120) for fact in self.said if fact.kind == "user"), "")

    @property
    def preview(self) -> str:
        """The newest summary that is shown, else the last answer."""
        summaries = [item.fact for item in self.items if isinstance(item, Summary)]
        newest = sorted(summaries, key=lambda fact: fact.seq) or self.answers
        return short(newest[-1].text, 120) if newest else ""


@dataclass(frozen=True)
class State:
    active: Context = Context("main")
    shelf: tuple[Context, ...] = ()  # last left last
    since: int = 1  # the fact by which the context became the active one
    skills: tuple[str, ...] = ()
    calls: tuple[Fact, ...] = ()  # asked, and not answered yet

    @property
    def contexts(self) -> dict[str, Context]:
        return {context.id: context for context in (*self.shelf, self.active)}

    def with_items(self, items: Iterable[Item]) -> "State":
        return replace(self, active=replace(self.active, items=in_order(items)))

    def moved(self, to: Context, fact: Fact, carried: Sequence[Fact]) -> "State":
        left = replace(self.active, left=fact, items=without(self.active.items, carried))
        shelf = (*(context for context in self.shelf if context.id != to.id), left)
        now = replace(self, active=replace(to, left=None), shelf=shelf, since=fact.seq)
        return now.with_items((*to.items, *carried))


class NaiveChat:
    def __init__(self, key: str) -> None:
        self.key = key
        self.facts: list[Fact] = []
        self.states = [State()]
        self.ids: dict[str, Fact] = {}

    @property
    def seq(self) -> int:
        return len(self.facts)

    @property
    def running(self) -> dict[str, int]:
        """The runs that have begun and not ended, whatever was rewound. Those of a fork's parent are not its own."""
        found: dict[str, int] = {}
        for fact in self.facts:
            if fact.kind == "run":
                found[fact.name] = fact.seq
            elif fact.kind == "ran":
                found.pop(fact.name, None)
            elif fact.kind == "forked":
                found.clear()
        return found

    @property
    def now(self) -> State:
        return self.states[-1]

    def messages(self) -> list[Message]:
        return render(self.now.active.items)

    # --- recording ---------------------------------------------------------------------------------------

    def add(
        self, ts: int, kind: str, text: str = "", name: str = "", reason: str = "", *, failed: bool = False
    ) -> Fact:
        return self.put(Fact(self.seq + 1, ts, kind, text, name, reason, failed))

    def put(self, fact: Fact, state: State | None = None) -> Fact:
        """A fact belongs to the context that it leads to. ``state``: that after it, without it."""
        state = state or self.now
        self.facts.append(fact)
        self.states.append(state.with_items((*state.active.items, fact)))
        return fact

    def record(self, ts: int, *batch: Said) -> None:
        for said in batch:
            fact = self.add(ts, said.kind, said.text, said.name, failed=said.failed)
            calls = self.now.calls
            match said.kind:
                case "call":
                    calls = (*calls, fact)
                case "result":
                    first = next((call for call in calls if call.name == said.name), None)
                    calls = tuple(call for call in calls if call is not first)
                case "assistant" | "asked":
                    calls = ()
            self.states[-1] = replace(self.now, calls=calls)

    def user(self, ts: int, text: str, id: str) -> None:
        """The id stands for the first message that came with it, whatever became of that."""
        first = self.ids.get(id)
        if first is None:
            self.record(ts, Said("user", text))
            self.ids[id] = self.facts[-1]
        elif not first.erased and first.text != text:
            raise Refused("IdConflict")

    def inject(self, ts: int, text: str, fingerprint: str) -> None:
        seen = [i for i in self.now.active.items if isinstance(i, Fact) and i.kind == "injected"]
        if fingerprint not in {fact.name for fact in seen}:
            self.add(ts, "injected", text, fingerprint)

    def skill(self, ts: int, name: str, *, active: bool) -> None:
        others = tuple(other for other in self.now.skills if other != name)
        state = replace(self.now, skills=(*others, name) if active else others)
        self.put(Fact(self.seq + 1, ts, "skill", name=name), state)

    # --- receiving ---------------------------------------------------------------------------------------

    def sent_by_client(self, *, tools: bool) -> list[Said]:
        """What a client has seen of the active context."""
        kinds = ("user", "assistant", "call", "result") if tools else ("user", "assistant")
        seen = [fact for fact in facts_of(self.now.active.items) if fact.kind in kinds]
        answered = {fact.name for fact in seen if fact.kind == "result"}
        sent: list[Said] = []
        for fact in seen:
            sent.append(Said(fact.kind, fact.text, fact.name, fact.failed))
            if fact.kind == "call" and fact.name not in answered:
                sent.append(Said("result", INTERRUPTED, fact.name, failed=True))
        return sent

    def receive(self, ts: int, sent: Sequence[Said]) -> None:
        kinds = {"user", "assistant", *(said.kind for said in sent if said.kind == "call")}
        places = [at for at, said in enumerate(sent) if said.kind in kinds]
        theirs = [sent[at] for at in places]
        history = facts_of(self.now.active.items)
        everything = facts_of(item for context in self.now.contexts.values() for item in context.items)
        shown = [fact for fact in everything if fact.kind in kinds]
        if (
            self.now.shelf and shown and _common(shown, theirs) == len(shown)
        ):  # all contexts, one after the other
            self.record(ts, *_new(everything, sent, places[len(shown) - 1] + 1))
            return
        ours = [fact for fact in history if fact.kind in kinds]
        if not ours or not theirs:
            self.record(ts, *(() if ours else _new(history, sent, 0)))
            return
        start = _overlap(ours, theirs)
        same = _common(ours[start:], theirs)
        tail = places[same - 1] + 1 if same < len(theirs) else len(sent)
        if start + same < len(ours) and same < len(theirs):  # the user went back
            before = ours[start + same].seq - 1
            history = [fact for fact in history if fact.seq <= before]
            here = self.states[before].active.id == self.now.active.id
            self.rewind(ts, before if here else self.now.since)
        self.record(ts, *_new(history, sent, tail))

    # --- contexts ----------------------------------------------------------------------------------------

    @property
    def carried(self) -> list[Fact]:
        """The question being asked, and the calls that are being made. What a model says meanwhile is no answer."""
        asked: list[Fact] = []
        began = max(self.running.values(), default=0)
        for fact in reversed(self.now.active.said):
            if fact.kind != "assistant":
                asked.append(fact)
            elif not (fact.seq > began if began else self.now.calls and not asked):
                break
        return sorted({*asked, *self.now.calls}, key=lambda fact: fact.seq)

    def _move(self, ts: int, kind: str, to: Context, title: str = "", reason: str = "") -> Fact:
        carried = self.carried
        about = tuple(one.seq for one in carried)
        fact = Fact(self.seq + 1, ts, kind, title, to.id, reason, about=about)
        to = to if kind == "switched" else replace(to, opened=fact)
        return self.put(fact, self.now.moved(to, fact, carried))

    def new_context(self, ts: int, id: str, title: str, reason: str) -> None:
        self._move(ts, "opened", Context(id), title, reason)

    def clear_context(self, ts: int, reason: str) -> None:
        self._move(ts, "cleared", Context(f"main-{self.seq + 1}"), reason=reason)

    def load_context(self, ts: int, id: str, reason: str) -> None:
        if id not in self.now.contexts:
            raise Refused("NoSuchContext")
        if id != self.now.active.id:
            self._move(ts, "switched", self.now.contexts[id], reason=reason)

    def matching(self, words: list[str]) -> list[str]:
        """The archived contexts that may be meant by these words, the likeliest first; of equals, the last left."""
        words = list(dict.fromkeys(words))  # what is said twice is asked for once
        shelf = [context for context in reversed(self.now.shelf) if context.said]
        for context in shelf:
            if _has(_title(context), words):
                return [context.id]
        texts = {context.id: searchable(context) for context in shelf}
        whole = [name for name, said in texts.items() if any(_has(text, words) for text in said)]
        if whole:
            return whole
        found = {
            name: sum(any(word in text for text in said) for word in words) for name, said in texts.items()
        }
        best = max(found, key=lambda name: found[name], default="")
        return [best] if best and 2 * found[best] >= len(words) else []

    def recall(self, ts: int, id: str, mode: str) -> None:
        if id not in self.now.contexts:
            raise Refused("NoSuchContext")
        text = recollection(render(self.now.contexts[id].items), mode)
        self.add(ts, "recalled", text, id, mode)

    # --- compaction --------------------------------------------------------------------------------------

    def plan(self, keep: int, budget: int | None) -> list[list[Message]]:
        runs = to_hide(self.messages(), keep, budget, self.now.calls)
        if runs is None:
            raise Refused("PromptTooLarge")
        return runs

    def tighter(self, keep: int, budget: int | None) -> tuple[int, int]:
        """For a prompt that a provider refused: half of it; where that cannot be reached, the least that can."""
        messages = self.messages()
        tokens = COST * len(messages)
        keep, half = max(keep // 2, 1), min(tokens, budget or tokens) // 2
        least = next(
            b for b in range(half, tokens + 1) if to_hide(messages, keep, b, self.now.calls) is not None
        )
        return keep, half if least >= tokens else least

    def compact(self, ts: int, runs: list[list[Message]]) -> None:
        for run in runs:
            first, last = extent(run)
            text = summed_up([(message.role, message.text) for message in run])
            fact = Fact(self.seq + 1, ts, "compacted", text, about=(first, last))
            items = folded(self.now.active.items, fact, first, last)
            hidden = next(item for item in items if isinstance(item, Summary) and item.fact is fact).hidden
            fact.about = first, last, sum(one.kind in SAID for one in facts_of(hidden))
            self.put(fact, self.now.with_items(items))

    def revert(self, ts: int, seq: int) -> None:
        """Nothing, if there is no such summary."""
        contexts = self.now.contexts.values()
        if seq in {summary.fact.seq for context in contexts for summary in summaries_of(context.items)}:
            *shelf, active = (replace(context, items=unfolded(context.items, seq)) for context in contexts)
            state = replace(self.now, active=active, shelf=tuple(shelf))
            self.put(Fact(self.seq + 1, ts, "reverted", about=(seq,)), state)

    # --- time --------------------------------------------------------------------------------------------

    def checkpoints(self, seq: int) -> dict[str, int]:
        return {fact.name: fact.seq for fact in self.facts[:seq] if fact.kind == "checkpoint"}

    def point(self, point: int | str) -> int:
        if isinstance(point, str):
            if point not in self.checkpoints(self.seq):
                raise Refused("NoSuchPoint")
            return self.checkpoints(self.seq)[point]
        if not -self.seq <= point <= self.seq:
            raise Refused("NoSuchPoint")
        return point if point >= 0 else self.seq + point

    def rewind(self, ts: int, to: int) -> None:
        fact = Fact(self.seq + 1, ts, "rewound", about=(to,))
        self.put(fact, replace(self.states[to], since=fact.seq))

    def copy(self, key: str, at: int) -> "NaiveChat":
        other = NaiveChat(key)
        other.facts, other.states = self.facts[:at], self.states[: at + 1]
        other.ids = {name: fact for name, fact in self.ids.items() if fact.seq <= at}
        return other

    # --- lists -------------------------------------------------------------------------------------------

    def index(self, state: State) -> list[tuple[object, ...]]:
        return [
            (
                context.id,
                _title(context) or context.question,
                context.opened.ts if context.opened else self.facts[0].ts,
                context.left.ts if context.left else 0,
                len(context.said),
                context.left.reason if context.left else "",
                context.answers[-1].seq if context.answers else 0,
                context.preview,
            )
            for context in reversed(state.shelf)
            if context.said
        ]

    def outline(self) -> tuple[object, ...]:
        """Title, messages, questions, who spoke last and what, since when and until when, and where it comes from."""
        said = [fact for fact in self.facts if fact.kind in ("user", "assistant")]
        asked = [fact for fact in said if fact.kind == "user"]
        last = (said[-1].kind, said[-1].text) if said else ("", "")
        times = self.facts[0].ts, self.facts[-1].ts
        forks = [(fact.name, *fact.about) for fact in self.facts if fact.kind == "forked"]
        title = asked[0].text if asked else ""
        return title, len(said), len(asked), *last, *times, forks[-1] if forks else None


def _title(context: Context) -> str:
    return context.opened.text if context.opened else ""


def searchable(context: Context) -> list[str]:
    said = [f.text for f in facts_of(context.items) if f.kind != "recalled" and not f.erased]
    return [_title(context), *said]


def _has(text: str, words: Iterable[str]) -> bool:
    return all(word in text for word in words)


def _alike(fact: Fact, said: Said) -> bool:
    same = fact.name == said.name if fact.kind == "call" else fact.text == said.text
    return fact.kind == said.kind and same


def _common(ours: Sequence[Fact], theirs: Sequence[Said]) -> int:
    """How many are alike, from the beginning on."""
    return len(list(takewhile(lambda pair: _alike(*pair), zip(ours, theirs, strict=False))))


def _overlap(ours: Sequence[Fact], theirs: Sequence[Said]) -> int:
    """Where in ours theirs begin: at the beginning, unless more of our end is the beginning of theirs."""
    same = _common(ours, theirs)
    for start in range(len(ours) - same):
        if _common(ours[start:], theirs) == len(ours) - start:
            return start
    if not same:
        raise Refused("OtherHistory")
    return 0


def _new(history: Iterable[Fact], sent: Sequence[Said], tail: int) -> list[Said]:
    """The tail and the results before it, without those of calls that are answered already, or not here."""
    waiting: list[str] = []
    kept: list[Said] = []
    after = (said for at, said in enumerate(sent) if at >= tail or said.kind == "result")
    everything: list[Fact | Said] = [*history, *after]
    for one in everything:
        if one.kind == "call":
            waiting.append(one.name)
        if one.kind == "result" and one.name in waiting and INTERRUPTED not in one.text:
            waiting.remove(one.name)
        elif one.kind == "result":
            continue
        if isinstance(one, Said):
            kept.append(one)
    return kept
