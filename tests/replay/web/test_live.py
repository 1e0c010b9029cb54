"""What happens while somebody looks: entries arrive, the chat is deleted or damaged, the server ends and comes back."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from chatfold import Agent, ModelReply, ScriptedModel, Store, Text, user
from chatfold.agent.models import Piece
from chatfold.replay.web.desk import Desk
from chatfold.replay.web.live import tail
from tests.replay.web.browser import looking
from tests.replay.web.serving import Server, apart, serving

_WRITER = """
import asyncio, sys
from chatfold import Store, user, assistant
async def main():
    async with Store(sys.argv[1], durability="off") as store:
        chat = await store.chat("talk")
        for number in range(int(sys.argv[2])):
            await chat.record(user(f"from another process {number}"))
asyncio.run(main())
"""

_ANSWERING = """
import asyncio, sys
from chatfold import Agent, ModelReply, ScriptedModel, Text
from chatfold.agent.models import Piece
class Slow(ScriptedModel):
    async def ask(self, payload):
        yield Piece("The lexer")
        await asyncio.to_thread(sys.stdin.readline)
        yield Piece(" splits at blanks.")
        await asyncio.to_thread(sys.stdin.readline)
        yield ModelReply((Text("The lexer splits at blanks."),))
async def main():
    async with Agent(Slow([]), store=sys.argv[1]) as agent:
        await agent.run("Why?", chat="talk")
asyncio.run(main())
"""

_SLOW = """
import asyncio
from starlette.applications import Starlette
from starlette.routing import Route
from chatfold.replay.web import serving
async def answer(_):
    print("asked", flush=True)
    await asyncio.sleep(60)
serving.make_app = lambda *_, **__: Starlette(routes=[Route("/{path:path}", answer)])
try:
    asyncio.run(serving.serve(None, browser=False, port=0, say=lambda text: print(text, flush=True)))
except KeyboardInterrupt:
    pass
