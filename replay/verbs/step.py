"""step: through a chat in the terminal."""

import click

from chatfold.replay.command import chat_of, complete_chat, path_in, seq_meant, verb
from chatfold.replay.inspect.places import store_place
from chatfold.replay.output import Out
from chatfold.replay.stepper.app import step as run_stepper


@verb("chatfold step last", "chatfold step last@t1")
@click.argument("address", default="last", shell_complete=complete_chat)
async def step(out: Out, store: str | None, *, address: str) -> int:  # noqa: ARG001
    """Go event by event: what happened, and beside it what the model saw, what was sent, what changed. ? shows the keys.

    Without a terminal it reads the same keys as words, one line each.
    """
    async with chat_of(store, address) as (chat, meant):
        key = chat.key
        await seq_meant(chat, meant)
    return await run_stepper(path_in(address) or store_place(store), key, meant.last)
