"""What a model is sent, as the documents say it and in the most obvious way: from a list of things, in order.

A context is a tuple of facts, and of summaries that hold what they hide. Nothing of ``projections`` is used here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

REDACTED = "[redacted]"
INTERRUPTED = "Interrupted: no result of this call was recorded."
SUMMARY = "Summary of the earlier conversation:\n"
INJECTED = "[Added by the application, not the user's words]"
LATE = "Late result of read, which had been answered as interrupted:\n"
RECALLED = (
    "From an archived context, for reference only; it may not fit the current question:\n"
    "- contextId: {}\n- mode: {}\n"
)

SAID = ("user", "internal", "assistant")  # what a list of contexts counts
COST = 4  # of a message, where words cost nothing


@dataclass(eq=False)
class Fact:
    """One entry of the log. Forks and copies share their facts, so that what is erased in one is erased in all."""

    seq: int
    ts: int
    kind: str
    text: str = ""
    name: str = ""  # of a call, a skill, a checkpoint, a context, or a fingerprint
    reason: str = ""  # also the mode of a recall
    failed: bool = False
    about: tuple[int, ...] = ()  # seqs
    erased: bool = False

    def erase(self) -> None:
        self.erased = True
        self.text = self.text and REDACTED
        if self.kind != "recalled":
            self.reason = self.reason and REDACTED

    @property
    def place(self) -> tuple[int, int]:
        return self.seq, 0


@dataclass(frozen=True, eq=False)
class Summary:
    """Stands for what it hides, in the place of the first of it."""

    fact: Fact
    first: int
    last: int
    hidden: "Items"

    @property
    def place(self) -> tuple[int, int]:
        return self.first, 1


Item: TypeAlias = Fact | Summary
Items: TypeAlias = tuple[Item, ...]


def in_order(items: Iterable[Item]) -> Items:
    return tuple(sorted(items, key=lambda item: item.place))


def facts_of(items: Iterable[Item]) -> list[Fact]:
    """All facts, with those that are hidden."""
    found = [f for i in items for f in ([i] if isinstance(i, Fact) else facts_of(i.hidden))]
    return sorted(found, key=lambda fact: fact.seq)


def summaries_of(items: Iterable[Item]) -> list[Summary]:
    """All of them, with those that others hide."""
    found = [item for item in items if isinstance(item, Summary)]
    return [one for item in found for one in (item, *summaries_of(item.hidden))]


def unclear(items: Items) -> list[int]:
    """The summaries that hide something in the range of another one, because it was carried there."""
    every = summaries_of(items)
    return [
        one.fact.seq
        for one in every
        for other in every
        if other is not one and one not in summaries_of(other.hidden)
        if any(isinstance(f, Fact) and other.first <= f.seq <= other.last for f in one.hidden)
    ]


def without(items: Items, gone: Sequence[Fact]) -> Items:
    return tuple(
        item
        if isinstance(item, Fact)
        else Summary(item.fact, item.first, item.last, without(item.hidden, gone))
        for item in items
        if item not in gone
    )


def unfolded(items: Items, seq: int) -> Items:
    """With what the summary ``seq`` hides in its place, wherever it is."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, Fact):
            found.append(item)
        elif item.fact.seq == seq:
            found += item.hidden
        else:
            found.append(Summary(item.fact, item.first, item.last, unfolded(item.hidden, seq)))
    return in_order(found)


def folded(items: Items, fact: Fact, first: int, last: int) -> Items:
    """With a summary in the place of everything from seq ``first`` to ``last``."""
    hidden = tuple(
        i for i in items if first <= i.place[0] and (i.seq if isinstance(i, Fact) else i.last) <= last
    )
    return in_order([*(item for item in items if item not in hidden), Summary(fact, first, last, hidden)])


# --- messages --------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Message:
    role: str
    text: str = ""
    items: list[Item] = field(default_factory=list)
    kind: str = "said"
    calls: list[Fact] = field(default_factory=list)
    results: list[tuple[Fact, Fact | None]] = field(default_factory=list)
    answers: Fact | None = None  # the call, of a late result

    @property
    def seqs(self) -> list[int]:
        return [item.seq for item in self.items if isinstance(item, Fact)]

    @property
    def is_question(self) -> bool:
        return (self.role, self.kind) == ("user", "said")


