"""The soak: an hour, or ``--seconds``, of writers that are killed, followers, readers, chats that come, roll and go.

What is judged all the time is in ``tests/campaign/soak.py``. In the end, those that lived as long as it must not have grown.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.faults import SEED, Part, share, told_as_rows
from benchmarks.machine import Crew
from benchmarks.measure import Row, progress

_HOUR = 3600


def rows(folder: Path, *, quick: bool, seconds: float = 0, seed: int = SEED) -> Iterator[Row]:
    lasting = int(seconds) or (60 if quick else _HOUR)
    part = Part("soak", "soak", 60, _HOUR, 0, {"kills": 5_000, "rolls": 2_000, "entries": 100_000}, ("lost",))
    progress(f"{lasting} s")
    with Crew() as crew:
        told = crew.start(partial(share, part, lasting, seed, folder / "soak", folder)).result()
    told.counted |= {"seconds": lasting, **_grown(told.counted)}
    yield from told_as_rows(part, told, quick=lasting < _HOUR, seed=seed)


def _grown(counted: dict[str, int]) -> dict[str, int]:
    """How much the one that grew most did, from the first third of the time (without a quarter to warm up) to the last."""
    first = {key.removesuffix(" first"): value for key, value in counted.items() if key.endswith(" first")}
    more = {key: counted[f"{key} last"] - value for key, value in first.items()}
    memory = [100 * more[key] / first[key] for key in more if key.endswith("kB")]
    return {
        "memory grown, %": round(max([0, *memory])),
        "open files grown": max([0, *(more[key] for key in more if key.endswith("files"))]),
    }
