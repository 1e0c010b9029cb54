"""Moment: a chat as it was after one entry, and everything that can be read of it there."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args, overload

import msgspec

from chatfold import projections  # whose shapes are imported when they are used
from chatfold.agent.contexts import best_context
from chatfold.agent.errors import NoSuchContext
from chatfold.agent.exporting import Form, encode_lines, write_file
from chatfold.agent.kept_history import KeptHistory
from chatfold.agent.kept_prompt import KeptPrompt
from chatfold.agent.messages import ToolCall
from chatfold.agent.views import MEMORY, Opened, entries_of, fold_on
from chatfold.eventlog import Entry, Log, SearchHit, ToolCalled
from chatfold.projections import (
    ArchiveRow,
    Cut,
    Message,
    Projection,
    RunDigest,
    View,
    Window,
    calls,
    contexts,
    estimate,
    outline,
    start,
)
from chatfold.projections.archive import archive_rows, preview_seqs, shelved_contexts
from chatfold.projections.contexts import window
from chatfold.projections.cutting import cut
from chatfold.projections.history import History
from chatfold.projections.prompt import Prompt, build
from chatfold.projections.runs import WINDOW, run_digests
from chatfold.projections.shapes.openai import to_openai
from chatfold.projections.spans import Spans, spans
from chatfold.projections.tokens import Counter

S = TypeVar("S")

SentShape: TypeAlias = Literal["neutral", "openai", "openai-responses", "anthropic"]
"""What a model is sent: as our own values, and as three APIs take it."""
Shape: TypeAlias = Literal[SentShape, "ui"]
"""What ``messages`` come as: these, and what a client of the AI SDK shows."""


class Moment:
    """A chat as it was after entry ``seq``; ``await chat.at(…)`` gives one. It can be read, and stays as it is.

    What is in memory is read without ``await``: ``moment.seq``, ``moment[usage].tokens``.
    """

    def __init__(
        self,
        log: Log,
        key: str,
        opened: Opened,
        prompt: KeptPrompt | None = None,
        history: KeptHistory | None = None,
    ) -> None:
        self.log = log
        self.key = key
        self._opened = opened
        self._prompt = prompt or KeptPrompt()
        self.kept_history = history or KeptHistory()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key!r}, at entry {self.seq})"

    @property
    def opened(self) -> Opened:
        """The view, and the entries that are known with it."""
        return self._opened

    @property
    def view(self) -> View:
        """All states together, as a value."""
        return self.opened.view

    @property
    def seq(self) -> int:
        """Of the entry after which this is the chat; 0 before the first."""
        return self.opened.seq

    def __getitem__(self, projection: Projection[S]) -> S:
        """The state of a projection here: ``moment[usage].tokens``. KeyError if the store was not opened with it; see ``fold``."""
        return self.opened[projection]

    async def fold(self, projection: Projection[S]) -> S:
        """The state of a projection that the store was not opened with, folded from the whole log."""
        now = await self.now()
        if projection in now.opened.projections:
            return now[projection]
        view = start((projection,), memory=MEMORY)
        async for page in self.log.pages(self.key, 1, now.seq):
            view = await fold_on(self.log, self.key, view, page)
        return view[projection]

    async def history(self) -> History:
        """Where messages, turns, runs and the events of contexts stand. It grows with the chat, so it is not in memory."""
        now = await self.now()
        return await self.kept_history.at(self.log, self.key, now.opened)

    async def now(self) -> "Moment":
        """A moment that stays as it is. A ``Chat`` first takes in what others have written."""
        return self

    async def entries(self, first: int = 1, last: int | None = None) -> AsyncIterator[Entry]:
        """The entries ``first`` … ``last``, or up to here."""
        end = (await self.now()).seq
        async for entry in self.log.read(self.key, first, end if last is None else min(last, end)):
            yield entry

    # --- what the model is sent --------------------------------------------------------------------------

    @overload
    async def messages(
        self,
        shape: Literal["neutral"] = "neutral",
        *,
        context: str | None = None,
        model: str = "",
        most: int | None = None,
        tokens: int | None = None,
        count: Counter = estimate,
    ) -> tuple[Message, ...]: ...
    @overload
    async def messages(
        self,
        shape: Literal["openai", "openai-responses", "ui"],
        *,
        context: str | None = None,
        model: str = "",
        most: int | None = None,
        tokens: int | None = None,
        count: Counter = estimate,
    ) -> list[dict[str, Any]]: ...
    @overload
    async def messages(
        self,
        shape: Literal["anthropic"],
        *,
        context: str | None = None,
        model: str = "",
        most: int | None = None,
        tokens: int | None = None,
        count: Counter = estimate,
    ) -> dict[str, Any]: ...
    @overload
    async def messages(
        self,
        shape: Shape,
        *,
        context: str | None = None,
        model: str = "",
        most: int | None = None,
        tokens: int | None = None,
        count: Counter = estimate,
    ) -> Any: ...
    async def messages(
        self,
        shape: Shape = "neutral",
        *,
        context: str | None = None,
        model: str = "",
        most: int | None = None,
        tokens: int | None = None,
        count: Counter = estimate,
    ) -> Any:
        """What the model is sent next: all of the active context, or the newest ``most`` messages or ``tokens`` of it.

        ``shape``: without one, ``Message`` values. "openai" and "openai-responses" give a list of dicts, "anthropic" a dict with
        ``system`` and ``messages``, "ui" what a client of the AI SDK shows, with what a compaction hides. ``context``: what the
        model would see of another one. ``model``: whose reasoning may be sent back. ``count``: counts the tokens of a text.
        """
        if shape not in get_args(Shape):
            raise ValueError(f"no such shape: {shape!r}; there are: {', '.join(get_args(Shape))}")
        if shape == "ui":
            return await self._messages_for_ui(context, most, tokens)
        messages = await self._messages(context)
        if most is not None or tokens is not None:  # else it is all of it: there is nothing to count
            messages = cut(messages, most=most, tokens=tokens, count=count).messages
        match shape:
            case "openai":
                return to_openai(messages)
            case "openai-responses":
                return projections.to_openai_responses(messages, model=model)
            case "anthropic":
                return projections.to_anthropic(messages, model=model)
        return messages

    async def _messages_for_ui(self, *unused: object) -> list[dict[str, Any]]:
        from chatfold.projections import to_ui  # noqa: PLC0415 (for those who have such clients)

        if any(one is not None for one in unused):
            raise ValueError("the shape 'ui' shows the whole active context")
        return to_ui(await self.context_entries(), chat_key=self.key)

    async def cut(
        self, *, most: int | None = None, tokens: int | None = None, count: Counter = estimate
    ) -> Cut:
        """The same messages, neutral, with their size in tokens and how many were left out."""
        return cut(await self._messages(), most=most, tokens=tokens, count=count)

    async def _messages(self, context: str | None = None) -> tuple[Message, ...]:
        now = await self.now()
        if context is not None and context != now[contexts].active.id:
            part = now.window(context)
            return build(part, await now.read(part.entries)).messages
        return (await now._whole_prompt()).messages  # noqa: SLF001 (a moment, too)

    async def _whole_prompt(self) -> Prompt:
        """What the model is sent next, as a value that goes on: from the one that is kept, or from nothing."""
        prompt = self._prompt.at(self.opened)
        if prompt is None:
            opened, part = self.opened, self.window()
            prompt = build(part, await self.read(part.entries))
            self._prompt.keep(opened, prompt)
        return prompt

    def window(self, context_id: str | None = None) -> Window:
        """Which entries the model is sent, and which summaries stand for others. Raises ``NoSuchContext``."""
        state = self.opened[contexts]
        if context_id is not None and context_id != state.active.id and context_id not in state.shelf:
            raise NoSuchContext(f"there is no context {context_id!r}", chat=self.key, seq=self.seq)
        return window(state, self.seq, context_id)

    async def read(self, some: Spans) -> list[Entry]:
        """The entries of these spans, pairs of a first and a last seq."""
        return await entries_of(self.log, self.key, some, self.opened.recent)

    async def context_entries(self, *, everything: bool = False) -> list[Entry]:
        """All entries of the active context, or of ``everything`` that is in any, with those that a compaction hides."""
        now = await self.now()
        state = now[contexts]
        shelf = state.shelf.values() if everything else []
        shelved = (span for context in shelf for span in context.spans)
        return await now.read(spans((*shelved, *state.spans(state.active.id, now.seq))))

    async def open_calls(self) -> list[ToolCall]:
        """The calls that were made and not answered yet: what to do first after a crash."""
        now = await self.now()
        return [
            ToolCall(entry.event.call, entry.event.name, entry.event.args, entry.seq)
            for entry in await now.read(tuple((call.seq, call.seq) for call in now[calls].open))
            if isinstance(entry.event, ToolCalled)
        ]

    # --- what was ever said ------------------------------------------------------------------------------

    async def search(self, query: str, *, limit: int = 20, everything: bool = False) -> list[SearchHit]:
        """What was ever said that holds all words of the query, newest first: archived, compacted, rewound.

        What the model sees anyway is not found, unless ``everything`` is asked for.
        """
        now = await self.now()
        seen = () if everything else now.window().spans
        return await self.log.search(self.key, query, limit=limit, without=(*seen, (now.seq + 1, 1 << 62)))

    async def find_context(self, query: str) -> str:
        """The id of the archived context that fits best: by its title, else by what was said in it. Raises ``NoSuchContext``."""
        now = await self.now()
        shelf = shelved_contexts(now[contexts], await now.history())
        found = await best_context(self.log, self.key, shelf, now.seq, query)
        if found is None:
            raise NoSuchContext(f"no archived context matches {query!r}", chat=self.key, seq=now.seq)
        return found

    async def contexts(self, limit: int | None = 20) -> list[ArchiveRow]:
        """The archived contexts, last left first: ids, titles, when, how many messages, and a preview of each."""
        now = await self.now()
        history = await now.history()
        shelf = shelved_contexts(now[contexts], history, limit)
        wanted = tuple((seq, seq) for seq in preview_seqs(history, shelf))
        return archive_rows(history, shelf, await now.read(wanted))

    async def runs(self, limit: int = WINDOW) -> list[RunDigest]:
        """What the last ``limit`` runs were asked, did and answered, in a few words each, oldest first."""
        now = await self.now()
        since = (await now.history()).since_run(limit)
        return run_digests([entry async for entry in now.entries(since)], limit)

    # --- as a file ---------------------------------------------------------------------------------------

    async def export(self, path: Path | str, form: Form = "jsonl", *, model: str = "") -> Path:
        """Writes the chat to a file, or what of it the form shows; gives its path. The file is there when it is complete."""
        path = Path(path)
        await write_file(path, self.export_bytes(form, model=model))
        return path

    async def export_bytes(self, form: Form = "jsonl", *, model: str = "") -> AsyncGenerator[bytes]:
        """The same, in pieces: for a web server, or a pipe."""
        if form not in get_args(Form):
            forms = ", ".join(get_args(Form))
            raise ValueError(
                f"no such form: {form!r}; there are: {forms}; chatfold export --as html makes a page"
            )
        now = await self.now()
        match form:
            case "jsonl":
                raise ValueError("the log of an earlier moment: fork the chat there, and export the fork")
            case "markdown":
                from chatfold.projections.documents.markdown import Document  # noqa: PLC0415 (only exports need it)

                document = Document(now[outline].title)
                yield document.begin().encode()
                async for page in self.log.pages(self.key, 1, now.seq):
                    yield "".join(map(document.of, page)).encode()
                yield document.end().encode()
            case "ui-jsonl":
                yield encode_lines(await now.messages("ui"))
            case "conversation":
                from chatfold.projections.shapes.legacy import legacy_lines  # noqa: PLC0415

                entries = [entry async for entry in self.log.read(self.key, 1, now.seq)]
                yield encode_lines(legacy_lines(entries, now[contexts]))
            case "otel":
                from chatfold.projections.documents.otel import to_otel  # noqa: PLC0415

                entries = [entry async for entry in self.log.read(self.key, 1, now.seq)]
                yield _json(to_otel(entries, chat=self.key))
            case _:
                yield _json(await now.messages(form, model=model))


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
