"""The keys that move the cursor: by entry, by turn, to the next compaction, switch, error or hit, to another branch."""

from bisect import bisect_left, bisect_right

from msgspec.structs import replace

from chatfold.replay.inspect.points import controls
from chatfold.replay.stepper.filter import Sieve
from chatfold.replay.stepper.state import Action, Plain, Session, State


async def onwards(session: Session, state: State, way: int) -> State:
    """The next entry that is listed, or the one before."""
    if not state.filters:
        to: int | None = state.cursor + way
        found = to if to is not None and 0 <= to <= state.end else None
    else:
        sieve = session.sieve(state.kinds, errors=state.errors)
        found = await _next_match(session, sieve, state, way)
    return _to(state, found, "there is no further one" if way > 0 else "there is none before")


async def _next_match(session: Session, sieve: Sieve, state: State, way: int) -> int | None:
    if way > 0:
        return await sieve.after(state.cursor, state.end, session.tell)
    return await sieve.before(state.cursor, session.tell)


def _to(state: State, seq: int | None, otherwise: str) -> State:
    return replace(state, message=otherwise) if seq is None else replace(state, cursor=seq)


def step(way: int) -> Action:
    async def act(session: Session, state: State) -> State:
        return await onwards(session, state, way)

    return act


def error(way: int) -> Action:
    async def act(session: Session, state: State) -> State:
        found = await _next_match(session, session.sieve((), errors=True), state, way)
        return _to(state, found, f"no error {'after' if way > 0 else 'before'} this")

    return act


def turn(way: int) -> Action:
    async def act(session: Session, state: State) -> State:
        known = await session.replay.chat.history()
        number = known.turn_at(state.cursor)
        if way > 0:
            found = known.asked_at(number + 1) if number < known.turn_at(state.end) else 0
        else:
            found = known.asked_at(number) if number else 0
            if found == state.cursor:
                found = known.asked_at(number - 1) if number > 1 else 0
        return _to(state, found or None, f"no question {'after' if way > 0 else 'before'} this")

    return act


def control(kinds: frozenset[str], what: str, way: int) -> Action:
    async def act(session: Session, state: State) -> State:
        seqs = list(controls(await session.replay.chat.history(), kinds))
        at = bisect_right(seqs, state.cursor) if way > 0 else bisect_left(seqs, state.cursor) - 1
        found = seqs[at] if 0 <= at < len(seqs) else None
        return _to(state, found, f"no {what} {'after' if way > 0 else 'before'} this")

    return act


def first(state: State) -> State:
    return replace(state, cursor=min(1, state.end))


def last(state: State) -> State:
    return replace(state, cursor=state.end)


def hit(way: int) -> Plain:
    def act(state: State) -> State:
        hits = state.hits
        if not hits:
            return replace(state, message="nothing was found" if state.query else "/ searches")
        at = bisect_right(hits, state.cursor) if way > 0 else bisect_left(hits, state.cursor) - 1
        wrapped = (
            ", from the beginning again" if at == len(hits) else ", from the end again" if at < 0 else ""
        )
        at %= len(hits)
        return replace(state, cursor=hits[at], message=f"{at + 1} of {len(hits)}{wrapped}")

    return act


def sibling(way: int) -> Action:
    async def act(session: Session, state: State) -> State:
        session.tell("looking at all chats …")
        keys = [branch.key for branch in await session.family()]
        if len(keys) < 2:
            return replace(state, message="this chat has no forks and is none")
        to = keys[(keys.index(state.chat) + way) % len(keys)]
        return replace(state, chat=to, message=f"{to}: {keys.index(to) + 1} of {len(keys)} branches")

    return act
