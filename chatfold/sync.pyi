"""Written by ``python -m tests.support.sync_stub`` from the async classes. Do not edit."""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self, overload

from chatfold.agent.agent import About
from chatfold.agent.chat import Followed, Point
from chatfold.agent.compaction import Policy, Summarise
from chatfold.agent.exporting import Form
from chatfold.agent.kept_history import KeptHistory
from chatfold.agent.kept_prompt import KeptPrompt
from chatfold.agent.limits import Limits
from chatfold.agent.messages import Content, Given, ToolCall
from chatfold.agent.models import Model
from chatfold.agent.moment import S, Shape
from chatfold.agent.progress import Step
from chatfold.agent.result import Result
from chatfold.agent.run import OnStep
from chatfold.agent.run_context import Send
from chatfold.agent.store import Listed
from chatfold.agent.telemetry import Observer
from chatfold.agent.tools import Tool
from chatfold.agent.tools.skills import SkillFiles
from chatfold.agent.views import Later, Opened
from chatfold.eventlog import Durability, Entry, Event, Json, Log, Role, SearchHit, Storage
from chatfold.eventlog.storage import Change
from chatfold.projections import ArchiveRow, Cut, Message, Projection, RunDigest, View, Window
from chatfold.projections.history import History
from chatfold.projections.spans import Spans
from chatfold.projections.tokens import Counter

