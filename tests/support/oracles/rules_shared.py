"""What the checkers of the providers' rules share: how a broken rule is told, and what a request can carry.

Nothing here imports the code that is tested, and nothing here mends what it reads: a checker only refuses.
"""

import base64
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

Object = dict[str, Any]
"""A message, an item, a part or a block: an object of JSON."""

Kinds = Mapping[str, Callable[[int, Object], None]]
"""What parts may stand somewhere, by their type, and how each of them is checked."""

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What OpenAI and Anthropic both see as images.

OpenAI's API: "You uploaded an unsupported image. Please make sure your image has of one the following formats:
['png', 'jpeg', 'gif', 'webp']." Anthropic's API: "image.source.base64.media_type: Input should be 'image/jpeg',
'image/png', 'image/gif' or 'image/webp'".
"""

_DATA_URL = re.compile(r"data:([a-z]+/[a-zA-Z0-9.+-]+);base64,(.*)", re.DOTALL)
_WEB_URL = re.compile(r"https?://[^\s/?#]+\S*")


def need(holds: bool, index: int, rule: str, value: object) -> None:
    """Raises an AssertionError that names the message, the rule and the value, if the rule does not hold."""
    if not holds:
        shown = repr(value)
        raise AssertionError(f"message {index}: {rule}: {shown if len(shown) < 300 else shown[:300] + '...'}")


def need_keys(
    index: int, value: object, required: AbstractSet[str], optional: AbstractSet[str] = frozenset()
) -> None:
    """Promises that this is an object with the required keys and no key beyond the optional ones.

    Anthropic's API: "messages.1.reasoning_details: Extra inputs are not permitted". OpenAI's: "Unknown parameter:
    'input[3].status'.", "Additional properties are not allowed ('id' was unexpected) - 'messages.0'", "Missing
    required parameter: 'input[2].summary'."
    """
    if type(value) is not dict:
        need(holds=False, index=index, rule="an object stands here", value=value)
        return
    missing, unknown = required - value.keys(), value.keys() - required - optional
    need(not missing, index, "a required key is there", (sorted(missing), value))
    need(not unknown, index, "no key is there that the provider does not know", (sorted(unknown), value))


def need_json(index: int, value: object) -> None:
    """Promises that any JSON encoder writes this the same way, and that a strict reader takes it.

    Anthropic's API: "The request body is not valid JSON: no low surrogate in string". RFC 8259, sections 6 and 8.1
    (https://www.rfc-editor.org/rfc/rfc8259): no NaN or Infinity, UTF-8. Keys are strings already, so that two of
    them cannot become one; tuples and bytes are not left to a client's encoder.
    """
    waiting: list[Any] = [value]
    while waiting:
        inner = waiting.pop()
        kind = type(inner)
        if kind is dict:
            need(all(type(key) is str for key in inner), index, "the keys of objects are strings", inner)
            waiting += inner.keys()
            waiting += inner.values()
        elif kind is list:
            waiting += inner
        elif kind is str:
            need(_is_utf8(inner), index, "texts have no half of a surrogate pair", inner)
        elif kind is float:
            need(math.isfinite(inner), index, "numbers are finite", inner)
        else:
            need(inner is None or kind is int or kind is bool, index, "values are those of JSON", inner)


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_text(value: object, shortest: int = 0, longest: int | None = None) -> bool:
    """A string, of a length within these bounds."""
    return type(value) is str and shortest <= len(value) and (longest is None or len(value) <= longest)


def is_in(value: object, names: Collection[str]) -> bool:
    """One of these strings."""
    return type(value) is str and value in names


def is_list(value: object) -> bool:
    """An array that is not empty."""
    return type(value) is list and bool(value)


def is_base64(value: object) -> bool:
    """Some data in the alphabet and with the padding of RFC 4648, section 4."""
    if not is_text(value, 1):
        return False
    try:
        return bool(base64.b64decode(str(value), validate=True))
    except ValueError:
        return False


def media_type_of(url: object) -> str | None:
    """The media type of a base64 data URL that carries some data; None for anything else."""
    match = _DATA_URL.fullmatch(url) if type(url) is str else None
    return match[1] if match and is_base64(match[2]) else None


def is_web_url(url: object) -> bool:
    """An address that a provider can fetch: http or https, with a host and without white space."""
    return type(url) is str and _WEB_URL.fullmatch(url) is not None


def has_one_of(keys: Iterable[str], value: Object) -> bool:
    """Whether the object has one of these keys, and not two."""
    return sum(key in value for key in keys) == 1
