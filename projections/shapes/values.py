"""What all providers' shapes share: values that are JSON, ids and names that are accepted, files as they are sent."""

import base64
import math
import re
from collections.abc import Iterable
from itertools import count
from typing import Any

import msgspec
from xxhash import xxh3_64_hexdigest

from chatfold.eventlog import Data, File, Json, Part, Text
from chatfold.projections.prompt import Call, Message, Result
from chatfold.projections.text import clip, text_of, text_of_file

_SAFE = re.compile(r"[a-zA-Z0-9_-]+")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")
_WEB = re.compile(r"https?://(?![/?#])[!-~]+")  # what begins with a host, of visible ASCII characters


def replace_surrogates(text: str) -> str:
    """The text with halves of surrogate pairs replaced: no provider's JSON can hold them."""
    try:
        if not text.isascii():
            text.encode("utf-16")  # refuses what UTF-8 refuses, in half the time
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_json_value(value: Json) -> Json:
    """The value as strict JSON: bytes become base64, what is not a number becomes null."""
    match value:
        case str():
            return replace_surrogates(value)
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {replace_surrogates(key): to_json_value(item) for key, item in value.items()}
        case list() | tuple():
            return [to_json_value(item) for item in value]
    return value


def json_text(value: Json) -> str:
    try:
        return msgspec.json.encode(
            value
        ).decode()  # which writes bytes and what is no number as ``plain`` does
    except UnicodeEncodeError:
        return msgspec.json.encode(to_json_value(value)).decode()


def arguments(args: Json) -> dict[str, Any]:
    """A call's arguments as the object that providers want."""
    if args is None:
        return {}
    return args if isinstance(args, dict) else {"value": args}


def tool_name(name: str) -> str:
    """A name that every provider accepts, other for other names: what was changed ends in a hash of the original."""
    if _SAFE.fullmatch(name) and len(name) <= 64:
        return name
    digest = xxh3_64_hexdigest(name.encode("utf-8", "surrogatepass"))
    return f"{_UNSAFE.sub('_', name)[:47]}_{digest}"


def call_ids(messages: Iterable[Message], most: int) -> dict[int, str]:
    """The id each call goes by, by its seq: its own if that is acceptable and not taken, else one made from the seq.

    Earlier calls choose first, so that a longer history gives the same ids.
    """
    ids: dict[int, str] = {}
    taken: set[str] = set()
    for message in messages:
        for call in message.calls:
            id = call.id if len(call.id) <= most and _SAFE.fullmatch(call.id) else f"call_{call.seq}"  # noqa: A001
            if id in taken:
                others = (f"call_{call.seq}_{number}" for number in count(2))
                id = next(other for other in others if other not in taken)  # noqa: A001
            taken.add(id)
            ids[call.seq] = id
    return ids


def kept_fields(value: Message | Call | Result, provider: str) -> dict[str, Any]:
    """What a provider's messages said and events have no word for: under the provider in the meta, for its shape alone."""
    own = value.meta.get(provider) if value.meta else None
    return own if isinstance(own, dict) else {}


def fields(own: Json, name: str) -> dict[str, Any]:
    """Those under this name, if that is what there is."""
    found = own.get(name) if isinstance(own, dict) else None
    return found if isinstance(found, dict) else {}


def of_part(own: Json, at: int) -> dict[str, Any]:
    """What was kept of the part at this index."""
    return fields(fields(own, "parts"), str(at))


def give_back(shape: dict[str, Any], unread: dict[str, Any]) -> dict[str, Any]:
    """The shape with the fields that its reader had no place for, also within others: writing undoes reading."""
    if not unread:  # as of nearly all
        return shape
    whole = dict(shape)
    for name, value in unread.items():
        if isinstance(value, dict) and isinstance(inner := shape.get(name), dict):
            whole[name] = give_back(inner, value)
        elif name not in shape:
            whole[name] = to_json_value(value)
    return whole


def in_given_order(results: Iterable[Result], provider: str) -> list[Result]:
    """As a client gave them, if that was not the order of the calls."""
    numbered = list(enumerate(results))
    if not any(result.meta for _, result in numbered):
        return [result for _, result in numbered]
    places = {at: kept_fields(result, provider).get("at") for at, result in numbered}
    if not all(type(place) is int for place in places.values()):
        return [result for _, result in numbered]
    return [result for at, result in sorted(numbered, key=lambda pair: (places[pair[0]], pair[0]))]


def user_parts(message: Message) -> tuple[Part, ...]:
    """The parts of a user's message. Data goes with a result only, also if that is late: then as text."""
    if message.kind != "late":
        return message.parts
    return tuple(Text(json_text(part.data)) if isinstance(part, Data) else part for part in message.parts)


def only_text(parts: tuple[Part, ...]) -> str | None:
    """What is said if it is one text, as nearly always; empty if that is blank."""
    if len(parts) != 1 or type(parts[0]) is not Text:
        return None
    text = parts[0].text
    return "" if text.isspace() else replace_surrogates(text)


def text_with_files(parts: tuple[Part, ...], *, data: bool = False) -> str:
    """The parts as text; files by their description; ``data``: structured parts, too, as JSON."""
    if (text := only_text(parts)) is not None:
        return text
    texts = []
    for part in parts:
        if type(part) is Text:
            texts.append(replace_surrogates(part.text))
        elif type(part) is File:
            texts.append(file_label(part))
        elif type(part) is Data and data:
            texts.append(json_text(part.data))
    return "\n".join([text for text in texts if text and not text.isspace()])


def file_label(file: File) -> str:
    """What stands for a file where it cannot be sent as one: what a text file says, of others what they are."""
    size = f", {len(file.data)} bytes" if file.data else ""
    label = f"[file {file.name or clip(file.url, 200) or 'without a name'}: {file.media_type}{size}]"
    text = text_of_file(file)
    return replace_surrogates(label if text is None else f"{label}\n{text}")


def data_url(file: File) -> str:
    return f"data:{replace_surrogates(file.media_type)};base64,{base64.b64encode(file.data).decode()}"


def is_web(url: str) -> bool:
    """An address a provider may fetch; never a path on this machine."""
    return _WEB.fullmatch(url) is not None


def pdf_name(file: File) -> str:
    """The name of a PDF, which OpenAI wants to end as one."""
    name = replace_surrogates(file.name).strip()
    return name if name.lower().endswith(".pdf") and len(name) > len(".pdf") else f"{name or 'file'}.pdf"


def result_text(parts: Iterable[Part]) -> str:
    """What was said in words, and data as JSON: what a tool returned."""
    return "\n".join(json_text(p.data) if isinstance(p, Data) else text_of((p,)) for p in parts)
