"""What tools show the model besides their results: each once, so many in a run, never inside a tool block, and in the log."""

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from chatfold.agent import CHAT_TOOLS, Agent, Chat, NotRunning, Store, assistant, current_run, user
from chatfold.agent.limits import Limits
from chatfold.agent.models import Line, ModelReply, ScriptedModel
from chatfold.agent.run_context import call_id, inject_assistant_once, inject_system_once
from chatfold.agent.tools import tool
from chatfold.eventlog import Injected, RunStarted, ToolCalled, ToolReturned
from tests.support.acting import are_proved, is_whole, unlabelled, users
from tests.support.agent_runs import agent, events, ran, returned, step
from tests.support.chats import a_store  # noqa: F401


@tool
async def show(text: str = "more", mark: str = "", role: str = "assistant") -> str:
    """Injects; tells why not."""
    inject = inject_system_once if role == "system" else inject_assistant_once
    return str(await inject(text, fingerprint=mark or text))


@tool
async def show_exactly(text: str, mark: str) -> str:
    """Injects, with whatever fingerprint."""
    return str(await inject_assistant_once(text, fingerprint=mark))


@tool
async def look() -> str:
    """Looks."""
    return "seen"


def shown(payload: dict[str, Any]) -> list[str]:
    """What was injected by tools, as the model is sent it."""
    return [unlabelled(m["parts"][0]["text"]) for m in payload["messages"] if m["kind"] == "injected"]


async def by_tools(store: Store) -> list[Injected]:
    found = await events(await store.chat("chat"), Injected)
    return [one for one in found if not one.fingerprint.startswith("runtime:")]


# --- how many --------------------------------------------------------------------------------------------


async def test_the_hundred_and_twentieth_is_accepted_and_the_next_is_not(store: Store) -> None:
    steps = [step(*(("show", {"text": f"{n}"}) for n in range(at, at + 40))) for at in (0, 40, 80)]
    chat, model = await ran(
        store, [show], *steps, step(("show", {"text": "120"})), step(("show", {"text": "0"}))
    )
    assert Limits().injections == 120
    assert await returned(chat) == ["None"] * 120 + ["limit_reached", "duplicate"]
    assert len(await by_tools(store)) == 120
    assert sorted(map(int, shown(model.payloads[-1]))) == list(range(120))


async def test_the_limit_is_of_one_run_and_the_agents_to_say(store: Store) -> None:
    again = step(*(("show", {"text": f"{n}"}) for n in range(3)))
    chat, _ = await ran(store, [show], again, limits=Limits(injections=2))
    assert sorted(await returned(chat)) == ["None", "None", "limit_reached"]
    chat, _ = await ran(
        store, [show], step(("show", {"text": "x"}), ("show", {"text": "y"})), limits=Limits(injections=2)
    )
    assert (await returned(chat))[3:] == ["None", "None"]


async def test_what_was_refused_does_not_count(store: Store) -> None:
    refused = step(("show", {"text": "a"}), ("show", {"text": " ", "mark": "m"}), ("show", {"text": "a"}))
    chat, _ = await ran(
        store,
        [show],
        step(("show", {"text": "a"})),
        refused,
        step(("show", {"text": "b"})),
        limits=Limits(injections=2),
    )
    assert (await returned(chat))[-1] == "None"


@pytest.mark.parametrize(
    ("text", "mark", "why"),
    [
        ("", "", "missing_fingerprint"),
        ("a", " \n", "missing_fingerprint"),
        (" \n", "known", "empty_content"),
        ("other words", "known", "duplicate"),
        ("other words", "new", "limit_reached"),
    ],
)
async def test_the_first_reason_there_is_is_told(store: Store, text: str, mark: str, why: str) -> None:
    first = step(("show_exactly", {"text": "a", "mark": "known"}))
    then = step(("show_exactly", {"text": text, "mark": mark}))
    chat, _ = await ran(store, [show_exactly], first, then, limits=Limits(injections=1))
    assert await returned(chat) == ["None", why]
    assert len(await by_tools(store)) == 1


async def test_of_the_same_from_many_tools_at_once_one_is_shown(store: Store) -> None:
    chat, model = await ran(
        store, [show], step(*(("show", {"text": f"{n}", "mark": "same"}) for n in range(9)))
    )
    assert sorted(await returned(chat)) == ["None"] + ["duplicate"] * 8
    assert len(shown(model.payloads[1])) == len(await by_tools(store)) == 1


