"""What a provider's refusal means: whether to ask again, and whether the prompt was too long.

What a package raises is told as ``ModelFailed``, raised from it: ``again`` if trying once more may help, ``after`` so many seconds as
the provider asked for. What nobody foresaw is not a failure of the model but a bug, and passes.

That a prompt is too long, providers say in prose, and libraries wrap it: the text is looked for in the error, in its ``code`` and
``body``, and in whatever it was raised from. A limit on requests or on spending is not meant.
"""

import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime

from chatfold.agent.models import ModelFailed
from chatfold.projections.text import clip

_PACKAGES = frozenset({"openai", "anthropic"})
_TRANSPORTS = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "anyio"})
_FINAL = frozenset(  # what an error that came in the middle of an answer calls itself, if it would come again
    {
        *("invalid_request_error", "authentication_error", "permission_error", "not_found_error"),
        *("billing_error", "request_too_large", "insufficient_quota", "context_length_exceeded"),
        *("invalid_api_key", "content_policy_violation", "content_filter"),
    }
)
_MOST = 2_000  # characters of an error: a proxy's may be a page of HTML


@contextmanager
def translate_errors(*more: type[Exception]) -> Iterator[None]:
    """Tells what is raised inside. ``more``: what else is not a bug here, but would be the same again."""
    try:
        yield
    except ModelFailed:
        raise
    except more as error:
        raise ModelFailed(_text(error)) from error
    except Exception as error:
        where = type(error).__module__.partition(".")[0]
        if where in _PACKAGES:
            raise _read_refusal(error) from error
        if where in _TRANSPORTS or isinstance(error, OSError | ValueError):  # cut off, or garbled
            raise ModelFailed(_text(error), again=True) from error
        raise


def cut_short() -> ModelFailed:
    return ModelFailed("the model's answer ended before it was complete", again=True)


def _read_refusal(error: Exception) -> ModelFailed:
    """What a package made of an error: with a status, without one if it came in the middle of an answer or by no answer."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    status, kinds = getattr(error, "status_code", 0), _kinds(getattr(error, "body", None))
    if status < 400:
        status = next((int(kind) for kind in kinds if kind.isdecimal()), 0)
    if not hasattr(error, "body"):  # about how the package was set up
        again = False
    elif status < 400:
        again = not kinds & _FINAL
    elif "insufficient_quota" in kinds:
        again = False
    elif (told := headers.get("x-should-retry")) in ("true", "false"):
        again = told == "true"
    else:
        again = status in (408, 409, 429) or status >= 500
    text = f"the request is too large: {_text(error)}" if status == 413 else _text(error)
    return ModelFailed(text, again=again, after=_after(headers) if again else None)


def _text(error: Exception) -> str:
    """What it says, and what it came from, which for a lost connection is all there is to know."""
    cause = str(error.__cause__ or "")
    more = f" ({cause})" if cause and cause not in str(error) else ""
    return clip(f"{type(error).__name__}: {error}{more}", _MOST)


def _kinds(body: object) -> set[str]:
    """What an error calls itself: its type and its code."""
    match body:
        case {"error": {**inner}} | {**inner}:
            return {str(inner[name]) for name in ("type", "code") if inner.get(name) is not None}
    return set()


def _after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait, as the provider says: milliseconds, seconds or a date."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, then.timestamp() - time.time())


# --- a prompt that is too long -----------------------------------------------------------------------------

# Compiled when they are first needed: a program that only reads chats does not wait for it.
_TOO_LONG = (
    r"(?i)context[ _-]?(length|window|size|limit)|maximum (context|prompt|input|number of (input )?tokens)"
    r"|(prompt|input|request|message|conversation)s?( token count)?( is| are)? too (long|large)"
    r"|too many (input )?tokens|exceeds? (the |its )?(maximum|max|limit|model'?s?).{0,40}tokens?"
    r"|tokens?.{0,40}exceeds? (the |its )?(configured )?(maximum|max|limit)|reduce the length"
    r"|model token limit|request[ _]too[ _]large|request exceeds the maximum size"
)
_RATE = r"(?i)rate[ _-]?limit|quota|per[ _-](minute|hour|day)|billing|too many requests"


def is_too_long(error: BaseException) -> bool:
    """The outermost error that says anything about a limit decides."""
    for one in _chain(error):
        texts = list(_texts(one))
        if any(re.search(_RATE, text) for text in texts):
            return False
        if any(re.search(_TOO_LONG, text) for text in texts):
            return True
    return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what it groups and what it was raised from, each once."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [cause for cause in (one.__cause__, one.__context__) if cause is not None]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions


def _texts(error: BaseException) -> Iterator[str]:
    yield str(error)
    for name in ("code", "body", "message"):
        value = getattr(error, name, None)
        if isinstance(value, str | dict):
            yield str(value)
