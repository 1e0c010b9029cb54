"""replay, where it is not as recorded: what is named, the first or all of it, and the command that shows more."""

import asyncio
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from chatfold import Agent, ScriptedModel, Store
from chatfold.eventlog import MessageAdded, ModelCalled, Text
from chatfold.replay.verify.rehearsal import rehearse
from tests.support.debugger.commanded import lines, run
from tests.support.debugger.recorded_bot import changed, edited, first, put, run_of, talked

QUESTIONS = ("Where is order 7?", "Where is order 8?", "Where is order 9?")
BOT = """
import socket
from chatfold import Agent, ScriptedModel
def kind(store):
    return Agent(store=store, model=ScriptedModel([]), instructions="Be kind.")
def brief(store):
    return Agent(store=store, model=ScriptedModel([]), instructions="Be brief.")
def calling(store):
    def about(key):
        try:
            socket.create_connection(("127.0.0.1", 9))
        except Exception:
            pass
        return {}
    return Agent(store=store, model=ScriptedModel([]), instructions="Be kind.", about=about)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, an export of its chat, and three agents: as recorded, changed, and one that calls home."""
    folder = tmp_path_factory.mktemp("diverging")

    async def record() -> None:
        async with Store(folder / "store") as store:
            agent = Agent(store=store, model=ScriptedModel(["On its way."] * 3), instructions="Be kind.")
            for question in QUESTIONS:
                await agent.run(question, chat="desk")
            await (await store.chat("desk")).export(folder / "desk.jsonl")

    asyncio.run(record())
    (folder / "bot.py").write_text(BOT)
    return folder


@pytest.fixture(autouse=True)
def here(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(recorded)


def replayed(chat: str, *args: str, agent: str = "brief", code: int = 1) -> str:
    done = run("replay", chat, "--agent", f"bot.py:{agent}", *args)
    assert done.exit_code == code, done.output
    return done.stdout


def commands(shown: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in shown.splitlines() if line.startswith("    more ")]


def calls(chat: str = "desk") -> list[int]:
    return [row["seq"] for row in lines(run("log", chat, "--kind", "model_called", "--json"))]


def test_a_divergence_names_the_entry_the_field_and_both_values() -> None:
    _, *told = replayed("desk").splitlines()
    seq = calls()[0]
    assert told[0] == f"  at e{seq} (t1, model call 1): model_called request.system line 3"
    assert told[1:3] == ['    recorded  "Be kind."', '    new       "Be brief."']
    assert told[3:] == ["    more      chatfold messages desk --for-call 1"]


def test_it_stops_at_the_first_one_or_goes_on_to_the_next_run() -> None:
    assert replayed("desk") == replayed("desk", "--on-divergence", "stop")
    shown = replayed("desk", "--on-divergence", "continue")
    assert shown.startswith(replayed("desk").partition(":")[0])
    named = [line.strip() for line in shown.splitlines() if line.startswith("  at ")]
    assert named == [
        f"at e{seq} (t{turn}, model call {turn}): model_called request.system line 3"
        for turn, seq in enumerate(calls(), 1)
    ]
    assert shown.count('recorded  "Be kind."') == shown.count('new       "Be brief."') == 3


def test_as_json_the_others_come_after_the_first() -> None:
    [stopped] = lines(run("replay", "desk", "--agent", "bot.py:brief", "--json"), 1)
    [all_] = lines(
        run("replay", "desk", "--agent", "bot.py:brief", "--on-divergence", "continue", "--json"), 1
    )
    assert stopped["divergence"] == all_["divergence"]
    assert (stopped["more"], [one["seq"] for one in all_["more"]]) == ([], calls()[1:])
    assert (stopped["runs"], all_["runs"], all_["turns"]) == (1, 3, 3)
    assert all_["unprovable"] == 0, "what was passed over is not called unprovable"


def test_the_command_that_is_printed_shows_more() -> None:
    for chat in ("desk", "desk.jsonl", "store/chats/desk"):
        shown = commands(replayed(chat, "--on-divergence", "continue"))
        assert [words[1:] for words in shown] == [
            ["messages", chat, "--for-call", str(call)] for call in (1, 2, 3)
        ]
        for words in shown:
            done = run(*words[1:])
            assert done.exit_code == 0, done.output
            assert "proved: this is what was sent" in done.output
            assert "Be kind." in done.output


def test_of_a_store_elsewhere_it_names_the_store(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = str(recorded / "store")
    done = run("replay", "desk", "--agent", f"{recorded / 'bot.py'}:brief", "--store", store)
    [words] = commands(done.stdout)
    assert words[1:] == ["messages", "desk", "--for-call", "1", "--store", store]
    assert run(*words[1:]).exit_code == 0


def test_an_attempt_to_reach_the_world_is_named_in_every_run() -> None:
    shown = replayed("desk", "--on-divergence", "continue", agent="calling")
    attempts = [line for line in shown.splitlines() if line.startswith("  refused: ")]
    assert len(attempts) == shown.count(": live socket.") == 3
    for words in commands(shown):
        assert words[1] == "show"
        assert run(*words[1:]).exit_code == 0


def test_the_report_for_ci_has_all_of_them(tmp_path: Path) -> None:
    for how, count in (("stop", 1), ("continue", 3)):
        replayed("desk", "--on-divergence", how, "--junit", str(tmp_path / "replay.xml"))
        [failure] = ET.parse(tmp_path / "replay.xml").iter("failure")
        assert str(failure.text).count("DIVERGED at e") == count


def test_an_agent_that_does_the_same_is_held_either_way() -> None:
    held = replayed("desk", agent="kind", code=0)
    assert held == replayed("desk", "--on-divergence", "continue", agent="kind", code=0)
    assert held.startswith("ok desk: ")


async def test_after_a_divergence_a_run_that_is_as_recorded_is_proved() -> None:
    chat = await run_of(Store.memory(), *QUESTIONS, model=ScriptedModel(["On its way."] * 3))
    asked = await first(chat, ModelCalled, 2)
    other = await edited(chat, asked.seq, model="another")
    found = await rehearse(other, lambda: Agent(model=ScriptedModel([])), goes_on=True)
    assert found.divergence is not None
    assert (found.divergence.seq, found.divergence.field) == (asked.seq, "model")
    assert (found.more, found.runs, found.proved, found.unprovable) == ((), 3, 2, 0)


def test_a_recording_that_was_changed_twice_is_named_once_or_twice(tmp_path: Path) -> None:
    """Without an agent the entries are compared with the fingerprints of the requests that they came into."""

    async def change() -> list[int]:
        chat = await talked(Store.memory(), *QUESTIONS)
        entries = [entry async for entry in chat.entries()]
        asked = [
            one.seq for one in entries if isinstance(one.event, MessageAdded) and one.event.role == "user"
        ]
        for seq in asked[:2]:
            entries[seq - 1] = changed(entries[seq - 1], parts=(Text("Another question"),))
        async with Store(tmp_path) as store:
            await put(store.log, "desk", entries)
        return asked[:2]

    def named(*args: str) -> list[int]:
        [found] = lines(run("replay", "desk", *args, "--json", "--store", tmp_path), 1)
        assert all(one["recorded"] != one["new"] for one in (found["divergence"], *found["more"]))
        return [one["cause_seq"] for one in (found["divergence"], *found["more"])]

    edited_seqs = asyncio.run(change())
    assert named() == edited_seqs[:1]
    assert {*named("--on-divergence", "continue")} >= {*edited_seqs}
