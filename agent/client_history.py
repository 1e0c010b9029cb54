"""Receiving: a client sends its whole history with every request; what of it is new?

What was said and which tools were called is compared, in order, with the active context:

- The client's history goes on where ours ends: its tail is new. A client that sends only its last messages is followed,
  too, if they begin with ours.
- Ours goes on where the client's ends: nothing is new. The client is behind, or wants another answer; then ``rewind``.
- They part: the user went back and said something else. So does the chat: it is rewound to where they part, and the
  client's tail recorded, both or neither.
- They have nothing in common: ``OtherHistory``.
- A client that shows all contexts as one is followed, too: then the end of what it sent is new.
- A summary, as ``to_ui`` shows a compaction, is nobody's words. It stands for what it hides, if the client does not hold
  that, too, and the compaction stays in force. In an empty chat it becomes a compaction of what the client sent.

Words are compared without the white space around them, files by their bytes or their url, calls by their id; reasoning,
meta and results are not, nor are system messages, which are recorded when they come in the tail or with the first words. If
the client never mentions tools, ours are passed over. A result is recorded if its call is here and not answered yet.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from xxhash import xxh3_64_hexdigest

from chatfold.agent.errors import OtherHistory
from chatfold.eventlog import Compacted, Entry, Event, File, MessageAdded, Rewound, ToolCalled, ToolReturned
from chatfold.projections.labels import INTERRUPTED
from chatfold.projections.shapes.ui_parts import message_id, summary_of
from chatfold.projections.text import text_of

_Key: TypeAlias = tuple[str, ...]


def find_new(
    history: Sequence[Entry], sent: Sequence[Event], *, chat: str, whole: Sequence[Entry] = (), seq: int = 0
) -> tuple[Event, ...]:
    """The events to record after entry ``seq``.

    ``history``: the active context's entries; ``whole``: those of all contexts, if there are more.
    """
    tools = any(isinstance(event, ToolCalled) for event in sent)
    theirs = _theirs(history, sent, tools=tools)
    said = [key for _, key in theirs]
    shown = [key for entry in whole if (key := _key(entry.event, tools=tools))]
    if shown and said[: len(shown)] == shown:  # the client shows all contexts, one after the other
        return tuple(_tail(whole, sent, theirs[len(shown) - 1][0] + 1))
    ours = [(entry.seq, key) for entry in history if (key := _key(entry.event, tools=tools))]
    if not ours:
        ruled = [(e.event.role, e.event.parts) for e in history if isinstance(e.event, MessageAdded)]
        new = _new(history, sent, 0)
        first_words = [e for e in new if not (isinstance(e, MessageAdded) and (e.role, e.parts) in ruled)]
        return (*_import_events(first_words, seq + 1),)
    if not theirs:
        return ()
    start = _start([key for _, key in ours], said)
    if start is None:
        raise OtherHistory("the client's history has nothing in common with this chat", chat=chat)
    same = _same([key for _, key in ours[start:]], said)
    if start + same < len(ours) and same < len(said):  # they part
        before = ours[start + same][0] - 1
        kept = [entry for entry in history if entry.seq <= before]
        return Rewound(before, "the client went on from here"), *_tail(kept, sent, theirs[same - 1][0] + 1)
    return tuple(_tail(history, sent, theirs[same - 1][0] + 1 if same < len(said) else len(sent)))


def _theirs(history: Sequence[Entry], sent: Sequence[Event], *, tools: bool) -> list[tuple[int, _Key]]:
    """What is compared of the client's history. A summary stands for what it hides, if the client does not hold that, too."""
    theirs: list[tuple[int, _Key]] = []
    ours = [(entry.seq, key) for entry in history if (key := _key(entry.event, tools=tools))]
    compactions = {e.event.summary: e.event for e in history if isinstance(e.event, Compacted)}
    for at, event in enumerate(sent):
        if summary := summary_of(event):
            if known := compactions.get(summary.text):
                before = sum(seq < known.first for seq, _ in ours)
                hidden = [key for seq, key in ours if known.first <= seq <= known.last]
                held = _count_held([key for _, key in theirs], hidden, before)
                theirs += [(at, key) for key in hidden[held:]]
        elif key := _key(event, tools=tools):
            theirs.append((at, key))
    return theirs


