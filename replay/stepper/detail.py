"""The detail pane: what each tab shows at the cursor: the lines that the verbs print, in a pane of so many cells."""

from collections.abc import Iterator

from chatfold.replay.inspect.context import Inspected, context_of
from chatfold.replay.inspect.diff import compare
from chatfold.replay.inspect.event import event_of
from chatfold.replay.inspect.why import trace
from chatfold.replay.render.context import archive_lines, head_lines, item_line
from chatfold.replay.render.diff import comparison_lines
from chatfold.replay.render.entries import event_lines, message_lines, spent_lines
from chatfold.replay.render.line import CAP, Line, beginning, words, wrap_lines
from chatfold.replay.render.tree import tree_lines
from chatfold.replay.render.why import trace_lines
from chatfold.replay.stepper.state import Session, State

_MOST = 2000  # lines of a list
_ALL = 8 * CAP  # characters of all messages


async def details(session: Session, state: State, cells: int) -> list[Line]:
    """What the tab shows at the cursor, which is the replay's; the cursor before the first entry is fine."""
    return list(wrap_lines(await _lines(session, state), cells))


async def _lines(session: Session, state: State) -> list[Line]:
    replay = session.replay
    match state.tab:
        case "context":
            return list(_context(await context_of(replay)))
        case "messages":
            return list(spent_lines(message_lines(await replay.messages()), _ALL))
        case "event":
            return await _event(session)
        case "diff":
            before = state.mark if state.mark is not None else max(0, state.cursor - 1)
            head = words(
                (f"{'A ' * (state.mark is not None)}e{before} → e{state.cursor}", "bold"), seq=before
            )
            found = await compare(await session.at(before), replay)
            return [head, *beginning(list(comparison_lines(found, {}, {})), _MOST)]
        case "tree":
            return list(tree_lines(await session.family(), state.chat))
        case "why":
            whole = await replay.chat.now()
            traced = await trace(whole, f"e{state.asked}")
            return [line for one in traced.traces for line in trace_lines(one, session.place)]


def _context(seen: Inspected) -> Iterator[Line]:
    """The newest item comes last: it is what changes from entry to entry, and is shown until the pane is scrolled."""
    yield from head_lines(seen)
    yield from archive_lines(seen.archive)
    if len(seen.items) > _MOST:
        yield words((f"… the newest {_MOST} of {len(seen.items)} items", "dim"))
    for item in seen.items[-_MOST:]:
        yield item_line(item)


async def _event(session: Session) -> list[Line]:
    if not session.replay.seq:
        return [words(("before the first entry; j goes to it", "dim"))]
    return list(event_lines(await event_of(session.replay.chat, session.replay.seq)))
