"""messages: what the model is sent next, as values that every provider's shape is made from.

    prompt = messages(view, entries)        # entries: those of window(view[contexts], view.seq).entries
    to_openai(prompt); to_openai_responses(prompt, model=…); to_anthropic(prompt, model=…)

Whatever the entries are, in whatever order a crash left them:

- Real turns only, in the order of the log. What was recorded for the audit alone is not there.
- Only an embedder's own system and developer messages keep that role. What was injected, recalled or summed up is
  labelled and has the role of a user or an assistant.
- A message that arrives while a model is being asked comes after its answer: the model did not see it.
- A tool call is answered exactly once, by the tool message right after it. What arrives between a call and its
  result is shown after the result. A call without a result is answered as interrupted; its result, should it
  come later, is shown where it came, labelled.
- What was injected stands before the question that is being answered, which stays last but for what was done about it.
- What has been sent stays as it was sent: a ``model_called`` or an answer closes what is open, so that a longer
  history begins with the same messages, unless a compaction, a switch, a rewind or an injection says otherwise.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from chatfold.eventlog import (
    Compacted,
    ContextRecalled,
    Entry,
    Event,
    File,
    Injected,
    Json,
    MessageAdded,
    ModelCalled,
    ModelReturned,
    Part,
    Role,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.contexts import Window, contexts, in_place, window
from chatfold.projections.fold import View
from chatfold.projections.labels import (
    INTERRUPTED,
    LATE,
    RECALLED,
    RUNTIME,
    SUMMARY,
    label_injected,
    shorten_result,
)
from chatfold.projections.packing import Unpack, pack
from chatfold.projections.shapes import PROMPT_RULES

_MOST_CALLS = 128  # in one message: what OpenAI takes
_LABELLED = 3  # the first rules by which what was injected is labelled

Meta: TypeAlias = dict[str, Json] | UnsetType
Kind: TypeAlias = Literal["said", "internal", "summary", "recalled", "injected", "runtime", "late"]


class Call(msgspec.Struct, frozen=True, gc=False):
    seq: int
    id: str
    name: str
    args: Json = None
    meta: Meta = UNSET


class Result(msgspec.Struct, frozen=True, gc=False):
    """The answer to the call of entry ``call``; ``seq`` 0: there was none."""

    call: int
    name: str
    seq: int = 0
    parts: tuple[Part, ...] = (Text(INTERRUPTED),)
    failed: bool = True
    meta: Meta = UNSET


class Message(msgspec.Struct, frozen=True, dict=True):
    """``seqs``: the entries it was made from. One with results has the role tool and follows the one with the calls.

    ``meta``, of a call and a result, too: the event's, if it has any. There a provider's shape finds what it alone
    understands.
    """

    role: Role | Literal["tool"]
    seqs: tuple[int, ...]
    parts: tuple[Part, ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    kind: Kind = "said"
    answers: int = 0  # the seq of the call, if it is a late result
    meta: Meta = UNSET

    @property
    def is_system(self) -> bool:
        """By an embedder, for the model: it comes first, and stays."""
        return self.role in ("system", "developer")

    @property
    def is_injected(self) -> bool:
        """Added by a tool or by the run; it is no part of the conversation."""
        return self.kind in ("injected", "runtime")


def messages(view: View, entries: Iterable[Entry], *, rules: int | None = None) -> tuple[Message, ...]:
    """``entries``: at least those of the window, in order; others are skipped. ``rules``: those of another number."""
    return build(window(view[contexts], view.seq), entries, rules=rules).messages


def build(window: Window, entries: Iterable[Entry], *, rules: int | None = None) -> "Prompt":
    """The same for any window."""
    block = _Block(rules)
    for entry in in_place(window, entries):
        block.take(entry)
    return Prompt(block)


class Prompt:
    """What the model is sent after some entry, as a value: it goes on entry by entry, and stays what it was."""

    def __init__(self, block: "_Block") -> None:
        self._block = block  # which nobody changes any more

    def dump(self) -> bytes:
        """As bytes, for ``load``: what is said, and what is open."""
        block = self._block
        state = {name: getattr(block, name) for name in _State.__struct_fields__ if name != "unanswered"}
        return pack(
            _State(**state, unanswered={name: tuple(some) for name, some in block.unanswered.items()})
        )

    @classmethod
    def load(cls, data: bytes | memoryview) -> "Prompt":
        """Raises ValueError for bytes that are no prompt."""
        state, block = _unpack_state(data), _Block()
        for name in _State.__struct_fields__:
            setattr(block, name, getattr(state, name))
        block.unanswered = {name: deque(some) for name, some in state.unanswered.items()}
        for call in block.calls:
            if call.seq not in block.results:
                block.without.setdefault(call.id, deque()).append(call)
        return cls(block)

    @property
    def weight(self) -> int:
        """About how many bytes it says."""
        some = [(said.parts, *(result.parts for result in said.results)) for said in self.messages]
        parts = chain.from_iterable(chain.from_iterable(some))
        return sum(
            len(part.data) if isinstance(part, File) else len(getattr(part, "text", "")) for part in parts
        )

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        block = self._block.copy()
        block.close()
        return tuple(block.done)

    @property
    def injected(self) -> frozenset[str]:
        """The fingerprints of what was injected."""
        return frozenset(self._block.injected)

    def then(self, entries: Iterable[Entry]) -> "Prompt":
        """After the next entries, if they leave in sight what was: the same as one that is built of all."""
        block = self._block.copy()
        for entry in entries:
            if type(entry.event) is not Compacted:  # one that hides nothing
                block.take(entry)
        return Prompt(block)


def first_difference(sent: Sequence[object], next_sent: Sequence[object]) -> int | None:
    """The index of the first message, in any shape, at which two requests differ: up to there a cache serves both.

    None: they are equal. The length of the shorter one: the other goes on where it ends.
    """
    for index, (one, other) in enumerate(zip(sent, next_sent, strict=False)):
        if one != other:
            return index
    return None if len(sent) == len(next_sent) else min(len(sent), len(next_sent))


class _Block:
    """The messages so far, and the calls of the last step while they are being answered."""

    def __init__(self, rules: int | None = None) -> None:
        self.rules = PROMPT_RULES if rules is None else rules
        self.done: list[Message] = []
        self.lead: Message | None = None  # the assistant's words, to which calls may still be added
        self.calls: list[Call] = []
        self.results: dict[int, Result] = {}  # by the seq of the call
        self.without: dict[str, deque[Call]] = {}  # of the calls those without a result, by id
        self.held: list[Message] = []  # what arrived in between
        self.asked = self.returned = False  # has a model been asked, and has it returned?
        self.arrived: list[Message] = []  # what it could not see: it comes after the answer
        self.unanswered: dict[str, deque[Call]] = {}  # calls answered as interrupted, by id
        self.injected: set[str] = set()
        self.question: int | None = None  # the index of the open one in the first ``looked`` of those done
        self.looked = 0

    def copy(self) -> "_Block":
        """One that goes on while this stays. It costs pointers: no message is made again."""
        new = _Block()
        vars(new).update(vars(self))
        new.done, new.calls, new.results = self.done[:], self.calls[:], self.results.copy()
        new.held, new.arrived, new.injected = self.held[:], self.arrived[:], self.injected.copy()
        new.without = {name: calls.copy() for name, calls in self.without.items()}
        new.unanswered = {name: calls.copy() for name, calls in self.unanswered.items()}
        return new

    @property
    def waiting(self) -> bool:
        return len(self.results) < len(self.calls)

    def take(self, entry: Entry) -> None:
        event, seq = entry.event, entry.seq
        if type(event) is ToolCalled:  # these three are nearly all there is, and a match asks one by one
            self.call(Call(seq, event.call, event.name, event.args, event.meta or UNSET))
        elif type(event) is ToolReturned:
            self.answer(event, seq)
        elif type(event) is MessageAdded:
            self.said(event, seq)
        else:
            self.other(event, seq)

    def said(self, event: MessageAdded, seq: int) -> None:
        if event.origin == "audit":
            return
        if event.role == "assistant":
            self.answered()
            self.lead = Message("assistant", (seq,), event.parts, meta=event.meta or UNSET)
        else:
            internal = event.role == "user" and event.origin == "internal"
            kind: Kind = "internal" if internal else "said"
            self.add(Message(event.role, (seq,), event.parts, kind=kind, meta=event.meta or UNSET))

    def other(self, event: Event, seq: int) -> None:
        match event:
            case ModelCalled():
                self.close()
                self.asked = True
            case ModelReturned():  # its answer, if it is in this window, comes right after
                self.returned = self.asked
            case Injected(fingerprint=fingerprint) if fingerprint not in self.injected:
                self.injected.add(fingerprint)
                self.inject(event, seq)
            case ContextRecalled(id=id, mode=mode, text=text):
                label = RECALLED.format(id=id, mode=mode)
                self.add(Message("user", (seq,), (Text(label + text),), kind="recalled"))
            case Compacted(summary=summary):
                self.close()
                self.done.append(Message("assistant", (seq,), (Text(SUMMARY + summary),), kind="summary"))

    def add(self, message: Message) -> None:
        """A message that no model wrote: after the answer or the results that are still to come, if there are any."""
        if self.asked and not self.returned:
            self.arrived.append(message)
        elif self.waiting:
            self.held.append(message)
        else:
            self.close()
            self.done.append(message)

    def inject(self, event: Injected, seq: int) -> None:
        """Before the question that is being answered; if none is, like any other, but for what is told of that question."""
        is_new = self.rules >= _LABELLED
        kind: Kind = "runtime" if is_new and event.source == RUNTIME else "injected"
        role: Role = "assistant" if event.role == "assistant" else "user"
        message = Message(role, (seq,), label_injected(event) if is_new else event.parts, kind=kind)
        answered = self.lead is not None and not self.calls  # all but what came since
        for some in (self.arrived, self.held):
            at = _question(some)
            if at is not None:
                some.insert(at, message)
                return
        at = None if answered else self.question_done()
        if at is None:
            if kind != "runtime":  # its question is in another context
                self.add(message)
        else:
            self.done.insert(at, message)
            self.question, self.looked = at + 1, self.looked + 1

    def question_done(self) -> int | None:
        """Of those done, the open question. What was looked at before is not looked at again."""
        self.question = _question(self.done, self.looked, self.question)
        self.looked = len(self.done)
        return self.question

    def answered(self) -> None:
        """A model speaks: what came before it could see is said; what it could not waits until it has finished."""
        arrived, self.arrived = self.arrived, []
        self.close()
        self.held = arrived

    def call(self, call: Call) -> None:
        if self.asked or (self.calls and not self.waiting):
            self.answered()
        self.calls.append(call)
        self.without.setdefault(call.id, deque()).append(call)

    def answer(self, event: ToolReturned, seq: int) -> None:
        if asked := self.without.get(event.call):
            call = asked.popleft()
            self.results[call.seq] = Result(
                call.seq, call.name, seq, shorten_result(event, seq), event.failed, event.meta or UNSET
            )
            return
        # Otherwise it is the second result of a call, which says nothing new, or that of a call which is not in this
        # window; or it comes too late.
        if waited := self.unanswered.get(event.call):
            call = waited.popleft()
            label = Text(LATE.format(name=call.name))
            parts = (label, *shorten_result(event, seq))
            self.add(Message("user", (seq,), parts, kind="late", answers=call.seq))

    def close(self) -> None:
        """What is open is said as it stands; nothing that comes later changes it."""
        self.asked = self.returned = False
        if self.calls:
            self.say_calls()
        elif self.lead:
            self.done.append(self.lead)
        self.lead = None
        if self.held or self.arrived:
            self.done += [*self.held, *self.arrived]
            self.held, self.arrived = [], []

    def say_calls(self) -> None:
        lead = self.lead
        for first in range(0, len(self.calls), _MOST_CALLS):
            calls = tuple(self.calls[first : first + _MOST_CALLS])
            seqs = tuple([call.seq for call in calls])
            before, parts, meta = (lead.seqs, lead.parts, lead.meta) if lead else ((), (), UNSET)
            self.done.append(Message("assistant", (*before, *seqs), parts, calls, meta=meta))
            self.done.append(self.answers(calls))
            lead = None
        self.calls, self.results, self.without = [], {}, {}

    def answers(self, calls: tuple[Call, ...]) -> Message:
        results = []
        for call in calls:
            result = self.results.get(call.seq)
            if result is None:
                result = Result(call.seq, call.name)
                self.unanswered.setdefault(call.id, deque()).append(call)
            results.append(result)
        seqs = sorted([result.seq for result in results if result.seq])
        return Message("tool", tuple(seqs), results=tuple(results))


class _State(msgspec.Struct, frozen=True, array_like=True):
    """What a ``_Block`` consists of. What is not here is made from it."""

    done: list[Message]
    lead: Message | None
    calls: list[Call]
    results: dict[int, Result]
    held: list[Message]
    asked: bool
    returned: bool
    arrived: list[Message]
    injected: set[str]
    unanswered: dict[str, tuple[Call, ...]]


_unpack_state = Unpack(_State)


def _question(some: list[Message], first: int = 0, before: int | None = None) -> int | None:
    """Where the last message of the user is, unless it was answered. ``before``: where it is in those before ``first``."""
    for at in range(len(some) - 1, first - 1, -1):
        if some[at].kind == "said" and some[at].role == "user":
            return at
        if some[at].kind == "said" and some[at].role == "assistant" and not some[at].calls:
            return None
    return before
