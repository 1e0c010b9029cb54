"""step: through a chat in the terminal."""

import re

import click

from chatfold.replay.command import chat_of, complete_chat, path_of, verb
from chatfold.replay.inspect.places import store_place
from chatfold.replay.output import Out
from chatfold.replay.stepper.app import step as stepped


@verb("chatfold step last", "chatfold step last@c1", "chatfold step last --play --idle 0.5s")
@click.argument("address", default="last", shell_complete=complete_chat)
@click.option("--play", is_flag=True, help="Goes on by itself.")
@click.option("--idle", default="1s", help="While it plays: at most so long anywhere.")
async def step(out: Out, store: str | None, *, address: str, play: bool, idle: str) -> int:  # noqa: ARG001
    """Event by event: what happened, and next to it what the model saw, was sent, and what changed. ? shows the keys.

    Without a terminal it reads the same keys as words, a line each.
    """
    seconds = re.fullmatch(r"(\d+(?:\.\d+)?)s?", idle)
    if seconds is None:
        raise click.UsageError(f"--idle takes seconds, such as 0.5s, not {idle!r}")
    async with chat_of(store, address) as (chat, meant):
        key = chat.key
    place = path_of(address) or path_of(meant.chat) or store_place(store)
    return await stepped(place, key, meant.last, play=play, idle=float(seconds[1]))
