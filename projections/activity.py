"""What the agent is at: who is to speak, calls not answered yet, what was not sent yet, skills in use, runs made.

``calls`` are those of the step that is open: a resumed agent looks here first. They are closed, answered or not,
when the model is asked again or has answered, which is when ``messages`` closes them, too.
"""

from operator import itemgetter

import msgspec

from chatfold.eventlog import (
    Entry,
    Forked,
    MessageAdded,
    ModelCalled,
    RunFinished,
    RunStarted,
    SendConfirmed,
    SendFailed,
    SendRequested,
    SkillActivated,
    SkillDeactivated,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.fold import projection
from chatfold.projections.sorted_map import SortedMap

_RUNNING = 64


# --- whose turn it is ------------------------------------------------------------------------------------


class Turn(msgspec.Struct, frozen=True, gc=False):
    said: int = 0  # the newest message of the user
    called: int = 0  # when a model was last asked, or somebody has answered without one
    run: str = ""  # the one that has not ended
    asker: str | None = None  # the run that asked a model last

    @property
    def is_waiting(self) -> bool:
        """Is there a message that no model has seen?"""
        return self.said > self.called

    @property
    def is_open(self) -> bool:
        """Is there anything to be done, or gone on with?"""
        return self.is_waiting or bool(self.run)


def _still_running(then: Turn, now: Turn) -> Turn:
    """Going back ends no run, and begins none again."""
    return Turn(then.said, then.called, now.run, then.asker)


@projection(
    Turn,
    version=2,
    on=(MessageAdded, ModelCalled, RunStarted, RunFinished, Forked),
    rewinds=_still_running,
)
def turn(state: Turn, entry: Entry) -> Turn:
    event = entry.event
    if type(event) is MessageAdded:
        if event.origin != "exec":
            return state
        if event.role == "user":
            return Turn(entry.seq, state.called, state.run, state.asker)
        if event.role == "assistant" and (entry.run is None or entry.run != state.asker):
            # Recorded by hand: it answers what was said.
            return Turn(state.said, entry.seq, state.run, state.asker)
        return state
    if type(event) is ModelCalled:
        return Turn(state.said, entry.seq, state.run, entry.run)
    match event:
        case RunStarted():
            return Turn(state.said, state.called, entry.run or "", state.asker)
        case RunFinished() if entry.run == state.run:
            return Turn(state.said, state.called, "", state.asker)
        case Forked():  # what was under way, or asked, is the parent's to go on with
            return Turn(state.said, entry.seq, "", state.asker)
    return state


class Sends(msgspec.Struct, frozen=True, gc=False):
    seqs: SortedMap[str, int] = SortedMap()  # by the id of the send

    @property
    def open(self) -> dict[str, int]:
        """What was to be sent and neither arrived nor failed, as far as is known, oldest first: send -> seq."""
        return dict(sorted(self.seqs.items(), key=itemgetter(1)))


@projection(Sends, version=3, on=(SendRequested, SendConfirmed, SendFailed))
def sends(state: Sends, entry: Entry) -> Sends:
    match entry.event:
        case SendRequested(send=send):
            return Sends(state.seqs.set(send, entry.seq))
        case SendConfirmed(send=send) | SendFailed(send=send) if send in state.seqs:
            return Sends(state.seqs.without(send))
    return state


# --- calls -----------------------------------------------------------------------------------------------


class OpenCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    seq: int
    call: str
    name: str
    run: str | None = None


class Calls(msgspec.Struct, frozen=True, gc=False):
    by_id: SortedMap[tuple[str, int], OpenCall] = SortedMap()  # and -seq: an id may be used twice

    @property
    def open(self) -> tuple[OpenCall, ...]:
        """Asked and not answered, in the order they were asked."""
        return tuple(sorted([call for _, call in self.by_id.items()], key=lambda call: call.seq))


_NONE = Calls()


@projection(Calls, version=4, on=(ToolCalled, ToolReturned, ModelCalled, MessageAdded), rewinds=True)
def calls(state: Calls, entry: Entry) -> Calls:
    event = entry.event
    if type(event) is ToolCalled:
        call = OpenCall(entry.seq, event.call, event.name, entry.run)
        return Calls(state.by_id.set((event.call, -entry.seq), call))
    if not state.by_id:
        return state
    match event:
        case ToolReturned(call=answered):  # the first of those with that id
            found = state.by_id.floor((answered, 0))
            return Calls(state.by_id.without(found[0])) if found and found[0][0] == answered else state
        case ModelCalled() | MessageAdded(role="assistant", origin="exec" | "internal"):
            return _NONE
    return state


# --- skills ----------------------------------------------------------------------------------------------


class Skill(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``seq``: where its text stands."""

    seq: int
    fingerprint: str = ""


class Skills(msgspec.Struct, frozen=True, gc=False):
    by_name: SortedMap[str, Skill] = SortedMap()

    @property
    def active(self) -> dict[str, Skill]:
        """By name, in the order they came into use."""
        return dict(sorted(self.by_name.items(), key=lambda one: one[1].seq))


@projection(Skills, version=5, on=(SkillActivated, SkillDeactivated), rewinds=True)
def skills(state: Skills, entry: Entry) -> Skills:
    match entry.event:
        case SkillActivated(name=name, fingerprint=fingerprint):
            return Skills(state.by_name.set(name, Skill(entry.seq, fingerprint)))
        case SkillDeactivated(name=name) if name in state.by_name:
            return Skills(state.by_name.without(name))
    return state


# --- executions ------------------------------------------------------------------------------------------


class Executions(msgspec.Struct, frozen=True, gc=False):
    """Where runs began is in ``history``."""

    outcomes: dict[str, int] = {}  # how many runs ended how
    running: dict[str, int] = {}  # run -> where it started; those that never end are forgotten, oldest first


@projection(Executions, version=2, on=(RunStarted, RunFinished, Forked))
def executions(state: Executions, entry: Entry) -> Executions:
    event, run = entry.event, entry.run or ""
    if type(event) is Forked:
        return Executions(state.outcomes)  # those that run are the parent's
    running = {other: seq for other, seq in state.running.items() if other != run}
    match event:
        case RunStarted():
            running[run] = entry.seq
            if len(running) > _RUNNING:
                del running[next(iter(running))]
            return Executions(state.outcomes, running)
        case RunFinished(outcome=outcome):
            return Executions({**state.outcomes, outcome: state.outcomes.get(outcome, 0) + 1}, running)
    return state
