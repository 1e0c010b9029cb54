"""messages: exactly what a model is sent next, or was sent then."""

from typing import Any

import click
import msgspec

from chatfold.agent import Moment
from chatfold.agent.models import fingerprint
from chatfold.agent.moment import SHAPES
from chatfold.projections import Message, usage
from chatfold.replay.command import DIFFERENT, chat_of, complete_chat, verb
from chatfold.replay.inspect.items import item_of, text_of
from chatfold.replay.inspect.points import seq_of
from chatfold.replay.inspect.serial import json_lines
from chatfold.replay.output import Out
from chatfold.replay.terminal import Cell, short


class Shown(msgspec.Struct, frozen=True):
    """What ``messages --json`` prints. ``fingerprint``: of the messages in this shape."""

    chat: str
    seq: int
    shape: str
    fingerprint: str
    messages: Any


@verb(
    "chatfold messages last",
    "chatfold messages last@c1^ --as openai --json | jq .messages",
    "chatfold messages last --for-call 3",
)
@click.argument("address", shell_complete=complete_chat)
@click.option(
    "--as", "shape", type=click.Choice(list(SHAPES)), default="neutral", help="In a provider's shape."
)
@click.option("--model", default="", help="The model they are for: some take their reasoning back.")
@click.option("--hash", "only_hash", is_flag=True, help="Only the fingerprint.")
@click.option(
    "--for-call", "number", type=int, help="The whole request of the model call of this number, with proof."
)
async def messages(
    out: Out, store: str | None, *, address: str, shape: str, model: str, only_hash: bool, number: int | None
) -> int:
    """What the model is sent next, or at a point of the past would have been.

    --for-call makes a request of the past again, with its system text and tools, and compares its fingerprint with the one
    recorded then. Exit code 1 if they differ. 'chatfold log CHAT --kind asked' lists the calls; -1 is the last.
    """
    async with chat_of(store, address) as (chat, meant):
        moment = await chat.at(await seq_of(chat, meant.last)) if meant.last else await chat.now()
        if number is not None:
            number = number if number > 0 else moment[usage].called + 1 + number
            return await _request(out, moment, number, only_hash=only_hash)
        made = await moment.messages(shape, model=model)
        mark = fingerprint({"messages": msgspec.to_builtins(made)})
        if only_hash:
            _hash(out, mark)
        elif out.json:
            out.value(Shown(moment.key, moment.seq, shape, mark, made))
        else:
            with out.paged():
                if shape == "neutral":
                    for index, message in enumerate(made):
                        _message(out, index, message)
                else:
                    out.text(json_lines(made))
    return 0


def _message(out: Out, index: int, message: Message) -> None:
    item = item_of(message)
    if not out.is_terminal and not out.raw:
        facts = (
            str(index),
            message.role,
            item.kind,
            str(item.tokens),
            ",".join(f"e{seq}" for seq in message.seqs),
        )
        out.row(item, [*map(Cell, facts), Cell(text_of(message))])
        return
    kind = f" ({item.kind})" if item.kind != message.role else ""
    seqs = " ".join(f"e{seq}" for seq in message.seqs[:8]) + (" …" if len(message.seqs) > 8 else "")
    out.words((f"{message.role}{kind}", "bold"), (f"   {short(item.tokens)} tokens · {seqs}", "dim"))
    out.text(text_of(message), "  ")
    out.line()


def _hash(out: Out, mark: str) -> None:
    out.row({"fingerprint": mark}, [Cell(mark)])


async def _request(out: Out, chat: Moment, number: int, *, only_hash: bool) -> int:
    from chatfold.replay.verify.requests import sent  # noqa: PLC0415 (it knows the providers)

    found = await sent(chat, number)
    if only_hash:
        _hash(out, found.rebuilt or found.recorded)
    elif out.json:
        out.value(found)
    else:
        with out.paged():
            out.words(
                (f"call {found.number}", "bold"),
                f" · {found.chat}@{found.seq} · {found.provider} {found.model}",
            )
            if found.payload is not None:
                out.text(json_lines(found.payload))
        verdict = {
            True: f"proved: this is what was sent (fingerprint {found.recorded})",
            False: f"not what was sent: recorded {found.recorded}, made again {found.rebuilt}",
            None: f"cannot be proved: {found.why}",
        }
        out.note(verdict[found.proved])
    return DIFFERENT if found.proved is False else 0