"""

pytestmark = pytest.mark.campaign  # a browser takes seconds


def _chat(folder: Path, count: int) -> None:
    async def record() -> None:
        async with Store(folder, durability="off") as store:
            chat = await store.chat("talk")
            for number in range(count):
                await chat.record(user(f"said {number}"))

    apart(asyncio.run, record())


def test_entries_of_another_process_arrive_and_move_no_cursor(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    _chat(store, 40)
    with serving(store, tmp_path) as server, looking(browser, server, "/c/talk?at=e12") as page:
        expect(page.locator(".live .dot:not(.off)")).to_be_visible()
        subprocess.run([sys.executable, "-c", _WRITER, str(store), "25"], check=True)
        expect(page.locator(".new-events")).to_contain_text("25 new events")
        expect(page.locator(".cursor")).to_have_attribute("aria-valuenow", "12")
        page.keyboard.press("F")
        expect(page.locator(".cursor")).to_have_attribute("aria-valuenow", "65")
        expect(page.locator(".list .here")).to_contain_text("from another process 24")
        subprocess.run([sys.executable, "-c", _WRITER, str(store), "1"], check=True)
        expect(page.locator(".cursor")).to_have_attribute("aria-valuenow", "66")


def test_nothing_is_missed_while_the_server_was_away(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    _chat(store, 10)
    with serving(store, tmp_path) as server:
        port = server.port
        with looking(browser, server, "/c/talk?at=e5", lost=True) as page:
            expect(page.locator(".live .dot:not(.off)")).to_be_visible()
            server.end()
            expect(page.get_by_role("alert")).to_contain_text("chatfold view has stopped")
            page.keyboard.press("j")
            expect(page.locator(".cursor")).to_have_attribute("aria-valuenow", "6")
            _chat(store, 7)
            with serving(store, tmp_path, port=port):
                expect(page.locator(".new-events")).to_contain_text("7 new events", timeout=10_000)
                expect(page.get_by_role("alert")).to_have_count(0)
                page.keyboard.press("G")
                expect(page.locator(".list .here")).to_contain_text("said 6")


def test_ctrl_c_ends_at_once_with_a_page_open(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    _chat(store, 3)
    with serving(store, tmp_path) as server, looking(browser, server, "/c/talk", lost=True) as page:
        expect(page.locator(".live .dot:not(.off)")).to_be_visible()
        began = time.monotonic()
        assert server.end() == 130
        assert time.monotonic() - began < 5
        assert "Traceback" not in (server.process.stderr.read() if server.process.stderr else "")


def test_ctrl_c_cuts_off_a_long_question_without_a_word(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _SLOW],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    server = Server(process, process.stdout.readline().split()[-1])
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(server.get, "/slow")
        while "asked" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        asked.exception()
    assert said == ""


def test_a_chat_that_is_deleted_while_looking_is_said_to_be_gone(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    _chat(store, 5)
    with serving(store, tmp_path) as server, looking(browser, server, "/c/talk", lost=True) as page:
        expect(page.locator(".live .dot:not(.off)")).to_be_visible()

        async def delete() -> None:
            async with Store(store) as open_store:
                await open_store.delete("talk")

        apart(asyncio.run, delete())
        expect(page.get_by_role("alert")).to_be_visible(timeout=10_000)
        page.reload()
        expect(page.get_by_text("This chat is gone")).to_be_visible()


def test_damage_is_told_with_the_place_and_the_command(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    _chat(store, 30)
    [segment] = (store / "chats" / "talk").glob("*.jsonl")
    data = segment.read_bytes()
    at = data.index(b"said 11")
    segment.write_bytes(data[:at] + b"SAID" + data[at + 4 :])
    shutil.rmtree(store / "chats" / "talk" / "cache", ignore_errors=True)
    with serving(store, tmp_path) as server, looking(browser, server, "/c/talk", lost=True) as page:
        expect(page.locator("body")).to_contain_text("damage", ignore_case=True)


def test_damage_while_looking_is_told_where_it_is_met(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    _chat(store, 30)
    with serving(store, tmp_path) as server, looking(browser, server, "/c/talk?tab=event", lost=True) as page:
        expect(page.locator(".body-card")).to_contain_text("said 29")
        [segment] = (store / "chats" / "talk").glob("*.jsonl")
        data = segment.read_bytes()
        at = data.index(b"said 11")
        segment.write_bytes(data[:at] + b"SAID" + data[at + 4 :])
        page.keyboard.press(":")
        page.get_by_role("textbox", name="Go to an address").fill("e12")
        page.keyboard.press("Enter")
        expect(page.locator("#pane")).to_contain_text("This log is damaged")
        expect(page.locator("#pane .command")).to_contain_text("chatfold check talk")


def test_a_checkpoint_is_marked_as_soon_as_it_is_set(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    _chat(store, 20)

    async def set_checkpoint() -> None:
        async with Store(store, durability="off") as open_store:
            await (await open_store.chat("talk")).checkpoint("here")

    with serving(store, tmp_path) as server, looking(browser, server, "/c/talk?at=e5") as page:
        expect(page.locator(".live .dot:not(.off)")).to_be_visible()
        apart(asyncio.run, set_checkpoint())
        expect(page.locator(".marks button.checkpoint")).to_have_count(1)


def test_the_pieces_of_an_answer_that_is_coming_are_passed_on() -> None:
    async def watch() -> list[bytes]:
        may_end, ended, found = asyncio.Event(), asyncio.Event(), []

        class Slow(ScriptedModel):
            async def ask(self, payload: dict[str, Any]) -> AsyncIterator[Piece | ModelReply]:
                yield Piece("The ")
                yield Piece("answer")
                await may_end.wait()
                yield ModelReply((Text("The answer stands"),))

        async with Store.memory() as store, Agent(Slow([]), store=store) as agent:
            await (await store.chat("talk")).user("hello")
            run = asyncio.create_task(agent.run("and?", chat="talk"))
            desk = Desk(store, "memory", "memory")
            async for piece in tail(desk, await desk.chat("talk"), 1, ended):
                found.append(piece)
                if b"event: delta" in piece and b"answer" in piece:
                    may_end.set()
                if b"event: append" in piece and b"The answer stands" in piece:
                    ended.set()
            await run
            return found

    pieces = apart(asyncio.run, watch())
    deltas = [piece for piece in pieces if b"event: delta" in piece]
    assert [json.loads(one.partition(b"data: ")[2])["text"] for one in deltas] == ["The ", "answer"]
    assert b"The answer stands" in pieces[-1]
    assert b"id: " in pieces[-1]


def test_an_answer_that_an_agent_elsewhere_is_given_grows(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    _chat(store, 1)
    with serving(store, tmp_path) as server, looking(browser, server, "/c/talk") as page:
        expect(page.locator(".live .dot:not(.off)")).to_be_visible()
        answering = subprocess.Popen(
            [sys.executable, "-c", _ANSWERING, str(store)], stdin=subprocess.PIPE, text=True
        )
        expect(page.locator(".coming .said")).to_have_text("The lexer")
        assert answering.stdin
        answering.stdin.write("go on\n")
        answering.stdin.flush()
        expect(page.locator(".coming .said")).to_have_text("The lexer splits at blanks.")
        answering.communicate("go on\n", timeout=30)
        expect(page.locator(".list")).to_contain_text("The lexer splits at blanks.")
        expect(page.locator(".coming")).to_have_count(0)


def test_what_is_new_since_the_last_look_is_marked(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    _chat(store, 10)
    with serving(store, tmp_path) as server, looking(browser, server, "/c/talk") as page:
        expect(page.locator(".list .here")).to_contain_text("said 9")
        expect(page.locator(".cursor")).to_be_visible()
        expect(page.locator(".first-new")).to_have_count(0)
        page.goto(server.base)
        expect(page.locator(".home-row")).to_be_visible()
        _chat(store, 5)
        page.goto(f"{server.base}/c/talk")
        expect(page.locator(".first-new")).to_have_attribute("title", "New since you looked last")
        expect(page.locator(".first-new .seq")).to_have_text("11")


def test_a_fork_is_made_if_the_page_may(browser: Browser, tmp_path: Path) -> None:
    store = tmp_path / "store"
    _chat(store, 9)
    with serving(store, tmp_path, "--write") as server, looking(browser, server, "/c/talk?at=e4") as page:
        page.get_by_role("button", name="Fork here").click()
        page.get_by_role("textbox", name="Name of the fork").fill("what if")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="said 0")).to_be_visible()
        expect(page).to_have_url(f"{server.base}/c/what%20if")
