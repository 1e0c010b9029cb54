"""The events that nearly all events are: messages and results of texts, calls of tools.

``values.check`` looks at every field of every type of event by the vocabulary's annotations, and that is a third of what
making a line costs. Here is the same for three types, written out. What is unusual in any way is left to ``check``, which says
what is wrong with it.
"""

import typing
from typing import Any

from chatfold.eventlog.events import MessageAdded, Origin, Role, Text, ToolCalled, ToolReturned
from chatfold.eventlog.values import SHORT, InvalidValue, check_json, check_string

_ROLES = frozenset(typing.get_args(Role))
_ORIGINS = frozenset(typing.get_args(Origin))


def check_common(event: Any, long: list[str]) -> bool:
    """Would ``check`` say that nothing need be escaped? Collects long strings as it does. False means: ask it."""
    kind = type(event)
    if kind is MessageAdded:
        role, origin = event.role, event.origin
        if type(role) is not str or role not in _ROLES or type(origin) is not str or origin not in _ORIGINS:
            return False
    elif kind is ToolReturned:
        if type(event.call) is not str or len(event.call) >= SHORT or type(event.failed) is not bool:
            return False
    else:
        return kind is ToolCalled and _is_plain_call(event, long)
    if type(event.meta) is not dict or event.meta or type(event.parts) is not tuple:
        return False
    for part in event.parts:
        if type(part) is not Text or type(part.text) is not str:
            return False
        if len(part.text) >= SHORT:
            check_string(part.text, long)
    return True


def _is_plain_call(event: ToolCalled, long: list[str]) -> bool:
    call, name = event.call, event.name
    if type(call) is not str or type(name) is not str or len(call) >= SHORT or len(name) >= SHORT:
        return False
    try:
        return type(event.meta) is dict and not event.meta and not check_json(event.args, long)
    except InvalidValue:
        return False
