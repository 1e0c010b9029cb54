"""What can go wrong, as a small tree.

    ChatfoldError
    ├── InvalidKey           the chat key cannot name a chat            nothing was written
    ├── InvalidEvent         the event cannot be stored as it is        nothing was written
    ├── Conflict             the log is not where ``after=`` said       nothing was written
    ├── IdConflict           this id or key was used for other content  nothing was written
    ├── NoSuchChat           there is no chat of this key
    ├── NoSuchPoint          there is no entry of this seq, or nothing of this name or time
    ├── ChatExists           a fork's target is taken                   nothing was written
    ├── ChatDeleted          the chat went away under a reader or writer
    ├── LeaseLost            the lease of this append has passed         nothing was written
    ├── ReadOnly             a write was asked of a read-only storage   nothing was written
    ├── Closed               a write was asked of a storage that is closed      nothing was written
    ├── ForkedProcess        a storage opened before ``os.fork`` was used after it
    ├── DiskFull             no room: rolled back, try again when there is
    ├── DurabilityUnknown    a sync failed: reopen the storage, read what is there, retry by id
    ├── Unavailable          the database does not answer: try again, with the same id
    ├── NoSuchStore          there is no store at this place
    ├── InvalidPlace         this cannot name a place
    ├── NewerFormat          written by a newer chatfold: nothing was touched
    └── CorruptLog           bytes that were durable are missing or changed

Every error carries what is known of the place (``chat``, ``path``, ``offset``, ``seq``) as attributes,
says it at the end of its message, and says what to do next. Expected after a crash and therefore *not*
an error: a torn tail, which is set aside and cut off by the next writer.
"""

import errno
from pathlib import Path

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class ChatfoldError(Exception):
    """What all errors of chatfold are. ``chat``, ``path``, ``offset`` and ``seq`` say where; None where they do not apply."""

    next_step: str = ""

    def __init__(
        self,
        message: str,
        *,
        chat: str | None = None,
        path: Path | str | None = None,
        offset: int | None = None,
        seq: int | None = None,
    ) -> None:
        self.chat = chat
        self.path = None if path is None else Path(path)
        self.offset = offset
        self.seq = seq
        super().__init__(message)

    def __str__(self) -> str:
        # Keys and paths come from users: repr keeps their control characters out of a terminal.
        fields = (
            ("chat", self.chat),
            ("path", None if self.path is None else str(self.path)),
            ("offset", self.offset),
            ("seq", self.seq),
        )
        place = ", ".join(f"{name} {value!r}" for name, value in fields if value is not None)
        text = super().__str__()
        if place:
            text += f" ({place})"
        end = "" if text.endswith("?") else "."
        return f"{text}{end} {self.next_step}" if self.next_step else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class InvalidKey(ChatfoldError, ValueError):
    """This cannot be the key of a chat."""

    next_step = "A chat key is any non-empty string"


class InvalidEvent(ChatfoldError, ValueError):
    """This cannot be recorded: it is no message, or holds what JSON cannot say."""

    next_step = "Nothing was written; see 'Values' in docs/format.md for what an event can hold"


class Conflict(ChatfoldError):
    """Another writer appended first. ``expected`` and ``actual`` are seqs."""

    next_step = "Read what was added, decide again, and append after the actual head"

    def __init__(self, expected: int, actual: int, *, chat: str) -> None:
        self.expected = expected
        self.actual = actual
        super().__init__(f"expected the log to end at seq {expected}, it ends at {actual}", chat=chat)


class IdConflict(ChatfoldError):
    """The id was used before, for other content."""

    next_step = "Use a new id for new content"


class NoSuchChat(ChatfoldError, LookupError):
    """There is no chat of this key."""

    next_step = "A chat exists from its first event on; chats() lists them"


class NoSuchPoint(ChatfoldError, LookupError):
    """The chat has no entry, checkpoint or time like this."""

    next_step = "A point is a seq up to the last entry, the name of a checkpoint, or a time"


class ChatExists(ChatfoldError):
    """There is a chat of this key already."""

    next_step = "Choose another key, or delete the chat first"


class ChatDeleted(ChatfoldError):
    """The chat was deleted, or another one took its place, while it was open."""

    next_step = "Appending again starts a new chat of the same key"


class LeaseLost(ChatfoldError):
    """Another process took over what this one held for a run."""

    next_step = "Nothing was written. Take the lease again, and read what others did meanwhile"


class ReadOnly(ChatfoldError):
    """The storage may not be written."""

    next_step = "Open the storage without read_only=True, on a folder you may write"


class Closed(ChatfoldError):
    """The storage was closed."""

    next_step = "Open it again; nothing was written"


class ForkedProcess(ChatfoldError):
    """The storage was opened before ``os.fork``, in the parent."""

    next_step = "Open the storage anew in the child process"


class DiskFull(ChatfoldError):
    """There is no room. The log ends where it did before."""

    next_step = "Nothing was added; free some space and try again"


class DurabilityUnknown(ChatfoldError):
    """A sync failed: what was written may be there after a power cut, or not."""

    next_step = "Close the storage, open it again, and retry with the same id"


class Unavailable(ChatfoldError):
    """The database did not answer in time. What was being written may be there."""

    next_step = "Try again when the database answers; a retry with the same id writes nothing twice"


class NoSuchStore(ChatfoldError, LookupError):
    """There is no store at this place."""

    next_step = "A store is made by the first storage that may write there"


class InvalidPlace(ChatfoldError, ValueError):
    """This cannot name a place for chats."""

    next_step = "A place is a folder, or postgresql://user@host/database?schema=name"


class NewerFormat(ChatfoldError):
    """A newer chatfold wrote this."""

    next_step = "Upgrade chatfold; nothing was touched"


class CorruptLog(ChatfoldError):
    """What was durable is missing or changed: ``path``, ``offset`` and ``seq`` say where."""

    next_step = "Nothing was changed. 'check' lists the damage, 'repair' works on it after a backup, 'salvage' copies out what verifies"


def to_chatfold_error(error: Exception, chat: str, path: Path) -> Exception:
    """What the system says, in our words where we have some."""
    code = error.errno if isinstance(error, OSError) else None
    if code in NO_ROOM:
        return DiskFull(str(error), chat=chat, path=path)
    if code in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ReadOnly(str(error), chat=chat, path=path)
    return error
