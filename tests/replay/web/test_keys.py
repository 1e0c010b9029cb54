"""The keys that copy, play, zoom and go to another branch; those that move are in ``test_page``."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.replay.web.browser import looking
from tests.replay.web.serving import Server
from tests.replay.web.story import CHAT

pytestmark = pytest.mark.campaign  # a browser takes seconds


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with looking(browser, server, f"/c/{CHAT}?at=m30") as page:
        expect(page.locator(".cursor")).to_have_attribute("aria-valuenow", "148")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield page


def read_copied(page: Page, what: str) -> str:
    expect(page.locator(".toast")).to_contain_text(f"Copied {what}")
    return str(page.evaluate("() => navigator.clipboard.readText()"))


def test_what_is_copied_is_what_the_command_takes(page: Page, server: Server) -> None:
    page.keyboard.press("y")
    assert read_copied(page, "the address") == f"{CHAT}@e148"
    page.keyboard.press("!")
    assert read_copied(page, "chatfold context") == f"chatfold context {CHAT}@148"
    page.keyboard.press("Y")
    sent = server.ask("request", chat=CHAT, at="m30", **{"as": "sent"})["text"]
    assert read_copied(page, "the messages as JSON") == sent


def test_the_curl_line_is_a_whole_request(page: Page, server: Server) -> None:
    page.keyboard.press("2")
    page.get_by_role("button", name="curl").click()
    line = read_copied(page, "a curl command")
    assert line.startswith("curl https://api.")
    sent = json.loads(server.ask("request", chat=CHAT, at="m30", **{"as": "sent"})["text"])
    body = json.loads(line.partition("-d '")[2].removesuffix("'").replace("'\\''", "'"))
    assert body["model"] == "claude-sonnet-4-5"
    assert body == {"model": body["model"], **(sent if isinstance(sent, dict) else {"messages": sent})}


def test_it_plays_and_pauses(page: Page) -> None:
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.locator(".cursor")).to_have_attribute("aria-valuenow", re.compile("^15[2-9]$"))
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_the_timeline_is_zoomed_by_keys(page: Page) -> None:
    brush = page.locator(".brush")
    whole = "events 0 to 230 of 230"
    expect(brush).to_have_attribute("aria-valuetext", whole)
    page.keyboard.press("+")
    expect(brush).not_to_have_attribute("aria-valuetext", whole)
    page.keyboard.press("-")
    expect(brush).to_have_attribute("aria-valuetext", whole)
    page.keyboard.press("+")
    page.keyboard.press("0")
    expect(brush).to_have_attribute("aria-valuetext", whole)


def test_hits_are_gone_through_and_around(page: Page) -> None:
    page.keyboard.press("/")
    page.get_by_role("textbox", name="Search in this chat").fill("vendor")
    expect(page.locator(".find")).to_contain_text(re.compile(r"of \d+"))
    page.keyboard.press("Enter")
    page.locator(".list").focus()
    seen = []
    for key in ("n", "n", "N"):
        page.keyboard.press(key)
        seen.append(page.locator(".cursor").get_attribute("aria-valuenow"))
    assert seen[0] == seen[2] != seen[1]


def test_the_branches_beside_it_are_a_key_away(page: Page, server: Server) -> None:
    expect(page.get_by_role("button", name="2 forks")).to_be_visible()
    page.keyboard.press("]")
    expect(page).to_have_url(re.compile(f"^{server.base}/c/{CHAT}-[a-z0-9-]+\\?"))
    expect(page.locator(".graph")).to_be_visible()
    page.keyboard.press("[")
    expect(page).to_have_url(re.compile(f"^{server.base}/c/{CHAT}\\?"))


def test_the_pointer_is_told_what_it_stands_on(page: Page) -> None:
    box = page.locator(".zoom .chart").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 100.2 / 230, box["y"] + 60)
    expect(page.locator(".pointed .tip")).to_contain_text(re.compile(r"e100.*asked.*t4.*tokens"))
    page.mouse.move(box["x"], box["y"] + 500)
    expect(page.locator(".pointed")).to_have_count(0)
    expect(page.locator(".cursor")).to_have_attribute("aria-valuenow", "148")