class Store:
    """Many chats in one place. ``async with`` closes it; a program that does not close it loses nothing that was acknowledged.

    ``place``: a folder, ``postgresql://user@host/database?schema=name``, or a ``Storage`` of your own. ``projections``: your own,
    folded in every chat next to the standard ones. ``durability``: what an append waits for, "full", "normal" or "off".
    ``read_only``: nothing is changed on disk, ever.
    """

    def __init__(
        self,
        place: Path | str | Storage,
        *,
        projections: Sequence[Projection[Any]] = ...,
        durability: Durability = "full",
        read_only: bool = False,
    ) -> None: ...
    @classmethod
    def memory(cls, *, projections: Sequence[Projection[Any]] = ...) -> Self:
        """A store for tests and scratch work: gone when the process ends."""

    def close(self) -> None:
        """Makes everything durable and closes the storage. Whatever is asked of its chats after that raises ``Closed``."""

    def chat(self, key: str) -> Chat:
        """The chat of this key, as it is now. There need not be one yet: it begins with its first event.

        Raises ``InvalidKey`` for an empty key, ``CorruptLog`` if what was durable is missing or changed.
        """

    def chats(self, prefix: str = "", *, where: Mapping[str, str] | None = None) -> Generator[Listed]:
        """The chats: titles, counts, last activity. Of those that did not change since the last time nothing is read.

        ``prefix``: of the key. ``where``: words that a chat must have, as ``{"user": "u7"}``: those of ``ChatStarted.meta``.
        A chat that cannot be read is listed with its error, unless words are asked for.
        """

    def follow(self, since: str = "") -> Generator[Change]:
        """The chats that change, in any process, each at least once after its last change. ``since``: the ``mark`` of a change, to go
        on after it; without it, all chats come first.
        """

    def delete(self, key: str) -> None:
        """Deletes the whole chat, for good. Its forks stay. Quiet if there is none, so that it can be tried again."""

    def import_chat(self, source: Path | str | Chat, key: str = "") -> Chat:
        """A chat from a file or from any other store, as the chat of this key.

        An exported chat comes in entry for entry the same, or not at all. A session of another tool comes in as far as it can be
        read, and what is new of it when it is imported again; without a key it has that of the tool. For folders, and for what
        could not be read, there is ``chatfold.importers.import_paths``.
        """

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

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
    ) -> None: ...
    @property
    def opened(self) -> Opened:
        """The view, and the entries that are known with it."""

    @property
    def view(self) -> View:
        """All states together, as a value."""

    @property
    def seq(self) -> int:
        """Of the entry after which this is the chat; 0 before the first."""

    def __getitem__(self, projection: Projection[S]) -> S:
        """The state of a projection here: ``moment[usage].tokens``. KeyError if the store was not opened with it; see ``fold``."""

    def fold(self, projection: Projection[S]) -> S:
        """The state of a projection that the store was not opened with, folded from the whole log."""

    def history(self) -> History:
        """Where messages, turns, runs and the events of contexts stand. It grows with the chat, so it is not in memory."""

    def now(self) -> Moment:
        """A moment that stays as it is. A ``Chat`` first takes in what others have written."""

    def entries(self, first: int = 1, last: int | None = None) -> Generator[Entry]:
        """The entries ``first`` … ``last``, or up to here."""

    @overload
    def messages(
        self,
        shape: Literal["neutral"] = "neutral",
        *,
        context: str | None = None,
        model: str = "",
        most: int | None = None,
        tokens: int | None = None,
        count: Counter = ...,
    ) -> tuple[Message, ...]:
        """What the model is sent next: all of the active context, or the newest ``most`` messages or ``tokens`` of it.

        ``shape``: without one, ``Message`` values. "openai" and "openai-responses" give a list of dicts, "anthropic" a dict with
        ``system`` and ``messages``, "ui" what a client of the AI SDK shows, with what a compaction hides. ``context``: what the
        model would see of another one. ``model``: whose reasoning may be sent back. ``count``: counts the tokens of a text.
        """

    @overload
    def messages(
        self,
        shape: Literal["openai", "openai-responses", "ui"],
        *,
        context: str | None = None,
        model: str = "",
        most: int | None = None,
        tokens: int | None = None,
        count: Counter = ...,
    ) -> list[dict[str, Any]]: ...
    @overload
    def messages(
        self,
        shape: Literal["anthropic"],
        *,
        context: str | None = None,
        model: str = "",
        most: int | None = None,
        tokens: int | None = None,
        count: Counter = ...,
    ) -> dict[str, Any]: ...
    @overload
    def messages(
        self,
        shape: Shape,
        *,
        context: str | None = None,
        model: str = "",
        most: int | None = None,
        tokens: int | None = None,
        count: Counter = ...,
    ) -> Any: ...
    def cut(self, *, most: int | None = None, tokens: int | None = None, count: Counter = ...) -> Cut:
        """The same messages, neutral, with their size in tokens and how many were left out."""

    def window(self, context_id: str | None = None) -> Window:
        """Which entries the model is sent, and which summaries stand for others. Raises ``NoSuchContext``."""

    def read(self, some: Spans) -> list[Entry]:
        """The entries of these spans, pairs of a first and a last seq."""

    def context_entries(self, *, everything: bool = False) -> list[Entry]:
        """All entries of the active context, or of ``everything`` that is in any, with those that a compaction hides."""

    def open_calls(self) -> list[ToolCall]:
        """The calls that were made and not answered yet: what to do first after a crash."""

    def search(self, query: str, *, limit: int = 20, everything: bool = False) -> list[SearchHit]:
        """What was ever said that holds all words of the query, newest first: archived, compacted, rewound.

        What the model sees anyway is not found, unless ``everything`` is asked for.
        """

    def find_context(self, query: str) -> str:
        """The id of the archived context that fits best: by its title, else by what was said in it. Raises ``NoSuchContext``."""

    def contexts(self, limit: int | None = 20) -> list[ArchiveRow]:
        """The archived contexts, last left first: ids, titles, when, how many messages, and a preview of each."""

    def runs(self, limit: int = ...) -> list[RunDigest]:
        """What the last ``limit`` runs were asked, did and answered, in a few words each, oldest first."""

    def export(self, path: Path | str, form: Form = "jsonl", *, model: str = "") -> Path:
        """Writes the chat to a file, or what of it the form shows; gives its path. The file is there when it is complete."""

    def export_bytes(self, form: Form = "jsonl", *, model: str = "") -> Generator[bytes]:
        """The same, in pieces: for a web server, or a pipe."""

