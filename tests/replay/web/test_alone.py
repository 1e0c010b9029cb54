"""The page as one file: it opens from disk, asks for nothing, and holds what was asked for and nothing else."""

import asyncio
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from playwright.sync_api import Browser, expect

from chatfold import Store, assistant, user
from tests.replay.web.browser import opened
from tests.replay.web.serving import apart
from tests.replay.web.story import CHAT
from tests.support.debugger.commanded import run
from tests.support.debugger.pages import unpack

_WORDS = [
    "the",
    "lexer",
    "splits",
    "lines",
    "at",
    "form",
    "feeds",
    "because",
    "splitlines",
    "does",
    "so",
    "read",
    "file",
    "tests",
    "and",
    "run",
    "them",
    "again",
    "after",
    "this",
    "change",
    "in",
    "parser",
    "module",
    "error",
    "value",
    "token",
]


def text_of(file: Path) -> str:
    return unpack(file.read_text())


@pytest.mark.campaign
def test_it_shows_what_the_server_shows(browser: Browser, story: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert apart(run, "export", CHAT, "-o", str(file), store=story).exit_code == 0
    with opened(browser, "file://") as page:
        page.goto(file.as_uri())
        expect(page.get_by_role("heading", name="main")).to_be_visible()
        expect(page.locator(".list .here")).to_contain_text("finished")
        page.keyboard.press("g")
        page.keyboard.press("c")
        page.keyboard.press("3")
        expect(page.locator(".left-list")).to_contain_text("You must not touch vendor/")
        page.keyboard.press("b")
        expect(page.locator(".why-steps")).to_contain_text("Entered")
        page.keyboard.press("Escape")
        page.keyboard.press("X")
        page.keyboard.press("4")
        expect(page.locator(".body-card")).to_contain_text("failed, 157 passed")
        page.keyboard.press("2")
        expect(page.locator("#pane")).to_contain_text("chatfold messages")


def test_a_range_shares_nothing_that_was_said_before_or_after(
    browser: Browser, story: Path, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    assert apart(run, "export", f"{CHAT}@t4..t5", "-o", str(file), store=story).exit_code == 0
    said = text_of(file)
    assert "Back to the retries" in said
    for secret in (
        "flaky on CI",
        "exponential backoff",
        "docs build is broken",
        "Run the whole suite",
        "before-docs",
        "untouched",
    ):
        assert secret not in said, secret
    with opened(browser, "file://") as page:
        page.goto(file.as_uri())
        expect(page.locator(".list")).to_contain_text("Retry-After is honoured")
        page.keyboard.press("g")
        expect(page.locator(".list .here")).to_contain_text("not in this page")


def test_what_is_redacted_is_nowhere_in_it(story: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert "vendor" in text_of(_export(story, tmp_path / "whole.html"))
    assert apart(run, "export", CHAT, "-o", str(file), "--redact", "text:vendor", store=story).exit_code == 0
    assert "vendor" not in text_of(file).replace("vendor/preact.js", "").replace("vendor/make", "")


def _export(story: Path, file: Path) -> Path:
    assert apart(run, "export", CHAT, "-o", str(file), store=story).exit_code == 0
    return file


def test_its_policy_allows_its_own_script_and_style_and_nothing_else(story: Path, tmp_path: Path) -> None:
    page = _export(story, tmp_path / "page.html").read_text()
    [policy] = re.findall(r'content="(default-src[^"]*)"', page)
    rules = {name: value for name, _, value in (rule.partition(" ") for rule in policy.split("; "))}
    assert (rules["default-src"], rules["img-src"], rules["base-uri"]) == ("'none'", "data:", "'none'")
    for pattern, name in (
        ("<style>(.*?)</style>", "style-src"),
        ('<script type="module">(.*?)</script>', "script-src"),
    ):
        [text] = re.findall(pattern, page, re.DOTALL)
        assert rules[name] == f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_twenty_thousand_events_are_less_than_three_megabytes(tmp_path: Path) -> None:
    """Short ones, as people and tools say most: what is long has to be in it."""
    chance = Random(7)

    def said(words: int) -> str:
        return " ".join(chance.choice(_WORDS) for _ in range(words))

    async def record() -> None:
        async with Store(tmp_path / "store", durability="off") as store:
            chat = await store.chat("long")
            for _ in range(200):
                turns = ((user(said(12)), assistant(said(30))) for _ in range(50))
                await chat.record(*(event for turn in turns for event in turn))

    apart(asyncio.run, record())
    file = tmp_path / "page.html"
    assert apart(run, "export", "long", "-o", str(file), store=tmp_path / "store").exit_code == 0
    assert text_of(file).count('"kind":"message_added"') >= 20_000
    assert file.stat().st_size < 3_000_000
