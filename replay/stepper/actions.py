"""The keys that do not move the cursor by themselves: the detail pane, the prompts, what would print the same."""

import shlex
from bisect import bisect_left
from typing import Literal

from msgspec.structs import replace

from chatfold.replay.inspect.address import point
from chatfold.replay.inspect.points import seq_of
from chatfold.replay.inspect.selection import parse_kinds
from chatfold.replay.render.line import Line
from chatfold.replay.stepper.moves import first, last, onwards
from chatfold.replay.stepper.state import Action, Plain, Session, State, Tab

_COMMANDS = {"context": "context", "messages": "messages", "event": "show"}
_HITS = 1000  # of a search for words


def show(tab: Tab) -> Plain:
    def act(state: State) -> State:
        return replace(state, tab=tab, line=0)

    return act


def up_or_down(way: int, *, page: bool = False) -> Action:
    async def act(session: Session, state: State) -> State:
        by = way * session.page if page else way
        if state.in_detail:
            return replace(state, line=max(0, min(state.line + by, len(session.lines) - 1)))
        if not page:
            return await onwards(session, state, way)
        if not state.filters:
            return replace(state, cursor=max(min(1, state.end), min(state.cursor + by, state.end)))
        for _ in range(session.page):
            before, state = state.cursor, await onwards(session, state, way)
            if state.cursor == before:
                break
        return state

    return act


def edge(way: int) -> Action:
    async def act(session: Session, state: State) -> State:
        if state.in_detail:
            return replace(state, line=max(0, len(session.lines) - 1) if way > 0 else 0)
        return (last if way > 0 else first)(state)

    return act


async def enter(session: Session, state: State) -> State:
    chosen = _chosen(session, state)
    if chosen is None or not (chosen.seq or chosen.chat):
        return replace(state, in_detail=not state.in_detail)
    if chosen.chat and chosen.chat != state.chat:
        return replace(state, chat=chosen.chat, cursor=chosen.seq or state.cursor)
    return replace(state, cursor=min(chosen.seq, state.end) or state.cursor)


def _chosen(session: Session, state: State) -> Line | None:
    return session.lines[state.line] if state.in_detail and state.line < len(session.lines) else None


async def why(session: Session, state: State) -> State:
    """Of the item that is chosen in the detail pane, else of the entry under the cursor."""
    chosen = _chosen(session, state)
    seq = (chosen.seq if chosen and not chosen.chat else 0) or state.cursor
    if not seq:
        return replace(state, message="there is no entry here")
    return replace(state, tab="why", asked=seq, line=0)


def mark(state: State) -> State:
    if state.mark == state.cursor:
        return replace(state, mark=None, message="A is taken away")
    return replace(state, mark=state.cursor, message=f"A is e{state.cursor}; d compares it with the cursor")


def escape(state: State) -> State:
    tab = "context" if state.tab == "why" else state.tab
    return replace(state, tab=tab, in_detail=False, line=0)


# --- the rest --------------------------------------------------------------------------------------------


def ask(prompt: Literal[":", "/", "f"]) -> Plain:
    def act(state: State) -> State:
        typed = " ".join(state.kinds) if prompt == "f" else ""
        return replace(state, prompt=prompt, typed=typed)

    return act


async def edit_prompt(session: Session, state: State, key: str) -> State:
    match key:
        case "esc":
            return replace(state, prompt="", typed="")
        case "backspace" if not state.typed:
            return replace(state, prompt="")
        case "backspace":
            return replace(state, typed=state.typed[:-1])
        case "ctrl-u":
            return replace(state, typed="")
        case "enter":
            return await _answer(
                session, replace(state, prompt="", typed=""), state.prompt, state.typed.strip()
            )
    return replace(state, typed=state.typed + key) if len(key) == 1 else state


async def _answer(session: Session, state: State, prompt: str, text: str) -> State:
    if prompt == "f":
        parse_kinds(text)  # says which there are
        kinds = tuple(text.replace(",", " ").lower().split())
        return replace(
            state, kinds=kinds, message=f"listed: {', '.join(kinds)}" if kinds else "listed: all kinds"
        )
    if not text:
        return replace(state, query="", hits=()) if prompt == "/" else state
    if prompt == ":":
        return replace(state, cursor=await seq_of(session.replay.chat, point(text)))
    return await _search(session, state, text)


async def _search(session: Session, state: State, text: str) -> State:
    """The exact text first; if no entry holds it, its words."""
    session.tell(f"looking for {text!r} …")
    log = session.replay.log
    hits = await log.grep(state.chat, text)
    how = ""
    if not hits:
        try:
            hits = sorted({hit.seq for hit in await log.search(state.chat, text, limit=_HITS)})
        except ValueError:  # not a word in it
            hits = []
        how = " by its words"
    hits = [seq for seq in hits if seq <= state.end]
    state = replace(state, query=text, hits=tuple(hits))
    if not hits:
        return replace(state, message=f"no entry holds {text!r}")
    at = bisect_left(hits, state.cursor) % len(hits)
    return replace(
        state, cursor=hits[at], message=f"{at + 1} of {len(hits)}{how}; n, N: the next, the one before"
    )


def errors(state: State) -> State:
    return replace(state, errors=not state.errors)


def follow(state: State) -> State:
    if state.following:
        return replace(state, following=False, message="follows no more")
    return replace(state, following=True, cursor=state.end, message="follows what comes")


def tell_address(state: State) -> State:
    return replace(state, message=shlex.quote(state.address))


async def tell_command(session: Session, state: State) -> State:
    return replace(state, message=command(state, session.place))


def command(state: State, place: str = "") -> str:
    """What to type to have the same printed."""
    match state.tab:
        case "diff":
            before = state.mark if state.mark is not None else max(0, state.cursor - 1)
            return _command("diff", f"{state.chat}@e{before}..e{state.cursor}", place=place)
        case "why":
            return _command("why", state.chat, f"e{state.asked}", place=place)
        case "tree":
            return _command("tree", state.chat, place=place)
    return _command(_COMMANDS[state.tab], state.address, place=place)


def _command(verb: str, *words: str, place: str) -> str:
    where = ("--store", place) if place else ()
    return shlex.join(("chatfold", verb, *words, *where))


def open_help(state: State) -> State:
    return replace(state, help=True)


def leave(state: State) -> State:
    return replace(state, code=0)


def focus(state: State) -> State:
    return replace(state, in_detail=not state.in_detail)
