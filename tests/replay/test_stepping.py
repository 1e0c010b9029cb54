"""What the keys of the stepper do, each on a chat that has what it looks for."""

import pytest

from chatfold.agent import assistant, user
from chatfold.replay.stepper.detail import details
from chatfold.replay.stepper.keymap import begin, grow, press
from tests.support.debugger.stepping_story import END, pressed, sessions, typed


@pytest.mark.parametrize(
    ("at", "key", "to"),
    [
        (4, "j", 5),
        (4, "right", 5),
        (4, "down", 5),
        (4, ".", 5),
        (4, "k", 3),
        (4, "left", 3),
        (4, "up", 3),
        (1, "k", 0),
        (0, "k", 0),
        (END, "j", END),
        (1, "J", 5),
        (0, "J", 1),
        (12, "J", 12),
        (6, "K", 5),
        (5, "K", 1),
        (1, "K", 1),
        (0, "K", 0),
        (0, "c", 7),
        (7, "c", 11),
        (11, "c", 11),
        (END, "C", 11),
        (11, "C", 7),
        (7, "C", 7),
        (0, "s", 8),
        (8, "s", 15),
        (15, "s", 15),
        (15, "S", 8),
        (8, "S", 8),
        (0, "x", 3),
        (3, "x", 13),
        (13, "x", 13),
        (END, "X", 13),
        (13, "X", 3),
        (3, "X", 3),
        (9, "g", 1),
        (9, "home", 1),
        (9, "G", END),
        (9, "end", END),
        (9, "pageup", 1),
        (9, "pagedown", END),
    ],
)
async def test_a_key_moves_the_cursor(at: int, key: str, to: int) -> None:
    async with sessions() as session:
        state = await pressed(session, key, at=at)
        assert state.cursor == to
        assert bool(state.message) == (to == at), "who cannot move is told so"


@pytest.mark.parametrize(
    ("text", "to"), [("c2^", 10), ("7", 7), ("t2.0", 5), ("here", 14), ("head-3", 13), ("s1", 8)]
)
async def test_an_address_is_gone_to(text: str, to: int) -> None:
    async with sessions() as session:
        assert (await pressed(session, *typed(":", text))).cursor == to


async def test_an_address_that_is_none_is_told_and_nothing_moves() -> None:
    async with sessions() as session:
        for text in ("c9", "nobody", "e99", "^"):
            state = await pressed(session, *typed(":", text), at=4)
            assert state.cursor == 4
            assert state.message
            assert not state.prompt


async def test_a_prompt_can_be_corrected_and_left() -> None:
    async with sessions() as session:
        state = await pressed(session, ":", *"c2x", "backspace", "enter", at=1)
        assert state.cursor == 11
        assert (await pressed(session, ":", *"99", "ctrl-u", *"2", "enter", at=1)).cursor == 2
        for keys in ((":", "q", "esc"), (":", "q", "backspace", "backspace")):
            state = await pressed(session, *keys, at=1)
            assert (state.prompt, state.cursor, state.code) == ("", 1, None)


async def test_a_search_finds_the_very_text_and_goes_around() -> None:
    async with sessions() as session:
        state = await pressed(session, *typed("/", "lexer"), at=2)
        assert state.hits == (1, 2, 7)
        assert (state.cursor, state.message[:6]) == (2, "2 of 3")
        cursors = []
        for _ in range(4):
            state = await press(session, state, "n")
            cursors.append(state.cursor)
        assert cursors == [7, 1, 2, 7]
        state = await press(session, state, "N")
        assert (state.cursor, state.message) == (2, "2 of 3")
        state = await pressed(session, "N", "N", state=state)
        assert (state.cursor, "again" in state.message) == (7, True)


async def test_a_search_falls_back_on_words_and_says_if_there_is_nothing() -> None:
    async with sessions() as session:
        state = await pressed(session, *typed("/", "LEXER WHERE"), at=4)
        assert 1 in state.hits
        for text in ("zebra", "?!"):
            state = await pressed(session, *typed("/", text), at=4)
            if not state.hits:
                assert state.cursor == 4
                assert state.message == f"no entry holds {text!r}"
        state = await pressed(session, *typed("/", ""), state=state)
        assert (state.query, state.hits) == ("", ())


async def test_a_filter_is_what_steps_go_by() -> None:
    async with sessions() as session:
        state = await pressed(session, *typed("f", "user, comp"), at=1)
        assert state.kinds == ("user", "comp")
        cursors = []
        for _ in range(7):
            state = await press(session, state, "j")
            cursors.append(state.cursor)
        assert cursors == [5, 7, 9, 11, 12, 12, 12]
        state = await press(session, state, "pageup")
        assert state.cursor == 1
        state = await pressed(session, "f", "ctrl-u", "enter", state=state)
        assert not state.filters


async def test_errors_only() -> None:
    async with sessions() as session:
        state = await pressed(session, "e", "k", "k", "k")
        assert (state.cursor, state.message) == (3, "there is none before")
        assert (await pressed(session, "e", "k", state=state)).cursor == 2


