"""What the screen needs to know, read when it is needed: the rows around the cursor, the detail pane, the picture.

Read are only the rows that are on the screen. What was read is kept until it is another place that is looked at.
"""

from collections.abc import AsyncIterator, Hashable, Sequence

from chatfold.eventlog import ChatfoldError, Entry
from chatfold.projections import contexts, outline
from chatfold.projections.history import History
from chatfold.projections.spans import spans
from chatfold.replay.inspect.entries import Row, row
from chatfold.replay.inspect.points import names
from chatfold.replay.inspect.sizes import Chart  # noqa: TC001
from chatfold.replay.render.line import Line, body, wrap_lines
from chatfold.replay.stepper.detail import details
from chatfold.replay.stepper.screen import Shown, Size, top_of
from chatfold.replay.stepper.state import Session, State

_TEXT = 400  # characters of a row
_MORE = 20  # the picture is painted anew when the chat has grown by a 20th


class Panes:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._top = 1
        self._place: Hashable = None  # of the rows
        self._rows: tuple[Row, ...] = ()
        self._is_looking = False
        self._detail_of: tuple[Hashable, ...] = ()
        self._is_stale = True
        self._detail: Sequence[Line] | None = None
        self._picture: Chart | None = None
        self._pictured: tuple[str, int, int] = ("", 0, 0)  # chat, end, columns
        self._is_painting = False
        self._names: tuple[Hashable, dict[int, str]] = (None, {})
        self._known = History()

    def compose(self, state: State) -> Shown:
        chat = self._session.replay.chat
        known = self._known
        has_picture = self._pictured[0] == state.chat
        return Shown(
            state,
            chat[outline].title,
            known.turn_at(state.cursor),
            known.turn_at(state.end),
            self._rows,
            self._is_looking,
            self._detail,
            self._is_stale,
            self._picture if has_picture else None,
        )

    async def at(self, state: State, size: Size) -> None:
        """The rows, and of the detail pane what is known."""
        self._known = await self._session.replay.chat.history()
        await self._list(state, size.listed)
        wanted = _detail_of(state, size)
        self._is_stale = self._detail_of != wanted
        if self._is_stale and self._detail_of[:3] != wanted[:3]:
            self._detail = None  # another chat, tab or width: nothing of it will stay
        self._session.lines = () if self._is_stale else self._detail or ()

    def is_done(self, state: State, size: Size) -> bool:
        return not self._is_looking and self._detail_of == _detail_of(state, size)

    async def rest(self, state: State, size: Size) -> AsyncIterator[None]:
        """Whatever ``at`` left for later; something new can be drawn after each."""
        wanted = _detail_of(state, size)
        if self._detail_of != wanted:
            try:
                lines = await details(self._session, state, size.right)
            except (ChatfoldError, OSError) as error:
                lines = list(wrap_lines([body(str(error))], size.right))
            self._detail_of, self._detail, self._session.lines = wanted, lines, lines
            self._is_stale = False
            yield
        while self._is_looking:
            await self._list(state, size.listed)
            yield

    # --- rows --------------------------------------------------------------------------------------------

    async def _list(self, state: State, height: int) -> None:
        if state.filters:
            sieve = self._session.sieve(state.kinds, errors=state.errors)
            seqs, is_all = await sieve.around(state.cursor, max(1, height - 1), state.end)
            self._is_looking = not is_all
            here = {state.cursor} if state.cursor else set()  # shown even if the list leaves it out
            wanted = spans((seq, seq) for seq in {*seqs[: height - 1], *here})
        else:
            self._top = top_of(self._top, state.cursor, state.end, height)
            last = min(self._top + height - 1, state.end)
            self._is_looking = False
            wanted = ((self._top, last),) if last else ()
        place = state.chat, wanted
        if place != self._place:
            log = self._session.replay.log
            self._rows = tuple([self._row(one) async for one in log.spans(state.chat, wanted)])
            self._place = place

    def _row(self, entry: Entry) -> Row:
        return row(entry, self._known.turn_at(entry.seq), self._call_names().get(entry.seq, ""), most=_TEXT)

    def _call_names(self) -> dict[int, str]:
        """What compactions and switches are called; counted again only when there are more."""
        replay = self._session.replay
        known = replay.key, replay.chat[contexts].changed
        if self._names[0] != known:
            self._names = known, names(self._known)
        return self._names[1]

    # --- the picture -------------------------------------------------------------------------------------

    def wants_picture(self, size: Size) -> bool:
        chat, end, columns = self._pictured
        replay = self._session.replay
        grown = replay.end - end
        fits = chat == replay.key and columns == size.columns and grown <= end // _MORE
        return not fits and not self._is_painting

    async def paint(self, size: Size) -> None:
        """Reads the whole chat, a page at a time."""
        self._is_painting = True
        try:
            now = await self._session.replay.chat.now()
            self._picture = await self._session.replay.chart(size.chart)
            self._pictured = now.key, now.seq, size.columns
        except (ChatfoldError, OSError):  # without it, the timeline shows where the cursor is
            self._pictured = self._session.replay.key, self._session.replay.end, size.columns
            self._picture = None
        finally:
            self._is_painting = False


def _detail_of(state: State, size: Size) -> tuple[Hashable, ...]:
    """All that the detail pane depends on."""
    told = state.chat, state.tab, size.right
    match state.tab:
        case "why":
            return *told, state.asked, state.end
        case "tree":
            return *told, state.end
        case "diff":
            return *told, state.cursor, state.mark
    return *told, state.cursor
