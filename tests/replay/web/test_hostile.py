"""Hostile text in every field: it is shown, as text. Nothing is made of it, nothing is asked for, nothing runs."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from chatfold import Store, assistant, events, user
from chatfold.eventlog import Text
from tests.replay.web.browser import looking, opened
from tests.replay.web.serving import Server, apart, serving
from tests.support.debugger.commanded import run

EVIL = (
    "<img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)> ![p](https://evil.example/p.png) "
    "[x](javascript:alert(4)) <a href='javascript:alert(5)'>c</a> \u202eright\u202c \x1b[2J\x07 \ud800 ]]> </script> ${alert(6)} {{7*7}} `<b>`"
)
KEY = "<img src=x onerror=alert(7)>"

pytestmark = pytest.mark.campaign  # a browser takes seconds


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "<b>store"

    async def record() -> None:
        async with Store(folder, durability="off") as store:
            chat = await store.chat(KEY)
            await chat.record(events.ChatStarted(KEY, EVIL))
            await chat.user(EVIL)
            await chat.record(assistant(EVIL))
            call = await chat.tool_call(EVIL, {EVIL: EVIL, "path": EVIL})
            await chat.record(call.result(EVIL, failed=True))
            await chat.inject(EVIL, source=EVIL)
            await chat.record(
                events.ModelCalled(EVIL, "f" * 32, tools=(EVIL,), provider=EVIL),
                events.ModelReturned(error=EVIL),
            )
            await chat.checkpoint(EVIL)
            await chat.record(
                events.Noted(EVIL, {EVIL: [EVIL]}),
                events.RunStarted(EVIL),
                events.RunFinished("failed", EVIL),
            )
            await chat.record(
                user("x" * 5_000_000),
                user(
                    "```js\n"
                    + EVIL
                    + "\n```\n\n# "
                    + EVIL
                    + "\n\n- "
                    + EVIL
                    + "\n\n|"
                    + EVIL
                    + "|b|\n|--|--|\n|a|b|"
                ),
            )
            await chat.record(events.Compacted(2, 5, 4, EVIL, EVIL))
            await chat.new_context(EVIL, EVIL)
            await chat.user("> " * 20_000 + "deep\n\n" + "[" * 9_000 + "**a " * 3_000 + "`" * 9_000)
            await chat.fork(
                EVIL.encode("ascii", "ignore").decode()[:60].replace("\x1b", "").replace("\x07", ""), at=3
            )

    apart(asyncio.run, record())
    return folder


@pytest.fixture(scope="module")
def hostile_server(hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(hostile, tmp_path_factory.mktemp("state")) as server:
        yield server


_MADE = "() => document.querySelectorAll('img, script:not([src]), iframe, object, a[href^=javascript], [onerror], [onload]').length"


def test_it_is_text_wherever_it_is_shown(browser: Browser, hostile_server: Server) -> None:
    from urllib.parse import quote

    chat = f"/c/{quote(KEY, safe='')}"
    with looking(browser, hostile_server) as page:
        expect(page.locator(".home-row").first).to_contain_text("<img src=x onerror=alert(1)>")
        assert page.evaluate(_MADE) == 0
        for seq in range(1, 18):
            for tab in (
                ("event", "context") if seq != 16 else ("event", "context", "messages", "diff", "tree")
            ):
                page.goto(f"{hostile_server.base}{chat}?at=e{seq}&tab={tab}")
                expect(page.locator("#pane")).not_to_be_empty()
                expect(page.locator("#pane .loading")).to_have_count(0)
                assert page.evaluate(_MADE) == 0, (seq, tab)
        page.goto(f"{hostile_server.base}{chat}?at=e2&tab=event")
        expect(page.locator(".body-card")).to_contain_text("<script>alert(2)</script>")
        expect(page.locator(".body-card .control-character").first).to_have_text("202E")
        page.get_by_role("radio", name="JSON").click()
        expect(page.locator(".json")).to_contain_text("<script>alert(2)</script>")
        page.goto(f"{hostile_server.base}{chat}?why=e2")
        expect(page.locator(".why")).to_contain_text("<img src=x onerror=alert(1)>")
        page.goto(f"{hostile_server.base}/?q=alert")
        expect(page.locator(".hit").first).to_contain_text("alert")
        assert page.evaluate(_MADE) == 0


def test_marks_without_end_are_text_too(browser: Browser, hostile_server: Server) -> None:
    """Quotes in quotes, and one opening after the other: a page that recurses, or looks ahead to the end each time, stands still."""
    from urllib.parse import quote

    with looking(browser, hostile_server, f"/c/{quote(KEY, safe='')}?at=e17&tab=event") as page:
        page.get_by_role("button", name=re.compile("^Show all")).click()
        expect(page.locator(".body-card")).to_contain_text("deep")
        expect(page.locator(".body-card blockquote")).to_have_count(6)


def test_five_megabytes_are_folded_and_there_on_demand(browser: Browser, hostile_server: Server) -> None:
    with looking(browser, hostile_server, "/") as page:
        from urllib.parse import quote

        value = hostile_server.ask("lines", chat=KEY, first=1, last=50)["lines"]
        seq = next(line["seq"] for line in value if line.get("text", "").startswith("xxxxx"))
        page.goto(f"{hostile_server.base}/c/{quote(KEY, safe='')}?at=e{seq}&tab=event")
        expect(page.locator(".event")).to_contain_text("5.0 MB")
        assert page.evaluate("() => document.querySelector('#pane').textContent.length") < 80_000
        page.get_by_role("button", name="Show all, 5.0 MB").click()
        page.wait_for_function("() => document.querySelector('#pane').textContent.length > 4_900_000")
        page.keyboard.press("2")
        page.locator("#pane").get_by_role("button", name="Show all, 5.0 MB").click()
        expect(page.locator("#pane")).to_contain_text("The first 65.5 kB of 5.0 MB. The event has all of it.")


def test_the_page_as_one_file_is_no_weaker(browser: Browser, hostile: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert apart(run, "export", KEY, "-o", str(file), store=hostile).exit_code == 0
    with opened(browser, "file://") as page:
        page.goto(file.as_uri())
        for key in ("g", "4", "j", "j", "j", "1", "3", "5"):
            page.keyboard.press(key)
            expect(page.locator(".cursor")).to_be_visible()
        assert (
            page.evaluate(
                "() => document.querySelectorAll('img, iframe, a[href^=javascript], [onerror]').length"
            )
            == 0
        )
        assert Text("<img src=x onerror=alert(1)>").text in page.locator("body").inner_text()
