"""Telemetry: each run, model call and tool call as a span, for the observers of an agent. Nothing of it is in the log.

agent.observe(lambda span: print(span.kind, span.name, f"{span.seconds:.1f} s", span.usage))
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import msgspec

from chatfold.agent.masking import mask
from chatfold.eventlog.logger import logger
from chatfold.projections.usage import TokenCounts


class Span(msgspec.Struct):
    """``call``: the id of a tool's call. ``began``: seconds since the epoch. ``error``: empty if all went well."""

    kind: Literal["run", "model_call", "tool_call"]
    name: str  # of the agent, the model or the tool
    chat: str
    run: str
    call: str = ""
    began: float = 0.0
    seconds: float = 0.0
    usage: TokenCounts = TokenCounts()
    error: str = ""


Observer = Callable[[Span], None]


@contextmanager
def measure(observers: Sequence[Observer], span: Span) -> Iterator[Span]:
    """Measures what is done inside and tells the observers. One that raises is named in a warning."""
    span.began, began = time.time(), time.perf_counter()
    try:
        yield span
    except BaseException as error:
        span.error = mask(f"{type(error).__name__}: {error}")
        raise
    finally:
        span.seconds = time.perf_counter() - began
        for observer in observers:
            try:
                observer(span)
            except Exception:  # noqa: BLE001 (any bug of the observer's)
                logger.warning("an observer of spans failed", exc_info=True)
