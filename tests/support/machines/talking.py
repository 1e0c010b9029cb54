"""What is said and done in a chat: the rules by which a machine records."""

import asyncio
from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from chatfold.agent import Chat
from chatfold.eventlog import RunFinished, RunStarted
from tests.support.machines.side_by_side import KEYS, Move, Moves, SideBySide, event
from tests.support.machines.two_stores import Who, other
from tests.support.oracles.naive_chat import NaiveChat, Said
from tests.support.oracles.naive_prompt import facts_of

Drawn: TypeAlias = list[tuple[str, int, bool]]

keys = st.sampled_from(("a", "a", "a", "a", "a", *KEYS))
whos: st.SearchStrategy[Who] = st.sampled_from((0, 0, 1))
numbers = st.integers(0, 200)
talk = Moves()
_spoken = ("turns", "turns", "turn", "users", "user", "assistant", "system", "audit", "internal")
_done = ("call", "call", "done", "job", "job", "result", "asked", "returned")
_one = st.tuples(st.sampled_from((*_spoken, *_done)), numbers, st.booleans())
batches = st.lists(_one, min_size=1, max_size=4)


class Talking(SideBySide):
    def __init__(self) -> None:
        super().__init__()
        self.words = 0

    def word(self) -> str:
        """One that was never said before."""
        self.words += 1
        return f"w{self.words:04d}"

    def batch(self, model: NaiveChat, drawn: Drawn) -> list[Said]:
        made: list[Said] = []
        for kind, number, failed in drawn:
            word = self.word()
            answered = {fact.name for fact in model.facts if fact.kind == "result" and number < 150}
            known = [f.name for f in model.facts if f.kind == "call" and f.name not in answered]
            match kind:
                case "turn":
                    made += [Said("user", f"why {word}"), Said("assistant", f"so {word}")]
                case "turns" | "users":
                    made += self.batch(model, [(kind[:-1], number, failed)] * 3)
                case "job":
                    made += self.batch(model, [("user", 0, False), *[("done", number, failed)] * 3])
                case "call" | "done":
                    made += [Said("call", word, f"c-{word}")]
                    made += [Said("result", f"got {word}", f"c-{word}", failed)] if kind == "done" else []
                case "result":
                    call = known[-1 - number % len(known)] if known else "nobody's"
                    made.append(Said("result", f"got {word}", call, failed))
                case "asked" | "returned":
                    made.append(Said(kind))
                case _:
                    made.append(Said(kind, f"说 {word}"))
        return made

    @initialize(drawn=batches)
    def begin(self, drawn: Drawn) -> None:
        self.record("a", 0, [*drawn, ("turns", 0, False)])
        self.small("a", 0, "point", "start")

    @talk(4, key=keys, who=whos, drawn=batches)
    def record(self, key: str, who: Who, drawn: Drawn) -> None:
        batch = self.batch(self.model(key), drawn)
        events = [event(said) for said in batch]
        self.do(who, key, lambda chat: chat.record(*events), lambda model: model.record(self.time, *batch))

    @talk(
        2,
        key=keys,
        who=whos,
        number=numbers,
        again=st.booleans(),
        changed=st.sampled_from((False, False, True)),
    )
    def user_with_an_id(self, key: str, who: Who, number: int, again: bool, changed: bool) -> None:
        """A platform delivers a message, perhaps for the second time, perhaps by mistake another one."""
        known = [(k, name, fact) for k, model in self.models.items() for name, fact in model.ids.items()]
        name, text = f"tg-{self.words}", f"hi {self.word()}"
        if again and known:
            there, name, first = known[-1 - number % len(known)]
            key = there if number % 4 else key
            text = text if changed else first.text
        self.do(
            who, key, lambda chat: chat.user(text, id=name), lambda model: model.user(self.time, text, name)
        )

    @talk(
        2,
        key=keys,
        who=whos,
        text=st.sampled_from(("rule 1", "rule 1", "rule 2")),
        role=st.sampled_from(("user", "system")),
        twice=st.booleans(),
    )
    def inject(self, key: str, who: Who, text: str, role: Any, twice: bool) -> None:
        """Again, if it is out of sight. ``twice``: both processes do so at once, and it is recorded once."""
        for model in self.models.values():
            items = model.now.active.items
            hidden = [f for f in facts_of(items) if f.kind == "injected" and f not in items and not f.erased]
            key, text = (model.key, hidden[0].text) if hidden else (key, text)

        async def inject(chat: Chat) -> None:
            both = (chat, await self.side.chat(other(who), key)) if twice else (chat,)
            await asyncio.gather(*(one.inject(text, role=role, fingerprint=text) for one in both))

        self.do(who, key, inject, lambda model: model.inject(self.time, text, text))

    @talk(
        3,
        key=keys,
        who=whos,
        how=st.sampled_from(("whole", "whole", "behind", "edited", "edited", "last", "other")),
        tools=st.booleans(),
        number=numbers,
        drawn=batches,
    )
    def receive(self, key: str, who: Who, how: str, tools: bool, number: int, drawn: Drawn) -> None:
        """A client sends its whole history again."""
        model = self.model(key)
        seen = model.sent_by_client(tools=tools)
        tail = [
            said
            for said in self.batch(model, drawn)
            if said.kind in ("user", "assistant", "system") or (tools and said.kind in ("call", "result"))
        ]
        at = number % (len(seen) + 1)
        match how:
            case "whole":
                sent = seen + tail
            case "behind":
                sent = seen[:at]
            case "edited":
                sent = [
                    *seen[:at],
                    Said("user", f"no, {self.word()}"),
                    *(seen[at + 1 :] if number % 2 else ()),
                    *tail,
                ]
            case "last":
                sent = seen[at:] + tail
            case _:
                sent = tail
        history = [event(said) for said in sent]
        self.do(who, key, lambda chat: chat.merge(history), lambda model: model.receive(self.time, sent))

    @talk(
        2,
        key=keys,
        who=whos,
        what=st.sampled_from(
            ("point", "point", "call", "answered call", "skill", "skill", "no skill", "run", "ran", "ran")
        ),
        name=st.sampled_from(("start", "middle")),
    )
    def small(self, key: str, who: Who, what: str, name: str) -> None:
        word, call = self.word(), f"call_{self.time + 1}-1"

        async def verb(chat: Chat) -> None:
            match what:
                case "skill":
                    await chat.activate_skill(name, "how to")
                case "no skill":
                    await chat.deactivate_skill(name)
                case "point":
                    await chat.checkpoint(name)
                case "run":
                    await chat.record(RunStarted(), run=name)
                case "ran":
                    await chat.record(RunFinished("done"), run=name)
                case _:
                    made = await chat.tool_call("read", {"path": word})
                    assert made.call == call
                    if what == "answered call":
                        await chat.record(made.result(f"got {word}"))

        def naive(model: NaiveChat) -> None:
            match what:
                case "skill" | "no skill":
                    model.skill(self.time, name, active=what == "skill")
                case "point":
                    model.add(self.time, "checkpoint", name=name)
                case "run" | "ran":
                    model.add(self.time, what, name=name)
                case _:
                    answer = [Said("result", f"got {word}", call)] if what == "answered call" else []
                    model.record(self.time, Said("call", word, call), *answer)

        self.do(who, key, verb, naive)

    @rule(move=talk.one())
    def say(self, move: Move) -> None:
        self.make(move)

    @rule(move=talk.one())
    def say_more(self, move: Move) -> None:
        self.make(move)
