"""A recording that is not what it was: the page says where it first differs, from what to what, and why."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from chatfold import Store
from chatfold.eventlog import ModelCalled, Text, ToolReturned
from tests.replay.web.browser import looking
from tests.replay.web.serving import Server, apart, serving
from tests.replay.web.story import CHAT
from tests.support.debugger.recorded_bot import changed, put

pytestmark = pytest.mark.campaign  # a browser takes seconds


class Changed:
    """The story with one result of a tool changed, and the request that was then another."""

    result = asked = 0


@pytest.fixture(scope="module")
def diverging(story: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("diverging") / "agents"

    async def record() -> None:
        async with Store(story, read_only=True) as store:
            entries = [entry async for entry in (await store.chat(CHAT)).entries()]
        results = [entry.seq for entry in entries if isinstance(entry.event, ToolReturned)]
        Changed.result = results[len(results) // 2]
        Changed.asked = next(
            entry.seq for entry in entries[Changed.result :] if isinstance(entry.event, ModelCalled)
        )
        at = Changed.result - 1
        entries[at] = changed(entries[at], parts=(Text("max_delay=30.0"),))
        async with Store(folder, durability="off") as store:
            await put(store.log, CHAT, entries)

    apart(asyncio.run, record())
    with serving(folder, tmp_path_factory.mktemp("state")) as server:
        yield server


def test_the_first_difference_is_told_marked_and_led_to(browser: Browser, diverging: Server) -> None:
    with looking(browser, diverging, f"/c/{CHAT}") as page:
        page.get_by_role("button", name=f"Diverges at e{Changed.asked}").click()
        pane = page.locator("#pane")
        expect(pane).to_contain_text(f"Diverged at e{Changed.asked}: request m")
        expect(pane).to_contain_text(f"{Changed.asked - 1} of 230entries the same")
        expect(pane.locator(".values del")).to_have_count(1)
        expect(pane.locator(".values ins")).to_have_count(1)
        expect(pane.locator(".cause")).to_contain_text(f"e{Changed.result} tool_returned is not what it was")
        expect(page.locator(".diverged-text")).to_have_text(
            f"First divergence at e{Changed.asked}; not judged after it"
        )
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy pytest line").click()
        assert page.evaluate("() => navigator.clipboard.readText()") == f'assert_chat_replays("{CHAT}.jsonl")'
        page.get_by_role("button", name=f"Show e{Changed.result}").click()
        expect(page.locator(".body-card")).to_contain_text("max_delay=30.0")
        page.go_back()
        page.get_by_role("button", name=f"Open e{Changed.asked}").click()
        expect(page.locator(".list .here.divergent")).to_be_visible()


def test_the_request_itself_is_not_what_was_sent(browser: Browser, diverging: Server) -> None:
    with looking(browser, diverging, f"/c/{CHAT}?at=e{Changed.asked}&tab=messages") as page:
        expect(page.locator(".proof.red")).to_contain_text("Not what was sent")
        expect(page.locator(".proof.red .fingerprint")).to_have_count(2)
