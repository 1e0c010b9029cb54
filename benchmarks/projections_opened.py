"""What a process says that opened a chat, ours or a peer's."""

from typing import Any

import msgspec
from xxhash import xxh3_128_hexdigest

Prompt = list[dict[str, Any]]


class Opened(msgspec.Struct, frozen=True):
    """The milliseconds of the first and of the second time; how many messages, and which."""

    first: float
    second: float
    messages: int
    digest: str


def opened(first: float, second: float, prompt: Prompt) -> Opened:
    digest = xxh3_128_hexdigest(msgspec.json.encode(prompt, order="deterministic"))
    return Opened(first, second, len(prompt), digest)
