"""Tool calls of Chat Completions, put together from the fragments in which they are streamed.

A fragment has the ``index`` of its call, says id and name at first, and then ever more of the arguments. So it is at
OpenAI. Others leave out the index or say 0 for all, repeat the id or the name in every fragment, have no ids or the
same one for all. A fragment goes on with the call it names, by index, else by id, else with the last one; it begins
another if it has a name and either another id, after arguments or without an index, or arguments after complete ones.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from chatfold.agent.models import Asked
from chatfold.agent.providers import decoded, said, unused
from chatfold.projections.shapes.values import json_text


class _Call(msgspec.Struct):
    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""

    def add(self, fragment: "_Call") -> None:
        self.id = _longer(self.id, fragment.id)
        self.name = _longer(self.name, fragment.name)
        self.arguments += fragment.arguments

    def ends_before(self, fragment: "_Call") -> bool:
        if not fragment.name:
            return False
        if fragment.id and fragment.id != self.id:
            return fragment.index is None or bool(self.arguments)
        return bool(fragment.arguments) and _is_complete(self.arguments)


class Calls:
    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def take(self, delta: Any) -> None:
        """One element of ``delta.tool_calls``."""
        fragment = _fragment(delta)
        call = self._of(fragment)
        if call is None or call.ends_before(fragment):
            self._calls.append(fragment)
        else:
            call.add(fragment)

    def _of(self, fragment: _Call) -> _Call | None:
        """The call that the fragment names: the newest, if there are more."""
        newest = self._calls[::-1]
        if fragment.index is not None:
            return next((call for call in newest if call.index == fragment.index), None)
        same = (call for call in newest if fragment.id and call.id == fragment.id)
        return next(same, newest[0] if newest else None)

    def asked(self, names: Mapping[str, str]) -> tuple[Asked, ...]:
        """All of them, complete, by the names that the tools really have, each with an id of its own."""
        taken: set[str] = set()
        return tuple(
            Asked(unused(call.id, taken), names.get(call.name, call.name), decoded(call.arguments))
            for call in self._calls
        )


def _fragment(delta: Any) -> _Call:
    index, function = getattr(delta, "index", None), getattr(delta, "function", None)
    arguments = getattr(function, "arguments", None)
    return _Call(
        index if isinstance(index, int) else None,
        said(delta, "id"),
        said(function, "name"),
        arguments if isinstance(arguments, str) else "" if arguments is None else json_text(arguments),
    )


def _longer(so_far: str, more: str) -> str:
    """Said again, or said on?"""
    return so_far if more == so_far else so_far + more


def _is_complete(arguments: str) -> bool:
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
