"""Places: a folder, or the address of a database. Here, and nowhere else, it is decided which storage that is."""

from pathlib import Path

from chatfold.eventlog.errors import InvalidPlace
from chatfold.eventlog.files.storage import FileStorage
from chatfold.eventlog.postgres.place import is_address, parse_address
from chatfold.eventlog.storage import Durability, Storage


def storage_of(place: Path | str, *, durability: Durability = "full", read_only: bool = False) -> Storage:
    """``postgresql://user@host/database?schema=name``, or a folder. Connects to nothing, and makes nothing.

    On a database every append is "full".
    """
    address = address_of(place)
    if address is None:
        return FileStorage(place, durability=durability, read_only=read_only)
    try:
        from chatfold.eventlog.postgres.storage import PostgresStorage  # noqa: PLC0415 (an extra)
    except ImportError as error:
        if not (error.name or "").startswith("psycopg"):
            raise
        raise ImportError("PostgreSQL needs psycopg: pip install 'chatfold[postgres]'") from None
    return PostgresStorage(parse_address(address), read_only=read_only)


def address_of(place: object) -> str | None:
    """The place, if it is an address; None if it is a folder."""
    if not isinstance(place, str) or "://" not in place:
        return None
    if not is_address(place):
        raise InvalidPlace(f"{place.partition('://')[0]!r} is no kind of store")
    return place


def show_place(place: Path | str) -> str:
    """For people: without a password."""
    address = address_of(place)
    return str(place) if address is None else parse_address(address).shown
