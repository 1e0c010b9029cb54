"""The command on imported chats: every verb of the debugger answers, on every fixture."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from chatfold import Store
from chatfold.replay.stepper.app import step
from tests.importers.fixtures import OTHERS, OWN
from tests.replay.web.serving import serving
from tests.support.debugger.commanded import run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("imported") / "store"
    done = run("import", str(OTHERS or OWN), "--json", store=root)
    assert done.exit_code == 0, done.output
    return root


def keys(root: Path) -> list[str]:
    async def listed() -> list[str]:
        async with Store(root, read_only=True) as store:
            return sorted([key async for key in store.log.chats()])

    return asyncio.run(listed())


@pytest.mark.parametrize("verb", ["log", "context", "messages", "stats", "why", "show", "diff", "replay"])
def test_a_verb_answers_on_every_fixture(verb: str, store: Path) -> None:
    found = keys(store)
    assert len(found) >= 40
    more = {"why": ["e"], "show": [], "diff": []}.get(verb, [])
    for key in found:
        address = f"{key}@1..head" if verb == "diff" else key
        done = run(verb, address, *more, store=store)
        assert done.exit_code in (0, 1), (key, done.output)


def test_the_stepper_answers_on_every_fixture(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for key in keys(store):
        reading, writing = os.pipe()
        os.write(writing, b"g\n2\n3\n4\nG\nq\n")
        os.close(writing)
        with os.fdopen(reading) as pressed:
            monkeypatch.setattr(sys, "stdin", pressed)
            assert asyncio.run(step(store, key)) == 0, key
        assert capsys.readouterr().out.count("\n") > 3, key


def test_the_page_answers_on_every_fixture(store: Path, tmp_path: Path) -> None:
    with serving(store, tmp_path) as page:
        for key in keys(store):
            end = page.ask("chat", chat=key)["chat"]["end"]
            shown = page.ask("lines", chat=key, first=1, last=end)["lines"]
            assert [line["seq"] for line in shown] == list(range(1, end + 1)), key
            assert page.ask("sight", chat=key)["sight"], key
            assert page.ask("event", chat=key, at="head")["event"], key
            assert page.ask("request", chat=key, at="head")["request"], key


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    done = run("import", str(OWN / "claude-code"), "--dry-run", store=tmp_path / "store")
    assert done.exit_code == 0
    assert "would come in" in done.output
    assert not (tmp_path / "store" / "chats").exists()
    assert not (tmp_path / "store" / "cache" / "imports").exists()


def test_a_format_that_nobody_knows_is_asked_wrongly(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    done = run("import", str(tmp_path / "notes.txt"), store=tmp_path / "store")
    assert done.exit_code == 2
    assert "Codex CLI" in done.output
    assert "damaged" not in done.output


@pytest.mark.parametrize("tool", ["codex", "claude-code", "seed-001"])
def test_a_dry_run_counts_what_an_import_writes(tool: str, tmp_path: Path) -> None:
    source = OWN / tool
    foretold = run("import", str(source), "--dry-run", "--json", store=tmp_path / "store")
    done = run("import", str(source), "--json", store=tmp_path / "store")
    assert foretold.stdout == done.stdout
    again = run("import", str(source), "--dry-run", store=tmp_path / "store")
    assert "0 new entries in 0 chats would come in" in again.output
