"""Caches of short chats that look like those of long ones: blocks, files and what is held in memory are small."""

import pytest

from chatfold.eventlog.files import seen, seen_files, writer


def shorten(patch: pytest.MonkeyPatch) -> None:
    sizes = {"CUT": 8, "_ROWS": 4, "_BYTES": 32, "_HELD": 2, "_APART": 16, "_PIECE": 16, "_LARGEST": 300}
    for name, value in sizes.items():
        patch.setattr(seen_files, name, value)
    for name, value in {"CUT": 8, "_FAR": 40, "_NEARBY": 6, "_MORE": 12, "_FEW": 2}.items():
        patch.setattr(seen, name, value)
    patch.setattr(writer, "_LINKS", 16)
