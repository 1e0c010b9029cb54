"""Short texts: what a list shows of a long one."""

from collections.abc import Iterable

from chatfold.eventlog import File, Part, Text


def text_of(parts: Iterable[Part]) -> str:
    """What was said in words."""
    return "\n".join([part.text for part in parts if type(part) is Text])


_TEXTUAL = ("json", "xml", "yaml", "toml", "javascript", "sql")


def text_of_file(file: File) -> str | None:
    """What a text file says; None for other files, and for those whose bytes are elsewhere."""
    kind = file.media_type.partition(";")[0].strip().lower()
    if not file.data or not (kind.startswith("text/") or kind.endswith(_TEXTUAL)):
        return None
    return file.data.decode("utf-8", "replace")


def clipped(text: str, most: int) -> str:
    """At most ``most`` characters, the last of them an ellipsis if something is missing."""
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str, most: int) -> str:
    """The beginning of a text, white space as single blanks."""
    begin = " ".join(text[: 2 * most].split())
    if len(begin) <= most and len(text) > 2 * most:  # mostly white space: the rest is looked at, too
        begin = " ".join(text.split(None, most)[: most + 1])
    return clipped(begin, most)
