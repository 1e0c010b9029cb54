"""What the prompt rules of each number make of the same histories, kept for ever: shapes do not change unnoticed."""

import json
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chatfold.eventlog import Event, Unknown
from chatfold.projections.shapes import PROMPT_RULES
from tests.golden import make_requests
from tests.golden.make_requests import HERE, HISTORIES, requests

NUMBERS = sorted(int(path.stem) for path in HERE.iterdir())
KNOWN: Any = reduce(or_, (kind for kind in Event.__args__ if kind is not Unknown))


def kept(number: int) -> dict[str, dict[str, Any]]:
    histories: dict[str, dict[str, Any]] = json.loads((HERE / f"{number}.json").read_text())
    return histories


def events_of(history: dict[str, Any]) -> list[Event]:
    return [msgspec.convert(event, KNOWN) for event in history["events"]]


def test_the_numbers_have_no_gap_and_the_newest_is_that_of_today() -> None:
    assert [*range(1, PROMPT_RULES + 1)] == NUMBERS


@pytest.mark.parametrize("name", HISTORIES)
def test_the_rules_of_today_make_the_requests_of_the_newest_number(name: str) -> None:
    then = kept(NUMBERS[-1])[name]
    for shape, now in requests(events_of(then)).items():
        as_text = json.dumps(then[shape]), json.dumps(now)  # 1, 1.0 and True are told apart
        assert as_text[0] == as_text[1], f"{shape}: raise the number of the prompt rules"


@pytest.mark.parametrize("number", NUMBERS)
def test_a_file_of_requests_holds_every_history_and_shape(number: int) -> None:
    for history in kept(number).values():
        assert events_of(history)
        assert {*requests(events_of(history))} == {*history} - {"events"}


@pytest.mark.parametrize("number", NUMBERS)
def test_a_file_of_requests_is_written_once(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kept(number)
    monkeypatch.setattr(Path, "write_text", lambda *_: pytest.fail("it was written"))
    with pytest.raises(SystemExit, match="never made again"):
        make_requests.main(str(number))
    assert kept(number) == before