class _Step:
    """What the assistant says and calls in one go, and what came in between."""

    def __init__(self) -> None:
        self.asked = self.returned = False  # between the two a model sees nothing of what comes
        self.words: Fact | None = None
        self.calls: list[Fact] = []
        self.results: dict[Fact, Fact] = {}
        self.between: list[Message] = []

    @property
    def waits(self) -> bool:
        return any(call not in self.results for call in self.calls)

    def messages(self) -> Iterable[Message]:
        words = [self.words] if self.words else []
        if words or self.calls:
            yield Message(
                "assistant", words[0].text if words else "", [*words, *self.calls], calls=self.calls
            )
        if self.calls:
            results = [(call, self.results.get(call)) for call in self.calls]
            yield Message("tool", "", [result for _, result in results if result], results=results)
        yield from self.between


class _Prompt:
    def __init__(self) -> None:
        self.done: list[Message] = []
        self.step = _Step()
        self.late: list[Fact] = []  # calls that were answered as interrupted
        self.shown: set[str] = set()  # fingerprints

    def close(self) -> None:
        self.done += self.step.messages()
        self.late += [call for call in self.step.calls if call not in self.step.results]
        self.step = _Step()

    def answer(self) -> None:
        """The model speaks: what it could not see comes after that."""
        arrived, self.step.between = (self.step.between, []) if self.step.asked else ([], self.step.between)
        self.close()
        self.step.between = arrived

    def say(self, message: Message) -> None:
        if (self.step.asked and not self.step.returned) or self.step.waits:
            self.step.between.append(message)
        else:
            self.close()
            self.done.append(message)

    def inject(self, message: Message) -> None:
        """Before the question that is being answered, if there is one: after an answer only one that it did not see."""
        answered = self.step.words and not self.step.calls
        for some in (self.step.between, [] if answered else self.done):
            for at, one in reversed(list(enumerate(some))):
                if one.is_question:
                    some.insert(at, message)
                    return
                if (one.role, one.kind, one.calls) == ("assistant", "said", []):
                    break
        self.say(message)

    def take(self, item: Item) -> None:
        if isinstance(item, Summary):
            self.close()
            self.done.append(Message("assistant", SUMMARY + item.fact.text, [item], "summary"))
            return
        same = [call for call in self.step.calls if call.name == item.name and call not in self.step.results]
        missed = [call for call in self.late if call.name == item.name]
        match item.kind:
            case "user" | "system" as role:
                self.say(Message(role, item.text, [item]))
            case "internal":
                self.say(Message("user", item.text, [item], "internal"))
            case "assistant":
                self.answer()
                self.step.words = item
            case "asked":
                self.close()
                self.step.asked = True
            case "returned":
                self.step.returned = self.step.asked
            case "call":
                if self.step.asked or (self.step.calls and not self.step.waits):
                    self.answer()
                self.step.calls.append(item)
            case "result" if same:
                self.step.results[same[0]] = item
            case "result" if missed:
                self.late.remove(missed[0])
                self.say(Message("user", f"{LATE}\n{item.text}", [item], "late", answers=missed[0]))
            case "injected" if item.name not in self.shown:
                self.shown.add(item.name)
                self.inject(Message("user", f"{INJECTED}\n{item.text}", [item], "injected"))
            case "recalled":
                label = RECALLED.format(item.name, item.reason)
                self.say(Message("user", label + item.text, [item], "recalled"))


def render(items: Items) -> list[Message]:
    """The messages that a model sees of a context."""
    prompt = _Prompt()
    for item in items:
        prompt.take(item)
    prompt.close()
    return prompt.done


def rows(messages: Iterable[Message]) -> list[tuple[object, ...]]:
    """Who says what, in the order of Chat Completions. Of two calls of one name the second goes by its seq."""
    found: list[tuple[object, ...]] = []
    names: dict[int, str] = {}
    for message in messages:
        if message.role == "tool":
            found += [("tool", names[call.seq], _output(result)) for call, result in message.results]
        else:
            for call in message.calls:
                names[call.seq] = call.name if call.name not in names.values() else f"call_{call.seq}_2"
            calls = [(names[call.seq], _arguments(call) or "{}") for call in message.calls]
            found.append((message.role, message.text, *calls))
    return found


