"""``chatfold view`` in Debian's chromium: what somebody at the page waits for, on a chat of 100,000 events and on one of 1,000,000.

Cold: a new server, its caches there. Warm: the same server again, in a new page. A step is a key, and all the work of its frame: script, layout
and paint; so is a frame of a drag. It needs the extra ``test`` (Playwright) and ``chromium``.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from benchmarks.machine import HERE, environment
from benchmarks.measure import Row, at_most, limited, progress
from benchmarks.projections_store import CHAT, build
from chatfold import Store, user

_PROGRAM = "from chatfold.replay.cli import main; main()"
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
_ROWS = "() => document.querySelector('.list .here .says:not(:empty) bdi')"
_WORK = """() => new Promise((done) => {
  const channel = new MessageChannel(), began = performance.now();
  channel.port1.onmessage = () => done(performance.now() - began);
  channel.port2.postMessage(0);
})"""  # called as a frame begins, it tells when all of its script, layout and paint is done
_STEPS = (
    "async (count) => { const work = "
    + _WORK
    + """, taken = [];
  for (let i = 0; i < count; i++) {
    await new Promise((next) => setTimeout(next, 120));
    await new Promise(requestAnimationFrame);
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'j', bubbles: true }));
    taken.push(await work());
  }
  return taken; }"""
)
_DRAG = (
    "async (count) => { const work = "
    + _WORK
    + """, taken = [], area = document.querySelector('.zoom'), box = area.getBoundingClientRect();
  area.setPointerCapture = () => {};
  const fire = (kind, x) => area.dispatchEvent(new PointerEvent(kind, { clientX: box.left + x, clientY: box.top + 80, bubbles: true }));
  fire('pointerdown', 100);
  for (let i = 0; i < count; i++) {
    fire('pointermove', 100 + i * (box.width - 200) / count);
    await new Promise(requestAnimationFrame);
    taken.push(await work());
  }
  fire('pointerup', 0);
  return taken; }"""
)


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    sizes = (5_000, 20_000) if quick else (100_000, 1_000_000)
    rounds = 3 if quick else 7
    with sync_playwright() as playwright:
        browser = launched(playwright)
        yield from _home(folder / "many", browser, 500 if quick else 10_000, rounds)
        opened: dict[int, float] = {}
        for size in sizes:
            progress(f"building a chat of {size:,} entries")
            root = folder / str(size)
            run_apart(build(root, 8, size))
            found = list(_chat(root, browser, size, rounds))
            opened[size] = next(row.value or 0 for row in found if "rows, cold" in row.name)
            yield from found
        small, large = sizes
        yield limited(
            f"rows, cold: {large:,} events against {small:,}",
            "x",
            [opened[large] / opened[small]],
            "",
            at_most(2),
        )
        browser.close()


def launched(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=shutil.which("chromium") or "", args=_FLAGS)


def _home(root: Path, browser: Browser, count: int, rounds: int) -> Iterator[Row]:
    async def record() -> None:
        async with Store(root, durability="off") as store:
            for number in range(count):
                await (await store.chat(f"chat-{number}")).record(user(f"question {number}"))

    progress(f"building {count:,} chats")
    run_apart(record())
    with served(root) as (base, token, _):
        taken = [
            _opening(browser, base, token, "/", "() => document.querySelector('.home-row')")
            for _ in range(rounds + 1)
        ]
    yield limited(f"Home, {count:,} chats, warm", "ms", taken[1:], "", at_most(500))


def _chat(root: Path, browser: Browser, size: int, rounds: int) -> Iterator[Row]:
    path = f"/c/{CHAT}?at=e{size // 2}"
    with served(root) as (base, token, _):  # makes the caches
        _opening(browser, base, token, path, "() => document.querySelector('.chart')", seconds=600)
    cold = []
    for _ in range(rounds):
        with served(root) as (base, token, _):
            cold.append(_opening(browser, base, token, path, _ROWS))
    yield limited(f"{size:,}: rows, cold", "ms", cold, "", at_most(500))
    with served(root) as (base, token, pid):
        warm = [_opening(browser, base, token, path, _ROWS) for _ in range(rounds + 1)]
        yield limited(f"{size:,}: rows, warm", "ms", warm[1:], "", at_most(150))
        with opened_page(browser, base, token, path) as page:
            page.wait_for_function("() => document.querySelector('.chart')", timeout=600_000)
            page.wait_for_timeout(500)
            yield limited(f"{size:,}: step, p50", "ms", [median(page.evaluate(_STEPS, 60))], "", at_most(16))
            yield limited(f"{size:,}: details after rest", "ms", _details(page, rounds), "", at_most(50))
            drag = quantiles(page.evaluate(_DRAG, 120), n=20)[-1]
            yield limited(f"{size:,}: drag, work of a frame, p95", "ms", [drag], "", at_most(16))
            yield limited(f"{size:,}: append to page", "ms", _appends(page, root, rounds), "", at_most(50))
        bare = _resident(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE), end=True)
        yield limited(
            f"{size:,}: server above the interpreter", "MB", [_resident(pid) - bare], "", at_most(150)
        )


def run_apart(work: Coroutine[Any, Any, Any]) -> None:
    """In a thread of its own: the driver of the browser holds the loop of this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


