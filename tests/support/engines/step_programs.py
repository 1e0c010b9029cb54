"""Programs for two engines: steps as hypothesis draws them.

Events are drawn by the new engine's vocabulary and cut down to what the old engine can say: a later event type, or field, has
no counterpart there.
"""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from chatfold.eventlog import File, MessageAdded, Text
from chatfold.testing.strategies import LARGE_TEXT, LONG_TEXTS, events
from tests.support.engines.breaking import DAMAGING, TEARING
from tests.support.engines.old_engine import old_engine
from tests.support.engines.one_engine import Step
from tests.support.engines.plain_values import translate
from tests.support.histories import assistant, talks, user

CHATS = ("a", "a", "a", "b", "C/ü \x7f", "long " * 60)
_NEW = ("b", "C/ü \x7f", "d", "e", "f")  # where forks and copies go: mostly nobody is there yet
_TEXTS = ("", "a plan", "words and words", "日本語 here", "again \ud800", *LONG_TEXTS, "a", "b")
_LARGE = (
    MessageAdded("user", (Text(LARGE_TEXT),)),
    MessageAdded("user", (Text("see"), File("image/png", b"\0\xff" * 600_000, "big.png"))),
)
TOLD_ELSEWHERE = ("segments swapped",)
"""The old engine tells of these when the segment next to them is opened, even to write there; the new one when they are read."""

_WRITING = ("append", "append_at_end", "append_after", "write_when_closed")

_numbers = st.integers(0, 40)
_texts = st.sampled_from(_TEXTS)
_ids = st.none() | st.sampled_from(("i1", "i2", "i3", "\ud800"))
_runs = st.none() | st.sampled_from(("r1", "r2"))
_ticks = st.sampled_from((1, 1, 0, 60_000, -5))


def _is_known(event: Any) -> bool:
    return hasattr(old_engine().eventlog, type(event).__name__)


def _cut_down(some: Iterable[Any]) -> tuple[Any, ...]:
    known = tuple(one for one in some if _is_known(one))
    cut: tuple[Any, ...] = translate(known, old_engine().eventlog)
    return cut


@st.composite
def _batches(draw: st.DrawFn) -> tuple[Any, ...]:
    """Anything whatever, a stretch of a talk, or plain texts that may have been said before."""
    match draw(st.integers(0, 9)):
        case 0 | 1 | 2:
            return _cut_down(draw(st.lists(events(), min_size=1, max_size=3)))
        case 3 | 4:
            return _cut_down(draw(talks())[:12])
    said = draw(st.lists(_texts, min_size=1, max_size=3))
    return _cut_down((user, assistant)[at % 2](text) for at, text in enumerate(said))


@st.composite
def _steps(draw: st.DrawFn, *verbs: str) -> Step:
    verb = draw(st.sampled_from(verbs))
    return Step(
        verb,
        draw(st.sampled_from(CHATS)),
        draw(_batches()) if verb in _WRITING else (),
        draw(_ids),
        draw(_runs),
        draw(_texts),
        draw(st.sampled_from(_NEW)),
        draw(_numbers),
        draw(_numbers),
        draw(_ticks),
    )


@st.composite
def _large(draw: st.DrawFn) -> Step:
    """What does not fit into a line. Few: every shape of such a text takes its time."""
    return Step(
        "append", draw(st.sampled_from(CHATS)), _cut_down([draw(st.sampled_from(_LARGE))]), draw(_ids)
    )


@st.composite
def _breaks(draw: st.DrawFn, ways: tuple[str, ...]) -> Step:
    way = draw(st.sampled_from(ways))
    chat = draw(st.sampled_from(CHATS[:4]))
    return Step("break", chat, text=way, point=draw(st.integers(0, 3000)), second=draw(_numbers))


_appended = _steps("append", "append", "append_at_end", "append_after")
_spoken = _steps("user", "assistant", "call_tool", "inject", "receive")
_moved = _steps("new_context", "load_context", "clear_context", "recall")
_shortened = _steps("checkpoint", "rewind", "rewind", "compact", "compact", "revert")
_forked = _steps("fork", "fork", "fork_at_end", "import")
_erased = _steps("redact", "redact", "redact", "redact", "delete")
_opened = _steps("reopen", "look", "look", "check", "write_when_closed")
_mended = _steps("check", "repair", "repair", "salvage")
_torn = _breaks((*TEARING,))
_damaged = _breaks(tuple(way for way in DAMAGING if way not in TOLD_ELSEWHERE))

_KINDS: dict[str, st.SearchStrategy[Step]] = {
    "healthy": st.one_of(_appended, _appended, _spoken, _moved, _shortened, _forked, _erased, _opened),
    "talking": st.one_of(_appended, _spoken, _spoken, _moved, _shortened, _forked, _opened),
    "erasing": st.one_of(_appended, _spoken, _forked, _forked, _erased, _erased, _opened),
    "large": st.one_of(_large(), _large(), _spoken, _forked, _erased, _opened, _damaged, _mended),
    "tearing": st.one_of(_appended, _appended, _spoken, _forked, _erased, _torn, _torn, _opened),
    "mending": st.one_of(_appended, _spoken, _forked, _damaged, _damaged, _torn, _mended, _mended, _opened),
}


@st.composite
def _tearing_end(draw: st.DrawFn) -> list[Step]:
    return [draw(_torn), Step("check"), Step("user", text="and now?"), Step("user", "b"), Step("check")]


@st.composite
def _mending_end(draw: st.DrawFn) -> list[Step]:
    one = draw(_damaged)
    return [
        one,
        *(Step(verb, one.chat, second=1) for verb in ("check", "salvage", "repair", "check", "user")),
    ]


_ENDS = {"tearing": _tearing_end(), "mending": _mending_end()}


@st.composite
def programs(draw: st.DrawFn, kind: str, most: int = 16) -> list[Step]:
    """Begins with chats to work on, one of them in several segments: most steps are refused in an empty store.

    By the name of the kind: a strategy's repr, which hypothesis makes over and over, would hold all the texts.
    """
    said = _cut_down(
        [user("a plan"), assistant(LONG_TEXTS[0]), user(LONG_TEXTS[2]), assistant(LONG_TEXTS[0])]
    )
    first = [
        Step("append", "a", said),
        Step("append", "a", said, run="r1"),
        Step("fork_at_end", "a", other=CHATS[4]),
        Step("append", "b", said[:2], "i1"),
        Step("import", "b", other=CHATS[5]),
    ]
    middle = draw(st.lists(_KINDS[kind], min_size=most // 4, max_size=most))
    return [*first, *middle, *(draw(_ENDS[kind]) if kind in _ENDS else ())]
