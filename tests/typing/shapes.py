"""What a type checker must see of shapes, forms and outcomes: a misspelled one is refused. Checked in CI by mypy and pyright, never run."""

from pathlib import Path
from typing import Any, Literal, assert_type

from chatfold import Chat, Entry, Moment, Result, Step, sync
from chatfold.agent.chat import Followed
from chatfold.agent.moment import Shape
from chatfold.projections import Message


async def read(moment: Moment, shape: Shape) -> None:
    assert_type(await moment.messages(), tuple[Message, ...])
    assert_type(await moment.messages("neutral", most=3), tuple[Message, ...])
    assert_type(await moment.messages("openai"), list[dict[str, Any]])
    assert_type(await moment.messages("openai-responses", model="gpt-5"), list[dict[str, Any]])
    assert_type(await moment.messages("ui"), list[dict[str, Any]])
    assert_type(await moment.messages("anthropic", tokens=1000), dict[str, Any])
    assert_type(await moment.messages(shape), Any)
    await moment.messages("opnai")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    await moment.export(Path("chat"), "markdwon")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def change(chat: Chat) -> None:
    await chat.recall("docs", "sumary")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await chat.inject("rule", role="robot")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await chat.record(durability="fully")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    async for entry in chat.follow():
        assert_type(entry, Entry)
    async for one in chat.follow(pieces=True):
        assert_type(one, Followed)
        assert_type(one.text if not isinstance(one, Entry) else "", str)


def look(result: Result, step: Step) -> None:
    assert_type(result.outcome, Literal["", "done", "failed", "cancelled", "limit"])
    assert_type(step.type, Literal["piece", "assistant", "step_finish", "result"])
    assert_type(step.kind, Literal["text", "reasoning"])


def keep() -> None:
    """The same without ``await``: the stub says it."""
    with sync.Store("./chats") as store:
        chat = store.chat("a")
        assert_type(chat, sync.Chat)
        assert_type(chat.user("hi"), Entry)
        assert_type(chat.at(-1), sync.Moment)
        assert_type(chat.messages("openai"), list[dict[str, Any]])
        assert_type(chat.messages("anthropic"), dict[str, Any])
        assert_type(chat.messages(), tuple[Message, ...])
        assert_type(next(iter(chat.follow())), Entry)
        assert_type(next(iter(chat.follow(pieces=True))), Followed)
        chat.messages("opnai")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
        chat.usr("hi")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        chat.export("chat", "markdwon")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
