"""stats: what a chat adds up to, and the size of its context over time."""

import click

from chatfold.replay.command import chat_of, complete_chat, verb
from chatfold.replay.inspect.points import seq_of
from chatfold.replay.inspect.stats import Stats
from chatfold.replay.inspect.stats import stats as stats_of
from chatfold.replay.inspect.times import iso
from chatfold.replay.output import Out
from chatfold.replay.render.chart import draw
from chatfold.replay.terminal import counted, short

_MOST = 100  # columns of the picture


@verb("chatfold stats last", "chatfold stats last --line", "chatfold stats last --json | jq .picture.peak")
@click.argument("address", shell_complete=complete_chat)
@click.option("--line", is_flag=True, help="One line, for a prompt or a status bar.")
@click.option("--height", default=6, type=click.IntRange(1, 100), help="Lines of the picture.")
async def stats(out: Out, store: str | None, *, address: str, line: bool, height: int) -> None:
    """Turns, tokens, tools, errors, compactions; and a picture of how large the context was.

    ◆ is a compaction, ⇄ another context, ↶ a rewind. Sizes of the context are estimated; tokens spent are what models reported.
    """
    async with chat_of(store, address) as (chat, meant):
        moment = await chat.at(await seq_of(chat, meant.last)) if meant.last else await chat.now()
        width = 24 if line else max(10, min(_MOST, out.cells - 12))
        tell = out.progress("reading entries")
        found = await stats_of(moment, width=width, progress=tell)
    if out.json:
        out.value(found)
    elif line:
        [picture] = draw(found.picture, 1, marked=False)
        out.line(
            f"{found.chat} t{found.turns} ctx {short(found.picture.size)} {picture} "
            f"◆{found.compactions} ✗{found.errors} {short(found.usage.total.tokens)} tokens"
        )
    else:
        _print(out, found, height)


def _print(out: Out, found: Stats, height: int) -> None:
    out.words((found.chat, "bold"), f"   {found.title}")
    spent = found.usage.total
    tools = ", ".join(
        f"{name} {tool.calls}" + (f" ({tool.failed} ✗)" if tool.failed else "")
        for name, tool in found.tools.items()
    )
    facts = {
        "entries": f"{found.entries}, {iso(found.first)} to {iso(found.last)}" if found.entries else "0",
        "turns": f"{found.turns}, {counted(found.messages, 'message')}",
        "runs": ", ".join(f"{count} {outcome}" for outcome, count in found.runs.items()),
        "requests": f"{found.usage.called}: " + ", ".join(found.usage.models) if found.usage.called else "",
        "tokens": f"{spent.input} given ({spent.cached} from a cache), {spent.output} made"
        if spent.tokens
        else "",
        "tools": tools,
        "errors": str(found.errors),
        "contexts": str(found.contexts),
        "compacted": f"{counted(found.compactions, 'time')}, which hid about {short(found.hidden_tokens)} tokens"
        if found.compactions
        else "",
        "context": f"about {short(found.picture.size)} tokens now, {short(found.picture.peak)} at most",
    }
    for name, value in facts.items():
        if value:
            out.words((f"{name:<9} ", "dim"), value)
    if found.picture.peak:
        out.line()
        for index, text in enumerate(draw(found.picture, height)):
            label = short(found.picture.peak) if not index else ""
            out.words((f"{label:>6} ", "dim"), (text, "cyan" if index < height else "magenta"))
