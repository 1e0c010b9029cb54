"""view: the debugger as a page."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from chatfold.agent import Store
from chatfold.replay.command import complete_chat, path_in, verb
from chatfold.replay.inspect.address import address
from chatfold.replay.inspect.places import find_chat, open_place, store_place
from chatfold.replay.inspect.points import seq_of
from chatfold.replay.output import Out


@verb(
    "chatfold view",
    "chatfold view last",
    "chatfold view last@c1^",
    "chatfold view last --no-open --port 9000",
)
@click.argument("point", metavar="[CHAT[@POINT]]", default="", shell_complete=complete_chat)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Exactly this one; 0: any. Default: 8742, or another if that is taken.",
)
@click.option(
    "--no-open", "browser", flag_value=False, default=True, help="Print the link, and start no browser."
)
@click.option("--write", "writes", is_flag=True, help="The page may fork. Otherwise it only reads.")
async def view(
    out: Out, store: str | None, *, point: str, port: int | None, browser: bool, writes: bool
) -> None:
    """The debugger in a browser: what the model saw at any point, what left its sight, when and why. Ctrl-C ends it.

    Only somebody on this machine who has the link can open the page. It only reads, unless --write lets it fork.
    """
    try:
        from chatfold.replay.web.desk import Desk  # noqa: PLC0415 (an extra)
        from chatfold.replay.web.serving import path_to, serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ImportError(f"the page needs {error.name}: pip install 'chatfold[web]'") from None

    place, meant = path_in(point) or store_place(store), address(point)
    async with _place(place, writes=writes) as (kept, only):
        start = "/"
        if only or point:
            chat = await (kept.chat(only) if only else find_chat(kept, meant.chat))
            at = f"e{await seq_of(chat, meant.last)}" if meant.last else ""
            start = path_to(chat.key, at)
        desk = Desk(kept, *_names(place), only=only)
        await serve(desk, start=start, port=port, browser=browser, writes=writes, say=out.line)


def _names(place: Path | str) -> tuple[str, str]:
    """Of the store: for us, and for people."""
    if isinstance(place, Path):
        return str(place.absolute()), place.absolute().name
    return place, place.partition("?")[0].rpartition("/")[2]


@asynccontextmanager
async def _place(place: Path | str, *, writes: bool) -> AsyncIterator[tuple[Store, str]]:
    """The store, to read or to write; and the key if the place is but one chat, which is only ever read."""
    if writes and (isinstance(place, str) or _is_store(place)):
        async with Store(place) as store:
            yield store, ""
    else:
        async with open_place(place, keep_caches=True) as found:
            yield found


def _is_store(place: Path) -> bool:
    return (place / "chats").is_dir()