async def test_a_mark_and_what_changed_since() -> None:
    async with sessions() as session:
        state = await pressed(session, "m", at=6)
        state = await pressed(session, "j", "d", state=state)
        assert (state.mark, state.cursor, state.tab) == (6, 7, "diff")
        told = "\n".join(line.text for line in await details(session, state, 80))
        assert "A e6 → e7" in told
        assert "the lexer is nowhere" in told
        assert "left        4 items" in told
        assert (await pressed(session, "k", "m", state=state)).mark is None


async def test_without_a_mark_it_is_the_entry_that_is_told_of() -> None:
    async with sessions() as session:
        state = await pressed(session, "d", at=12)
        told = [line.text for line in await details(session, state, 80)]
        assert told[0] == "e11 → e12"
        assert any("And tomorrow?" in line for line in told)


async def test_who_took_it_out_of_sight() -> None:
    async with sessions() as session:
        state = await pressed(session, "b", at=1)
        session.lines = await details(session, state, 80)
        told = "\n".join(line.text for line in session.lines)
        assert "entered  e1 · t1" in told
        assert "left     e7 · t2 · c1 compacted" in told
        state = await pressed(session, "tab", *["down"] * 20, state=state)
        at = next(index for index, line in enumerate(session.lines) if line.seq == 7)
        state = await pressed(session, *["up"] * (state.line - at), "enter", state=state)
        assert state.cursor == 7
        assert (await press(session, state, "esc")).tab == "context"


async def test_why_of_the_item_that_is_chosen() -> None:
    async with sessions() as session:
        state = begin(session)
        session.lines = await details(session, state, 80)
        at = next(index for index, line in enumerate(session.lines) if "And the parser?" in line.text)
        state = await pressed(session, "tab", *["down"] * at, "b", state=state)
        assert (state.tab, state.asked, state.cursor) == ("why", 5, END)


async def test_an_event_says_where_its_other_half_is() -> None:
    async with sessions() as session:
        for at, other in ((2, 3), (3, 2)):
            state = await pressed(session, "4", at=at)
            lines = await details(session, state, 60)
            assert [line.seq for line in lines if line.seq] == [other]
            assert "call     c1" in [line.text for line in lines]


async def test_branches() -> None:
    async with sessions() as session:
        await session.replay.chat.fork("other", at=5)
        state = await pressed(session, "t", at=9)
        session.lines = await details(session, state, 80)
        assert [line.chat for line in session.lines] == ["chat", "other"]
        state = await pressed(session, "]", state=state)
        assert (state.chat, state.cursor, state.end) == ("other", 6, 6)
        state = await pressed(session, "[", state=state)
        assert (state.chat, state.end) == ("chat", END)
        session.lines = await details(session, state, 80)
        state = await pressed(session, "tab", "down", "enter", state=state)
        assert (state.chat, state.cursor) == ("other", 5)


async def test_a_chat_without_forks_says_so() -> None:
    async with sessions() as session:
        assert "no forks" in (await pressed(session, "]")).message


async def test_the_address_and_what_would_print_the_same() -> None:
    async with sessions(key="it's") as session:
        state = await pressed(session, "y", at=3)
        assert state.message == "'it'\"'\"'s@e3'"
        store = "--store /stores/one"
        wanted = {
            "1": "context 'it'\"'\"'s@e3'",
            "2": "messages 'it'\"'\"'s@e3'",
            "3": "diff 'it'\"'\"'s@e2..e3'",
            "4": "show 'it'\"'\"'s@e3'",
            "5": "tree 'it'\"'\"'s'",
            "b": "why 'it'\"'\"'s' e3",
        }
        for key, command in wanted.items():
            state = await pressed(session, key, "!", state=state)
            assert state.message == f"chatfold {command} {store}"


async def test_live_entries_move_only_a_cursor_that_is_at_the_end_or_follows() -> None:
    async with sessions() as session:
        chat = await session.store.chat("chat")
        state = await pressed(session, at=4)
        await chat.record(user("one"), assistant("two"), user("three"))
        state = await grow(session, state)
        assert (state.cursor, state.end, state.new) == (4, END + 3, 3)
        state = await press(session, state, "G")
        assert (state.cursor, state.new) == (END + 3, 0)
        await chat.record(user("four"))
        state = await grow(session, state)
        assert (state.cursor, state.new) == (END + 4, 0)
        state = await pressed(session, "g", "F", state=state)
        assert (state.following, state.cursor) == (True, END + 4)
        await chat.record(user("five"))
        state = await grow(session, state)
        assert state.cursor == END + 5
        assert not (await press(session, state, "k")).following


async def test_help_is_left_by_any_key_and_q_leaves() -> None:
    async with sessions() as session:
        state = await pressed(session, "?", at=3)
        assert state.help
        state = await press(session, state, "j")
        assert (state.help, state.cursor) == (False, 3)
        assert (await press(session, state, "q")).code == 0
        assert (await press(session, state, "ctrl-c")).code == 130
        assert "does nothing" in (await press(session, state, "Q")).message
