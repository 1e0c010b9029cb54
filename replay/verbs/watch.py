"""watch: a store kept up to date with what other tools write."""

from pathlib import Path

import click

from chatfold.agent import Store
from chatfold.importers import known_homes
from chatfold.importers import watch as watch_folders
from chatfold.importers.ledger import ledger_path
from chatfold.replay.command import verb
from chatfold.replay.inspect.places import NoStore
from chatfold.replay.output import Out
from chatfold.replay.verbs.imports import target_of, tell


@verb("chatfold watch", "chatfold watch ~/.codex --store ./chats --json")
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=click.Path(path_type=Path))
async def watch(out: Out, store: str | None, *, folders: tuple[Path, ...]) -> None:
    """Keep the store up to date with the sessions of other tools while they are written, until you interrupt it.

    Without a folder: where the known tools keep theirs. First everything comes in that is not there yet, then each line as
    it is written, so that a running agent can be looked at from another terminal. A line for each chat that got something new.
    """
    watched = folders or tuple(known_homes())
    if not watched:
        raise NoStore("no tool that is known keeps sessions here: name a folder")
    for folder in watched:
        if not folder.exists():
            raise FileNotFoundError(2, "No such file or directory", str(folder))
    place = target_of(store)
    async with Store(place) as chats:
        out.note(f"watching {', '.join(map(str, watched))}")
        async for report in watch_folders(chats, watched, ledger=ledger_path(place)):
            tell(out, report)
