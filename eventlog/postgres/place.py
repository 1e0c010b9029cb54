"""Where the chats are: an address of PostgreSQL, taken apart without connecting. A password is in none of its texts."""

import re
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import msgspec

from chatfold.eventlog.errors import InvalidPlace

_SCHEMES = ("postgresql", "postgres")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def is_address(place: object) -> bool:
    return isinstance(place, str) and place.partition("://")[0] in _SCHEMES and "://" in place


class Place(msgspec.Struct, frozen=True):
    """``conninfo``: what the driver is given, without the password. ``shown``: the same, for errors and listings.

    ``pooler``: "" for none; "transaction" for one that gives a connection to another server process for each transaction, "session" for
    one that does not.
    """

    conninfo: str
    schema: str
    shown: str
    pooler: str = ""
    _password: str = ""

    def __repr__(self) -> str:
        return f"Place({self.shown!r})"

    def secrets(self) -> dict[str, Any]:
        """What the driver is given beside ``conninfo``."""
        return {"password": self._password} if self._password else {}

    @property
    def has_password(self) -> bool:
        return bool(self._password)


def parse_address(address: str) -> Place:
    """``postgresql://user@host/database?schema=bots&pooler=transaction``; every other parameter is the driver's."""
    try:
        return _parse(address)
    except InvalidPlace:
        raise
    except ValueError:
        # The text of the error may hold a part of the address, and so a part of the password.
        raise InvalidPlace("this is no address of a PostgreSQL database") from None


def _parse(address: str) -> Place:
    parts = urlsplit(address)
    users, at, hosts = parts.netloc.rpartition("@")
    user, _, password = users.partition(":")
    options = parse_qsl(parts.query, keep_blank_values=True)
    schema = next((value for name, value in options if name == "schema"), "chatfold")
    pooler = next((value for name, value in options if name == "pooler"), "")
    if pooler not in ("", "transaction", "session"):
        raise InvalidPlace("a pooler is pooler=transaction or pooler=session")
    hidden = [value for name, value in options if name == "password"]
    options = [(name, value) for name, value in options if name not in ("schema", "pooler", "password")]
    if not _NAME.fullmatch(schema):
        raise InvalidPlace("the name of a schema has only letters, digits and _, and at most 63 of them")
    query = urlencode(options, quote_via=quote)
    conninfo = urlunsplit(("postgresql", user + at + hosts, parts.path, query, ""))
    shown = urlunsplit(("postgresql", user + at + hosts, parts.path, urlencode({"schema": schema}), ""))
    return Place(conninfo, schema, shown, pooler, unquote(password) or (hidden or [""])[-1])
