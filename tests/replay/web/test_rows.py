"""The list of rows: whichever row is asked for is in sight, in a list longer than any element may be high."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from chatfold.replay.web.bundle import STATIC

pytestmark = pytest.mark.campaign  # a browser takes seconds
COUNT = 3_000_000
_MADE = """async (count) => {
  const { Rows } = await import("/rows.js");
  const list = document.body.appendChild(document.createElement("div"));
  list.style = "position: relative; height: 600px; overflow-y: auto; width: 300px;";
  const rows = new Rows(list, 24, (row, at) => { row.textContent = String(at); row.style.height = "24px"; row.style.position = "absolute"; }, () => null);
  rows.pane.style = "position: absolute; top: 0;";
  await new Promise(requestAnimationFrame);
  Object.assign(window, { list, rows });
  rows.show(count, 0, null);
}"""
_SHOWN = """async () => {
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  const box = list.getBoundingClientRect();
  return [...list.querySelectorAll(".row:not([hidden])")].map((row) => [Number(row.textContent), row.getBoundingClientRect()])
    .filter(([, at]) => at.top >= box.top - 1 && at.bottom <= box.bottom + 1).map(([at, place]) => [at, Math.round(place.top - box.top)]);
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    def serve(route: Route) -> None:
        name = route.request.url.rpartition("test/")[2]
        if name == "":
            route.fulfill(
                body="<!DOCTYPE html><style>body { margin: 0 } [hidden] { display: none }</style><body>",
                content_type="text/html",
            )
        else:
            route.fulfill(path=STATIC / name, content_type="text/javascript")

    context = browser.new_context(viewport={"width": 800, "height": 700})
    page = context.new_page()
    page.route("**/*", serve)
    page.goto("http://static.test/")
    page.evaluate(_MADE, COUNT)
    yield page
    context.close()


def _read_rows(page: Page) -> dict[int, int]:
    found: list[Any] = page.evaluate(_SHOWN)
    rows = dict(found)
    numbers = sorted(rows)
    assert numbers == list(range(numbers[0], numbers[-1] + 1)), "no row is missing, none stands twice"
    assert [rows[number] - rows[numbers[0]] for number in numbers] == [24 * i for i in range(len(numbers))]
    return rows


@pytest.mark.parametrize("at", [0, 1, 23, 499_999, 500_000, 1_234_567, COUNT - 2, COUNT - 1])
def test_any_row_of_three_millions_is_shown_when_it_is_asked_for(page: Page, at: int) -> None:
    page.evaluate("(at) => rows.show(rows.count, at, null)", at)
    assert at in _read_rows(page)
    assert page.evaluate("() => list.scrollHeight") <= 12_000_000


def test_a_step_moves_by_a_row_wherever_it_is(page: Page) -> None:
    for start in (700_000, COUNT - 40):
        page.evaluate("(at) => rows.show(rows.count, at, null)", start)
        before = _read_rows(page)
        page.evaluate("(at) => rows.show(rows.count, at, null)", start + 1)
        after = _read_rows(page)
        assert {number: after[number] for number in before if number in after} == {
            number: before[number] for number in before if number in after
        }


def test_scrolled_by_hand_it_reaches_both_ends(page: Page) -> None:
    page.evaluate("() => { list.scrollTop = list.scrollHeight; }")
    assert COUNT - 1 in _read_rows(page)
    page.evaluate("() => { list.scrollTop = 0; }")
    assert 0 in _read_rows(page)
