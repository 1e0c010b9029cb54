"""A browser that minds: an error of the page, a word on its console, a request to anywhere else, a breach of the policy fail the test."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.replay.web.serving import Server

expect.set_options(timeout=30_000)  # a machine may be busy
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def started() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("needs Debian's chromium: apt-get install --no-install-recommends chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, base: str, *, lost: bool = False, **options: Any) -> Iterator[Page]:
    """``lost``: the server may go away."""
    wrong: list[str] = []
    context = browser.new_context(
        **{"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark", **options}
    )
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on(
        "console",
        lambda said: (
            wrong.append(f"console: {said.text}") if not (lost and "Failed to load" in said.text) else None
        ),
    )
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    page.on(
        "request", lambda one: wrong.append(f"request: {one.url}") if not one.url.startswith(base) else None
    )
    page.add_init_script(
        "addEventListener('securitypolicyviolation', (e) => console.error('policy: ' + e.violatedDirective));"
    )
    yield page
    context.close()
    assert not wrong, wrong


@contextmanager
def looking(browser: Browser, server: Server, path: str = "/", **options: Any) -> Iterator[Page]:
    """At a page of the server, let in by its link."""
    with opened(browser, server.base, **options) as page:
        page.goto(f"{server.base}{path}{'&' if '?' in path else '?'}token={server.token}")
        yield page


def address(page: Page) -> str:
    """What comes after the chat."""
    return page.url.partition("?")[2]
