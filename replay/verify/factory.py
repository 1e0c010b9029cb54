"""The user's factory: ``--agent`` names it, here its code is loaded, and here it is told what that code raised.

``except Exception`` stands here alone: what a user's module, or the factory in it, raises may be anything, and whatever it is
ends in one line with its place. It must not end in 1, which says that a chat diverged.
"""

import functools
import importlib
import signal
import sys
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import current_thread, main_thread
from traceback import TracebackException
from types import ModuleType
from typing import Any

import click

from chatfold.agent import Agent
from chatfold.eventlog import ChatfoldError
from chatfold.replay.command import is_missing_extra
from chatfold.replay.terminal import printable
from chatfold.replay.verify.rehearsal import Factory

# A file is a module of this name, not of its own: ``agent.py`` or ``json.py`` would replace a module in use.
# It is in ``sys.modules``, because dataclasses, pickle and typing look there for the module of a class.
_FILE = "_chatfold_agent_file"


class AgentFailed(ChatfoldError):
    """The agent's own code raised something."""

    next_step = "Mend it, and try again"


def factory_of(name: str) -> Factory:
    """``module:function`` or ``path/file.py:function``. Raises UsageError if there is none, ``AgentFailed`` if it fails."""
    where, _, function = name.rpartition(":")
    is_file = where.endswith(".py")
    if not where or not function or (where.startswith(".") and not is_file):
        raise click.UsageError(f"--agent MODULE:FUNCTION or FILE.py:FUNCTION, not {name!r}")
    with report_failures(f"--agent {name}: "), _heed_interrupts():
        module = _file(Path(where)) if is_file else _module(where)
    made: Any = getattr(module, function, None)
    if not callable(made):
        found = getattr(module, "__file__", None) or "it has no file"
        raise click.UsageError(printable(f"--agent: there is no function {function!r} in {where} ({found})"))
    return made  # type: ignore[no-any-return]


def _module(name: str) -> ModuleType:
    """What is in the current directory comes first, as with ``python -m``."""
    _look_first_in(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The module itself, or a package that it is in; anything else is missing inside of it.
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise click.UsageError(printable(f"--agent: {error}")) from None
        raise


def _file(path: Path) -> ModuleType:
    """Its neighbours come first, as with ``python FILE.py``; then the current directory, where its project may begin."""
    spec = spec_from_file_location(_FILE, path.absolute())
    if not path.is_file() or spec is None or spec.loader is None:
        raise click.UsageError(f"--agent: there is no file {str(path)!r}")
    _look_first_in(Path.cwd())
    _look_first_in(path.absolute().parent)
    module = sys.modules[_FILE] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:  # as ``import`` does it: half a module is none
        sys.modules.pop(_FILE, None)
        raise
    return module


def _look_first_in(folder: Path) -> None:
    """It stays so: a factory may import when it is called."""
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))


@contextmanager
def _heed_interrupts() -> Iterator[None]:
    """Ctrl-C ends an import at once. At the first one, asyncio only cancels a task, which code that waits does not notice."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or current_thread() is not main_thread():  # it is ignored, or others see to it
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# --- what it raised --------------------------------------------------------------------------------------


def report_factory(factory: Factory, chat: str) -> Factory:
    """The same factory; what it raises is told as the agent's failure, not as one of the store or of the command."""

    @functools.wraps(factory)
    async def build(*args: Any, **named: Any) -> Agent:
        with report_failures(chat=chat):
            made = factory(*args, **named)
            return await made if isinstance(made, Awaitable) else made

    return build


@contextmanager
def report_failures(
    said: str = "", *, chat: str | None = None, besides: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Around code of the user's. Our own errors, and those ``besides``, stay what they are; Ctrl-C is Ctrl-C."""
    passed: tuple[type[Exception], ...] = (ChatfoldError, click.ClickException, *besides)
    try:
        yield
    except passed:
        raise
    except (Exception, SystemExit) as error:
        if is_missing_extra(error):
            raise
        raise AgentFailed(f"{said}{_describe(error)}", chat=chat) from error


def _describe(error: BaseException) -> str:
    """What it was, and where: the innermost line of code that is a file's."""
    told = TracebackException.from_exception(
        error, lookup_lines=False
    )  # it survives a ``__str__`` that raises
    text = str(told)
    places = [(frame.filename, frame.lineno) for frame in told.stack if not _is_loading(frame.filename)]
    if isinstance(error, SyntaxError) and not str(told.filename or "<").startswith("<"):
        text = str(told.msg)
        places.append((str(told.filename), error.lineno))
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{what}, in {places[-1][0]}:{places[-1][1]}" if places else what


def _is_loading(path: str) -> bool:
    """Of the way into the user's code, or of no file."""
    return path.startswith("<") or path in (__file__, importlib.__file__)