async def test_what_an_earlier_run_showed_and_is_still_in_sight_is_not_shown_again(store: Store) -> None:
    await ran(store, [show], step(("show", {"text": "a"})))
    chat, model = await ran(store, [show], step(("show", {"text": "a"})))
    assert await returned(chat) == ["None", "duplicate"]
    assert shown(model.payloads[-1]) == ["a"]


async def test_in_another_context_it_may_be_shown_again_and_that_counts_too(store: Store) -> None:
    again = step(("show", {"text": "a"}))
    new = step(("chat_context_new", {}))
    chat, _ = await ran(
        store, [show, *CHAT_TOOLS], again, new, again, new, again, limits=Limits(injections=2)
    )
    assert [text for text in await returned(chat) if isinstance(text, str)] == [
        "None",
        "None",
        "limit_reached",
    ]


# --- where -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["assistant", "system"])
async def test_it_stands_right_before_the_question_in_every_later_step(store: Store, role: str) -> None:
    chat = await store.chat("chat")
    await chat.record(user("earlier"), assistant("answered"))
    steps = step(("show", {"text": "more", "role": role}), ("look", {})), step(("look", {}), ids=["x"])
    _, model = await ran(store, [show, look], *steps)
    assert shown(model.payloads[0]) == []
    for payload in model.payloads[1:]:
        said = [m for m in payload["messages"] if m["kind"] in ("said", "injected")]
        at = next(n for n, m in enumerate(said) if m["parts"] and m["parts"][0].get("text") == "now this")
        assert unlabelled(said[at - 1]["parts"][0]["text"]) == "more"
        assert said[at - 1]["role"] == ("assistant" if role == "assistant" else "user")
        assert [m["role"] for m in said[at + 1 :]][:2] == ["assistant", "tool"]
        assert is_whole(payload)
        assert users(payload) == ["earlier", "now this"]


async def test_it_is_never_between_a_call_and_its_result_however_late_the_result_is(store: Store) -> None:
    injected = asyncio.Event()

    @tool
    async def show_and_tell() -> str:
        """Injects, then lets the other go on."""
        done = await inject_assistant_once("more", fingerprint="more")
        injected.set()
        return str(done)

    @tool
    async def wait() -> str:
        """Returns after the injection."""
        await injected.wait()
        return "waited"

    calls = step(("wait", {}), ("show_and_tell", {}), ("wait", {}))
    chat, model = await ran(store, [show_and_tell, wait], calls, step(("wait", {}), ids=["y"]))
    order = [type(event) for event in await events(chat, ToolCalled, Injected, ToolReturned)]
    assert order[order.index(ToolCalled) :][:4] == [ToolCalled] * 3 + [Injected]
    for payload in model.payloads[1:]:
        assert is_whole(payload)
        assert shown(payload) == ["more"]


async def test_it_is_an_event_of_the_run_and_the_prompt_made_again_has_it_in_the_same_place(
    store: Store,
) -> None:
    steps = (
        step(("show", {"text": "a"}), ("show", {"text": "b", "role": "system"})),
        step(("show", {"text": "c"})),
    )
    chat, model = await ran(store, [show], *steps)
    assert {(one.fingerprint, one.role) for one in await by_tools(store)} == {
        ("a", "assistant"),
        ("b", "system"),
        ("c", "assistant"),
    }
    runs = {entry.run async for entry in chat.entries() if isinstance(entry.event, Injected)}
    assert (len(runs), None in runs) == (1, False)
    assert await are_proved(chat, model)
    assert await are_proved(await store.chat("chat"), model)


async def crashed(store: Store, *texts: str) -> Chat:
    """A run that was killed after it had shown these, and been told what time it is."""
    chat = await store.chat("chat")
    await chat.record(user("now this"))
    await chat.record(RunStarted(), run="r1")
    await chat.inject(
        "Now: requestId: r1", role="system", fingerprint="runtime:r1", source="runtime", run="r1"
    )
    for text in texts:
        await chat.inject(text, role="assistant", fingerprint=text, run="r1")
    return chat


async def test_a_run_that_goes_on_after_a_crash_knows_what_it_has_shown(store: Store) -> None:
    chat = await crashed(store, "a", "b")
    script: list[Line] = [step(*(("show", {"text": text}) for text in ("a", "c", "d"))), "done"]
    made, _ = agent(store, script, [show], limits=Limits(injections=3))
    await made.resume("chat")
    assert sorted(await returned(chat)) == ["None", "duplicate", "limit_reached"]


