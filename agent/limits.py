"""Limits: how far a run may go, and how an agent waits."""

import msgspec

from chatfold.agent.checks import check_fields


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of an agent. ``Agent(limits=Limits(steps=10))``; the others stay as they are.

    ``steps``: how often a run may ask the model. ``retries``: how often a request that failed is tried again.
    ``tool_seconds``: how long a tool may take that does not say so itself. ``tool_output``: the characters of one result
    that a model is shown. ``injections``: the texts that the tools of one run may add.
    ``chats``: how many are answered at once. ``debounce``: seconds of silence after a message before it is answered, so that
    a burst is answered as one; ``debounce_most``: the most that waits. ``grace``: seconds that a shutdown may take.
    ``tell_time``: whether a model is told the time and the id of the run.
    """

    steps: int = 30
    retries: int = 3
    tool_seconds: float = 120.0
    tool_output: int = 50_000
    injections: int = 120
    chats: int = 8
    debounce: float = 0.0
    debounce_most: float = 2.0
    grace: float = 5.0
    tell_time: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
