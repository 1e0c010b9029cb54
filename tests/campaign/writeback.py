"""Real failures of the disk behind the file system: what was written cannot be kept, and the kernel says so once, in a sync.

The file system is in a file on another one that is too small for it. A life writes until the first error; then there is room
again, and it goes on trying. The next sync would succeed, although pages are gone: nothing more may be acknowledged in that chat
by that process. Mounted anew, everything that was acknowledged is there, and the next life writes on.
"""

import asyncio
import os
import random
import signal
import traceback
from contextlib import suppress
from pathlib import Path

from chatfold.agent import Store
from chatfold.eventlog import ChatfoldError
from tests.support.disk.mounts import Kind, Place, mount_for_ourselves, mounted, reason_not, small_place
from tests.support.figures import Figures
from tests.support.judges.account import Account, Lost
from tests.support.processes.births import Ear, die_with_parent, in_peace, warm
from tests.support.processes.living import spoken

_TRIES = 12
"""After the first error."""


def campaign(number: int, seed: int, folder: Path) -> Figures:
    figures = Figures(reason=reason_not())
    if figures.reason:
        return figures
    figures.count("lost", 0)
    figures.count("acknowledged after a failed sync", 0)
    folder.mkdir(parents=True, exist_ok=True)
    warm(folder)
    mount_for_ourselves()
    for run in range(number):
        _once(Kind(("ext4", "xfs")[run % 2]), folder / f"small-{run}", f"{seed}.{run}", figures)
    return figures


def _once(kind: Kind, folder: Path, name: str, figures: Figures) -> None:
    account = Hearing()
    figures.tried += 1
    try:
        with small_place(folder) as place, mounted(kind, folder) as disk:
            root = disk.path / "store"
            disk.write_single_pages()
            place.resize(place.used + random.Random(name).randint(4 << 20, 12 << 20))
            _written(root, name, account, place)
            disk.unmount()
            disk.mount()
            figures.count("acknowledged after a failed sync", account.late)
            assert account.refused, "the disk never failed"
            assert not account.late, "acknowledged after a failed sync"
            account.judge(root)
            in_peace(root, f"{name}.after", account)
    except Exception as error:  # noqa: BLE001 (counted)
        traceback.print_exc()
        figures.count("lost", isinstance(error, Lost))
        figures.violated(f"{kind}, {name}", error)
    figures.count("entries acknowledged", account.entries)
    figures.count("refused", account.refused)
    for first in account.errors:
        figures.count(f"first error, {first}")


class Hearing(Account):
    """Hears of refusals, too, and of what was acknowledged after one."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = self.late = 0
        self.errors: list[str] = []

    def hear(self, line: str) -> None:
        word, *words = line.split()
        if word == "refused":
            self.refused += 1
            self.errors += [words[0]] if self.refused == 1 else []
        self.late += word == "done" and self.refused > 0
        super().hear(line)


def _written(root: Path, name: str, account: Account, place: Place) -> None:
    here, there = os.pipe()
    pid = os.fork()
    if not pid:
        die_with_parent()
        with suppress(BaseException):
            asyncio.run(_write(root, name, there))
        os._exit(0)
    os.close(there)
    ear = Ear(here, account)
    ear.listen("refused")
    place.resize(1 << 30)
    ear.listen("tried")
    os.kill(pid, signal.SIGKILL)
    ear.listen()
    os.waitpid(pid, 0)


async def _write(root: Path, name: str, there: int) -> None:
    """Into one chat, until it has failed so many times."""
    chat = await Store(root).chat("chat")
    refused = number = 0
    while refused < _TRIES:
        number += 1
        ident = f"{name}.{number}" + ("pour" if number % 3 == 0 else "")
        os.write(there, f"begin {number} say chat {ident}\n".encode())
        try:
            entries = await chat.record(*spoken(ident), id=ident)
        except (ChatfoldError, OSError) as error:
            os.write(there, f"refused {type(error).__name__}\n".encode())
            refused += 1
            await asyncio.sleep(0.02)  # somebody makes room meanwhile
        else:
            os.write(there, f"done {number} {entries[0].seq} {len(entries)}\n".encode())
    os.write(there, b"tried\n")
    await asyncio.sleep(60)
