"""Something of the agent is changed, one thing at a time, and exactly that is told."""

from typing import Any

from chatfold.agent import Agent, OpenAIModel, ScriptedModel, Store, tool
from chatfold.agent.tools.skills import SkillFiles
from chatfold.eventlog import ModelCalled, Text, ToolReturned
from chatfold.replay.verify.divergence import first_change
from chatfold.replay.verify.rehearsal import rehearse
from tests.support.debugger.recorded_bot import (
    EXAMPLES,
    OwnCode,
    bot,
    build,
    diverged,
    edited,
    first,
    run_of,
    talked,
)


async def test_one_changed_prompt_is_told_exactly() -> None:
    chat = await talked(Store.memory())
    other = bot.INSTRUCTIONS.replace("Be brief.", "Be kind.")
    found = await diverged(chat, lambda store: build(store, instructions=other))
    call = await first(chat, ModelCalled)
    assert (found.seq, found.kind, found.field) == (call.seq, "model_called", "request.system line 3")
    assert "Be brief." in found.recorded
    assert "Be kind." in found.new
    assert (found.turn, found.call) == (1, 1)


async def test_one_changed_token_of_code_is_told_exactly() -> None:
    chat = await talked(Store.memory())

    @tool(after_crash="again")
    def order_status(order: str) -> str:
        """Where an order is."""
        return order

    tools = [
        order_status if one is bot.order_status else one for one in [*build(Store.memory()).tools.values()]
    ]
    tools = [one for one in tools if not one.name.startswith("skills_")]
    skills = SkillFiles(EXAMPLES / "skills")
    found = await diverged(chat, lambda store: build(store, tools=[*tools, skills]))
    assert found.kind == "model_called"
    assert found.field.startswith("request.tools[")
    assert found.field.endswith(".schema.properties.order.type")
    assert (found.recorded, found.new) == ("integer", "string")


async def test_one_changed_tool_result_is_told_exactly() -> None:
    chat = await talked(Store.memory())
    result = await first(chat, ToolReturned)
    found = await diverged(await edited(chat, result.seq, parts=(Text("lost"),)), build)
    asked = await first(chat, ModelCalled, 2)
    assert (found.seq, found.field, found.cause_seq) == (asked.seq, "request", result.seq)
    assert "tool_returned" in found.cause


async def test_a_changed_setting_of_the_model_is_told_by_its_name() -> None:
    def model(**params: Any) -> Any:
        made = OpenAIModel("gpt-5", api_key="none", **params)
        made.ask = ScriptedModel(["done"]).ask  # type: ignore[method-assign]
        return made

    chat = await run_of(Store.memory(), model=model(temperature=0.2))
    assert (await rehearse(chat, lambda: Agent(model=model(temperature=0.2)))).ok
    found = await diverged(chat, lambda: Agent(model=model(temperature=0.7)))
    assert (found.field, found.recorded, found.new) == ("settings.temperature", 0.2, 0.7)
    found = await diverged(chat, lambda: Agent(model=model()))
    assert (found.field, found.recorded, found.new) == ("settings.temperature", 0.2, None)


async def test_the_code_of_a_payload_may_be_in_a_module_of_another_name() -> None:
    """Recorded by ``python bot.py`` it is that of ``__main__``, and ``--agent bot.py:build`` has a name of its own for it."""

    class Marked(ScriptedModel):
        mark = ""

        def payload(self, request: Any) -> dict[str, Any]:
            return super().payload(request) | {"mark": self.mark}

    Marked.payload.__module__ = "__main__"
    chat = await run_of(Store.memory(), model=Marked(["done"]))
    Marked.payload.__module__ = "bot"
    assert (await rehearse(chat, lambda: Agent(model=Marked([])))).ok
    Marked.mark = "new"
    assert (await diverged(chat, lambda: Agent(model=Marked([])))).field == "request"


async def test_changed_code_of_a_payload_is_told_where_it_shows() -> None:
    class Louder(ScriptedModel):
        def payload(self, request: Any) -> dict[str, Any]:
            made = super().payload(request)
            made["messages"][-1]["parts"][0]["text"] += "!"
            return made

    chat = await run_of(Store.memory(), model=ScriptedModel(["done"]))
    found = await diverged(chat, lambda: Agent(model=Louder([])))
    assert found.field == "params.payload"

    Louder.payload.__qualname__ = "ScriptedModel.payload"
    Louder.payload.__module__ = "chatfold.agent.models"
    found = await diverged(chat, lambda: Agent(model=Louder([])))
    assert (found.field, found.recorded, found.new) == (
        "request.messages[1].parts[0].text",
        "now this",
        "now this!",
    )


async def test_changed_code_that_only_the_agent_has_is_told_by_the_fingerprint() -> None:
    chat = await run_of(Store.memory(), model=OwnCode(["done"]))
    assert (await rehearse(chat, lambda: Agent(model=OwnCode([])))).ok
    call = await first(chat, ModelCalled)
    found = await diverged(await edited(chat, call.seq, request="0" * 32), lambda: Agent(model=OwnCode([])))
    assert (found.field, found.recorded) == ("request", "0" * 32)
    assert "the code that makes requests" in found.cause


async def test_nothing_is_done_after_the_first_difference() -> None:
    chat = await talked(Store.memory())
    asked: list[str] = []

    def about(key: str) -> dict[str, Any]:
        asked.append(key)
        return {"seen": True}

    found = await rehearse(chat, lambda store: build(store, about=about))
    assert found.divergence is not None
    assert found.runs == 1
    assert len(asked) <= 2  # and once more, as if it had been killed there


def test_a_text_that_goes_on_is_told_from_where_the_other_ends() -> None:
    found = first_change("You help.", "You help.\n\nBe brief.", "request.system")
    assert found is not None
    assert (found.field, found.recorded, found.new) == ("request.system line 2", None, "\nBe brief.")
