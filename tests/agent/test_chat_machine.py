"""Whatever is done to a chat, it shows what a naive model of the seeds shows: on files and in memory, live and reopened,
with another process writing in between and with one that dies.

The law, after every step: files, memory and the model agree on what the model sees, the contexts, the skills, the
points and the list of chats; a verb that refuses has left no trace. At the end: everything recorded is read back, the
same views are made from nothing but the log, and every folder is sound.
"""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from chatfold.agent import Chat, Policy
from chatfold.agent.summary import Material
from chatfold.eventlog import ChatDeleted
from chatfold.projections import contexts
from chatfold.projections.text import text_of
from tests.support.machines.side_by_side import KEYS, Move, Moves, agree, event, expected, looked
from tests.support.machines.talking import Talking, keys, numbers, whos
from tests.support.machines.two_stores import Who, other
from tests.support.oracles.naive_chat import NaiveChat, Refused, searchable
from tests.support.oracles.naive_prompt import COST, Fact, Message, facts_of, summaries_of, summed_up, unclear
from tests.support.profile import searched

_named = st.sampled_from(("start", "then", "middle", "nowhere"))
points = st.sampled_from((numbers, numbers, numbers, _named)).flatmap(lambda some: some)
titles = st.sampled_from(("lexer plan", "docs build", "docs plan", ""))
reasons = st.sampled_from(("", "a mess"))
thoughts, handling = Moves(), Moves()


def _planned(model: NaiveChat, keep: int, budget: int | None, *, done: bool) -> list[list[Message]]:
    """What was done stands: after it nothing is refused any more."""
    try:
        return model.plan(keep, budget)
    except Refused:
        if done:
            return []
        raise


