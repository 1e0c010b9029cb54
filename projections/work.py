"""What the agent is at: who is to speak, calls not answered yet, what was not sent yet, skills in use, runs made.

``calls`` are those of the step that is open: a resumed agent looks here first. They are closed, answered or not,
when the model is asked again or has answered, which is when ``messages`` closes them, too.
"""

import msgspec

from chatfold.eventlog import (
    Entry,
    Forked,
    MessageAdded,
    ModelCalled,
    Rewound,
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
from chatfold.projections.columns import Rows, Seqs
from chatfold.projections.folding import projection
from chatfold.projections.packing import Unpack, pack
from chatfold.projections.spans import includes, path

WINDOW = 200
_RUNNING = 64


# --- whose turn it is ------------------------------------------------------------------------------------


class Turn(msgspec.Struct, frozen=True):
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


@projection(Turn, version=1, on=(MessageAdded, ModelCalled, RunStarted, RunFinished, Forked))
def turn(state: Turn, entry: Entry) -> Turn:
    match entry.event:
        case ModelCalled():
            return Turn(state.said, entry.seq, state.run, entry.run)
        case MessageAdded(role="user", origin="exec"):
            return msgspec.structs.replace(state, said=entry.seq)
        case MessageAdded(role="assistant", origin="exec") if entry.run is None or entry.run != state.asker:
            return msgspec.structs.replace(
                state, called=entry.seq
            )  # recorded by hand: it answers what was said
        case RunStarted():
            return msgspec.structs.replace(state, run=entry.run or "")
        case RunFinished() if entry.run == state.run:
            return msgspec.structs.replace(state, run="")
        case Forked():  # what was under way, or asked, is the parent's to go on with
            return msgspec.structs.replace(state, run="", called=entry.seq)
    return state


class Sends(msgspec.Struct, frozen=True):
    open: dict[
        str, int
    ] = {}  # what was to be sent and neither arrived nor failed, as far as is known: send -> seq


@projection(Sends, version=1, on=(SendRequested, SendConfirmed, SendFailed))
def sends(state: Sends, entry: Entry) -> Sends:
    match entry.event:
        case SendRequested(send=send):
            return Sends({**state.open, send: entry.seq})
        case SendConfirmed(send=send) | SendFailed(send=send) if send in state.open:
            return Sends({other: seq for other, seq in state.open.items() if other != send})
    return state


# --- calls -----------------------------------------------------------------------------------------------


class OpenCall(msgspec.Struct, frozen=True, array_like=True):
    seq: int
    call: str
    name: str
    run: str | None = None


class Calls(msgspec.Struct, frozen=True):
    open: tuple[OpenCall, ...] = ()  # asked and not answered, in the order they were asked


@projection(Calls, version=1, on=(ToolCalled, ToolReturned, ModelCalled, MessageAdded, Rewound))
def calls(state: Calls, entry: Entry) -> Calls:
    event = entry.event
    if type(event) is ToolCalled:
        return Calls((*state.open, OpenCall(entry.seq, event.call, event.name, entry.run)))
    if not state.open:
        return state
    match event:
        case ToolReturned(call=answered):
            if len(state.open) == 1:  # most are answered before the next is asked
                return Calls() if state.open[0].call == answered else state
            one = next((call for call in state.open if call.call == answered), None)
            return Calls(tuple(call for call in state.open if call is not one))
        case ModelCalled() | MessageAdded(role="assistant", origin="exec" | "internal"):
            return Calls()
        case Rewound(to=to) if 0 <= to < entry.seq:
            return Calls(tuple(call for call in state.open if call.seq <= to))
    return state


# --- skills ----------------------------------------------------------------------------------------------


class Skill(msgspec.Struct, frozen=True, array_like=True):
    """``seq``: where its text stands."""

    seq: int
    fingerprint: str = ""


class SkillChange(msgspec.Struct, frozen=True, array_like=True):
    """``name`` None: a rewind to seq ``to``. ``skill`` None: no longer in use."""

    seq: int
    name: str | None = None
    skill: Skill | None = None
    to: int = 0


_change = Unpack(SkillChange)


class Skills(msgspec.Struct, frozen=True):
    active: dict[str, Skill] = {}  # by name, in the order they came into use
    changes: Rows = Rows()


@projection(Skills, version=2, on=(SkillActivated, SkillDeactivated, Rewound))
def skills(state: Skills, entry: Entry) -> Skills:
    match entry.event:
        case SkillActivated(name=name, fingerprint=fingerprint):
            change = SkillChange(entry.seq, name, Skill(entry.seq, fingerprint))
        case SkillDeactivated(name=name):
            change = SkillChange(entry.seq, name)
        case Rewound(to=to) if 0 <= to < entry.seq:
            change = SkillChange(entry.seq, to=to)
        case _:
            return state
    changes = state.changes.append(pack(change))
    return Skills(_changed(state.active, change) if change.name is not None else _active(changes), changes)


def _changed(active: dict[str, Skill], change: SkillChange) -> dict[str, Skill]:
    others = {name: skill for name, skill in active.items() if name != change.name}
    return others if change.name is None or change.skill is None else {**others, change.name: change.skill}


def _active(packed: Rows) -> dict[str, Skill]:
    """After a rewind: what the changes on the way that is left add up to."""
    changes = [_change(data) for data in packed]
    left = path(((change.seq, change.to) for change in changes if change.name is None), 1 << 62)
    active: dict[str, Skill] = {}
    for change in changes:
        if includes(left, change.seq):
            active = _changed(active, change)
    return active


# --- executions ------------------------------------------------------------------------------------------


class Executions(msgspec.Struct, frozen=True):
    started: Seqs = Seqs()
    asked: Seqs = Seqs()  # the questions that came last before a run
    question: int = 0  # the newest one
    outcomes: dict[str, int] = {}  # how many runs ended how
    running: dict[str, int] = {}  # run -> where it started; those that never end are forgotten, oldest first

    def since(self, window: int = WINDOW) -> int:
        """The seq from which on to read for the last ``window`` runs, what was asked before the first included."""
        kept = min(window, len(self.started))
        if kept < 1:
            return 1
        first = self.started[len(self.started) - kept]
        asked = self.asked.upto(first)
        return self.asked[asked - 1] if asked else first


@projection(Executions, version=1, on=(MessageAdded, RunStarted, RunFinished, Forked))
def executions(state: Executions, entry: Entry) -> Executions:
    event, run = entry.event, entry.run or ""
    if type(event) is MessageAdded:
        asks = event.role == "user" and event.origin == "exec"
        return msgspec.structs.replace(state, question=entry.seq) if asks else state
    if type(event) is Forked:
        return msgspec.structs.replace(state, running={})  # they are the parent's
    running = {other: seq for other, seq in state.running.items() if other != run}
    match event:
        case RunStarted():
            running[run] = entry.seq
            if len(running) > _RUNNING:
                del running[next(iter(running))]
            asked = state.asked
            if state.question > asked.last:
                asked = asked.append(state.question)
            return Executions(state.started.append(entry.seq), asked, state.question, state.outcomes, running)
        case RunFinished(outcome=outcome):
            outcomes = {**state.outcomes, outcome: state.outcomes.get(outcome, 0) + 1}
            return msgspec.structs.replace(state, outcomes=outcomes, running=running)
    return state