def _count_held(theirs: list[_Key], hidden: list[_Key], before: int) -> int:
    """How much the client holds of what a summary hides: all, nothing, or what an earlier summary stood for.

    It stands where ours does, after as many ``before`` it; with a client that holds only the end, right before the summary.
    """
    same = _same(theirs[before:], hidden)
    if same in (len(hidden), len(theirs) - before):
        return same
    most = min(len(theirs), len(hidden))
    return next((held for held in range(most, 0, -1) if theirs[len(theirs) - held :] == hidden[:held]), 0)


def _import_events(sent: Sequence[Event], seq: int) -> Iterator[Event]:
    """A whole history, the first event of which becomes entry ``seq``: summaries are compactions again, at the end."""
    compactions: list[Compacted] = []
    seqs: dict[str, list[int]] = {}  # by the id of a message: what was said and called in it
    ends: dict[int, int] = {}  # of each of these, the last entry: that of its result, or of a later one
    message, newest = "", 0
    for event in sent:
        summary = summary_of(event)
        if summary and summary.first[0] in seqs and summary.last[0] in seqs:
            first, last = (seqs[id][min(at, len(seqs[id]) - 1)] for id, at in (summary.first, summary.last))  # noqa: A001
            compactions.append(Compacted(first, ends[last], summary.count, summary.text, "imported"))
            continue
        message = message_id(event) or message
        if isinstance(event, ToolReturned) and newest:
            ends[newest] = seq
        else:
            newest = ends[seq] = seq
            seqs.setdefault(message, []).append(seq)
        yield event
        seq += 1
    yield from compactions


def _same(ours: list[_Key], theirs: list[_Key]) -> int:
    """How many are the same, from the beginning on."""
    parted = (at for at, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other)
    return next(parted, min(len(ours), len(theirs)))


def _start(ours: list[_Key], theirs: list[_Key]) -> int | None:
    """Where in ours the client's history begins: where more of them are the same, up to our end."""
    same = _same(ours, theirs)
    for start in range(max(0, len(ours) - len(theirs)), len(ours) - same):
        if ours[start:] == theirs[: len(ours) - start]:
            return start
    return 0 if same else None


def _key(event: Event, *, tools: bool) -> _Key:
    """What is compared of an event; nothing if it is not."""
    match event:
        case MessageAdded(role="user" | "assistant" as role, origin="exec", parts=parts):
            files = [part for part in parts if isinstance(part, File)]
            words = text_of(parts).strip()
            return (role, words, *map(_file, files)) if words or files else ()
        case ToolCalled(call=call, name=name) if tools:
            return ("call", call, name)
    return ()


def _file(file: File) -> str:
    return xxh3_64_hexdigest(file.data) if file.data else file.url


def _tail(history: Iterable[Entry], sent: Sequence[Event], tail: int) -> list[Event]:
    """What is new, without summaries: those are in the log already."""
    return [event for event in _new(history, sent, tail) if summary_of(event) is None]


def _new(history: Iterable[Entry], sent: Sequence[Event], tail: int) -> list[Event]:
    """The tail, and the results before it, but none of calls that are answered, or not here, or said to be interrupted."""
    open_calls: set[str] = set()
    for entry in history:
        if isinstance(entry.event, ToolCalled):
            open_calls.add(entry.event.call)
        elif isinstance(entry.event, ToolReturned):
            open_calls.discard(entry.event.call)
    new: list[Event] = []
    for at, event in enumerate(sent):
        if at < tail and not isinstance(event, ToolReturned):
            continue
        if isinstance(event, ToolCalled):
            open_calls.add(event.call)
        elif isinstance(event, ToolReturned):
            if event.call not in open_calls or text_of(event.parts).endswith(INTERRUPTED):
                continue
            open_calls.remove(event.call)
        new.append(event)
    return new
