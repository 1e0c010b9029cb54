"""replay and rerun: was it as it was recorded, would it be so again, and what if it is asked anew."""

import shlex
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import click
import msgspec

from chatfold.agent import Chat, Store
from chatfold.eventlog import ChatfoldError
from chatfold.eventlog.places import show_place
from chatfold.replay.command import (
    DIFFERENT,
    chat_of,
    code_of,
    complete_chat,
    confirm,
    path_in,
    seq_meant,
    store_of,
    tell,
    verb,
)
from chatfold.replay.inspect.address import Address
from chatfold.replay.inspect.places import store_place
from chatfold.replay.inspect.points import range_of
from chatfold.replay.output import Out
from chatfold.replay.terminal import plural
from chatfold.replay.verify.divergence import Verdict
from chatfold.replay.verify.factory import factory_of, report_factory, report_failures
from chatfold.replay.verify.junit import junit
from chatfold.replay.verify.offline import offline
from chatfold.replay.verify.rehearsal import Factory, rehearse
from chatfold.replay.verify.rerun_turn import rerun as run_again
from chatfold.replay.verify.verdict import verdict


@verb(
    "chatfold replay last",
    "chatfold replay last --agent bot:build",
    "chatfold replay --all --junit replay.xml",
    "chatfold replay tests/recordings/refund.jsonl --agent ./bot.py:build",
)
@click.argument("addresses", nargs=-1, shell_complete=complete_chat)
@click.option("--all", "whole", is_flag=True, help="Every chat of the store.")
@click.option(
    "--agent", default="", help="MODULE:FUNCTION or FILE.py:FUNCTION that makes the agent: def build(store)."
)
@click.option(
    "--junit", "report", type=click.Path(path_type=Path), help="Also write the verdicts to this file."
)
@click.option(
    "--on-divergence",
    type=click.Choice(["stop", "continue"]),
    default="stop",
    help="In each chat: end at the first divergence, or go on and name every one.",
)
async def replay(
    out: Out,
    store: str | None,
    *,
    addresses: tuple[str, ...],
    whole: bool,
    agent: str,
    report: Path | None,
    on_divergence: str,
) -> int:
    """Fold a chat again from its first entry, and compare every fingerprint that was recorded on the way.

    With --agent the agent's own code runs, too: model, tools, clock and ids answer from the recording. A divergence is named with
    its entry, its field and both values; of a run, only the first: what follows answers another question. 'continue' goes on
    with the next run. No model and no tool can be reached: a miss is a divergence.

    Exit code 0: as recorded. 1: it diverged.
    """
    if not addresses and not whole:
        raise click.UsageError("which chat? Give one or more, or --all")
    with offline():  # importing it reaches nothing, either
        factory = factory_of(agent) if agent else None
    verdicts: list[Verdict] = []
    errors: dict[str, Exception] = {}
    worst = 0
    async with aclosing(_chats(store, addresses, errors)) as chats:
        async for chat, meant, name in chats:
            try:
                found = await _judge(out, chat, meant, factory, goes_on=on_divergence == "continue")
            except (ChatfoldError, OSError) as error:
                errors[chat.key] = error
                continue
            verdicts.append(found)
            _print(out, found, name, show_place(store) if store else "")
            worst = max(worst, 0 if found.ok else DIFFERENT)
    if report is not None:
        _write(report, junit(verdicts, errors))
    for failed in errors.values():
        tell(failed)
        worst = max(worst, code_of(failed))
    return worst


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


async def _chats(
    store: str | None, addresses: tuple[str, ...], errors: dict[str, Exception]
) -> AsyncGenerator[tuple[Chat, Address, str]]:
    """Each with the name that it has on the command line: its key, or its path."""
    for text in addresses:
        try:
            async with chat_of(store, text) as (chat, meant):
                yield chat, meant, str(path_in(text) or chat.key)
        except (ChatfoldError, OSError) as error:
            errors[text] = error
    if not addresses:
        async with store_of(store, keep_caches=False) as place:
            for key in sorted([key async for key in place.log.chats()]):
                try:
                    chat = await place.chat(key)
                except (ChatfoldError, OSError) as error:
                    errors[key] = error
                    continue
                yield chat, Address(key), key


