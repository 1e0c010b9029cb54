"""The detail pane: what each tab says about the cursor, line by line, no line wider than the pane.

What users, models and tools said is capped at 64 KiB a piece, with a note of what is missing; so are long lists. All of it
is made printable here, since what is made visible takes more room.
"""

from collections.abc import Iterator

from chatfold.eventlog import (
    Entry,
    ModelCalled,
    ModelReturned,
    SendConfirmed,
    SendFailed,
    SendRequested,
    ToolCalled,
    ToolReturned,
)
from chatfold.projections import Message, contexts
from chatfold.projections.shapes.values import json_text
from chatfold.projections.tokens import estimate
from chatfold.replay.inspect.context import Inspected, context_of
from chatfold.replay.inspect.entries import describe_parts, row
from chatfold.replay.inspect.items import item_of
from chatfold.replay.inspect.times import iso
from chatfold.replay.stepper.compared import compared, traced, tree_lines
from chatfold.replay.stepper.state import Line, Session, State
from chatfold.replay.stepper.text import CAP, as_json, body, capped, cut
from chatfold.replay.terminal import padded, short

_MOST = 2000  # lines of a list
_ALL = 8 * CAP  # characters of all messages
_NEAR = 2048  # entries that are looked through for the other half of a pair


async def details(session: Session, state: State, cells: int) -> list[Line]:
    """What the tab shows at the cursor, which is the replay's; the cursor before the first entry is fine."""
    match state.tab:
        case "context":
            return list(_context(await context_of(session.replay), cells))
        case "messages":
            return list(_messages(await session.replay.messages(), cells))
        case "event":
            return await _event(session, cells)
        case "diff":
            return await compared(session, state, cells)
        case "tree":
            return tree_lines(await session.family(), state.chat, cells)
        case "why":
            return await traced(session, state, cells)


# --- 1 Context -------------------------------------------------------------------------------------------


def _context(known: Inspected, cells: int) -> Iterator[Line]:
    """The newest item comes last: it is what changes from entry to entry, and is shown if nobody scrolls."""
    about = "~" if known.tokens.estimated else ""
    title = f' "{known.title}"' if known.title else ""
    sizes = f"{about}{short(known.tokens.count)} tokens · {len(known.items)} items · {known.shelved} archived"
    yield Line(cut(f"{known.id}{title} · {sizes}", cells), "bold")
    shares = " · ".join(f"{kind} {short(tokens)}" for kind, tokens in known.by_kind.items())
    yield Line(cut(shares, cells), "dim")
    for one in known.archive:
        text = f"▤ {one.context_id} {one.title!r} {one.message_count} messages  {one.summary_preview}"
        yield Line(cut(text, cells), "magenta", one.checkpoint)
    if len(known.archive) < known.shelved:
        yield Line(cut(f"▤ … the last {len(known.archive)} of {known.shelved} in the archive", cells), "dim")
    for top in known.compactions:
        yield Line(cut(f"◆ c{top.number} hides e{top.first}..e{top.last}", cells), "yellow", top.seq)
    if len(known.items) > _MOST:
        yield Line(cut(f"… the newest {_MOST} of {len(known.items)} items", cells), "dim")
    for item in known.items[-_MOST:]:
        where = f"e{item.seq}" if item.seq else "—"
        text = f"{padded(item.kind, 9)} {short(item.tokens):>5} {where:>6}  {item.text}"
        yield Line(cut(text, cells), seq=item.seq)


# --- 2 Messages ------------------------------------------------------------------------------------------


def _messages(messages: tuple[Message, ...], cells: int) -> Iterator[Line]:
    yield Line(cut(f"{len(messages)} messages are what a model would be sent here", cells), "bold")
    room = _ALL
    for number, message in enumerate(messages, 1):
        if room <= 0:
            yield Line(
                cut(f"… {len(messages) - number + 1} more messages; ! says how to print all", cells), "dim"
            )
            return
        item = item_of(message)
        head = f"── {number} {message.role} · {item.kind} · {short(item.tokens)} tokens"
        yield Line(cut(f"{head} · e{item.seq}" if item.seq else head, cells), "cyan", item.seq)
        for text in _said(message):
            room -= len(text)
            yield from body(text, cells)


def _said(message: Message) -> Iterator[str]:
    if message.parts:
        yield describe_parts(message.parts, CAP + 1)
    for call in message.calls:
        yield f"→ {call.name} {json_text(call.args) if call.args is not None else ''}"
    for result in message.results:
        yield f"← {result.name}{' failed' if result.failed else ''}: {describe_parts(result.parts, CAP + 1)}"


# --- 4 Event ---------------------------------------------------------------------------------------------


async def _event(session: Session, cells: int) -> list[Line]:
    replay = session.replay
    entry = await replay.entry()
    if entry is None:
        return [Line(cut("before the first entry; j goes to it", cells), "dim")]
    turn = replay[contexts].turn_at(entry.seq)
    told = row(entry, most=CAP + 1)
    envelope = [
        ("seq", f"e{entry.seq}, turn {turn}"),
        ("kind", told.kind),
        ("at", iso(entry.time)),
        ("run", entry.run),
        ("id", entry.id),
        ("batch", entry.batch),
        ("erased", "yes" if entry.was is not None else None),
        ("costs", f"~{estimate(told.text)} tokens"),
    ]
    lines = [Line(cut(f"{told.glyph} {told.what}", cells), "red" if told.failed else "bold")]
    lines += [Line(cut(f"  {name:7} {value}", cells)) for name, value in envelope if value]
    other = await _other(session, entry)
    if other is not None:
        what = row(other, most=80)
        way = "answers" if other.seq < entry.seq else "answered"
        lines.append(Line(cut(f"  {way:8} e{other.seq} {what.what} {what.text}", cells), "cyan", other.seq))
    text = capped(entry)
    if "\n" in text:
        lines += [Line(""), Line("said", "dim"), *body(text, cells)]
    lines += [Line(""), Line("payload", "dim"), *body(as_json(entry.event), cells)]
    return lines


async def _other(session: Session, entry: Entry) -> Entry | None:
    """The call of a result, the result of a call; if it is near."""
    log, key, seq = session.replay.log, session.replay.key, entry.seq
    kinds: dict[type, tuple[type, ...]] = {
        ToolCalled: (ToolReturned,),
        ModelCalled: (ModelReturned,),
        SendRequested: (SendConfirmed, SendFailed),
    }
    later = kinds.get(type(entry.event))
    if later is not None:
        async for one in log.read(key, seq + 1, min(seq + _NEAR, session.replay.end)):
            if isinstance(one.event, later) and _pair(entry) == _pair(one):
                return one
        return None
    earlier = next((kind for kind, some in kinds.items() if isinstance(entry.event, some)), None)
    if earlier is None:
        return None
    found = None
    async for one in log.read(key, max(1, seq - _NEAR), seq - 1):
        if isinstance(one.event, earlier) and _pair(entry) == _pair(one):
            found = one
    return found


def _pair(entry: Entry) -> tuple[str | None, str]:
    """What both halves of a pair have in common."""
    match entry.event:
        case ToolCalled(call=call) | ToolReturned(call=call):
            return None, call
        case SendRequested(send=send) | SendConfirmed(send=send) | SendFailed(send=send):
            return None, send
    return entry.run, ""
