"""Programs for two engines: steps as hypothesis draws them.

Events are drawn by the new engine's vocabulary and cut down to what the old engine can say: a later event type, or field, has
no counterpart there.
"""

from functools import cache
from typing import Any

from histories import assistant, talks, user
from hypothesis import strategies as st
from strategies import LARGE_TEXT, LONG_TEXTS, events
from support.breaking import DAMAGING, TEARING
from support.old_engine import old_engine
from support.one_engine import Step
from support.plain_values import translate

from chatfold.eventlog import File, MessageAdded, Text

CHATS = ("a", "a", "a", "b", "C/ü \x7f", "long " * 60)
_TEXTS = ("", "a plan", "words and words", "日本語 here", "again \ud800", *LONG_TEXTS, "a", "b")
_LARGE = (
    MessageAdded("user", (Text(LARGE_TEXT),)),
    MessageAdded("user", (Text("see"), File("image/png", b"\0\xff" * 600_000, "big.png"))),
)

_numbers = st.integers(0, 40)
_texts = st.sampled_from(_TEXTS)
_ids = st.none() | st.sampled_from(("i1", "i2", "i3", "\ud800"))
_runs = st.none() | st.sampled_from(("r1", "r2"))


@cache
def _is_known(kind: type) -> bool:
    return hasattr(old_engine().eventlog, kind.__name__)


def _cut_down(some: Any) -> tuple[Any, ...]:
    known: tuple[Any, ...] = translate(tuple(one for one in some if _is_known(type(one))), old_engine().eventlog)
    return known


@st.composite
def _batches(draw: st.DrawFn) -> tuple[Any, ...]:
    """Anything whatever, a stretch of a talk, a plain text that may have been said before; now and then a large one."""
    match draw(st.integers(0, 11)):
        case 0:
            return _cut_down([draw(st.sampled_from(_LARGE))])
        case 1 | 2 | 3:
            return _cut_down(draw(st.lists(events(), min_size=1, max_size=3)))
        case 4 | 5:
            return _cut_down(draw(talks())[:12])
    said = draw(st.lists(st.sampled_from(LONG_TEXTS) | _texts, min_size=1, max_size=3))
    return _cut_down([(user, assistant)[at % 2](text) for at, text in enumerate(said)])


@st.composite
def _steps(draw: st.DrawFn, *verbs: str, chats: tuple[str, ...] = CHATS) -> Step:
    verb = draw(st.sampled_from(verbs))
    return Step(
        verb,
        draw(st.sampled_from(chats)),
        draw(_batches()) if verb in _WRITING else (),
        draw(_ids),
        draw(_runs),
        draw(_texts),
        draw(st.sampled_from(CHATS)),
        draw(_numbers),
        draw(_numbers),
        draw(st.sampled_from((1, 1, 0, 60_000, -5))),
    )


@st.composite
def _breaks(draw: st.DrawFn, ways: tuple[str, ...]) -> Step:
    way = draw(st.sampled_from(ways))
    chat = draw(st.sampled_from(CHATS[:4]))
    return Step("break", chat, text=way, point=draw(st.integers(0, 3000)), second=draw(_numbers))


_WRITING = ("append", "append_at_end", "append_after", "write_when_closed")
_appended = _steps("append", "append", "append_at_end", "append_after")
_spoken = _steps("user", "assistant", "call_tool", "inject", "receive")
_moved = _steps("new_context", "load_context", "clear_context", "recall", "checkpoint", "rewind", "compact", "revert")
_forked = _steps("fork", "fork_at_end", "fork_at_end", "import")
_erased = _steps("redact", "redact", "redact", "delete")
_opened = _steps("reopen", "reopen", "look", "look", "write_when_closed", "check")
_mended = _steps("check", "repair", "salvage", chats=CHATS[:4])
_torn = _breaks((*TEARING,))
_damaged = _breaks((*DAMAGING,))

_KINDS: dict[str, st.SearchStrategy[Step]] = {
    "healthy": st.one_of(_appended, _appended, _spoken, _moved, _forked, _erased, _opened),
    "talking": st.one_of(_appended, _spoken, _spoken, _moved, _moved, _moved, _opened),
    "erasing": st.one_of(_appended, _spoken, _forked, _forked, _erased, _erased, _opened),
    "tearing": st.one_of(_appended, _appended, _spoken, _forked, _erased, _torn, _torn, _opened),
    "mending": st.one_of(_appended, _spoken, _damaged, _torn, _mended, _mended, _opened),
}


@st.composite
def programs(draw: st.DrawFn, kind: str) -> list[Step]:
    """Begins with something to work on: most steps are refused in an empty store.

    By the name of the kind: a strategy's repr, which hypothesis makes over and over, would hold all the texts.
    """
    first = [Step("append", chat, _cut_down((user("a plan"), assistant(LONG_TEXTS[0])))) for chat in ("a", "b")]
    return [*first, *[draw(_KINDS[kind]) for _ in range(draw(st.integers(0, 14)))]]