def _arguments(call: Fact) -> str:
    return "" if call.erased else f'{{"path":"{call.text}"}}'


def _output(result: Fact | None) -> str:
    if result is None:
        return f"Error: {INTERRUPTED}"
    return f"Error: {result.text}" if result.failed else result.text


# --- recalling -------------------------------------------------------------------------------------------


def recollection(messages: list[Message], mode: str) -> str:
    summaries = [message for message in messages if message.kind == "summary"]
    if mode == "summary" and summaries:
        return summaries[-1].text
    spoken = [at for at, message in enumerate(messages) if message.text]
    first = spoken[-12:][0] if spoken and mode != "full" else 0
    most = 200 if mode == "summary" else 12_000
    return "\n".join(short(line, most) for message in messages[first:] for line in _told(message))


def _told(message: Message) -> Iterable[str]:
    if message.text:
        who = message.role if message.kind in ("said", "internal") else message.kind
        yield f"{who}: {message.text}"
    for call in message.calls:
        yield f"assistant called read: {_arguments(call) or 'null'}"
    for _, result in message.results:
        failed = result is None or result.failed
        yield f"read {'failed' if failed else 'returned'}: {result.text if result else INTERRUPTED}"


def short(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


# --- compacting ------------------------------------------------------------------------------------------


def summed_up(messages: Sequence[tuple[str, str]]) -> str:
    """A summary that tells what it was made from: roles and texts."""
    first, last = (f"{role} {short(text, 24)}" for role, text in (messages[0], messages[-1]))
    return f"{len(messages)} messages, from {first} to {last}"


def to_hide(
    messages: list[Message], keep: int, budget: int | None, waiting: Sequence[Fact] = ()
) -> list[list[Message]] | None:
    """The oldest messages, as few as will do; None if nothing will. What is too large is cut to half of the budget.

    The last question stays, and so do calls that are ``waiting`` for a result. What came after the question goes only
    if there is no other way.
    """
    start = next((at for at, m in enumerate(messages) if m.role != "system"), len(messages))
    since = max((at for at, m in enumerate(messages) if m.is_question), default=len(messages) - 1) + 1
    end = next((at for at, m in enumerate(messages) if set(m.calls) & set(waiting)), len(messages) - 1)
    before = [start, *(at for at in range(start + 1, min(since, end + 1)) if _may_part(messages, start, at))]
    after = [at for at in range(since + 1, end + 1) if _may_part(messages, since, at)]
    enough = [
        at for at in before if sum(m.kind not in ("summary", "injected") for m in messages[at:]) <= keep
    ] or before[-1:]
    cuts = [*((at, since) for at in enough), *((before[-1], at) for at in after)]
    runs = [[run for run in (messages[start:one], messages[since:two]) if run] for one, two in cuts]
    if budget is None:
        return runs[0]
    sizes = [COST * (len(messages) - sum(map(len, some)) + len(some)) for some in runs]
    size = COST * len(messages)
    for goal in (budget // 2, budget) if size > budget else (budget,):
        for some, left in zip(runs, sizes, strict=True):
            if left <= goal:
                return some
    return [] if size <= budget else None


def _may_part(messages: list[Message], start: int, at: int) -> bool:
    """May the messages ``start`` … ``at`` - 1 become a summary? Not without their results, nor if it says nothing new."""
    whole = all(
        messages[border].role != "tool"
        and max(_seqs(messages[:border]), default=0) < min(_seqs(messages[border:]), default=1 << 62)
        for border in {start, at}
    )
    return whole and any(message.kind != "summary" for message in messages[start:at])


def _seqs(messages: Sequence[Message]) -> list[int]:
    """A late result goes with its call."""
    late = [message.answers.seq for message in messages if message.answers]
    return [*late, *(seq for message in messages for seq in message.seqs)]


def extent(run: list[Message]) -> tuple[int, int]:
    """The first and the last seq that a summary of these stands for."""
    items = [item for message in run for item in message.items]
    firsts = [item.place[0] for item in items]
    return min(firsts), max(item.seq if isinstance(item, Fact) else item.last for item in items)
