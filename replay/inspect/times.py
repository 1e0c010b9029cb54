"""Times as people read them, and as programs do."""

from datetime import UTC, datetime

_UNITS = ((86400 * 365, "y"), (86400, "d"), (3600, "h"), (60, "min"))


def iso(ts: int) -> str:
    """Epoch milliseconds as ISO 8601, UTC. A time that no calendar has is given as its number."""
    try:
        return (
            datetime.fromtimestamp(ts / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    except (OverflowError, ValueError, OSError):
        return str(ts)


def clock(ts: int) -> str:
    """The time of day, here."""
    try:
        return datetime.fromtimestamp(ts / 1000, UTC).astimezone().strftime("%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def ago(ts: int, now: datetime | None = None) -> str:
    seconds = (now or datetime.now(UTC)).timestamp() - ts / 1000
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now" if seconds > -60 else iso(ts)
