"""The session: the secret that the printed link carries, kept so that a page that is open outlives a restart of the server.

The link proves who was told it; a cookie takes its place at once, and the address bar forgets it. The secret never stands in the
arguments of a process, where every user of the machine could read it: a browser is started with the path of a file that only we can read.
"""

import os
import secrets
from html import escape
from pathlib import Path


def state_folder() -> Path:
    """Ours alone."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(base) / "chatfold"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def keep_token(folder: Path) -> str:
    """The secret of this user: of last time, or a new one if there was none that only we could read."""
    path = folder / "view-token"
    try:
        status = path.stat()
        if status.st_uid == os.geteuid() and not status.st_mode & 0o077:
            token = path.read_text("ascii").strip()
            if len(token) >= 32:
                return token
    except (OSError, UnicodeDecodeError):
        pass
    token = secrets.token_urlsafe(32)
    write_private(path, token)
    return token


def write_opening_file(folder: Path, url: str) -> Path:
    """A page that leads to the link."""
    path = folder / "view-open.html"
    goes = f'<meta http-equiv="refresh" content="0;url={escape(url)}">'
    write_private(path, f'<!DOCTYPE html><meta charset="utf-8"><title>chatfold view</title>{goes}')
    return path


def write_private(path: Path, text: str) -> None:
    """Never readable by others, not even for a moment."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)
