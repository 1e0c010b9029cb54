"""What a chat adds up to, as lines."""

from collections.abc import Iterator

from chatfold.replay.inspect.stats import Stats
from chatfold.replay.inspect.times import iso
from chatfold.replay.render.chart import draw
from chatfold.replay.render.line import Line, words
from chatfold.replay.terminal import plural, short


def stats_line(found: Stats) -> Line:
    [chart] = draw(found.picture, 1, marked=False)
    return words(
        f"{found.chat} t{found.turns} ctx {short(found.picture.size)} {chart} "
        f"◆{found.compactions} ✗{found.errors} {short(found.usage.total.tokens)} tokens"
    )


def stats_lines(found: Stats, height: int) -> Iterator[Line]:
    yield words((found.chat, "bold"), f"   {found.title}")
    spent = found.usage.total
    tools = ", ".join(
        f"{name} {tool.calls}" + (f" ({tool.failed} ✗)" if tool.failed else "")
        for name, tool in found.tools.items()
    )
    hid = f"which hid about {short(found.hidden_tokens)} tokens"
    facts = {
        "entries": f"{found.entries}, {iso(found.first)} to {iso(found.last)}" if found.entries else "0",
        "turns": f"{found.turns}, {plural(found.messages, 'message')}",
        "runs": ", ".join(f"{count} {outcome}" for outcome, count in found.runs.items()),
        "requests": f"{found.usage.called}: " + ", ".join(found.usage.models) if found.usage.called else "",
        "tokens": f"{spent.input} given ({spent.cached} from a cache), {spent.output} made"
        if spent.tokens
        else "",
        "tools": tools,
        "errors": str(found.errors),
        "contexts": str(found.contexts),
        "compacted": f"{plural(found.compactions, 'time')}, {hid}" if found.compactions else "",
        "context": f"about {short(found.picture.size)} tokens now, {short(found.picture.peak)} at most",
    }
    for name, value in facts.items():
        if value:
            yield words((f"{name:<9} ", "dim"), value)
    if found.picture.peak:
        yield words()
        for index, text in enumerate(draw(found.picture, height)):
            label = "" if index else short(found.picture.peak)
            yield words((f"{label:>6} ", "dim"), (text, "cyan" if index < height else "magenta"))
