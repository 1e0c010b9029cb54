"""The page in a browser: what is seen, and what the keys and the address do."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.replay.web.browser import address, looking
from tests.replay.web.serving import Server
from tests.replay.web.story import CHAT

pytestmark = pytest.mark.campaign  # a browser takes seconds


def cursor(page: Page) -> int:
    return int((page.locator(".cursor").get_attribute("aria-valuenow")) or 0)


def is_at(page: Page, seq: int) -> None:
    expect(page.locator(".cursor")).to_have_attribute("aria-valuenow", str(seq))


def test_home_shows_the_chats_and_opens_one(browser: Browser, server: Server) -> None:
    with looking(browser, server) as page:
        expect(page.get_by_role("heading", name="2 chats")).to_be_visible()
        expect(page.get_by_text("請求書の PDF から表を取り出す")).to_be_visible()
        expect(page.locator(".home-row", has_text=CHAT).locator("svg.spark")).to_be_visible()
        assert "token" not in page.url
        page.get_by_role("button", name="2 forks").click()
        expect(page.get_by_text("http-retries-no-urllib3")).to_be_visible()
        page.get_by_text("The retry tests in tests/test_client.py").first.click()
        expect(page.get_by_role("slider", name="Timeline")).to_be_visible()
        assert page.url.startswith(f"{server.base}/c/{CHAT}")


def test_every_key_moves_as_its_sheet_says(browser: Browser, server: Server) -> None:
    with looking(browser, server, f"/c/{CHAT}?at=e50") as page:
        is_at(page, 50)
        events = {
            seq: line["what"]
            for seq, line in enumerate(server.ask("lines", chat=CHAT, first=1, last=500)["lines"], 1)
        }
        turns = [seq for seq, what in events.items() if what == "user"]
        compactions = [seq for seq, what in events.items() if what == "compacted"]
        switches = [seq for seq, what in events.items() if what in ("opened", "switched")]
        for key, seq in (
            ("J", next(one for one in turns if one > 50)), ("K", max(one for one in turns if one < next(two for two in turns if two > 50))),
            ("c", compactions[0]), ("c", compactions[1]), ("C", compactions[0]), ("s", switches[0]), ("s", switches[1]), ("S", switches[0]),
            ("g", 1), ("G", len(events)), ("c", len(events)),
        ):  # fmt: skip
            page.keyboard.press(key)
            is_at(page, seq)
        page.keyboard.press("X")
        failed = cursor(page)
        assert events[failed] == "result"
        expect(page.locator(".list .here.failed")).to_be_visible()
        for there, back in (("j", "k"), ("ArrowRight", "ArrowLeft"), ("ArrowDown", "ArrowUp"), (".", "k")):
            before = cursor(page)
            page.keyboard.press(there)
            expect(page.locator(".cursor")).not_to_have_attribute("aria-valuenow", str(before))
            page.keyboard.press(back)
            expect(page.locator(".list .here")).to_have_count(1)
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Command").fill("next comp")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_tabs_open_by_key_and_say_what_they_are_about(browser: Browser, server: Server) -> None:
    with looking(browser, server, f"/c/{CHAT}?at=m30") as page:
        is_at(page, 148)
        for key, name, text in (
            ("2", "Messages", "Exactly what was sent as request m30"), ("3", "Diff", "to"), ("4", "Event", "Request m30"),
            ("5", "Tree", "3 chats"), ("1", "Context", "tokens"),
        ):  # fmt: skip
            page.keyboard.press(key)
            expect(page.get_by_role("tab", name=re.compile(name))).to_have_attribute("aria-selected", "true")
            expect(page.locator("#pane")).to_contain_text(text)
        page.keyboard.press("t")
        expect(page.get_by_role("tab", name=re.compile("Tree"))).to_have_attribute("aria-selected", "true")


def test_the_address_holds_all_of_it_and_back_goes_back(browser: Browser, server: Server) -> None:
    with looking(browser, server, f"/c/{CHAT}?at=c1&tab=diff") as page:
        expect(page.get_by_role("heading", name="Compaction c1")).to_be_visible()
        first = page.url
        page.keyboard.press("c")
        expect(page.get_by_role("heading", name="Compaction c2")).to_be_visible()
        page.keyboard.press("1")
        expect(page.get_by_role("heading", name="Compaction c2")).to_have_count(0)
        page.go_back()
        expect(page.get_by_role("heading", name="Compaction c2")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Compaction c1")).to_be_visible()
        assert page.url == first
        page.keyboard.press("m")
        assert "a=e" in address(page)
        for _ in range(5):
            page.keyboard.press("j")
        page.keyboard.press("d")
        expect(page.locator(".points")).to_contain_text("to")
        link = page.url
        with looking(browser, server, link.removeprefix(server.base)) as other:
            expect(other.locator(".points")).to_have_text(
                page.locator(".points").inner_text(), use_inner_text=True
            )
        page.keyboard.press(":")
        page.get_by_role("textbox", name="Go to an address").fill("e901")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("There is no e901: the chat ends at e230.")
        page.get_by_role("textbox", name="Go to an address").fill("before-docs")
        page.keyboard.press("Enter")
        is_at(page, 95)


def test_two_calls_are_compared_by_their_names(browser: Browser, server: Server) -> None:
    with looking(browser, server, f"/c/{CHAT}?at=m30&a=m28&tab=diff") as page:
        seqs = [server.ask("point", chat=CHAT, at=name)["seq"] for name in ("m28", "m30")]
        expect(page.locator(".points")).to_have_text(f"A e{seqs[0]} to B e{seqs[1]}", use_inner_text=True)
        expect(page.locator("#pane")).to_contain_text("Prompt cache:")
        expect(page.locator(".difference-list")).to_contain_text("edit_file")


def test_a_compaction_says_what_left_and_what_was_kept(browser: Browser, server: Server) -> None:
    with looking(browser, server, f"/c/{CHAT}?at=c1&tab=diff") as page:
        pane = page.locator("#pane")
        expect(pane).to_contain_text("Prompt cache:")
        expect(pane.locator(".left-list")).to_contain_text("You must not touch vendor/")
        expect(pane.locator(".summary-text mark", has_text="vendor")).to_have_count(1)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy revert").click()
        assert page.evaluate("() => navigator.clipboard.readText()") == "await chat.revert_compaction(94)"


def test_why_follows_a_text_through_its_summaries(browser: Browser, server: Server) -> None:
    with looking(browser, server, f"/c/{CHAT}?why=must+not+touch+vendor") as page:
        pane = page.locator("#pane")
        for text in (
            "From e1, user, turn 1. The model does not see it now.",
            "19 were sent the text",
            "Left at c1",
            "Its summary left at c2",
            "Now",
        ):
            expect(pane).to_contain_text(text)
        expect(page.locator(".why-lane .why-itself")).to_have_count(1)
        expect(page.locator(".footer-command")).to_contain_text(
            "chatfold why http-retries 'must not touch vendor'"
        )
        page.get_by_role("button", name="Open c1^").click()
        is_at(page, 93)
        page.locator(".item .says button").first.focus()
        page.keyboard.press("b")
        expect(page.locator(".why-steps")).to_contain_text("Entered")
        page.keyboard.press("Escape")
        expect(page.locator(".why-steps")).to_have_count(0)


def test_a_selected_text_is_asked_about(browser: Browser, server: Server) -> None:
    with looking(browser, server, f"/c/{CHAT}?at=e1&tab=event") as page:
        expect(page.locator(".body-card")).to_contain_text("You must not touch vendor/")
        page.evaluate(
            "() => { const node = document.querySelector('.body-card p').firstChild; const at = node.data.indexOf('not touch');"
            "getSelection().setBaseAndExtent(node, at, node, at + 9); }"
        )
        page.keyboard.press("b")
        expect(page.locator(".why h2")).to_have_text("“not touch”")


def test_a_drag_and_the_wheel_move_and_zoom(browser: Browser, server: Server) -> None:
    with looking(browser, server, f"/c/{CHAT}?at=e10") as page:
        box = page.locator(".zoom .chart").bounding_box()
        assert box
        page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60, steps=5)
        page.mouse.up()
        expect(page.locator(".cursor")).to_have_attribute("aria-valuenow", re.compile("^11[3-7]$"))
        expect(page.locator(".brush")).to_have_attribute("aria-valuetext", "events 0 to 230 of 230")
        page.mouse.wheel(0, -400)
        expect(page.locator(".brush")).not_to_have_attribute("aria-valuetext", "events 0 to 230 of 230")
        page.keyboard.press("0")
        expect(page.locator(".brush")).to_have_attribute("aria-valuetext", "events 0 to 230 of 230")


def test_kinds_errors_and_search_narrow_the_list(browser: Browser, server: Server) -> None:
    with looking(browser, server, f"/c/{CHAT}") as page:
        rows = page.get_by_role("grid", name="Events")
        expect(page.get_by_role("button", name="6 errors")).to_be_enabled()
        page.keyboard.press("e")
        expect(rows).to_have_attribute("aria-rowcount", "6")
        page.keyboard.press("e")
        page.keyboard.press("f")
        page.get_by_label(re.compile("^ *compacted")).check()
        expect(rows).to_have_attribute("aria-rowcount", "2")
        page.get_by_role("button", name="All kinds").last.click()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.get_by_role("textbox", name="Search in this chat").fill("vendor")
        expect(page.locator(".find")).to_contain_text(re.compile(r"of \d+"))
        page.keyboard.press("Enter")
        expect(page.locator(".list mark").first).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator(".find")).to_have_count(0)


def test_search_on_home_says_what_the_model_still_sees(browser: Browser, server: Server) -> None:
    with looking(browser, server) as page:
        expect(page.get_by_role("heading", name="2 chats")).to_be_visible()
        page.keyboard.press("/")
        page.get_by_role("textbox", name="Search in everything").fill("vendor")  # typing outruns a busy page
        expect(page.get_by_role("status").first).to_contain_text("hits in 3 chats")
        expect(page.locator(".hit").first).to_contain_text("in the context")
        page.get_by_role("radio", name="Summaries").click()
        expect(page.locator(".hit").first).to_contain_text("not seen since c2")
        page.get_by_role("textbox", name="Search in everything").fill("nobody says this")
        expect(page.get_by_text("Nothing says “nobody says this”")).to_be_visible()


def test_two_heads_are_compared(browser: Browser, server: Server) -> None:
    with looking(browser, server, f"/c/{CHAT}?tab=tree") as page:
        page.locator(".graph-name", has_text="http-retries-what-if").click()
        expect(page.locator(".compare")).to_contain_text("The same up to")
        expect(page.locator(".compare")).to_contain_text("only B sees 2 items")


def test_on_a_phone_the_events_are_a_tab(browser: Browser, server: Server) -> None:
    with looking(browser, server, f"/c/{CHAT}", viewport={"width": 390, "height": 844}) as page:
        expect(page.locator(".item").first).to_be_visible()
        page.get_by_role("tab", name="Events").click()
        expect(page.get_by_role("grid", name="Events")).to_be_visible()
        page.get_by_role("button", name="Previous event").click()
        expect(page.locator(".phone-at")).to_have_text("@e229")
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
