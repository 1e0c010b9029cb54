"""Times, as tools write them."""

from datetime import UTC, datetime
from typing import Any


def millis(value: Any) -> int | None:
    """A time as tools write it, ISO 8601, seconds or milliseconds, in epoch milliseconds."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e15:
        return round(value if value > 1e11 else value * 1000)
    return None
