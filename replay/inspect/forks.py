"""forks: which chat was forked from which, as a tree. A parent that is gone keeps its place as long as a fork names it."""

from collections.abc import Iterable

import msgspec

from chatfold.agent.store import Listed


class Branch(msgspec.Struct, frozen=True):
    """``depth`` 0: it was not forked. ``at``: the last entry it has in common with its parent. ``is_last``: no sibling follows."""

    key: str
    depth: int = 0
    parent: str = ""
    at: int = 0
    turns: int = 0
    active: int = 0
    title: str = ""
    is_gone: bool = False
    is_last: bool = True


def family(chats: Iterable[Listed], key: str) -> list[Branch]:
    """All that are of one origin with the chat, each below its parent, by where they were forked off."""
    known = {one.key: one for one in chats}
    return _below(known, _children(known), _origin(known, key))


def forest(chats: Iterable[Listed], *, alone: bool = True) -> list[Branch]:
    """The families of all chats; ``alone``: those of one chat, too."""
    known = {one.key: one for one in chats}
    children = _children(known)
    found: list[Branch] = []
    met: set[str] = set()
    for key in sorted(known):
        if key not in met:
            branches = _below(known, children, _origin(known, key))
            met.update(one.key for one in branches)
            met.add(key)
            if alone or len(branches) > 1:
                found += branches
    return found


def _children(known: dict[str, Listed]) -> dict[str, list[Listed]]:
    children: dict[str, list[Listed]] = {}
    for one in sorted(known.values(), key=_place):
        if one.parent is not None and one.parent.parent != one.key:
            children.setdefault(one.parent.parent, []).append(one)
    return children


def _origin(known: dict[str, Listed], key: str) -> str:
    """They may go round: a fork can take the key of a chat that is gone, and that it comes from."""
    way = [key]
    while (one := known.get(key)) and one.parent is not None:
        key = one.parent.parent
        if key in way:  # round and round: of these the one that was forked off first
            return min(way[way.index(key) :], key=lambda name: _place(known[name]))
        way.append(key)
    return key


def _place(one: Listed) -> tuple[int, str]:
    return one.parent.at if one.parent else 0, one.key


def _below(known: dict[str, Listed], children: dict[str, list[Listed]], top: str) -> list[Branch]:
    """Forks of forks may be deeper than Python's stack."""
    found: list[Branch] = []
    met: set[str] = set()
    below = [(top, 0, True)]
    while below:
        key, depth, is_last = below.pop()
        if key in met:
            continue
        met.add(key)
        found.append(_branch(known.get(key), key, depth, is_last=is_last))
        forks = [one.key for one in children.get(key, ()) if one.key not in met]
        below += [(one, depth + 1, one == forks[-1]) for one in reversed(forks)]
    return found


def _branch(one: Listed | None, key: str, depth: int, *, is_last: bool) -> Branch:
    if one is None:
        return Branch(key, depth, is_gone=True, is_last=is_last)
    parent, at = (one.parent.parent, one.parent.at) if one.parent and depth else ("", 0)
    said = one.outline
    return Branch(key, depth, parent, at, said.turns, said.active, said.title, is_last=is_last)