class Chat(Moment):
    """One chat, at its end: it can be written, and it takes in what others write. ``await store.chat(key)`` gives one.

    What is in memory is read without ``await``: ``chat.seq``, ``chat[usage].tokens``. Every verb is one append, or nothing; an
    ``await`` that was cancelled may have happened: do it again with its ``id``.
    """

    def user(
        self,
        *content: Content,
        id: str | None = None,
        said_at: datetime | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> Entry:
        """Records what the user said: text, files, or parts as a provider writes them; returns its entry, durable.

            await chat.user("What is this?", File("image/png", data), id="telegram-991")

        ``id``: the platform's. A message that is delivered twice is recorded once, and the first entry is returned again.
        ``said_at``: when it was said, if that was not now. Raises ``InvalidEvent`` if nothing is said.
        """

    def assistant(
        self,
        *content: Content,
        id: str | None = None,
        run: str | None = None,
        said_at: datetime | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> Entry:
        """Records what the assistant said; returns its entry. A reply as the provider gave it, with its tool calls, is for ``record``."""

    def tool_call(
        self, name: str, args: Json = None, *, call: str | None = None, run: str | None = None
    ) -> ToolCall:
        """Records a call before the tool runs; ``record(call.result(x))`` answers it.

        ``args``: JSON, or the text of a JSON object, as OpenAI writes it. ``call``: the provider's id of the call, if there is one.
        """

    def activate_skill(
        self, name: str, text: str = "", *, fingerprint: str = "", run: str | None = None
    ) -> Entry:
        """Gives the model this text in the system prompt from now on, in this context; returns the entry.

        The text is kept as it is now: a file that changes later changes nothing here. ``fingerprint``: of the text, for who asks
        whether this version is in use: ``chat[skills].active``.
        """

    def deactivate_skill(self, name: str) -> Entry:
        """Takes the skill's text out of the system prompt again; returns the entry."""

    def inject(
        self,
        *content: Content,
        role: Role = "user",
        fingerprint: str | None = None,
        source: str = "",
        run: str | None = None,
    ) -> list[Entry]:
        """Shows the model what nobody said, once: records nothing if it sees one of this fingerprint already.

        Without a ``fingerprint`` that is the same content in the same role. ``source``: what added it.
        """

    def merge(self, history: Iterable[Given]) -> list[Entry]:
        """Records what is new of a history that a client sent whole: messages of OpenAI, Anthropic or the AI SDK, or events.

        Nothing is recorded twice, compactions stay, and where the client went back the chat is rewound. ``client_history`` says
        what is new. Raises ``OtherHistory`` if the two have nothing in common.
        """

    def new_context(self, title: str = "", reason: str = "", *, run: str | None = None) -> str:
        """Shelves this line of thought and begins another, with the question being asked; gives its id."""

    def load_context(
        self,
        query: str | None = None,
        *,
        context_id: str | None = None,
        reason: str = "",
        run: str | None = None,
    ) -> str:
        """Takes up an archived context again; gives its id. Raises ``NoSuchContext`` if none fits.

        ``query``: its id, its title, or anything that was said in it. ``context_id``: its id and nothing else.
        """

    def clear_context(self, reason: str = "", *, run: str | None = None) -> str:
        """Puts an empty context in the place of this one, which goes to the shelf; returns the new one's id."""

    def rename_context(self, query: str, title: str) -> Entry:
        """Gives a context another title; returns the entry. ``query``: its id, its title, or anything that was said in it.

        Raises ``NoSuchContext`` if none fits.
        """

    def recall(
        self, query: str, mode: Literal["summary", "recent", "full"] = "summary", *, run: str | None = None
    ) -> Entry:
        """Shows the model an archived context for reference only, labelled; returns the entry. The active context stays.

        ``query``: its id, its title, or anything that was said in it. ``mode``: its newest summary or its last lines, its last
        messages, or all of it.
        """

    def compact(
        self,
        policy: Policy = ...,
        *,
        summarise: Summarise = ...,
        trigger: str = "manual",
        count: Counter = ...,
    ) -> list[Entry]:
        """Puts older messages behind a summary, and keeps them in the log. Gives the compactions: none if there was nothing to do, or
        another writer did it. Raises ``SummaryFailed``, or ``PromptTooLarge`` if it cannot fit; then nothing was changed.
        """

    def compact_if_due(
        self, policy: Policy = ..., *, summarise: Summarise = ..., count: Counter = ...
    ) -> list[Entry]:
        """The same, if there are more messages or tokens than the policy allows."""

    def compact_after(
        self, error: BaseException, policy: Policy = ..., *, summarise: Summarise = ..., count: Counter = ...
    ) -> list[Entry]:
        """The same, to half the size, after a provider refused the prompt as too long. Any other error is raised.

        If half the size cannot be reached, as small as possible; PromptTooLarge if that is no smaller than what was refused.
        """

    def revert_compaction(self, seq: int, reason: str = "") -> list[Entry]:
        """Shows again what the compaction of entry ``seq`` hid; returns the entry, nothing if that is not in force."""

    def checkpoint(self, name: str) -> Entry:
        """Names this point, for ``at``, ``rewind`` and ``fork``; returns the entry. The same name again moves it."""

    def at(self, point: Point, *, as_said: bool = False) -> Moment:
        """The chat as it was after an entry, which stays as it is. Raises ``NoSuchPoint``.

        ``as_said``: a time is that at which something was said, not that at which it was recorded; see ``said_at``.

        await chat.at(12)               # after entry 12; -3: three entries ago
        await chat.at("before-tools")   # at a checkpoint
        await chat.at(datetime(2026, 2, 5, tzinfo=UTC))
        """

    def rewind(self, to: Point, reason: str = "") -> Entry:
        """Goes back: what the model sees is again what it was there; returns the entry. Raises ``NoSuchPoint``.

        What lies between stays in the log: it is found by ``search``, and ``at`` still leads there.
        """

    def fork(self, key: str, at: Point | None = None) -> Chat:
        """Begins a chat of its own that has everything up to ``at``, or all, and then goes its own way; returns it.

        Its cost does not grow with the history. Deleting either of the two leaves the other whole. Raises ``ChatExists``.
        """

    def seq_of(self, point: Point, *, as_said: bool = False) -> int:
        """The seq of the entry that is meant. Raises ``NoSuchPoint``."""

    @overload
    def follow(self, after: int = 0, *, pieces: Literal[False] = False) -> Generator[Entry]:
        """The entries after this seq: what is there, then what comes, from any process. It ends when it is left.

        ``pieces``: between the entries also the ``Piece``s of an answer, while an agent of any process is given them by its model.
        They are in no log: when the answer stands, it comes as an entry, whole, and its pieces are gone.

            async for one in chat.follow(chat.seq, pieces=True):
                print(one.text if not isinstance(one, Entry) else one.event)
        """

    @overload
    def follow(self, after: int = 0, *, pieces: Literal[True]) -> Generator[Followed]: ...
    def moments(self, after: int = 0) -> Generator[Moment]:
        """The chat as it was after each entry from ``after`` on: what was, then what comes, from any process."""

    def redact(self, *seqs: int, reason: str = "") -> dict[str, list[int]]:
        """Erases what these entries say, for good, here and in forks; returns the erased seqs by the key of the chat.

        The entries stay, without their content, and the chain of the log still verifies.
        """

    def export_bytes(self, form: Form = "jsonl", *, model: str = "") -> Generator[bytes]: ...
    def __init__(self, log: Log, key: str, opened: Opened, later: Later) -> None: ...
    def record(
        self,
        *messages: Given,
        after: int | None = None,
        id: str | None = None,
        run: str | None = None,
        keys: Sequence[str | None] = ...,
        said_at: datetime | None = None,
        durability: Durability | None = None,
    ) -> list[Entry]:
        """Appends events and messages as one: all of them, durable on return, or none. Gives their entries.

        A message is an event, the dict of a provider, or the object of its SDK. ``after``: only if nothing came after this seq, else
        ``Conflict``. ``id``: recorded once, however often it is said; with other content it is ``IdConflict``. ``keys``: one for each
        event, or None: an event whose key was used before is not recorded again. ``said_at``: when it was said, if that was not now.
        ``durability``: of this append, if it is not the store's. Raises ``InvalidEvent`` for what cannot be recorded.

            await chat.record(reply.choices[0].message, id=reply.id)
        """

    @property
    def opened(self) -> Opened: ...
    @property
    def seq(self) -> int:
        """Of the last entry that is known here, without asking whether others wrote more."""

    def now(self) -> Moment: ...
    def refresh(self) -> Self:
        """Takes in what others have written since. Whatever is asked of a chat with ``await`` does this first."""

    def keep_window(self) -> None:
        """Stores what the model sees, in the background, so that the chat opens faster the next time."""

    def rest(self) -> None:
        """Stores the window, and lets go of the prompt and of the entries in memory."""

    def append_if(
        self,
        events: Callable[[Moment], Iterable[Event] | Awaitable[Iterable[Event]]],
        *,
        run: str | None = None,
    ) -> list[Entry]:
        """Appends what ``events`` says about the chat as it is now; it is asked again if another writer was quicker."""

class Agent:
    """Answers the messages of its chats with a model and tools.

    ``model``: an ``OpenAIModel``, an ``AnthropicModel``, ``model_from(function)``, or anything with the methods of ``Model``.
    ``store``: where its chats are: a ``Store``, which stays yours to close, or the place of one; memory without it.
    ``tools``: what the model may call: functions, ``Tool``, ``SkillFiles``.
    ``instructions``: the text that the model is told before a conversation.
    ``name``: who the log says has run; agents with several names can share a chat.
    ``folder``: profile and memory files, told before the instructions; see ``system_prompt``.
    ``about``: a function from a chat's key to what the model is told of the chat, a line a name; it may be async.
    ``policy``: when older messages are put behind a summary. ``summarise``: who writes it;
    the model without it, see ``model_summary``.
    ``send``: brings what ``chat_send`` sends to the user: (chat key, an id that stays the same when it is tried again, parts).
    ``on_step``: is told what happens in every run, as it happens.
    ``limits``: steps, retries, seconds; see ``Limits``.
    """

    def __init__(
        self,
        model: Model,
        *,
        store: Store | Storage | Path | str | None = None,
        tools: Iterable[Tool | SkillFiles | Callable[..., Any]] = ...,
        instructions: str = "",
        name: str = "",
        folder: Path | str | None = None,
        about: About | None = None,
        policy: Policy = ...,
        summarise: Summarise | None = None,
        send: Send | None = None,
        on_step: OnStep | None = None,
        limits: Limits = ...,
    ) -> None: ...
    @classmethod
    def from_config(cls, config: Mapping[str, Any] | Path | str, model: Model, **options: Any) -> Self:
        """The agent with the policy that a ``ship.json``, or words of one, say; see ``Policy.from_config``."""

    def run(
        self,
        *content: Content,
        chat: str | Chat | None = None,
        id: str | None = None,
        meta: Mapping[str, Json] | None = None,
        on_step: OnStep | None = None,
        interrupt: bool = False,
    ) -> Result:
        """Records the message, then answers it, with all that arrived before; gives what came of it.

            result = await agent.run("and the docs?", chat="telegram-42", id="telegram-991")
            result.text, result.outcome

        ``chat``: its key, or the chat; the current conversation without it. ``id``: the platform's; a message that is delivered
        twice is recorded and answered once. ``interrupt``: a model that is being asked in this chat is asked anew, with it.

        While a run is under way in this chat, it sees the message in its next step; the result is then that run's. Raises
        what a bug in the model or a callback raises; what a provider refuses is ``result.error``. If the caller is cancelled,
        so is the run; if that is the task which entered the agent's block, the run is stopped when the block is left.
        """

    def stream(
        self,
        *content: Content,
        chat: str | Chat | None = None,
        id: str | None = None,
        meta: Mapping[str, Json] | None = None,
    ) -> Generator[Step]:
        """Like ``run``, and yields what happens as it happens; the last step, of type ``result``, has the result.

        async for step in agent.stream("go on", chat="telegram-42"):
            print(step.text)
        """

    def submit(
        self,
        *content: Content,
        chat: str | Chat | None = None,
        id: str | None = None,
        meta: Mapping[str, Json] | None = None,
        interrupt: bool = False,
    ) -> Entry:
        """Records the message and returns its entry, durable; it is answered in the background.

        What goes wrong there is raised by ``wait_idle``, and when the agent's block is left. A restart forgets no message that was
        submitted: see ``resume_all``.
        """

    def resume(self, chat: str | Chat, *, on_step: OnStep | None = None) -> Result | None:
        """Goes on with a run that was killed, or answers what was not answered yet; None if there is nothing to do.

        Calls that were answered are not made again. Those that were not are treated as their tool's ``after_crash`` says.
        """

    def resume_all(self) -> list[str]:
        """The same in the background for all chats that need it; gives their keys. Chats that
        were imported, or that another framework answers, are left alone."""

    def regenerate(self, chat: str | Chat | None = None, *, on_step: OnStep | None = None) -> Result:
        """Asks the model again; returns what came of it. An answer that stands is taken back first, and stays in the log.

        Raises ``NoSuchPoint`` if nothing was asked.
        """

    def observe(self, observer: Observer) -> None:
        """Calls ``observer`` with a ``Span`` at the end of each run, model call and tool call, from now on.

        agent.observe(lambda span: print(span.kind, span.name, f"{span.seconds:.1f} s"))
        """

    def wait_idle(self) -> None:
        """Returns when everything that was submitted is answered; raises what went wrong in the background, if anything did."""

    def new_conversation(self, where: Path | str) -> Chat:
        """Begins a conversation: it is the current one now. Raises ``ChatExists`` if there is one.

        ``where``: a path, ``./chats/task-001.jsonl``, which becomes a store of this one chat, or a key in the agent's store. A string
        is a path if it has a separator or ends in ``.jsonl``.
        """

    def load_conversation(self, where: Path | str) -> Chat:
        """Takes up a conversation again: it is the current one now. Raises ``NoSuchChat`` if there is none."""

    def fork_conversation(self, where: Path | str, *, at: Point | None = None) -> Chat:
        """Goes on with the current conversation elsewhere, from ``at`` or from its end; the original stays as it is."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
