"""Telling that a provider refused a prompt because it is too long.

Providers say so in prose, and libraries wrap it: the text is looked for in the error, in its ``code`` and ``body``, and
in whatever it was raised from. A limit on requests or on spending is not meant.
"""

import re
from collections.abc import Iterator

# Compiled when they are first needed: not by whoever only looks at a chat.
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
