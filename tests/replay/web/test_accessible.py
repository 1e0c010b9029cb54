"""What axe-core finds on every screen, in both themes: nothing. It is had from npm by ``.ci/run``, which says where: CHATFOLD_AXE."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.replay.web.browser import looking
from tests.replay.web.serving import Server
from tests.replay.web.story import CHAT

pytestmark = pytest.mark.campaign  # a browser takes seconds
_AXE = os.environ.get("CHATFOLD_AXE", "")
SCREENS = {
    "home": "/",
    "search": "/?q=vendor",
    "context": f"/c/{CHAT}?at=e150&a=e119",
    "lifetimes": f"/c/{CHAT}?mode=lifetimes",
    "messages": f"/c/{CHAT}?at=m30&tab=messages",
    "compaction": f"/c/{CHAT}?at=c1&tab=diff",
    "difference": f"/c/{CHAT}?at=e140&a=e100&tab=diff",
    "event": f"/c/{CHAT}?at=e179&tab=event",
    "tree": f"/c/{CHAT}?tab=tree&other=http-retries-what-if",
    "why": f"/c/{CHAT}?why=must+not+touch",
    "replay": f"/c/{CHAT}?judge=1",
}


@pytest.mark.skipif(not _AXE, reason="needs axe-core from npm: CHATFOLD_AXE=…/axe.min.js")
@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing(browser: Browser, server: Server, screen: str, theme: str) -> None:
    check(browser, server, screen, color_scheme=theme)


@pytest.mark.skipif(not _AXE, reason="needs axe-core from npm: CHATFOLD_AXE=…/axe.min.js")
@pytest.mark.parametrize("screen", ["home", "context", "messages", "compaction", "tree", "why", "replay"])
def test_axe_finds_nothing_on_a_phone(browser: Browser, server: Server, screen: str) -> None:
    check(browser, server, screen, viewport={"width": 390, "height": 844})


def check(browser: Browser, server: Server, screen: str, **options: Any) -> None:
    with looking(browser, server, SCREENS[screen], bypass_csp=True, **options) as page:
        expect(page.locator("#pane, .home-row, .hit").first).to_be_visible()
        expect(page.locator("#pane .loading")).to_have_count(0)
        page.wait_for_timeout(400)
        page.evaluate(Path(_AXE).read_text())
        found = page.evaluate(
            "async () => (await axe.run()).violations.map((v) => [v.id, v.help, v.nodes.slice(0, 4).map((n) => n.html.slice(0, 200) + ' ' + (n.any[0]?.message ?? ''))])"
        )
    assert not found, "\n".join(f"{name}: {said}\n  " + "\n  ".join(nodes) for name, said, nodes in found)
