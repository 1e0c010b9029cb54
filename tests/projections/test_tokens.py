"""The estimate of tokens: how far it is from published figures, what holds for any text, what each event costs."""

import statistics
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    Compacted,
    ContextRecalled,
    Data,
    Event,
    File,
    Forked,
    Injected,
    MessageAdded,
    Noted,
    Part,
    Reasoning,
    SkillActivated,
    Text,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections.tokens import FRAMING, IMAGE, LABEL, PAGE, Tokens, estimate, of_event, of_part
from chatfold.testing.strategies import events, texts, values


class Figure(msgspec.Struct):
    kind: str
    cl100k_base: int
    o200k_base: int
    text: str

    @property
    def error(self) -> float:
        return estimate(self.text) / self.cl100k_base - 1


class Published(msgspec.Struct):
    about: str
    figures: tuple[Figure, ...]


FIGURES = msgspec.json.decode(
    Path(__file__).with_name("token_figures.json").read_bytes(), type=Published
).figures
EVERYDAY = {
    *("English prose", "English chat", "Markdown", "Python", "JavaScript", "log", "JSON", "JSON compact"),
    *("Chinese, simplified", "Chinese, traditional", "Japanese", "Korean", "Chinese and English"),
    *("Russian", "German", "French"),
}


# --- against what published tokenizers count -------------------------------------------------------------


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.kind)
def test_the_estimate_is_near_the_published_figure(figure: Figure) -> None:
    assert -0.30 <= figure.error <= 0.60
    if figure.kind in EVERYDAY:
        assert abs(figure.error) <= 0.20


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.kind)
def test_the_newer_tokenizer_is_rarely_underestimated(figure: Figure) -> None:
    assert estimate(figure.text) >= 0.80 * figure.o200k_base


def test_the_usual_error_is_small_and_leans_to_neither_side() -> None:
    everyday = [figure.error for figure in FIGURES if figure.kind in EVERYDAY]
    assert len(everyday) == len(EVERYDAY)
    assert statistics.median(map(abs, everyday)) <= 0.10
    assert abs(statistics.mean(everyday)) <= 0.05


@pytest.mark.parametrize("divisor", [3, 4])
def test_no_division_of_the_length_does_as_well(divisor: int) -> None:
    naive = [abs(len(figure.text) / divisor / figure.cl100k_base - 1) for figure in FIGURES]
    ours = [abs(figure.error) for figure in FIGURES]
    assert statistics.mean(ours) < statistics.mean(naive) / 2
    assert max(ours) < max(naive)


def test_an_ideograph_is_about_one_token() -> None:
    assert estimate("漢字" * 500) == pytest.approx(1000, rel=0.1)
    assert estimate("カナ" * 500) == pytest.approx(1000, rel=0.1)
    assert estimate("한글" * 500) == pytest.approx(1000, rel=0.1)


# --- of any text -----------------------------------------------------------------------------------------

any_text = texts | st.text(st.characters(exclude_categories=())) | st.sampled_from([f.text for f in FIGURES])


def test_nothing_costs_nothing() -> None:
    assert estimate("") == 0


@given(any_text)
def test_every_text_has_an_estimate(text: str) -> None:
    assert bool(text) <= estimate(text) <= 3 * len(text)


@given(any_text, any_text)
def test_a_whole_costs_no_more_than_its_pieces(one: str, other: str) -> None:
    pieces = estimate(one) + estimate(other)
    assert pieces - 1 <= estimate(one + other) <= pieces


# --- parts and events ------------------------------------------------------------------------------------

WORDS = "what is the weather like in Reykjavík?"


@pytest.mark.parametrize(
    ("part", "cost"),
    [
        (Text(WORDS), estimate(WORDS)),
        (Reasoning(WORDS, signature="not shown to anybody" * 99), estimate(WORDS)),
        (
            Data("weather", {"degrees": 7, "of": [None, b"\xff"]}),
            estimate('{"degrees":7,"of":[null,"/w=="]}'),
        ),
        (File("text/markdown; charset=utf-8", WORDS.encode()), LABEL + estimate(WORDS)),
        (File("application/vnd.api+json", b'{"a":1}'), LABEL + estimate('{"a":1}')),
        (File("image/svg+xml", b"<svg></svg>"), LABEL + estimate("<svg></svg>")),
        (File("image/png", b"\x89PNG" * 10_000), IMAGE),
        (File("image/jpeg", url="https://example.org/a.jpg"), IMAGE),
        (File("application/pdf", b"<</Type /Pages>> <</Type /Page>> <</Type/Page/Parent 1 0 R>>"), 2 * PAGE),
        (File("application/pdf", b"compressed" * 15_000), 4 * PAGE),
        (File("application/pdf", url="https://example.org/a.pdf"), PAGE),
        (File("audio/mpeg", bytes(80_000)), LABEL + 320),
        (File("application/zip", bytes(4_001)), LABEL),
        (File("application/octet-stream"), LABEL),
    ],
)
def test_what_a_part_costs(part: Part, cost: int) -> None:
    assert of_part(part) == cost


SAID = (Text(WORDS), Data("n", 1))
SAID_COST = FRAMING + estimate(WORDS) + 1
LABEL_COST = estimate("[Added by the application, not the user's words]\n" + WORDS) - estimate(WORDS)


@pytest.mark.parametrize(
    ("event", "cost"),
    [
        (MessageAdded("user", SAID), SAID_COST),
        (MessageAdded("user", SAID, origin="internal"), SAID_COST),
        (MessageAdded("user", SAID, origin="audit"), 0),
        (ToolReturned("call-1", SAID), SAID_COST),
        (Injected("user", "f", SAID), SAID_COST + LABEL_COST),
        (ToolCalled("call-1", "weather", {"city": "Oslo"}), FRAMING + 2 + estimate('{"city":"Oslo"}')),
        (Compacted(1, 9, 9, WORDS), FRAMING + estimate(WORDS)),
        (ContextRecalled("c", text=WORDS), FRAMING + estimate(WORDS)),
        (SkillActivated("s", text=WORDS), 0),
        (Noted("n", WORDS), 0),
        (Forked("parent", 3), 0),
    ],
)
def test_what_an_event_costs_in_a_prompt(event: Event, cost: int) -> None:
    assert of_event(event) == cost


def test_a_counter_takes_the_place_of_the_estimate() -> None:
    call = ToolCalled("call-1", "weather", {"city": "Oslo"})
    assert of_event(call, len) == FRAMING + len("weather") + len('{"city":"Oslo"}')
    assert of_event(MessageAdded("user", SAID), len) == FRAMING + len(WORDS) + 1
    assert of_part(File("text/plain", b"12345"), len) == LABEL + 5


@given(events())
def test_every_event_has_a_cost(event: Event) -> None:
    assert of_event(event) >= 0


@given(values)
def test_every_value_has_a_cost(value: object) -> None:
    assert of_part(Data("n", value)) >= 1


# --- marks -----------------------------------------------------------------------------------------------


def test_an_estimate_is_marked_as_one() -> None:
    assert str(Tokens(1234)) == "~1,234"
    assert str(Tokens(1234, estimated=False)) == "1,234"
    assert str(Tokens(0)) == "~0"


amounts = st.builds(Tokens, st.integers(0, 10**9), st.booleans())


@given(amounts, amounts)
def test_a_sum_is_estimated_if_a_part_of_it_is(one: Tokens, other: Tokens) -> None:
    assert one + other == Tokens(one.count + other.count, estimated=one.estimated or other.estimated)


def test_an_amount_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Tokens(1).count = 2  # type: ignore[misc]
