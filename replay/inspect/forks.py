"""The family of a chat: what it was forked from, and what was forked from it, in the order of a tree."""

from collections.abc import Iterable

import msgspec

from chatfold.agent.store import Listed


class Branch(msgspec.Struct, frozen=True):
    """``at``: the last entry it has in common with its parent."""

    key: str
    depth: int
    at: int = 0
    title: str = ""
    is_gone: bool = False


def family(chats: Iterable[Listed], key: str) -> list[Branch]:
    """All that are of one origin with the chat, each below its parent, by where they were forked off."""
    known = {one.key: one for one in chats}
    children: dict[str, list[Listed]] = {}
    for one in known.values():
        if one.parent is not None and one.parent.parent != one.key:
            children.setdefault(one.parent.parent, []).append(one)
    found: list[Branch] = []
    met: set[str] = set()  # a chat may be gone, and another of its key be a fork of its own fork
    below: list[tuple[str, int]] = [(_origin(known, key), 0)]
    while below:
        name, depth = below.pop()
        if name in met:
            continue
        met.add(name)
        here = known.get(name)
        parent = here.parent if here else None
        title = here.outline.title if here else ""
        found.append(Branch(name, depth, parent.at if parent else 0, title, here is None))
        forks = sorted(children.get(name, ()), key=lambda one: (one.parent.at if one.parent else 0, one.key))
        below += [(one.key, depth + 1) for one in reversed(forks)]
    return found


def _origin(known: dict[str, Listed], key: str) -> str:
    met = {key}
    while (one := known.get(key)) and one.parent is not None and one.parent.parent not in met:
        key = one.parent.parent
        met.add(key)
    return key
