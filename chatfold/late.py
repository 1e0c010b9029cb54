"""Names that a package offers and imports when they are first used, so that nobody waits for what they do not use.

    if TYPE_CHECKING:
        from chatfold.agent.agent import Agent        # what a type checker sees
    else:
        __getattr__ = late(__name__, {"Agent": "chatfold.agent.agent"})

A type checker does not see ``__getattr__``, so it reports a name that does not exist.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose names stand in other modules: ``homes`` has the module of each name, or it is the module."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(homes[name])
        value = home if home.__name__ == f"{package}.{name}" else getattr(home, name)
        setattr(sys.modules[package], name, value)  # the next use does not come here
        return value

    return load
