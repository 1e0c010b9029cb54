"""What a prompt says in its own words: around what nobody said there, and in the place of what is not shown."""

from collections.abc import Iterator

from chatfold.eventlog import Data, Injected, Part, Text, ToolReturned
from chatfold.projections.text import one_line

INTERRUPTED = "Interrupted: no result of this call was recorded."
SUMMARY = "Summary of the earlier conversation:\n"
RECALLED = (
    "From an archived context, for reference only; it may not fit the current question:\n"
    "- contextId: {id}\n- mode: {mode}\n"
)
LATE = "Late result of {name}, which had been answered as interrupted:\n"
INJECTED = "[Added by {source}, not the user's words]\n"
LEFT_OUT = (
    "\n… {left} of {all} characters left out; chat_tool_output(entry={seq}, offset={offset}) shows them …\n"
)

RUNTIME = "runtime"
"""The source of what every run tells the model of the moment."""
SHOWN = "shown"
"""In the meta of a result: how many characters of each of its texts a model is shown. The log has all of them."""
_SLACK = 200  # characters that are not worth leaving out


def label_injected(event: Injected) -> tuple[Part, ...]:
    """Its parts, with the label in the first text, so that one text stays one."""
    source = one_line(event.source, 80).replace("]", ")") or "the application"
    label = INJECTED.format(source=source)
    match event.parts:
        case (Text(text=text), *others):
            return (Text(label + text), *others)
    return (Text(label.rstrip()), *event.parts)


def shorten_result(event: ToolReturned, seq: int) -> tuple[Part, ...]:
    """Its parts as a model is shown them: all of them, unless the event says otherwise."""
    most = event.meta.get(SHOWN) if event.meta else None
    return tuple(_shortened(event.parts, most, seq)) if type(most) is int and most > 0 else event.parts


def is_longer(parts: tuple[Part, ...], most: int) -> bool:
    """Would some of these be left out, if so many characters of each text are shown?"""
    return any(len(_text(part)) > most + _SLACK for part in parts)


def _shortened(parts: tuple[Part, ...], most: int, seq: int) -> Iterator[Part]:
    """Of each long text the beginning and the end, and where the rest is. Places count in all texts, a newline between two."""
    half, place = most // 2, 0
    for part in parts:
        text = _text(part)
        left = len(text) - 2 * half
        if len(text) > most + _SLACK:
            gap = LEFT_OUT.format(left=left, all=len(text), seq=seq, offset=place + half)
            part = Text(text[:half] + gap + text[len(text) - half :])  # noqa: PLW2901
        place += len(text) + 1
        yield part


def _text(part: Part) -> str:
    from chatfold.projections.shapes.values import result_text  # noqa: PLC0415 (shapes are made of prompts)

    return result_text((part,)) if isinstance(part, Text | Data) else ""
