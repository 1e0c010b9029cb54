"""check and salvage: are the bytes what was written, and what can be had of those that are not."""

import os
from pathlib import Path

import click
import msgspec

from chatfold import eventlog
from chatfold.agent import Store
from chatfold.eventlog.events import Head
from chatfold.eventlog.files.check import Problem, Report
from chatfold.eventlog.keys import folder_name
from chatfold.eventlog.places import address_of
from chatfold.replay.command import DAMAGED, DIFFERENT, code_of, complete_chat, store_of, tell, verb
from chatfold.replay.inspect.places import NoStore, is_chat_folder, key_of, store_place
from chatfold.replay.output import Out
from chatfold.replay.terminal import Cell, plural

_WORDS = {0: "ok", DIFFERENT: "torn", DAMAGED: "damaged"}


class Checked(msgspec.Struct, frozen=True):
    """A line of ``check --json``. ``state``: ok, torn, damaged. ``lost``, ``kept``: what a repair could not keep, and the
    copies of what it changed. ``unproven``: where it set aside a line that may be another chat's."""

    path: str
    state: str
    entries: int
    segments: int
    problems: list[Problem]
    lost: list[int]
    kept: list[Path]
    unproven: list[int]


@verb(
    "chatfold check",
    "chatfold check my-chat --repair",
    "chatfold check ./chatfold-demo/chats/lexer-bug --json",
)
@click.argument("what", metavar="[CHAT|PATH]", required=False, shell_complete=complete_chat)
@click.option(
    "--repair", "mend", is_flag=True, help="Mend what is damaged, after a copy of every file it changes."
)
@click.option("--fast", is_flag=True, help="Only names, headers and the end of each log.")
async def check(out: Out, store: str | None, *, what: str | None, mend: bool, fast: bool) -> int:
    """Check that every byte is as it was written: of a chat, a chat's folder, or every chat of a store.

    Exit code 0: healthy. 1: a torn tail, which the next writer sets aside. 4: damaged.
    """
    if mend and fast:
        raise click.UsageError("--repair looks at everything: leave out --fast")
    database = _database(store, what)
    if database is not None:
        if mend:
            raise click.UsageError("--repair is for folders: restore a backup of the database")
        return await _check_database(out, database, what)
    worst = 0
    folders = await _folders(store, what)
    progress = out.progress("checking chats")
    for number, folder in enumerate(folders, 1):
        try:
            worst = max(worst, _check(out, folder, mend=mend, fast=fast))
        except (eventlog.ChatfoldError, OSError) as error:
            out.clear()
            tell(error)  # and on to the other chats
            worst = max(worst, code_of(error))
        progress(number, len(folders))
    return worst


def _check(out: Out, folder: Path, *, mend: bool, fast: bool) -> int:
    report = eventlog.check(folder, full=not fast, progress=out.progress(f"checking {folder.name}, segments"))
    _print(out, report)
    if not mend or report.ok:
        return _severity(report)
    repaired = eventlog.repair(folder)
    if out.json:
        _print(out, repaired)
    else:
        for path in repaired.kept:
            out.line(f"  kept as it was: {path}")
        if repaired.unproven:
            strange = ", ".join(f"e{seq}" for seq in repaired.unproven)
            out.line(f"  set aside, because nothing proves that it is of this chat: {strange}")
        lost = ", ".join(f"e{seq}" for seq in repaired.lost) or "none"
        out.line(f"  repaired; entries that could not be kept: {lost}")
    return _severity(eventlog.check(folder))


def _print(out: Out, report: Report) -> None:
    state = _WORDS[_severity(report)]
    if out.json:
        facts = report.entries, report.segments, report.problems, report.lost, report.kept, report.unproven
        out.value(Checked(str(report.path), state, *facts))
        return
    size = f"{plural(report.entries, 'entry')} in {plural(report.segments, 'segment')}"
    out.line(f"{state}: {report.path}: {size}")
    for problem in report.problems:
        at = f" at byte {problem.offset}" if problem.offset is not None else ""
        seq = f", seq {problem.seq}" if problem.seq is not None else ""
        out.line(f"  {problem.kind}: {problem.path.name}{at}{seq}: {problem.message}")