async def test_a_run_that_goes_on_after_a_crash_in_another_context_may_show_it_again(store: Store) -> None:
    chat = await crashed(store, "a")
    await chat.new_context(run="r1")
    made, model = agent(store, [step(("show", {"text": "a"})), "done"], [show])
    await made.resume("chat")
    assert await returned(chat) == ["None"]
    assert shown(model.payloads[-1]) == ["a"]


# --- whose -----------------------------------------------------------------------------------------------


async def test_outside_of_a_run_there_is_no_execution_and_nothing_to_inject_into(store: Store) -> None:
    for attempt in (
        inject_system_once("a", fingerprint="a"),
        inject_assistant_once("a", fingerprint="a"),
        inject_assistant_once("", fingerprint=""),
    ):
        with pytest.raises(NotRunning, match="inside a tool"):
            await attempt
    with pytest.raises(NotRunning):
        current_run()
    await ran(store, [show], step(("show", {"text": "a"})))
    with pytest.raises(NotRunning):  # nor after one
        current_run()


async def test_callbacks_of_a_run_are_not_inside_of_it(store: Store) -> None:
    found: list[str] = []

    def on_step(one: Any) -> None:
        try:
            found.append(f"{one.type} {current_run().run}")
        except NotRunning:
            found.append("none")

    made, _ = agent(store, ["done"], [], on_step=on_step)
    await made.run("now this", chat="chat")
    assert set(found) == {"none"}


async def test_runs_side_by_side_see_each_its_own_chat_run_and_call(store: Store) -> None:
    meet = asyncio.Barrier(4)
    own: contextvars.ContextVar[str] = contextvars.ContextVar("own", default="")

    @tool
    async def who() -> list[str]:
        """Where am I?"""
        before = current_run()
        assert own.get() == ""
        own.set(before.chat.key)
        await meet.wait()
        here = [current_run().chat.key, current_run().run, call_id(), own.get()]
        await inject_assistant_once(f"in {before.chat.key}", fingerprint="same everywhere")
        assert current_run() is before
        return here

    def script(_: dict[str, Any]) -> ModelReply:
        return step(("who", {}), ("who", {}))

    made = Agent(model=ScriptedModel([script, script, "done", "done"]), store=store, tools=[who])
    results = await asyncio.gather(made.run("now this", chat="a"), made.run("now this", chat="b"))
    for key, result in zip(("a", "b"), results, strict=True):
        chat = await store.chat(key)
        here = [[key, result.run, call, key] for call in ("c1", "c2")]
        assert sorted(await returned(chat)) == here
        injected = [
            one.parts[0].text for one in await events(chat, Injected) if one.fingerprint == "same everywhere"
        ]
        assert injected == [f"in {key}"]


async def test_a_thread_and_a_task_that_a_tool_starts_are_inside_of_the_run(store: Store) -> None:
    @tool
    def on_a_thread() -> str:
        """Where am I?"""
        assert threading.current_thread() is not threading.main_thread()
        return current_run().chat.key

    @tool
    async def in_a_task() -> str:
        """Where am I?"""

        async def inject() -> str:
            return str(await inject_assistant_once("from a task", fingerprint="task"))

        return await asyncio.create_task(inject())

    chat, model = await ran(store, [on_a_thread, in_a_task], step(("on_a_thread", {}), ("in_a_task", {})))
    assert sorted(await returned(chat)) == ["None", "chat"]
    assert shown(model.payloads[1]) == ["from a task"]


async def test_a_run_inside_of_a_tool_is_its_own_and_the_outer_one_goes_on_as_it_was(store: Store) -> None:
    inner, asked = agent(store, [step(("show", {"text": "inner"})), "from below"], [show])

    @tool
    async def delegate() -> str:
        """Asks another."""
        said = (await inner.run("help me", chat="below")).text
        return (
            f"{said}, {await inject_assistant_once('outer', fingerprint='outer')}, {current_run().chat.key}"
        )

    chat, model = await ran(store, [delegate], step(("delegate", {})))
    assert await returned(chat) == ["from below, None, chat"]
    assert (shown(model.payloads[-1]), shown(asked.payloads[-1])) == (["outer"], ["inner"])
