"""Time, injectable. ``ts`` is for people: it orders nothing, and may jump as the clock does."""

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]
"""Epoch milliseconds."""


def now() -> int:
    return time.time_ns() // 1_000_000
