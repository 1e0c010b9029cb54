"""What a list shows of a long text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.projections.text import clip, one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("short", "short"),
        ("  many\n\n  blank\t", "many blank"),
        (" " * 500 + "late", "late"),
        ("a" + " " * 500 + "b", "a b"),
        ("0123456789", "0123456789"),
        ("0123456789x", "012345678…"),
        ("长" * 11, "长" * 9 + "…"),
    ],
)
def test_a_line_is_the_beginning_of_a_text_with_single_blanks(text: str, line: str) -> None:
    assert one_line(text, 10) == line


@given(text=st.text(), most=st.integers(1, 30))
def test_a_line_is_never_longer_than_asked_and_says_when_something_is_missing(text: str, most: int) -> None:
    whole = " ".join(text.split())
    assert one_line(text, most) == clip(whole, most)
    assert len(one_line(text, most)) <= most
    assert one_line(text, most).endswith("…") or one_line(text, most) == whole


@given(
    st.lists(st.sampled_from(("a", "bcd", " ", "\n\t", "\u3000", "x" * 9)), max_size=60), st.integers(1, 30)
)
def test_one_line_is_all_words_by_single_blanks_clipped(pieces: list[str], most: int) -> None:
    text = "".join(pieces)
    assert one_line(text, most) == clip(" ".join(text.split()), most)
