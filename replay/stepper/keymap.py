"""Stepping: what each key of the stepper means. A state and a key give the next state; nothing here knows a terminal.

    session = Session(store, replay)
    state = await press(session, begin(session), "c")       # to the next compaction

The state says everything that is shown: the cursor, the tab, the mark A, the filter, the search. What goes wrong is told in
its ``message``; no key ends the stepper but ``q`` and Ctrl-C.
"""

from msgspec.structs import replace

from chatfold.eventlog import ChatfoldError
from chatfold.replay.inspect.points import COMPACTIONS, SWITCHES
from chatfold.replay.stepper.actions import (
    ask,
    edge,
    edit_prompt,
    enter,
    errors,
    escape,
    focus,
    follow,
    leave,
    mark,
    open_help,
    show,
    tell_address,
    tell_command,
    up_or_down,
    why,
)
from chatfold.replay.stepper.moves import control, error, first, hit, last, sibling, step, turn
from chatfold.replay.stepper.state import TABS, Action, Plain, Session, State

KEYS: dict[str, Action] = {
    **dict.fromkeys(("j", "right", "."), step(1)),
    **dict.fromkeys(("k", "left"), step(-1)),
    "down": up_or_down(1),
    "up": up_or_down(-1),
    "pagedown": up_or_down(1, page=True),
    "pageup": up_or_down(-1, page=True),
    "home": edge(-1),
    "end": edge(1),
    "J": turn(1),
    "K": turn(-1),
    "c": control(COMPACTIONS, "compaction", 1),
    "C": control(COMPACTIONS, "compaction", -1),
    "s": control(SWITCHES, "switch", 1),
    "S": control(SWITCHES, "switch", -1),
    "x": error(1),
    "X": error(-1),
    "b": why,
    "[": sibling(-1),
    "]": sibling(1),
    "!": tell_command,
    "enter": enter,
}

PLAIN: dict[str, Plain] = {
    "g": first,
    "G": last,
    ":": ask(":"),
    "/": ask("/"),
    "ctrl-f": ask("/"),
    "n": hit(1),
    "N": hit(-1),
    "f": ask("f"),
    "e": errors,
    **{str(number): show(tab) for number, tab in enumerate(TABS, 1)},
    "m": mark,
    "d": show("diff"),
    "t": show("tree"),
    "F": follow,
    "y": tell_address,
    "?": open_help,
    "tab": focus,
    "esc": escape,
    "q": leave,
}


_DETAIL = frozenset((*map(str, range(1, 6)), "d", "t", "b"))
"""Keys that ask for what the detail pane shows."""


def begin(session: Session) -> State:
    """At the replay's cursor."""
    replay = session.replay
    return State(replay.key, replay.seq, replay.end, replay.end)


async def press(session: Session, state: State, key: str) -> State:
    """The state after this key: a character, or a name such as ``down``, ``pageup``, ``enter``, ``ctrl-c``."""
    if key == "ctrl-c":
        return replace(state, code=130)
    state = replace(state, message="")
    if state.help:
        return replace(state, help=False)
    try:
        if state.prompt:
            after = await edit_prompt(session, state, key)
        elif key in PLAIN:
            after = PLAIN[key](state)
        elif key in KEYS:
            after = await KEYS[key](session, state)
        else:
            return replace(state, message=f"{key!r} does nothing; ? shows what does")
        if session.has_one_pane and key in _DETAIL and not state.prompt:
            after = replace(after, in_detail=True)
        if after.cursor != state.cursor or after.chat != state.chat:
            after = replace(after, line=0, following=after.following and after.cursor == after.end)
        if after.place != state.place:
            session.lines = ()  # until the new ones are drawn, there is nothing to choose
        return await _arrive(session, after)
    except ChatfoldError as error:
        return replace(state, prompt="", typed="", message=str(error))


async def grow(session: Session, state: State) -> State:
    """Takes in what was written since. Only a cursor that stood at the end goes along, or one that follows."""
    await session.replay.refresh()
    end = session.replay.end
    if end == state.end:
        return state
    goes = state.following or state.cursor == state.end
    after = replace(state, end=end, cursor=end if goes else state.cursor, line=0 if goes else state.line)
    return await _arrive(session, after)


async def _arrive(session: Session, state: State) -> State:
    if state.chat != session.replay.key:
        await session.open(state.chat)
        end = session.replay.end
        state = replace(state, end=end, seen=end, cursor=min(state.cursor, end), mark=None, hits=(), query="")
    await session.replay.seek(state.cursor)
    return replace(state, seen=state.end) if state.cursor == state.end else state
