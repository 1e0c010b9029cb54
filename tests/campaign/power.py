"""Real power cuts at random moments: a life in a store on a file system of our own, which is shut down under it.

Mounted again, the journal is replayed, the store is judged, and the next life begins in it. What was acknowledged with
``full`` must be there; with ``normal``, what is older than its window.
"""

import random
import shutil
import time
import traceback
from itertools import count
from pathlib import Path

from chatfold.eventlog import Durability
from tests.support.disk.mounts import Kind, Mounted, mount_for_ourselves, mounted, reason_not
from tests.support.figures import Figures
from tests.support.judges.account import WINDOW_S, Account, Lost
from tests.support.processes.births import Born, Moment, Plan, born, in_peace, some_moment, warm

CUTS = 10
"""In each store."""
KINDS = (
    Kind("ext4"),
    Kind("xfs"),
    Kind("ext4", "data=writeback,nodelalloc", flush=True),  # this one leaves tails of NUL
    Kind("xfs", flush=True),
)
_NORMAL = 10
"""Every so many stores one is ``normal``; its lives are longer than its window."""


def campaign(number: int, seed: int, folder: Path) -> Figures:
    figures = Figures(reason=reason_not())
    if figures.reason:
        return figures
    figures.count("lost", 0)
    folder.mkdir(parents=True, exist_ok=True)
    warm(folder)
    mount_for_ourselves()
    share = -(-number // len(KINDS))
    stores = count(random.Random(seed).randrange(_NORMAL))
    for at, kind in enumerate(KINDS):
        with mounted(kind, folder / str(at)) as disk:
            cuts = min(share, number - share * at)
            for store in range(-(-cuts // CUTS)):
                how: Durability = "full" if next(stores) % _NORMAL else "normal"
                _in_one_store(disk, f"{seed}.{at}.{store}", how, min(CUTS, cuts - CUTS * store), figures)
    return figures


def _in_one_store(disk: Mounted, name: str, durability: Durability, cuts: int, figures: Figures) -> None:
    chance = random.Random(name)
    account = Account()
    root = disk.path / name
    try:
        for number in range(cuts):
            late = Moment("begin", 1, chance.uniform(0, 8 * WINDOW_S))
            life = born(root, f"{name}.{number}", account, Plan(durability=durability))
            life.ear.listen(*(late if durability == "normal" else some_moment(chance)))
            assert not account.failed, account.failed
            account.dark = True
            cut = _cut(disk, life)
            figures.tried += 1
            figures.count(f"cuts with {durability}")
            figures.count(f"cuts, {disk.kind}")
            exposed = "writeback" in disk.kind.options
            account.judge(root, cut=cut if durability == "normal" else None, stale=exposed)
            if account.stale:  # nobody can go on in that chat until it was repaired
                figures.count("tails of other chats' lines, told as damage")
                return
        in_peace(root, f"{name}.{cuts}", account)
    except Exception as error:  # noqa: BLE001 (counted)
        traceback.print_exc()
        figures.count("lost", isinstance(error, Lost))
        figures.violated(f"cut {figures.tried} on {disk.kind} with {durability}, store {name}", error)
    finally:
        figures.count(f"entries acknowledged, {durability}", account.entries)
        figures.count("torn tails", account.torn)
        shutil.rmtree(root, ignore_errors=True)


def _cut(disk: Mounted, life: Born) -> float:
    """When that was. Unlike a machine without power, the kernel goes on, and ext4 may say that a sync was done that was not."""
    moment = time.monotonic()
    disk.cut()
    life.kill()
    disk.unmount()
    disk.mount()
    return moment
