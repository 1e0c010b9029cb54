"""What holds for any chat and any keys: there is a cursor and a screen, a sieve misses nothing, bytes are keys."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import user
from chatfold.eventlog import Log, MemoryStorage
from chatfold.replay.render.line import lay_out
from chatfold.replay.stepper import filter as sieving
from chatfold.replay.stepper.filter import Sieve
from chatfold.replay.stepper.keymap import KEYS, PLAIN, begin, press
from chatfold.replay.stepper.keys import Keys
from chatfold.replay.stepper.lines import keys_of
from chatfold.replay.stepper.panes import Panes
from chatfold.replay.stepper.screen import Shown, Size, frame
from chatfold.replay.terminal import width
from tests.support.debugger.stepping_story import sessions
from tests.support.histories import talks

_KEYS = st.one_of(
    st.sampled_from(sorted({*KEYS, *PLAIN})),
    st.sampled_from([*"jkxXcCbnN12345e", "enter", "tab", "down", "pagedown"]),
    st.text(max_size=1).filter(bool),
)


@given(
    events=talks(), keys=st.lists(_KEYS, max_size=30), columns=st.integers(20, 140), rows=st.integers(6, 30)
)
async def test_any_keys_on_any_chat_leave_a_cursor_and_a_screen(
    events: Any, keys: list[str], columns: int, rows: int
) -> None:
    size = Size(columns, rows)
    async with sessions(events) as session:
        panes, state = Panes(session), begin(session)
        session.page = size.listed
        for key in keys:
            state = await press(session, state, key)
            assert 0 <= state.cursor <= state.end == session.replay.end
            assert session.replay.seq == state.cursor
            await panes.at(state, size)
            async for _ in panes.rest(state, size):
                pass
            assert panes.is_done(state, size)
            shown: Shown = panes.compose(state)
            assert list(session.lines) == shown.detail, "what is shown can be chosen"
            assert state.cursor in {0, *(row.seq for row in shown.rows)}
            assert all(
                width(lay_out(line, size.right, colour=False)) <= size.right for line in shown.detail or ()
            )
            assert len(frame(shown, size)) == rows
            if state.code is not None:
                break


@given(
    wanted=st.sets(st.integers(1, 60)),
    asked=st.lists(
        st.tuples(st.sampled_from(["after", "before", "around"]), st.integers(0, 61)), max_size=12
    ),
    piece=st.integers(1, 20),
)
async def test_a_sieve_finds_what_a_look_at_everything_finds(
    wanted: set[int], asked: list[tuple[str, int]], piece: int
) -> None:
    end = 60
    async with Log(MemoryStorage()) as log:
        await log.append("chat", *(user(f"{number}") for number in range(end)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sieving, "PIECE", piece)
            sieve = Sieve(log, "chat", lambda entry: entry.seq in wanted)
            for what, seq in asked:
                if what == "after":
                    found = await sieve.after(min(seq, end), end)
                    assert found == min((one for one in wanted if one > seq), default=None)
                elif what == "before":
                    assert await sieve.before(seq) == max((one for one in wanted if one < seq), default=None)
                else:
                    await _around(sieve, min(seq, end), wanted)


async def _around(sieve: Sieve, seq: int, wanted: set[int], end: int = 60) -> None:
    seqs, is_all = await sieve.around(seq, 6, end)
    while not is_all:
        seqs, is_all = await sieve.around(seq, 6, end)
    assert set(seqs) <= wanted
    assert len(seqs) == min(6, len(wanted))
    assert (
        seqs == sorted(wanted)[(first := sorted(wanted).index(seqs[0])) : first + 6] if seqs else not wanted
    )
    assert seq not in wanted or seq in seqs


_TYPED = "jK é漢\r\t\x7f\x1b[A\x1bOB\x1b[5~\x1b[1;5C\x1b[200~\x1b[H\x03\x15"


@given(cuts=st.lists(st.integers(0, len(_TYPED.encode()))))
def test_keys_are_the_same_however_their_bytes_arrive(cuts: list[int]) -> None:
    data, keys = _TYPED.encode(), Keys()
    found = []
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        found += keys.feed(data[first:last])
    wanted = ["enter", "tab", "backspace", "up", "down", "pageup", "right", "home", "ctrl-c", "ctrl-u"]
    assert found == [*"jK é漢", *wanted]


@given(st.binary(max_size=200))
def test_whatever_is_typed_is_keys(data: bytes) -> None:
    keys = Keys()
    for key in (*keys.feed(data), *keys.flush()):
        assert key.isprintable()
    assert keys.feed(b"~" * 64)[-1] == "~", "no beginning is waited for for ever"


def test_a_lone_escape_is_a_key_when_nothing_follows() -> None:
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.is_waiting
    assert keys.flush() == ["esc"]
    assert keys.feed(b"\x1bj") == ["esc", "j"]
    assert keys.feed(b"\x1b[") == keys.flush() == []
    assert keys.feed(b"A") == ["up"], "a slow line is no Escape"


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("j", ["j"]),
        ("jjk\r\n", ["j", "j", "k"]),
        ("pagedown j", ["pagedown", "j"]),
        (": c2", [":", "ctrl-u", "c", "2", "enter"]),
        ("/a b", ["/", "ctrl-u", "a", " ", "b", "enter"]),
        ("f user", ["f", "ctrl-u", "u", "s", "e", "r", "enter"]),
        (" ", [" "]),
        ("", []),
    ],
)
def test_a_line_is_keys(line: str, keys: list[str]) -> None:
    assert list(keys_of(line)) == keys
