"""demo: something to look at."""

import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from chatfold.replay.command import verb
from chatfold.replay.demo import CHAT, record
from chatfold.replay.inspect.entries import row
from chatfold.replay.inspect.times import clock, iso
from chatfold.replay.output import Out
from chatfold.replay.terminal import Cell

_WIDTH = 200


@verb("chatfold demo", "chatfold demo ./somewhere")
@click.argument("folder", metavar="[DIR]", default="./chatfold-demo", type=click.Path(path_type=Path))
async def demo(out: Out, store: str | None, *, folder: Path) -> None:  # noqa: ARG001
    """Record a small chat with an agent into a store in DIR (default ./chatfold-demo) and print it back."""
    for title, entries in (await record(folder)).items():
        if not out.json:
            out.line(title, "bold")
        for entry in entries:
            one = row(entry, most=_WIDTH)
            out.row(
                one,
                [
                    Cell(str(one.seq), 4, right=True),
                    Cell(clock(one.ts) if out.is_terminal else iso(one.ts), 8),
                    Cell(f"{one.glyph} {one.what}", 12),
                    Cell(one.text),
                ],
            )
        if not out.json:
            out.line()
    for line in () if out.json else _next_steps(folder):
        out.line(line)


def _next_steps(folder: Path) -> Iterator[str]:
    command = "chatfold" if shutil.which("chatfold") else shlex.quote(sys.argv[0])
    store = f"--store {shlex.quote(str(folder))}"
    segment = shlex.quote(str(folder / "chats" / CHAT / "0000000000000001.jsonl"))
    yield "Look at it:"
    yield f"  {command} log {CHAT} {store}"
    yield f"  {command} messages {CHAT} --for-call 2 {store}    # exactly what was sent, and proof of it"
    yield f"  {command} diff {CHAT}@c1^..c1 {store}    # what the compaction took out of the model's sight"
    yield f'  {command} why {CHAT} "newlines" {store}'
    yield f"  {command} step {CHAT} {store}"
    yield f"  {command} check {store}"
    yield "The chat is a file of JSON lines:"
    yield f"  jq -c '[.seq, .event.type, .run]' {segment}"
    yield f"  {command} demo {shlex.quote(str(folder))}    # again: the chat goes on"
