"""What a type checker must see of a projection of one's own: checked by mypy and by pyright in CI, never run."""

from typing import assert_type

import msgspec

from chatfold.eventlog import Entry, ToolCalled
from chatfold.projections import STANDARD, Contexts, Usage, View, contexts, fold, projection, start, usage


class Files(msgspec.Struct, frozen=True):
    read: tuple[str, ...] = ()


@projection(Files, version=1)
def files(state: Files, entry: Entry) -> Files:
    match entry.event:
        case ToolCalled(name="read_file", args={"path": str(path)}):
            return Files((*state.read, path))
    return state


def reads(view: View, entries: list[Entry]) -> None:
    assert_type(view[files], Files)
    assert_type(view[files].read, tuple[str, ...])
    assert_type(view[contexts], Contexts)
    assert_type(view[usage], Usage)
    assert_type(fold(start((*STANDARD, files)), entries).then(entries[0]), View)
    assert_type(files(Files(), entries[0]), Files)
    _ = view[files].written  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
