"""Places: where chats are, and which chat is meant.

A place is a store's folder, the address of a database, a chat's own folder wherever it lies, an export, or a ``Store`` that is open.
It is only looked at: no lock is taken, nothing on disk is changed.
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from chatfold.agent import Chat, Store
from chatfold.agent.exporting import read_chunks
from chatfold.eventlog import ChatfoldError, InvalidPlace, NoSuchChat
from chatfold.eventlog.files.scan import open_folder
from chatfold.eventlog.files.segment import BIG_PAGE, parse_segment_name
from chatfold.eventlog.places import address_of
from chatfold.eventlog.postgres.place import parse_address
from chatfold.eventlog.transfer import ExportWriter
from chatfold.projections import Projection

LAST = "last"
_PREFIX = 4  # characters that name a chat, if no other begins with them
_TOLD = 8  # candidates that an error names


class NoStore(ChatfoldError, LookupError):
    next_step = "Say where with --store DIR or CHATFOLD_STORE; 'chatfold demo' makes one to look at"


class AmbiguousStore(ChatfoldError, ValueError):
    next_step = "Say which with --store DIR or CHATFOLD_STORE"


class UnknownChat(NoSuchChat):
    next_step = "'chatfold ls' lists the chats"


class AmbiguousChat(ChatfoldError, ValueError):
    next_step = "Give more of the key"


class NotInStore(ChatfoldError, ValueError):
    next_step = "'chatfold import' it into a store first"


def store_place(given: Path | str | None = None) -> Path | str:
    """The one given, else that of CHATFOLD_STORE, else ``./chats``, the current folder, or the only store in it."""
    said = given or os.environ.get("CHATFOLD_STORE")
    if (address := address_of(said)) is not None:
        if given and parse_address(address).has_password:
            raise InvalidPlace(
                "everybody on this machine sees a password in a command: put it into ~/.pgpass, PGPASSWORD or CHATFOLD_STORE"
            )
        return address
    if said:
        found = _store_around(Path(said))
        if found is None:
            raise NoStore(f"there is no store in {str(said)!r}", path=Path(said).absolute())
        return found
    for folder in (Path("chats"), Path()):
        if (folder / "chats").is_dir():
            return folder
    return _only_store(Path())


def _store_around(folder: Path) -> Path | None:
    """The folder itself, or the store that this chat's folder, or this folder of chats, is in."""
    if (folder / "chats").is_dir():
        return folder
    whole = folder.absolute()
    if whole.name == "chats" and _has_chats(whole):
        return whole.parent
    if whole.parent.name == "chats" and is_chat_folder(whole):
        return whole.parent.parent
    return None


def _only_store(here: Path) -> Path:
    """The one folder in here that is a store, whatever its name."""
    found = sorted(one for one in here.iterdir() if _is_store(one))
    if len(found) == 1:
        return found[0]
    if found:
        import shlex  # noqa: PLC0415 (for an error)

        some = ", ".join(shlex.quote(str(one)) for one in found[:_TOLD]) + (
            ", …" if len(found) > _TOLD else ""
        )
        raise AmbiguousStore(f"there are several stores here: {some}", path=here.absolute())
    raise NoStore("there is no store here", path=here.absolute())


def _is_store(folder: Path) -> bool:
    try:
        return (folder / "chats").is_dir() and _has_chats(folder / "chats")
    except OSError:  # not ours to look at
        return False


def _has_chats(folder: Path) -> bool:
    return folder.is_dir() and any(
        is_chat_folder(one) for one in folder.iterdir() if not one.name.startswith(".")
    )


@asynccontextmanager
async def open_place(
    place: Path | str | Store, *, projections: Sequence[Projection[Any]] = (), keep_caches: bool = False
) -> AsyncIterator[tuple[Store, str]]:
    """The store, and the key of the chat if the place is but one; else nothing.

    ``keep_caches``: what lists and searches have found out is kept for the next time, if the folder is ours.
    """
    if isinstance(place, Store):
        yield place, ""
        return
    if address_of(place) is not None:
        async with Store(place, read_only=True, projections=projections) as store:
            yield store, ""
        return
    path = Path(place)
    found = _look(path)
    if found.lines is None:
        read_only = not (keep_caches and found.is_ours)
        async with Store(found.root, read_only=read_only, projections=projections) as store:
            yield store, found.key
    else:
        async with Store.memory(projections=projections) as store:
            try:
                async with aclosing(found.lines) as lines:
                    await store.log.storage.import_chat(found.key, lines)
            except ChatfoldError as error:
                error.path = error.path or path
                raise
            yield store, found.key


class _Found(NamedTuple):
    """``lines``: of the one chat that is here, if it is in no store's folder."""

    root: Path
    key: str
    lines: AsyncGenerator[bytes] | None = None
    is_ours: bool = False


def _look(path: Path) -> _Found:
    if (path / "chats").is_dir():
        ours = os.access(path, os.W_OK) and path.stat().st_uid == os.geteuid()
        return _Found(path, "", is_ours=ours)
    if is_chat_folder(path):
        key = open_folder(path).chat
        whole = path.absolute()
        if whole.parent.name == "chats":
            return _Found(whole.parent.parent, key)
        return _Found(path, key, _lines(path))  # it was copied out of its store
    if path.is_file():
        return _Found(path, path.name.removesuffix(".jsonl"), read_chunks(path))
    raise NoStore("this is no store, no chat's folder and no export", path=path)


def root_of(path: Path) -> Path:
    """The folder of the store that a chat's folder belongs to."""
    found = _look(path)
    if found.lines is not None:
        raise NotInStore("this chat is in no store", path=path)
    return found.root


def is_chat_folder(path: Path) -> bool:
    return path.is_dir() and any(parse_segment_name(one.name) is not None for one in path.iterdir())


async def _lines(path: Path) -> AsyncGenerator[bytes]:
    """A chat's folder as an export of it."""
    folder = open_folder(path)
    packing = ExportWriter(folder.blob)
    yield packing.begin()
    for page in folder.line_pages(size=BIG_PAGE):
        yield packing.page(page)
    yield packing.end()


# --- which chat ------------------------------------------------------------------------------------------


async def find_chat(store: Store, name: str) -> Chat:
    """By its key, the beginning of its key, or ``last``. Raises ``UnknownChat`` or ``AmbiguousChat``."""
    chat = await store.chat(name)
    if chat.seq:
        return chat
    return await store.chat(await key_of(store, name))


async def key_of(store: Store, name: str) -> str:
    """Whose beginning this is. No chat is opened, but for ``last``."""
    if name == LAST:
        listed = [one async for one in store.chats()]
        if not listed:
            raise UnknownChat("the store is empty", chat=name)
        return max(listed, key=lambda one: (one.outline.active, one.key)).key
    keys = sorted([key async for key in store.log.chats()])
    found = [key for key in keys if key.startswith(name)] if len(name) >= _PREFIX else []
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(map(repr, found[:_TOLD])) + (", …" if len(found) > _TOLD else "")
        raise AmbiguousChat(f"{name!r} could be {some}")
    from difflib import get_close_matches  # noqa: PLC0415 (only after a typing error)

    near = get_close_matches(name, keys, n=1)
    raise UnknownChat(f"there is no chat {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