def _severity(report: Report) -> int:
    codes = {"damaged": DAMAGED, "torn": DIFFERENT}
    return max((codes.get(problem.kind, 0) for problem in report.problems), default=0)


def _database(store: str | None, what: str | None) -> str | None:
    """The address, if that is meant, and no folder."""
    if what is not None and (os.sep in what or _folders_at(Path(what), is_path=False) is not None):
        return None
    return address_of(store_place(store))


async def _check_database(out: Out, address: str, what: str | None) -> int:
    worst = 0
    progress = out.progress("checking chats")
    async with Store(address, read_only=True) as store:
        keys = [await key_of(store, what)] if what else [key async for key in store.log.chats()]
        for number, key in enumerate(keys, 1):
            report = await _report_of(store.log.storage, key)
            if report is not None:  # else it was deleted meanwhile
                _print(out, report)
                worst = max(worst, _severity(report))
            progress(number, len(keys))
    return worst


async def _report_of(storage: eventlog.Storage, chat: str) -> Report | None:
    """Is each line linked to the one before, and is there all that it keeps elsewhere? The first that is not ends it."""
    report = Report(Path(chat))
    head, end = await storage.head(chat), Head()
    try:
        async for page in storage.read_entries(chat, 1, head.seq):
            report.entries += len(page)
            end = Head(page[-1].seq, page[-1].was or page[-1].link)
    except eventlog.CorruptLog as error:
        report.problems = [Problem("damaged", error.args[0], report.path, None, error.seq)]
        return report
    except eventlog.ChatDeleted:
        return None
    if end != head:
        message = "the log does not end where its head says"
        report.problems = [Problem("damaged", message, report.path, None, end.seq)]
    return report


async def _folders(store: str | None, what: str | None) -> list[Path]:
    """The chat's folder itself or, for a store, the folders of its chats."""
    if what is None:
        return _all(Path(store_place(store)))
    if (given := _folders_at(Path(what), is_path=os.sep in what)) is not None:
        return given
    chats = Path(store_place(store)) / "chats"
    if _folders_at(chats / folder_name(what), is_path=False) is None:
        async with store_of(store, keep_caches=False) as place:
            what = await key_of(place, what)
    return [chats / folder_name(what)]


def _folders_at(path: Path, *, is_path: bool) -> list[Path] | None:
    if is_chat_folder(path):
        return [path]
    if (path / "chats").is_dir():
        return _all(path)
    if is_path and path.is_dir():
        raise NoStore("this is no store and no chat's folder", path=path)
    return None


def _all(root: Path) -> list[Path]:
    return sorted(folder for folder in (root / "chats").iterdir() if not folder.name.startswith("."))


class Salvaged(msgspec.Struct, frozen=True):
    """What ``salvage --json`` prints. ``unproven``: lines that verify, and that nothing proves to be this chat's."""

    entries: int
    path: str
    unproven: int = 0


@verb("chatfold salvage ./chatfold-demo/chats/lexer-bug ./saved")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
async def salvage(out: Out, store: str | None, *, path: Path, target: Path) -> None:  # noqa: ARG001
    """Copy everything that still verifies out of the chat's folder PATH into a new folder TARGET."""
    count, unproven = eventlog.salvage(path, target)
    done = Salvaged(count, str(target / "salvaged.jsonl"), unproven)
    entries = "entry" if count == 1 else "entries"
    note = f"{count} {entries} copied to {done.path}"
    if unproven:
        lines = "line" if unproven == 1 else "lines"
        note += f", {unproven} {lines} that may be another chat's to {target / 'unproven.jsonl'}"
    out.row(done, [Cell(note)])
