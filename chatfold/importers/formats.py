"""The formats that are known, in the order in which a file is asked whether it is one of them."""

from chatfold.importers import lists
from chatfold.importers.items import Format

FORMATS: tuple[Format, ...] = (*lists.FORMATS,)


def known_formats() -> str:
    """For an error: what can be imported."""
    return "\n".join(f"  {one.name:<18} {one.title}" for one in FORMATS)