class Chats(Talking):
    def __init__(self) -> None:
        super().__init__()
        self.ghosts: list[tuple[Chat, list[Fact]]] = []  # held by somebody, and deleted by somebody else

    # --- contexts ----------------------------------------------------------------------------------------

    @thoughts(
        3,
        key=keys,
        who=whos,
        how=st.sampled_from(("new", "clear", "load", "load", "load")),
        number=numbers,
        title=titles,
        reason=reasons,
    )
    def change_context(self, key: str, who: Who, how: str, number: int, title: str, reason: str) -> None:
        """To a new one, or to any there is: the active one included, and one that is not there."""
        state = self.model(key).now
        others = [context.id for context in state.shelf] * 3
        name = [*others, state.active.id, "../etc"][number % (len(others) + 2)]
        how = how if others or number > 99 else "new"

        async def change(chat: Chat) -> None:
            match how:
                case "new":
                    assert await chat.new_context(title, reason) == f"ctx_{self.time}-1"
                case "clear":
                    assert await chat.clear_context(reason) == chat[contexts].active.id
                case _:
                    assert await chat.load_context(context_id=name, reason=reason) == name

        def naive(model: NaiveChat) -> None:
            match how:
                case "new":
                    model.new_context(self.time, f"ctx_{self.time}-1", title, reason)
                case "clear":
                    model.clear_context(self.time, reason)
                case _:
                    model.load_context(self.time, name, reason)

        self.do(who, key, change, naive)

    @thoughts(
        key=keys,
        who=whos,
        query=titles | st.sampled_from(("?!", "docs lexer")) | st.lists(numbers, min_size=1, max_size=3),
    )
    def find_context(self, key: str, who: Who, query: str | list[int]) -> None:
        """By its title, or by words that were said somewhere."""
        listed = {k: len(model.index(model.now)) for k, model in self.models.items()}
        key = key if listed.get(key) else max(listed, key=lambda k: listed[k], default=key)
        model = self.model(key)
        if isinstance(query, list):
            texts = [text for context in model.now.shelf for text in searchable(context)]
            said = [word for text in texts for word in text.split() if word.startswith("w0")] or [self.word()]
            query = " ".join(said[number % len(said)] if number < 150 else self.word() for number in query)
        if not query.strip("?!") and not model.seq:
            return  # files have nothing to search, and say so
        meant = model.matching(query.split()) if query.strip("?!") else []
        found = [self.outcome(side, who, key, lambda chat: chat.find_context(query)) for side in self.sides]
        assert str(found[0]) == str(found[1]) or all(isinstance(one, Exception) for one in found)
        chosen = found[0]
        assert chosen in meant or (not meant and isinstance(chosen, Exception)), (chosen, meant)

        def naive(model: NaiveChat) -> None:
            if isinstance(chosen, Exception):
                raise Refused("NoSuchContext" if query.strip("?!") else "ValueError")
            model.load_context(self.time, chosen, "")

        self.do(who, key, lambda chat: chat.load_context(query), naive)

    @thoughts(key=keys, who=whos, number=numbers, mode=st.sampled_from(("summary", "recent", "full")))
    def recall(self, key: str, who: Who, number: int, mode: Any) -> None:
        known = self.model(key).now.contexts
        name = [*known, "nobody"][number % (len(known) + 1)]
        if name in known and sum(len(fact.text) for fact in facts_of(known[name].items)) > 2000:
            return  # what is too long is cut, which is tested elsewhere
        self.do(
            who, key, lambda chat: chat.recall(name, mode), lambda model: model.recall(self.time, name, mode)
        )

    # --- compaction --------------------------------------------------------------------------------------

    def fullest(self) -> str:
        return max(self.models, key=lambda key: len(self.models[key].messages()), default="a")

    @thoughts(
        3,
        key=keys,
        who=whos,
        keep=st.sampled_from((1, 2, 3, 5)),
        most=st.sampled_from((None, None, 7, 6, 9, 4)),
        when=st.sampled_from(("now", "now", "if due", "after an error")),
        meanwhile=st.sampled_from(("", "", "it fails", "user", "context")),
    )
    def compact(self, key: str, who: Who, keep: int, most: int | None, when: str, meanwhile: str) -> None:
        """Every message costs the same. While the summary is made, the other process may write."""
        key = key if len(self.model(key).messages()) > 4 else self.fullest()
        budget = None if most is None else COST * most
        policy = Policy(keep, budget, above=6, summary=0)
        word = self.word()

        async def summarise(material: Material) -> str:
            writer = await self.side.chat(other(who), key)
            if meanwhile == "it fails":
                raise RuntimeError("no model today")
            if meanwhile == "user":
                await writer.user(word, id=word)
            if meanwhile == "context" and not self.tokens.made:
                await writer.new_context()
            return summed_up([(message.role, text_of(message.parts)) for message in material.messages])

        async def compact(chat: Chat) -> None:
            match when:
                case "now":
                    await chat.compact(policy, summarise=summarise, count=_nothing)
                case "if due":
                    await chat.compact_if_due(policy, summarise=summarise, count=_nothing)
                case _:
                    error = RuntimeError("the prompt is too long")
                    await chat.compact_after(error, policy, summarise=summarise, count=_nothing)

        def naive(model: NaiveChat) -> None:
            many = len(model.messages())
            said = sum(message.kind != "injected" for message in model.messages())
            if when == "if due" and said <= 6 and (most is None or many <= most):
                return
            most_, size = model.tighter(keep, budget) if when == "after an error" else (keep, budget)
            done = False
            while runs := _planned(model, most_, size, done=done):
                if meanwhile == "it fails":
                    raise Refused("SummaryFailed")
                if meanwhile == "user":
                    model.user(self.time, word, word)
                if meanwhile == "context":
                    model.new_context(self.time, f"ctx_{self.time}-1", "", "")
                    return
                model.compact(self.time, runs)
                done = True
                if size is None or COST * len(model.messages()) <= size:
                    return

        self.do(who, key, compact, naive)

    @thoughts(key=keys, who=whos, number=numbers)
    def revert_compaction(self, key: str, who: Who, number: int) -> None:
        """Any, also one that is not in force any more, and what was none."""
        made = {k: [f.seq for f in model.facts if f.kind == "compacted"] for k, model in self.models.items()}
        key = key if made.get(key) else max(made, key=lambda k: len(made[k]), default=key)
        contexts = self.model(key).now.contexts.values()
        there = [one.fact.seq for context in contexts for one in summaries_of(context.items)]
        seqs = [*there * 3, *made.get(key, []), 1]
        seq = seqs[number % len(seqs)]
        if any(seq in unclear(context.items) for context in contexts):
            return  # what was carried into the range of another one is hidden by that again
        self.do(
            who, key, lambda chat: chat.revert_compaction(seq), lambda model: model.revert(self.time, seq)
        )

    # --- time --------------------------------------------------------------------------------------------

    def point(self, key: str, drawn: int | str) -> tuple[int | str | datetime, int | str]:
        """A point as a chat takes it and as the model does: a seq, the name of a checkpoint, or a time."""
        model = self.model(key)
        if drawn == "then" and model.facts:
            ts = model.facts[model.seq // 2].ts
            return datetime.fromtimestamp(ts / 1000, UTC), max(f.seq for f in model.facts if f.ts <= ts)
        if isinstance(drawn, int):
            drawn = model.seq - drawn % (min(model.seq, 8 if drawn < 120 else 200) + 2)
        return drawn, drawn

    @thoughts(key=keys, who=whos, drawn=points)
    def rewind(self, key: str, who: Who, drawn: int | str) -> None:
        """Back, and forward again."""
        point, known = self.point(key, drawn)
        self.do(
            who,
            key,
            lambda chat: chat.rewind(point),
            lambda model: model.rewind(self.time, model.point(known)),
        )

    @thoughts(key=keys, who=whos, drawn=points)
    def look_back(self, key: str, who: Who, drawn: int | str) -> None:
        """As it was then, and as it became since."""
        point, known = self.point(key, drawn)
        model = self.model(key)

        async def look(chat: Chat) -> None:
            then = await chat.at(point)
            agree(await looked(then), expected(model, model.point(known)))
            moments = chat.moments(then.seq)
            assert isinstance(moments, AsyncGenerator)
            async with aclosing(moments):
                for seq in range(then.seq + 1, model.seq + 1):
                    moment = await anext(moments)
                    assert moment.seq == seq
                    if seq in (then.seq + 1, model.seq):
                        agree(await looked(moment), expected(model, seq))

        self.do(who, key, look, lambda model: model.point(known))

    @rule(move=thoughts.one())
    def think(self, move: Move) -> None:
        self.make(move)

    @rule(move=thoughts.one())
    def think_again(self, move: Move) -> None:
        self.make(move)

    # --- whole chats -------------------------------------------------------------------------------------

    def target(self, number: int) -> str:
        """A key that is free, or rarely one that is not; nothing if there is none."""
        keys = [key for key in KEYS if (key in self.models) is (number % 8 == 7)]
        return keys[number // 8 % len(keys)] if keys else ""

    @handling(2, key=keys, who=whos, number=numbers, drawn=st.none() | points)
    def fork(self, key: str, who: Who, number: int, drawn: int | str | None) -> None:
        new = self.target(number)
        if not new:
            return
        point, known = (None, None) if drawn is None else self.point(key, drawn)

        async def fork(chat: Chat) -> None:
            self.side.chats[who, new] = await chat.fork(new, point)

        def naive(model: NaiveChat) -> None:
            at = model.seq if known is None else model.point(known)
            if not model.seq:
                raise Refused("NoSuchChat")
            if not at:
                raise Refused("NoSuchPoint")
            self.take(new, model.copy(new, at))
            self.models[new].put(Fact(at + 1, self.time, "forked", name=key, about=(at,)))

        self.do(who, key, fork, naive)
        self.compare(who, new)

    def take(self, new: str, chat: NaiveChat) -> None:
        if new in self.models:
            raise Refused("ChatExists")
        self.models[new] = chat
        self.recorded.pop(new, None)

    @handling(key=keys, who=whos, number=numbers, file=st.booleans())
    def export_and_import(self, key: str, who: Who, number: int, file: bool) -> None:
        new = self.target(number)
        if not new:
            return
        path = self.files.root / "export.jsonl"
        if not self.model(key).seq and new in self.models:
            return  # there are two reasons to refuse, and either may be told

        async def carry(chat: Chat) -> None:
            if file:
                await chat.export(path)
            self.side.chats[who, new] = await self.side.stores[who].import_chat(path if file else chat, new)

        def naive(model: NaiveChat) -> None:
            if not model.seq:
                raise Refused("NoSuchChat")
            self.take(new, model.copy(new, model.seq))

        self.do(who, key, carry, naive)
        self.compare(who, new)

    @handling(key=keys, who=whos, drawn=st.lists(numbers, min_size=1, max_size=2))
    def redact(self, key: str, who: Who, drawn: list[int]) -> None:
        """Here, in forks and copies, and in what this was forked from."""
        model = self.model(key)
        seqs = [model.seq - number % (model.seq + 1) for number in drawn]
        if any(fact.kind == "redacted" and fact.seq in seqs for fact in model.facts):
            return  # two copies got it at once, and whether it is one and the same depends on the storage
        erased: dict[str, list[int]] = {}

        def naive(model: NaiveChat) -> None:
            if not model.seq:
                raise Refused("NoSuchChat")
            if not all(0 < seq <= model.seq for seq in seqs):
                raise Refused("NoSuchPoint")
            gone = {model.facts[seq - 1] for seq in seqs}
            for fact in gone:
                fact.erase()
            for one in self.models.values():
                where = [fact.seq for fact in one.facts if fact in gone]
                if where:
                    erased[one.key] = where
                    one.put(Fact(one.seq + 1, self.time, "redacted", about=tuple(where)))

        outcome = self.do(who, key, lambda chat: chat.redact(*seqs), naive)
        assert isinstance(outcome, Exception) or outcome == erased
        for one in erased:
            self.compare(other(who), one)

    @handling(number=numbers, who=whos, anew=st.integers(0, 3))
    def delete(self, number: int, who: Who, anew: int) -> None:
        """Perhaps another chat takes the place at once. Whoever still holds the old one is told."""
        key = KEYS[number % len(KEYS)]
        if len(self.models) < 2 or key not in self.models:
            return
        self.time += 1
        said = self.batch(self.model(key), [("user", 0, False)] * anew)
        for side in self.sides:
            held = self.run(side.chat(other(who), key))
            self.run(side.delete(who, key, *map(event, said)))
            if held.seq:
                self.ghosts.append((held, self.models[key].facts[: held.seq]))
        del self.models[key], self.recorded[key]
        if said:
            self.models[key] = NaiveChat(key)
            self.models[key].record(self.time, *said)
        self.compare(other(who), key)
        self.compare(who, key)

    @invariant()
    def the_deleted_are_known_to_be(self) -> None:
        for chat, facts in self.ghosts:
            if _is_another(self.model(chat.key).facts[: len(facts)], facts):
                assert self.run(_is_gone(chat.user("to the old one")))
                assert self.run(_is_gone(chat.refresh()))

    # --- processes ---------------------------------------------------------------------------------------

    @handling(3, key=keys, who=whos, crash=st.booleans(), caches=st.booleans())
    def restart(self, key: str, who: Who, crash: bool, caches: bool) -> None:
        for side in self.sides:
            self.run(side.crash(who, key) if crash else side.reopen(who))
            if not caches:
                side.forget_caches()
        self.ghosts.clear()
        self.compare(who, key)
        self.compare(other(who), key)

    @rule(move=handling.one())
    def handle(self, move: Move) -> None:
        self.make(move)


def _nothing(_: str) -> int:
    """What words cost."""
    return 0


def _is_another(now: list[Fact], before: list[Fact]) -> bool:
    """Not if it was imported again. Copies get an erasure at once: whether that is one and the same only the storage can tell."""
    return [fact for fact in now if fact.kind != "redacted"] != [
        fact for fact in before if fact.kind != "redacted"
    ]


async def _is_gone(verb: Awaitable[Any]) -> bool:
    try:
        await verb
    except ChatDeleted:
        return True
    return False


TestChats = Chats.TestCase
TestChats.settings = searched(4 / 3, steps=2)
