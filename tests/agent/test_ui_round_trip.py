"""A client that was loaded from an export goes on with the chat, compactions and all; and so does a copy made from one."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from chatfold.agent import Chat, Policy, Store, assistant, system, user
from chatfold.eventlog import Compacted, Entry, Event, MessageAdded, Text, ToolCalled, ToolReturned
from chatfold.projections import contexts, from_ui, to_openai, to_ui
from chatfold.projections.contexts import window

Object = dict[str, Any]
NEXT: Object = {"id": "next", "role": "user", "parts": [{"type": "text", "text": "and next?"}]}
FORGET = Policy(keep=2, budget=None)


def turn(number: int, kind: str) -> list[Event]:
    """A question, and steps of an answer: words, calls with their results, or both."""
    call = f"c{number}"
    steps: dict[str, list[Event]] = {
        "w": [assistant(f"answer {number}")],
        "c": [ToolCalled(call, "read", {"n": number}), ToolReturned(call, (Text(f"found {number}"),))],
    }
    found: list[Event] = []
    for at, step in enumerate(kind):
        found += (
            steps[step]
            if at == 0 or step != "c"
            else [ToolCalled(f"{call}-{at}", "read"), ToolReturned(f"{call}-{at}", failed=True)]
        )
    return [user(f"question {number}"), *found]


async def played(moves: list[str]) -> Chat:
    store = Store.memory()
    chat = await store.chat("chat")
    await chat.record(system("Be brief."))
    for number, move in enumerate(moves):
        match move:
            case "compact":
                await chat.compact(FORGET, summarise=_summed_up)
            case "fork":
                chat = await chat.fork(f"fork-{number}")
            case "back":
                await chat.rewind(max(1, chat.seq - 2))
            case "revert":
                if tops := chat[contexts].active.tops:
                    await chat.revert_compaction(tops[-1].seq)
            case kind:
                await chat.record(*turn(number, kind))
    return chat


def _summed_up(material: Any) -> str:
    return f"in short, {len(material.messages)} messages after {material.previous!r}"


def sent(messages: list[Object]) -> list[Event]:
    """As a client sends them."""
    return from_ui(json.loads(json.dumps(messages)))


async def exported(chat: Chat) -> list[Object]:
    return to_ui(await chat.context_entries(), chat_key=chat.key)


async def of_window(chat: Chat) -> list[Object]:
    """What a client holds that was only shown what the model sees."""
    part = window(chat[contexts], chat.seq)
    return to_ui(await chat.read(part.entries), chat_key=chat.key)


moves = st.lists(
    st.sampled_from(("w", "w", "wcw", "cw", "cc", "wcwcw", "compact", "compact", "fork", "back", "revert")),
    max_size=10,
)


async def adds_only_the_question(chat: Chat, client: list[Object]) -> None:
    before = chat[contexts].active
    found: list[Entry] = await chat.merge(sent([*client, NEXT]))
    assert [entry.event.parts for entry in found if isinstance(entry.event, MessageAdded)] == [
        (Text("and next?"),)
    ]
    assert len(found) == 1
    assert chat[contexts].active.tops == before.tops
    assert await chat.merge(sent([*client, NEXT])) == []


@example(["w", "w", "w", "compact"])
@example(["w", "w", "compact", "w", "w", "compact", "fork", "w"])
@example(["wcwcw", "wcwcw", "compact"])
@given(moves)
async def test_a_client_loaded_from_an_export_adds_only_what_it_says(some: list[str]) -> None:
    chat = await played(some)
    await adds_only_the_question(chat, await exported(chat))


@example(["w", "w", "w", "compact"])
@example(["w", "w", "compact", "w", "w", "compact", "fork", "w"])
@given(moves)
async def test_a_client_that_holds_the_window_adds_only_what_it_says(some: list[str]) -> None:
    chat = await played(some)
    await adds_only_the_question(chat, await of_window(chat))


@example(["w", "w", "w", "compact"])
@example(["wcwcw", "wcwcw", "compact", "w", "compact"])
@given(moves)
async def test_a_copy_made_from_an_export_has_the_same_prompt(some: list[str]) -> None:
    chat = await played(some)
    copy = await Store.memory().chat("copy")
    await copy.merge(sent(await exported(chat)))
    assert to_openai(await copy.messages()) == to_openai(await chat.messages())
    assert any(isinstance(entry.event, Compacted) for entry in await copy.context_entries()) == bool(
        chat[contexts].active.tops
    )
