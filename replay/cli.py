"""The ``chatfold`` command.

    chatfold demo [DIR]                  records a small chat with an agent and prints it back
    chatfold check PATH [--repair]       0: healthy, 1: a torn tail, 2: damaged or not checkable
    chatfold salvage PATH TARGET         copies out everything that verifies

What goes wrong is told in one line on stderr, never in a traceback; the exit code is then 1, or 2 from
``check``. Modules are imported where they are needed: ``chatfold --help`` should not wait for an event loop.
"""

import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from eventlog import Entry, Event, Part, Problem, Report

_WIDTH = 88


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="chatfold")
def main() -> None:
    """Chats as append-only logs of readable JSON lines."""


@main.command()
@click.argument("folder", metavar="[DIR]", default="./chatfold-demo", type=click.Path(path_type=Path))
def demo(folder: Path) -> None:
    """Record a small chat with an agent into a store in DIR (default ./chatfold-demo) and print it back."""
    import asyncio  # noqa: PLC0415

    from replay.demo import record  # noqa: PLC0415

    with _told():
        shown = asyncio.run(record(folder))
        for title, entries in shown.items():
            click.echo("\n".join([printable(title), *map(entry_line, entries), ""]))
        for line in _next_steps(folder):
            click.echo(line)


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--repair", "mend", is_flag=True, help="Mend what is damaged, after a copy of every file it changes."
)
@click.option("--quick", is_flag=True, help="Only names, headers and the end of each log.")
def check(path: Path, *, mend: bool, quick: bool) -> None:
    """Check a chat's folder, or every chat of a store.

    Exit code 0: healthy. 1: a torn tail, which the next writer sets aside. 2: damaged.
    """
    import eventlog  # noqa: PLC0415

    if mend and quick:
        raise click.UsageError("--repair looks at everything: leave out --quick")
    worst = 0
    for chat in _chats(path):
        try:
            report = eventlog.check(chat, full=not quick)
            for line in _report_lines(report):
                click.echo(line)
            if mend and not report.ok:
                for line in _repair_lines(eventlog.repair(chat)):
                    click.echo(line)
                report = eventlog.check(chat)
            worst = max(worst, _severity(report.problems))
        except (eventlog.ChatfoldError, OSError) as error:
            _tell(error)  # and on to the other chats
            worst = 2
    sys.exit(worst)


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
def salvage(path: Path, target: Path) -> None:
    """Copy everything that still verifies out of the chat's folder PATH into a new folder TARGET."""
    import eventlog  # noqa: PLC0415

    with _told():
        count = eventlog.salvage(path, target)
        click.echo(f"{_entries(count)} copied to {printable(str(target / 'salvaged.jsonl'))}")


def _next_steps(folder: Path) -> Iterator[str]:
    from replay.demo import CHAT  # noqa: PLC0415

    segment = shlex.quote(str(folder / "chats" / CHAT / "0000000000000001.jsonl"))
    command = "chatfold" if shutil.which("chatfold") else shlex.quote(sys.argv[0])
    yield "The chat is a file of JSON lines. Try:"
    yield printable(f"  jq -c '[.seq, .event.type, .run]' {segment}")
    yield printable(f"  tail -n 1 {segment}")
    yield printable(f"  {command} check {shlex.quote(str(folder))}")
    yield printable(f"  {command} demo {shlex.quote(str(folder))}    # again: the chat goes on")


# --- what is printed -------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """The text on one line, with everything that could steer a terminal or mislead an eye made visible."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def entry_line(entry: "Entry") -> str:
    """seq, local time, and what happened, on one line of a terminal."""
    from datetime import UTC, datetime  # noqa: PLC0415

    time = datetime.fromtimestamp(entry.ts / 1000, tz=UTC).astimezone()
    what = printable(_told_event(entry.event))
    return f"{entry.seq:>4}  {time:%H:%M:%S}  {what if len(what) <= _WIDTH else what[: _WIDTH - 1] + '…'}"


def _told_event(event: "Event") -> str:
    from eventlog import (  # noqa: PLC0415
        Forked,
        MessageAdded,
        ModelCalled,
        Noted,
        RunFinished,
        ToolCalled,
        ToolReturned,
    )

    match event:
        case MessageAdded():
            return f"{event.role}: {_text_of(event.parts)}"
        case ToolCalled():
            return f"{event.call}: {event.name}({event.args!r})"
        case ToolReturned():
            return f"{event.call} {'failed' if event.failed else 'returned'}: {_text_of(event.parts)}"
        case Forked():
            return f"forked from {event.parent} at seq {event.at}"
        case ModelCalled():
            return f"model called: {event.model}, request {event.request}"
        case Noted():
            return f"noted: {event.name}"
        case RunFinished():
            return f"run finished: {event.outcome}"
    return str(type(event).__struct_config__.tag).replace("_", " ")


def _text_of(parts: "tuple[Part, ...]") -> str:
    from eventlog import Reasoning, Text  # noqa: PLC0415

    return " ".join(part.text if isinstance(part, Text | Reasoning) else "[attachment]" for part in parts)


def _entries(count: int) -> str:
    return f"{count} entry" if count == 1 else f"{count} entries"


def _severity(problems: "list[Problem]") -> int:
    return max(({"damaged": 2, "torn": 1}.get(problem.kind, 0) for problem in problems), default=0)


def _report_lines(report: "Report") -> Iterator[str]:
    word = ("ok", "torn", "damaged")[_severity(report.problems)]
    segments = f"{report.segments} segment" + ("s" if report.segments != 1 else "")
    yield f"{word}: {printable(str(report.path))}: {_entries(report.entries)} in {segments}"
    for problem in report.problems:
        place = f"{problem.path.name}" + (f" at byte {problem.offset}" if problem.offset is not None else "")
        seq = f", seq {problem.seq}" if problem.seq is not None else ""
        yield f"  {problem.kind}: {printable(place)}{seq}: {printable(problem.message)}"


def _repair_lines(report: "Report") -> Iterator[str]:
    for path in report.kept:
        yield f"  kept as it was: {printable(str(path))}"
    lost = ", ".join(map(str, report.lost)) or "none"
    yield f"  repaired; entries that could not be kept: {lost}"


# --- what is asked for, and what goes wrong --------------------------------------------------------------


def _chats(path: Path) -> list[Path]:
    """The chat's folder itself or, for a store, the folders of its chats."""
    inner = path / "chats"
    if not inner.is_dir():
        return [path]
    return sorted(folder for folder in inner.iterdir() if not folder.name.startswith("."))


@contextmanager
def _told() -> Iterator[None]:
    """Whatever is expected to go wrong ends in one line, not in a traceback."""
    from eventlog import ChatfoldError  # noqa: PLC0415

    try:
        yield
    except (ChatfoldError, OSError) as error:
        _tell(error)
        sys.exit(1)


def _tell(error: Exception) -> None:
    if isinstance(error, BrokenPipeError):
        raise error  # whoever read our output has seen enough: click ends quietly
    text = str(error)
    if isinstance(error, OSError):
        text = f"{error.strerror or error}: {error.filename}" if error.filename else text
    click.echo(f"chatfold: {printable(text)}", err=True)


if __name__ == "__main__":
    main()