async def _judge(out: Out, chat: Chat, meant: Address, factory: Factory | None, *, goes_on: bool) -> Verdict:
    progress = out.progress(f"replaying {chat.key}")
    if factory is not None:
        with report_failures(
            chat=chat.key, besides=(OSError,)
        ):  # which is the store's: the factory's own are told by now
            return await rehearse(chat, report_factory(factory, chat.key), goes_on=goes_on, progress=progress)
    first, last = await range_of(chat, meant)
    return await verdict(chat, first=first + 1, last=last, goes_on=goes_on, progress=progress)


def _print(out: Out, found: Verdict, name: str, store: str) -> None:
    if out.json:
        out.value(found)
        return
    facts = [
        plural(found.entries, "entry"),
        plural(found.turns, "turn"),
        f"{plural(found.model_calls, 'model call')} ({found.proved} proved)",
        plural(found.tool_calls, "tool call"),
        plural(found.snapshots, "snapshot") if found.snapshots else "",
        f"{plural(found.runs, 'run')} rehearsed, 0 live" if found.runs else "",
        f"{plural(found.skipped, 'run')} of other agents" if found.skipped else "",
        f"{plural(found.unprovable, 'request')} cannot be made again from the log alone"
        if found.unprovable
        else "",
        *(f"not provable: made by prompt rules {number}" for number in found.other_rules),
    ]
    out.words(
        ("ok " if found.ok else "DIVERGED ", "green" if found.ok else "red"),
        (found.chat, "bold"),
        ": ",
        " · ".join(filter(None, facts)),
    )
    for one in (found.divergence, *found.more) if found.divergence else ():
        out.text(str(one).partition(" ")[2], "  ")
        out.line(f"    more      {one.command(name, store)}")
    for attempt in found.attempts:
        out.line(f"  refused: {attempt}", "red")


# --- for real --------------------------------------------------------------------------------------------


class Rerun(msgspec.Struct, frozen=True):
    """What ``rerun --json`` prints."""

    chat: str
    fork: str
    outcome: str
    text: str
    error: str
    tools: list[str]


@verb(
    "chatfold rerun last@t1 --agent bot:build",
    "chatfold rerun last@t1 --agent bot:build --model gpt-5-mini --tools read_file --yes",
)
@click.argument("address", shell_complete=complete_chat)
@click.option("--yes", is_flag=True, help="Do not ask first: a real model answers, which may cost something.")
@click.option("--model", default="", help="Another model of the same provider.")
@click.option("--agent", required=True, help="MODULE:FUNCTION or FILE.py:FUNCTION that makes the agent.")
@click.option(
    "--tools",
    default="recorded",
    help="recorded, live, or the names of those to run for real, separated by commas.",
)
@click.option("--name", default=None, help="The key of the fork.")
async def rerun(
    out: Out,
    store: str | None,
    *,
    address: str,
    yes: bool,
    model: str,
    agent: str,
    tools: str,
    name: str | None,
) -> int:
    """Answer one turn anew, with the real model, in a fork: the chat stays as it is.

    Tools answer what they answered then, and a call that was not made then fails, unless --tools says that it runs.
    """
    async with chat_of(store, address) as (chat, meant):
        key, seq = chat.key, await seq_meant(chat, meant)
    if not yes:
        out.note(
            f"This asks a real model about {key}@{seq}, in a fork; it may cost something. 'chatfold replay' asks none."
        )
    confirm(yes=yes)
    factory = factory_of(agent)
    which = tools if tools in ("recorded", "live") else tools.split(",")
    async with Store(store_place(store)) as place:
        chat = await place.chat(key)
        try:
            with report_failures(
                chat=key, besides=(OSError, ValueError)
            ):  # the store's; and a tool that there is not
                fork, result = await run_again(
                    chat, seq, report_factory(factory, key), tools=which, model=model, key=name
                )
        except ValueError as error:
            if isinstance(error, ChatfoldError):
                raise
            raise click.UsageError(str(error)) from None
    used = [use.tool for use in result.tool_calls]
    done = Rerun(key, fork.key, result.outcome, result.text, result.error, used)
    if out.json:
        out.value(done)
    else:
        out.text(result.text or result.error)
        where = ("--store", show_place(store)) if store else ()
        out.note(f"{result.outcome}; {shlex.join(('chatfold', 'diff', f'{key}@{seq}', fork.key, *where))}")
    return 0 if result.outcome == "done" else DIFFERENT
