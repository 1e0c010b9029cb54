"""Every refusal of every verb, by name: what is asked for, the error, and the words that must be in its message.

Done in the store of ``processes.verbs.a_talk`` and one more message, ``tg-1``: 19 entries in the chat ``chat``, and one in ``other``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from chatfold.agent import NoSuchContext, OtherHistory, Policy, PromptTooLarge, SummaryFailed
from chatfold.agent.messages import assistant, user
from chatfold.agent.summary import Material
from chatfold.eventlog import (
    ChatExists,
    Conflict,
    CorruptLog,
    IdConflict,
    InvalidEvent,
    InvalidKey,
    NewerFormat,
    NoSuchChat,
    NoSuchPoint,
    Noted,
)
from chatfold.importers.items import UnknownFormat
from tests.support.processes.operations import LARGE
from tests.support.processes.verbs import TOO_LONG, Scene

Do = Callable[[Scene], Awaitable[object]]


class Refusal(NamedTuple):
    do: Do
    error: type[Exception]
    says: tuple[str, ...]


CHAT = "chat 'chat'"
CONTEXT = "chat.contexts() shows what there is"
POINT = "A point is a seq up to the last entry, the name of a checkpoint, or a time"
MOVED = "Read what was added, decide again"
EVENT = "see 'Values' in docs/format.md"
KEY = "A chat key is any non-empty string"
SUMMARY = "Nothing was compacted; try again, or with another summariser"
DAMAGE = "Nothing was imported. Export the chat again, or copy the file again"
NOBODY = "A chat exists from its first event on; chats() lists them"
TAKEN = "Choose another key, or delete the chat first"


async def _slow(_: Material) -> str:
    await asyncio.sleep(60)
    return "too late"


def _failing(_: Material) -> str:
    raise RuntimeError("no model today")


def compacting(answer: Callable[[Material], Any], **options: Any) -> Do:
    return lambda now: now.chat.compact(Policy(keep=1, **options), summarise=answer)


def importing(name: str, key: str = "copy") -> Do:
    return lambda now: now.store.import_chat(now.files / f"{name}.jsonl", key)


def nobody(do: Callable[[Any], Awaitable[object]]) -> Do:
    async def with_nobody(now: Scene) -> None:
        await do(await now.store.chat("nobody"))

    return with_nobody


async def _past_exported(now: Scene) -> None:
    await (await now.chat.at(3)).export(now.files / "past.jsonl")


async def _nobody_imported(now: Scene) -> None:
    await now.store.import_chat(await now.store.chat("nobody"), "copy")


async def _first_words_of(now: Scene, key: Any) -> None:
    await (await now.store.chat(key)).user("hi")


CONTEXTS = {
    "an unknown context": Refusal(
        lambda now: now.chat.load_context(context_id="../etc"),
        NoSuchContext,
        ("there is no context '../etc'", CHAT, CONTEXT),
    ),
    "a query that nothing matches": Refusal(
        lambda now: now.chat.load_context("zebra crossing"),
        NoSuchContext,
        ("no archived context matches 'zebra crossing'", CHAT, CONTEXT),
    ),
    "a query of punctuation": Refusal(
        lambda now: now.chat.load_context("?!"), ValueError, ("nothing to search for: give a letter",)
    ),
    "neither a query nor an id": Refusal(
        lambda now: now.chat.load_context(), ValueError, ("Give a query or a context_id",)
    ),
    "recalling an unknown context": Refusal(
        lambda now: now.chat.recall("nobody"), NoSuchContext, ("there is no context 'nobody'", CHAT, CONTEXT)
    ),
    "recalling in a mode there is not": Refusal(
        lambda now: now.chat.recall("main", "backwards"),  # type: ignore[arg-type]
        ValueError,
        ("mode is summary, recent or full, not 'backwards'",),
    ),
    "looking at an unknown context": Refusal(
        lambda now: now.chat.messages(context="nobody"),
        NoSuchContext,
        ("there is no context 'nobody'", CHAT, CONTEXT),
    ),
    "messages in a shape there is not": Refusal(
        lambda now: now.chat.messages("xml"),  # type: ignore[call-overload]
        ValueError,
        ("no such shape: 'xml'; there are: neutral, openai",),
    ),
}

TIMES = {
    f"{verb} {point!r}": Refusal(do, NoSuchPoint, (f"there is no point {point!r}", CHAT, "seq 19", POINT))
    for point in ("no such name", 20, -21)
    for verb, do in {
        "going to": lambda now, point=point: now.chat.at(point),
        "rewinding to": lambda now, point=point: now.chat.rewind(point),
        "forking at": lambda now, point=point: now.chat.fork("branch", point),
    }.items()
}

FORKS = {
    "forking to a key that is taken": Refusal(
        lambda now: now.chat.fork("other"), ChatExists, ("there is a chat of this key", "'other'", TAKEN)
    ),
    "forking to itself": Refusal(lambda now: now.chat.fork("chat"), ChatExists, (CHAT, TAKEN)),
    "forking before the first entry": Refusal(lambda now: now.chat.fork("branch", 0), NoSuchPoint, (CHAT,)),
    "forking to no key": Refusal(lambda now: now.chat.fork(""), InvalidKey, (KEY,)),
    "forking nobody": Refusal(
        nobody(lambda chat: chat.fork("branch")), NoSuchChat, ("no such chat", "'nobody'", NOBODY)
    ),
    "redacting after the end": Refusal(lambda now: now.chat.redact(1, 20), NoSuchPoint, (CHAT, "20", "19")),
    "redacting before the start": Refusal(lambda now: now.chat.redact(0), NoSuchPoint, (CHAT, "19")),
    "redacting nobody": Refusal(nobody(lambda chat: chat.redact(1)), NoSuchChat, ("'nobody'", NOBODY)),
}

RECORDS = {
    "an append that is late": Refusal(
        lambda now: now.chat.record(user("late"), after=3),
        Conflict,
        ("expected the log to end at seq 3, it ends at 19", CHAT, MOVED),
    ),
    "an id used for something else": Refusal(
        lambda now: now.chat.user("another", id="tg-1"),
        IdConflict,
        ("id 'tg-1' was used for other content", CHAT, "seq 19", "Use a new id for new content"),
    ),
    "an event in the middle that cannot be stored": Refusal(
        lambda now: now.chat.record(user(LARGE), Noted("odd", object()), user("after")),
        InvalidEvent,
        ("Noted", "object", "Nothing was written", EVENT),
    ),
    "no event": Refusal(
        lambda now: now.chat.record(), InvalidEvent, ("an append needs at least one event", CHAT, EVENT)
    ),
    "an empty id": Refusal(
        lambda now: now.chat.user("hi", id=""), InvalidEvent, ("id must be a string of 1 to 1024", CHAT)
    ),
    "an empty key": Refusal(lambda now: _first_words_of(now, ""), InvalidKey, ("''", KEY)),
    "a key that is no string": Refusal(lambda now: _first_words_of(now, 7), InvalidKey, ("7", KEY)),
    "a history of somebody else": Refusal(
        lambda now: now.chat.merge([user("a talk about"), assistant("something else")]),
        OtherHistory,
        ("nothing in common with this chat", CHAT, "Record it in a chat, or a context, of its own"),
    ),
}

COMPACTIONS = {
    "a summariser that fails": Refusal(
        compacting(_failing), SummaryFailed, ("the summariser failed", "no model today", CHAT, SUMMARY)
    ),
    "a summary of nothing": Refusal(
        compacting(lambda _: " \n"), SummaryFailed, ("the summary is empty", CHAT, SUMMARY)
    ),
    "a summary that is no text": Refusal(
        compacting(lambda _: None), SummaryFailed, ("the summary is empty", CHAT, SUMMARY)
    ),
    "a summary that is too long": Refusal(
        compacting(lambda _: "word " * 5_000), SummaryFailed, ("2000 are allowed", CHAT, SUMMARY)
    ),
    "a summary that takes too long": Refusal(
        compacting(_slow, timeout=0.01), SummaryFailed, ("no summary within 0.01 s", CHAT, SUMMARY)
    ),
    "a budget that nothing fits in": Refusal(
        lambda now: now.chat.compact(Policy(budget=5)),
        PromptTooLarge,
        ("tokens, 5 are allowed", CHAT, "Cut the newest message, or allow more"),
    ),
    "a compaction that is due and fails": Refusal(
        lambda now: now.chat.compact_if_due(Policy(keep=1, above=1), summarise=_failing),
        SummaryFailed,
        (CHAT, SUMMARY),
    ),
    "a prompt that was too long, and a summariser that fails": Refusal(
        lambda now: now.chat.compact_after(TOO_LONG, Policy(summary=4), summarise=_failing),
        SummaryFailed,
        (CHAT, SUMMARY),
    ),
    "an error that is none of compaction's": Refusal(
        lambda now: now.chat.compact_after(RuntimeError("rate limit")), RuntimeError, ("rate limit",)
    ),
}

FILES = {
    **{
        f"importing an export that is {name}": Refusal(
            importing(name), CorruptLog, (words, "offset", "seq", DAMAGE)
        )
        for name, words in {
            "damaged": "a line does not verify",
            "cut": "the export ends too early",
            "without-its-last-line": "the export ends too early",
            "without-a-line": "not the next entry",
            "with-a-line-too-many": "something follows the last line",
        }.items()
    },
    "importing what a newer chatfold wrote": Refusal(
        importing("newer"), NewerFormat, ("written in format 2", "Upgrade chatfold; nothing was touched")
    ),
    "importing over a chat": Refusal(
        importing("good", "other"), ChatExists, ("there is a chat of this key already", "'other'", TAKEN)
    ),
    "importing a file of no format that is known": Refusal(
        importing("empty"), UnknownFormat, ("does not have a format that is known here",)
    ),
    "importing from where nothing is": Refusal(importing("nowhere"), FileNotFoundError, ("nowhere.jsonl",)),
    "importing nobody": Refusal(_nobody_imported, NoSuchChat, ("no such chat", "'nobody'", NOBODY)),
    "exporting nobody": Refusal(
        lambda now: nobody(lambda chat: chat.export(now.files / "nobody.jsonl"))(now),
        NoSuchChat,
        ("no such chat", "'nobody'", NOBODY),
    ),
    "exporting the log of the past": Refusal(
        _past_exported, ValueError, ("fork the chat there, and export the fork",)
    ),
    "exporting in a form there is not": Refusal(
        lambda now: now.chat.export(now.files / "good.jsonl", "xml"),  # type: ignore[arg-type]
        ValueError,
        ("'xml'", "there are: "),
    ),
    "exporting to where no folder is": Refusal(
        lambda now: now.chat.export(now.files / "no" / "folder.jsonl"), FileNotFoundError, ("no",)
    ),
}

REFUSALS = {**CONTEXTS, **TIMES, **FORKS, **RECORDS, **COMPACTIONS, **FILES}
