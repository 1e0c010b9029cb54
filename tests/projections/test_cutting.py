"""Making a prompt fit: what stays, what goes, and what is said about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import Entry, File, Text
from chatfold.projections import Cut, Message, Tokens, estimate
from chatfold.projections.cutting import cut, tokens_of
from chatfold.projections.prompt import Call, Result
from tests.projections.test_validity import check, histories, prompted

limits = st.none() | st.integers(0, 60)
token_limits = st.none() | st.integers(0, 4000)


def said(seq: int, size: int = 6, role: str = "user") -> Message:
    """A message of ``size`` + 4 tokens, if a character counts as one."""
    return Message(role, (seq,), (Text("x" * size),))  # type: ignore[arg-type]


def block(seq: int, *results: str) -> tuple[Message, Message]:
    """As many calls as results, of 5 tokens each and 4 for all, and the results."""
    calls = tuple(Call(seq + at, f"c{at}", "see") for at in range(len(results)))
    answers = tuple(
        Result(call.seq, "see", call.seq + len(results), (Text(text),))
        for call, text in zip(calls, results, strict=True)
    )
    return (
        Message("assistant", tuple(call.seq for call in calls), calls=calls),
        Message("tool", tuple(answer.seq for answer in answers), results=answers),
    )


def seqs(messages: tuple[Message, ...]) -> list[int]:
    return [seq for message in messages for seq in message.seqs]


TALK = (said(1), said(2, role="assistant"), said(3), said(4, role="assistant"))
SYSTEM = (said(1, role="system"), said(2, role="developer"))


# --- the rules one by one --------------------------------------------------------------------------------


def test_without_a_limit_everything_is_kept() -> None:
    assert cut(TALK, count=len) == Cut(TALK, Tokens(40, estimated=False), left_out_tokens=Tokens(0, False))
    assert cut(()) == Cut((), Tokens(0))
    assert cut((), most=0, tokens=0).fits


@pytest.mark.parametrize(("most", "kept"), [(5, [1, 2, 3, 4]), (4, [1, 2, 3, 4]), (3, [2, 3, 4]), (1, [4])])
def test_the_newest_messages_are_kept(most: int, kept: list[int]) -> None:
    made = cut(TALK, most=most)
    assert (seqs(made.messages), made.fits) == (kept, True)


@pytest.mark.parametrize(
    ("tokens", "kept"), [(40, [1, 2, 3, 4]), (39, [2, 3, 4]), (30, [2, 3, 4]), (10, [4])]
)
def test_the_newest_tokens_are_kept(tokens: int, kept: list[int]) -> None:
    made = cut(TALK, tokens=tokens, count=len)
    assert (seqs(made.messages), made.fits) == (kept, True)


@pytest.mark.parametrize(("most", "tokens", "kept"), [(3, 10, [4]), (1, 30, [4]), (2, 20, [3, 4])])
def test_of_two_limits_both_hold(most: int, tokens: int, kept: list[int]) -> None:
    assert seqs(cut(TALK, most=most, tokens=tokens, count=len).messages) == kept


@pytest.mark.parametrize("limit", [{"most": 0}, {"tokens": 9}])
def test_the_newest_message_is_kept_even_if_it_does_not_fit(limit: dict[str, int]) -> None:
    made = cut(TALK, count=len, **limit)
    assert (seqs(made.messages), made.fits, made.left_out) == ([4], False, 3)


def test_a_small_message_behind_one_that_does_not_fit_is_not_kept() -> None:
    made = cut((said(1, 1), said(2, 90), said(3, 1)), tokens=20, count=len)
    assert (seqs(made.messages), made.fits) == ([3], True)


@pytest.mark.parametrize(("most", "kept"), [(4, 4), (3, 3), (2, 1), (1, 1)])
def test_calls_and_their_results_go_together(most: int, kept: int) -> None:
    talk = (said(1), *block(2, "one", "two"), said(6))
    made = cut(talk, most=most)
    assert made.messages == talk[-kept:]


def test_the_newest_block_is_kept_whole_even_if_it_does_not_fit() -> None:
    talk = (said(1), *block(2, "one", "two"))
    made = cut(talk, most=1)
    assert (made.messages, made.fits) == (talk[1:], False)
    made = cut(talk, tokens=5, count=len)
    assert (made.messages, made.fits) == (talk[1:], False)


@pytest.mark.parametrize(("most", "kept"), [(4, [1, 2, 4, 5]), (3, [1, 2, 5])])
def test_leading_system_messages_are_kept_and_count(most: int, kept: list[int]) -> None:
    made = cut((*SYSTEM, said(3), said(4), said(5)), most=most)
    assert (seqs(made.messages), made.fits) == (kept, True)


def test_system_messages_alone_are_kept() -> None:
    assert cut(SYSTEM, most=2).fits
    assert cut(SYSTEM, most=1) == Cut(SYSTEM, Tokens(sum(map(tokens_of, SYSTEM))), fits=False)


def test_a_later_system_message_goes_like_any_other() -> None:
    assert seqs(cut((said(1), said(2, role="system"), said(3)), most=1).messages) == [3]


def test_what_was_left_out_is_said() -> None:
    made = cut((*SYSTEM, said(3), *block(4, "one"), said(6)), most=3, count=len)
    assert (made.left_out, made.first, made.last) == (3, 3, 5)
    assert made.left_out_tokens == Tokens(10 + (4 + 3 + len("null")) + (4 + 3), estimated=False)
    assert made.tokens == Tokens(30, estimated=False)


def test_an_estimate_is_called_one_and_any_other_count_is_not() -> None:
    assert str(cut(TALK, most=1).tokens) == f"~{tokens_of(TALK[3], estimate)}"
    assert str(cut(TALK, most=1, count=len).tokens) == "10"
    assert cut(TALK, most=1).left_out_tokens.estimated
    assert not cut(TALK, most=1, count=lambda text: 0).left_out_tokens.estimated


def test_files_and_results_and_arguments_count() -> None:
    small, large = (Message("user", (1,), (File("text/plain", b"x" * size),)) for size in (1, 50))
    assert tokens_of(large, len) - tokens_of(small, len) == 49
    call, result = block(1, "12345")
    assert (tokens_of(call, len), tokens_of(result, len)) == (4 + len("see") + len("null"), 4 + 5)


# --- the rules together ----------------------------------------------------------------------------------


@given(history=histories, most=limits, tokens=token_limits)
def test_as_much_is_kept_as_fits(history: list[Entry], most: int | None, tokens: int | None) -> None:
    prompt = prompted(history)
    lead = next((at for at, one in enumerate(prompt) if one.role not in ("system", "developer")), len(prompt))
    starts = [at for at in range(lead, len(prompt)) if prompt[at].role != "tool"]

    def fits(some: tuple[Message, ...]) -> bool:
        size = sum(map(tokens_of, some))
        return (most is None or len(some) <= most) and (tokens is None or size <= tokens)

    choices = [(*prompt[:lead], *prompt[start:]) for start in starts] or [prompt]
    best = next(filter(fits, choices), choices[-1])
    made = cut(prompt, most=most, tokens=tokens)
    assert (made.messages, made.fits) == (best, fits(best))


@given(history=histories, most=limits, tokens=token_limits)
def test_what_is_kept_and_what_is_left_out_add_up_to_the_whole(
    history: list[Entry], most: int | None, tokens: int | None
) -> None:
    prompt = prompted(history)
    made = cut(prompt, most=most, tokens=tokens)
    assert len(made.messages) + made.left_out == len(prompt)
    assert made.tokens + made.left_out_tokens == Tokens(sum(map(tokens_of, prompt)))
    missing = set(seqs(prompt)) - set(seqs(made.messages))
    assert (made.first, made.last) == (min(missing, default=0), max(missing, default=0))


@given(history=histories, most=limits)
def test_what_is_kept_is_still_taken_by_providers(history: list[Entry], most: int | None) -> None:
    check(cut(prompted(history), most=most).messages)


@given(history=histories, smaller=st.integers(0, 20), larger=st.integers(0, 20))
def test_a_higher_limit_keeps_what_a_lower_one_keeps(history: list[Entry], smaller: int, larger: int) -> None:
    prompt = prompted(history)
    few, many = (cut(prompt, most=most) for most in sorted((smaller, larger)))
    assert set(seqs(few.messages)) <= set(seqs(many.messages))
    assert many.left_out <= few.left_out
