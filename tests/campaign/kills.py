"""Real kills at random moments: a life in a store is ended by SIGKILL, the store is judged, the next life begins in it.

Every so many kills the store is left in peace: a last life writes on in every chat and nothing of the dead may be left over.
"""

import random
import shutil
import traceback
from pathlib import Path

from tests.support.figures import Figures
from tests.support.judges.account import Account, Lost
from tests.support.processes.births import born, in_peace, some_moment, warm

KILLS = 12
"""In each store, so that they stay small: to judge one takes longer than to kill."""


def campaign(number: int, seed: int, folder: Path) -> Figures:
    figures = Figures()
    figures.count("lost", 0)
    warm(folder)
    for store in range(-(-number // KILLS)):
        root = folder / f"{seed}-{store}"
        try:
            _in_one_store(root, f"{seed}.{store}", min(KILLS, number - figures.tried), figures)
        except Exception as error:  # noqa: BLE001 (counted; the store is left as it is, to be looked at)
            traceback.print_exc()
            figures.count("lost", isinstance(error, Lost))
            figures.violated(f"store {root}, kill {figures.tried} of seed {seed}", error)
        else:
            shutil.rmtree(root)
    return figures


def _in_one_store(root: Path, name: str, kills: int, figures: Figures) -> None:
    chance = random.Random(name)
    account = Account()
    try:
        for number in range(kills):
            life = born(root, f"{name}.{number}", account)
            life.ear.listen(*some_moment(chance))
            life.kill()
            figures.tried += 1
            account.judge(root)
        in_peace(root, f"{name}.{kills}", account)
    finally:
        figures.count("entries acknowledged", account.entries)
        figures.count("deeds acknowledged", account.deeds)
        figures.count("torn tails", account.torn)
