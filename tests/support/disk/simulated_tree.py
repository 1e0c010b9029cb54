"""Names of the simulated disk: what a look shows, and what of it the medium has.

A name that is given or taken away is durable once its folder is synced. Until then a power cut may undo it, whatever becomes of
the other changes: a rename is lost, a removed file is back, a new one is gone with all that was synced of its content.
"""

import errno
from pathlib import Path
from typing import Any, TypeAlias

from tests.support.disk.simulated_files import Arrivals, SimulatedFile


class SimulatedFolder:
    """``durable``: the names that survive whatever happens."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.names = self.opened = self.mentions = 0  # see SimulatedFile
        self.changed = 0


Node: TypeAlias = SimulatedFile | SimulatedFolder
Part: TypeAlias = tuple[SimulatedFolder, str, Node | None]


class Naming:
    """A change of names that is not durable yet: ``parts`` say what each name stands for now, if for anything.

    Creating, linking and removing have one part; a rename has two, the new name first. It is done as a whole, except that
    between folders a file's old name may outlive it.
    """

    def __init__(self, time: int, parts: tuple[Part, ...]) -> None:
        self.time = time
        self.parts = list(parts)
        node = parts[0][2]
        # A folder is in one place, whatever arrives: a move of it comes after those before it.
        self.moves = node if isinstance(node, SimulatedFolder) else None

    def due(self, folder: SimulatedFolder) -> list[Part]:
        """The parts that become durable when this folder is synced."""
        if all(part[0] is not folder for part in self.parts):
            return []
        target, _, node = self.parts[0]
        if isinstance(node, SimulatedFile) and target is folder:
            return [part for part in self.parts if part[0] is folder]
        return self.parts

    def survived(self, arrivals: Arrivals) -> list[Part]:
        """The parts that there are after a power cut."""
        if not arrivals.of([self.time]):
            return []
        target, _, node = self.parts[0]
        apart = isinstance(node, SimulatedFile) and self.parts[-1][0] is not target
        return self.parts[:1] if apart and arrivals.chance.random() < 0.3 else self.parts


class Tree:
    """Numbers of inodes that are nowhere any more are given out again, as real file systems do."""

    def __init__(self) -> None:
        self.root = SimulatedFolder(1)
        self._numbers = 1
        self._free: list[int] = []
        self._pending: list[Naming] = []

    # --- looking -----------------------------------------------------------------------------------------

    def find(self, path: Path) -> Node:
        node: Any = self.root
        try:
            for name in path.parts[1:]:
                node = node.entries[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "not there", str(path)) from None
        except AttributeError:
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path)) from None
        assert isinstance(node, SimulatedFile | SimulatedFolder)
        return node

    def folder(self, path: Path) -> SimulatedFolder:
        node = self.find(path)
        if not isinstance(node, SimulatedFolder):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))
        return node

    def file(self, path: Path) -> SimulatedFile:
        node = self.find(path)
        if not isinstance(node, SimulatedFile):
            raise OSError(f"not a regular file: {str(path)!r}")
        return node

    def free_name(self, path: Path) -> tuple[SimulatedFolder, str]:
        """Where the new name goes."""
        parent = self.folder(path.parent)
        if path.name in parent.entries:
            raise FileExistsError(errno.EEXIST, "is there", str(path))
        return parent, path.name

    # --- changing ----------------------------------------------------------------------------------------

    def number(self) -> int:
        if self._free:
            return self._free.pop()
        self._numbers += 1
        return self._numbers

    def let_go(self, node: Node) -> None:
        if not (node.names or node.opened or node.mentions):
            self._free.append(node.number)

    def change(self, time: int, *parts: Part) -> None:
        """Names now; durable when their folders are synced."""
        touched = [folder.entries[name] for folder, name, _ in parts if name in folder.entries]
        for folder, name, node in parts:
            before = folder.entries.get(name)
            if before is not None:
                before.names -= 1
            _name(folder.entries, name, node)
            folder.changed = time
            if node is not None:
                node.names += 1
                node.mentions += 1
        self._pending.append(Naming(time, parts))
        for node in touched:
            self.let_go(node)

    def sync(self, folder: SimulatedFolder) -> None:
        moved: set[SimulatedFolder] = set()
        all_due: list[list[Part]] = []
        for naming in reversed(self._pending):
            due = naming.parts if naming.moves in moved else naming.due(folder)
            all_due.insert(0, due)
            if due and naming.moves:
                moved.add(naming.moves)  # and so are its moves before that
        for naming, due in zip(self._pending, all_due, strict=True):
            naming.parts = [part for part in naming.parts if part not in due]
            for where, name, node in due:
                before = where.durable.get(name)
                _name(where.durable, name, node)
                if before is not None:
                    before.mentions -= 1  # what it stands for now is mentioned once, as it was by the change
                    self.let_go(before)
        self._pending = [naming for naming in self._pending if naming.parts]

    # --- losing power ------------------------------------------------------------------------------------

    def survived(self, arrivals: Arrivals) -> "Tree":
        """What there is after a power cut; this one stays as it is."""
        durable: dict[SimulatedFolder, dict[str, Node]] = {}
        stayed: set[SimulatedFolder] = set()
        for naming in self._pending:
            parts = naming.survived(arrivals)
            if naming.moves and (not parts or naming.moves in stayed):
                stayed.add(naming.moves)  # and does not go from there to where it went after that
                continue
            for folder, name, node in parts:
                _name(durable.setdefault(folder, dict(folder.durable)), name, node)
        after = Tree()
        known: dict[Node, Node] = {}
        after.root = _copied(self.root, durable, arrivals, known)
        taken = {node.number for node in known}
        after._numbers = max(taken)
        after._free = sorted(set(range(1, after._numbers)) - taken, reverse=True)
        return after


def _copied(
    old: SimulatedFolder,
    durable: dict[SimulatedFolder, dict[str, Node]],
    arrivals: Arrivals,
    known: dict[Node, Node],
) -> SimulatedFolder:
    assert old not in known, "a folder in two places"
    folder = known[old] = SimulatedFolder(old.number)
    folder.changed = old.changed
    for name, node in durable.get(old, old.durable).items():
        if isinstance(node, SimulatedFolder):
            new: Node = _copied(node, durable, arrivals, known)
        else:
            new = known.get(node) or SimulatedFile(node.number, node.survived(arrivals))
            known[node] = new
        new.changed = node.changed
        new.names += 1
        new.mentions += 1
        folder.entries[name] = folder.durable[name] = new
    return folder


def _name(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node
