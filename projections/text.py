"""Short texts: what a list shows of a long one."""

from collections.abc import Iterable

from eventlog import Part, Text


def text_of(parts: Iterable[Part]) -> str:
    """What was said in words."""
    return "\n".join(part.text for part in parts if type(part) is Text)


def clipped(text: str, most: int) -> str:
    """At most ``most`` characters, the last of them an ellipsis if something is missing."""
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str, most: int) -> str:
    """The beginning of a text, white space as single blanks."""
    return clipped(" ".join(text.split(None, most)[: most + 1]), most)
