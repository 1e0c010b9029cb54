"""Chat key <-> folder name: an encoding, not a sanitiser.

Lower-case letters, digits, ``_`` and ``-`` stand for themselves; every other byte of the key's UTF-8 becomes
``=hh``. So a name is plain ASCII without dots, slashes or capitals: two keys never share a folder on any
file system, none escapes its parent, and ``..``, NUL or a lone surrogate need no rule of their own. A name
over 200 bytes is cut and closed with ``==`` and the sha256 of the key; the key itself then stands in the
folder's ``key`` file.
"""

import hashlib
import re

from chatfold.eventlog.errors import InvalidKey

KEY_FILE = "key"
_LIMIT = 200
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_RESERVED = re.compile(r"con|prn|aux|nul|(com|lpt)\d")  # device names on Windows, with any extension
_NAME = re.compile(r"(?:[a-z0-9_-]|=[0-9a-f]{2})+")
_HASHED = re.compile(r"(?:[a-z0-9_-]|=[0-9a-f]{2})+==[0-9a-f]{64}")


def folder_name(key: str) -> str:
    if not isinstance(key, str) or not key:
        raise InvalidKey("a chat key must be a non-empty string", chat=repr(key))
    data = key.encode("utf-8", "surrogatepass")
    encoded = [chr(byte) if byte in _KEPT else f"={byte:02x}" for byte in data]
    if _RESERVED.fullmatch(key):
        encoded[0] = f"={data[0]:02x}"
    name = "".join(encoded)
    if len(name) <= _LIMIT:
        return name
    room = _LIMIT - 66
    short = "".join(encoded[:room])[:room]
    short = re.sub(r"=.?$", "", short)  # never cut inside an escape
    return f"{short}=={hashlib.sha256(data).hexdigest()}"


def chat_key(name: str) -> str | None:
    """The key of a folder name; None where the folder's ``key`` file has it, or the name is not ours."""
    if not _NAME.fullmatch(name) or len(name) > _LIMIT:
        return None
    data = re.sub(rb"=(..)", lambda match: bytes.fromhex(match[1].decode()), name.encode())
    try:
        key = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return key if folder_name(key) == name else None


def is_hashed(name: str) -> bool:
    return _HASHED.fullmatch(name) is not None
