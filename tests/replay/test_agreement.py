"""What ``show``, ``step`` and ``--json`` say of a chat is the same: pairs, kinds, contexts, differences, forks."""

import asyncio
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from chatfold.agent import Chat, Store
from chatfold.eventlog import Event
from chatfold.replay.inspect.cursor import Replay
from chatfold.replay.inspect.entries import KIND_NAMES, LABELS
from chatfold.replay.stepper.detail import details
from chatfold.replay.stepper.keymap import begin, press
from chatfold.replay.stepper.state import Session
from chatfold.replay.terminal import printable
from tests.support.debugger.commanded import lines, run
from tests.support.histories import talks
from tests.support.profile import searched

_WIDE = 1 << 20


def squeezed(text: str) -> str:
    """Without blanks: how lines are wrapped and aligned is the medium's."""
    return re.sub(r"\s+", "", text)


async def stepped(store: Path, *keys: str) -> list[str]:
    """What the detail pane shows after these keys, line by line."""
    async with Store(store, read_only=True) as place:
        session = Session(place, Replay(await place.chat("chat")))
        state = begin(session)
        for key in keys:
            state = await press(session, state, key)
        found = await details(session, state, _WIDE)
        return [printable(line.text) for line in found]


@searched(1 / 4)
@given(talks(), st.data())
def test_show_step_and_json_agree(talk: list[Event], data: st.DataObject) -> None:
    async def make(root: Path) -> Chat:
        async with Store(root, durability="off") as store:
            chat = await store.chat("chat")
            for event in talk:
                await chat.record(event)
            if chat.seq:
                await chat.fork("chat-fork", at=data.draw(st.integers(1, chat.seq)))
            return chat

    with TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        end = asyncio.run(make(store)).seq
        if not end:
            return
        seq = data.draw(st.integers(1, end))
        go = (":", *f"e{seq}", "enter")

        [json] = lines(run("show", f"chat@{seq}", "--json", store=store))
        printed = run("show", f"chat@{seq}", store=store).stdout
        pane = asyncio.run(stepped(store, *go, "4"))
        assert squeezed("".join(pane)) == squeezed(printed)
        assert json["kind"] in pane[0]
        for name, other in json["belongs"].items():
            assert f"{name:<8} e{other}" in pane

        [context] = lines(run("context", f"chat@{seq}", "--json", store=store))
        pane = asyncio.run(stepped(store, *go, "1"))
        assert f"{context['id']}" in pane[0]
        shown = [line.split() for line in pane[len(pane) - len(context["items"]) :]]
        assert [(words[0], words[2]) for words in shown if context["items"]] == [
            (f"e{item['seq']}" if item["seq"] else "-", item["kind"]) for item in context["items"]
        ]

        [diff] = lines(run("diff", f"chat@{seq - 1}..{seq}", "--json", store=store))
        pane = asyncio.run(stepped(store, *go, "3"))
        for sign, items in (("-", diff["left"]), ("+", diff["added"])):
            there = [line.split()[1] for line in pane if line.startswith(f"{sign} e")]
            assert there == [f"e{item['seq']}" for item in items if item["seq"]]

        tree = lines(run("tree", "chat", "--json", store=store))
        family = asyncio.run(_family(store))
        assert [(one["key"], one["depth"], one["at"]) for one in tree] == family

        kind = data.draw(st.sampled_from((*LABELS, *KIND_NAMES)))
        done = run("log", "chat", "--kind", kind, "--json", store=store)
        listed = [one["seq"] for one in lines(done, done.exit_code)]
        assert listed == asyncio.run(_sieved(store, kind))


async def _family(store: Path) -> list[tuple[str, int, int]]:
    async with Store(store, read_only=True) as place:
        session = Session(place, Replay(await place.chat("chat")))
        return [(one.key, one.depth, one.at) for one in await session.family()]


async def _sieved(store: Path, kind: str) -> list[int]:
    """What the stepper lists, entry by entry."""
    async with Store(store, read_only=True) as place:
        session = Session(place, Replay(await place.chat("chat")))
        sieve = session.sieve((kind.replace(" ", "_"),), errors=False)
        found, seq = [], 0
        while (following := await sieve.after(seq, session.replay.end)) is not None:
            found.append(seq := following)
        return found