@contextmanager
def served(root: Path) -> Iterator[tuple[str, str, int]]:
    state = {"XDG_STATE_HOME": str(root.parent / "state"), "XDG_CACHE_HOME": str(root.parent / "cache")}
    command = [sys.executable, "-c", _PROGRAM, "view", "--no-open", "--port=0", "--store", str(root)]
    process = subprocess.Popen(
        command, cwd=HERE.parent, env={**environment(), **state}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        link = re.search(r"http://\S+", process.stdout.readline())
        assert link
        base, _, token = link[0].partition("/?token=")
        yield base, token, process.pid
    finally:
        process.send_signal(2)
        process.wait()
        process.stdout.close()


@contextmanager
def opened_page(browser: Browser, base: str, token: str, path: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"{base}/favicon.ico?token={token}")  # the session, and nothing of the page
    page.goto(base + path, wait_until="commit")
    yield page
    context.close()


def _opening(browser: Browser, base: str, token: str, path: str, seen: str, seconds: float = 60) -> float:
    """From the navigation until that is there, in milliseconds, by the page's own clock."""
    watched = f"() => {{ const there = ({seen})(); return there && performance.now(); }}"
    with opened_page(browser, base, token, path) as page:
        found = page.wait_for_function(watched, timeout=seconds * 1000, polling="raf").json_value()
    return float(found)


def _details(page: Page, rounds: int) -> list[float]:
    """From a key until the event's body is there, less the rest that is waited for."""
    page.keyboard.press("4")
    page.wait_for_selector(".facts")
    program = """() => new Promise((done) => {
      const before = document.querySelector('.facts').textContent, began = performance.now();
      const watch = new MutationObserver(() => {
        if (document.querySelector('.facts')?.textContent !== before) { watch.disconnect(); done(performance.now() - began); }
      });
      watch.observe(document.querySelector('#pane'), { childList: true, subtree: true, characterData: true });
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'J', bubbles: true }));
    })"""
    taken = []
    for _ in range(rounds):
        page.wait_for_timeout(400)
        taken.append(float(page.evaluate(program)))
    page.keyboard.press("1")
    return taken


def _appends(page: Page, root: Path, rounds: int) -> list[float]:
    """From when an append has returned, in another process, until the page says that there is something new."""
    told: list[float] = []

    async def write() -> None:
        async with Store(root, durability="off") as store:
            chat = await store.chat(CHAT)
            for number in range(rounds):
                await chat.record(user(f"new {number}"))
                told.append(time.time() * 1000)
                await asyncio.sleep(0.7)

    return noticed(page, told, write)


def noticed(page: Page, told: list[float], write: Callable[[], Coroutine[Any, Any, None]]) -> list[float]:
    """Milliseconds from each time that ``write`` tells until the page says that there is something new."""
    program = """() => { window.seen = []; new MutationObserver(() => {
      const text = document.querySelector('.new-events')?.textContent;
      if (text && text !== window.last) { window.last = text; window.seen.push(Date.now()); }
    }).observe(document.querySelector('.events'), { childList: true, subtree: true, characterData: true }); }"""
    page.evaluate(program)
    run_apart(write())
    page.wait_for_timeout(500)
    seen = page.evaluate("() => window.seen")
    return [max(0.0, at - said) for said, at in zip(told, seen, strict=True)]


def _resident(of: "int | subprocess.Popen[bytes]", *, end: bool = False) -> float:
    pid = of if isinstance(of, int) else of.pid
    if end:
        time.sleep(0.3)
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    if end and not isinstance(of, int):
        of.communicate(b"\n")
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
