"""The fixtures: session files of real tools, with counts made by a reader that shares no code with ours.

Those of other people are not part of this repository: they are used where they lie beside it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OWN = Path(__file__).parent / "fixtures"
OTHERS = next(
    (up / "shared" / "fixtures" for up in OWN.parents if (up / "shared" / "fixtures").is_dir()), None
)


def counted(folder: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each file of the folder that has counts, and these."""
    root = OWN / folder
    counts = json.loads((root / "expected.json").read_text())
    for name, expected in sorted(counts.items()):
        path = root / name
        if not path.exists() and OTHERS is not None:
            path = OTHERS / folder / name
        if path.exists():
            yield path, expected


def file_id(value: object) -> str | None:
    return f"{value.parent.name}/{value.name}"[-60:] if isinstance(value, Path) else None
