"""Exports without what others must not see: the rules are applied first, then anything is written.

    found = await redacted(chat, Rules.parse(["secrets", "emails", "text:ACME"]))
    await found.export("chat.html", "html")         # any form
    for line in found.report.lines(): ...           # secrets: 3 in e12, e40

Every string of every entry is looked at: what was said, arguments and results, summaries, titles, notes, ids, the names in
mappings, text files, and what is not of our vocabulary. Numbers, too, for a literal or a pattern. Not looked at are the
bytes of other files and of ``data:`` URLs. Equal names become equal and different ones stay different, so that calls
still have their results. A value whose name says that it is a secret (``{"password": …}``) is one.

A redacted JSONL export is a chat of its own that ``Store.import_chat`` takes: the same seqs, times and batches, new sums. What
was computed from the text that is gone goes with it, since who knows all but a phone number could try them all:
fingerprints of requests after the first change, signatures of reasoning, fingerprints of injections. The last entry,
which the original does not have, is a note of the name ``REDACTED_EXPORT``: by which rules, how often, from which entry on.
"""

import typing
from collections.abc import AsyncGenerator, AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from chatfold.agent import Moment
from chatfold.agent.exporting import Form, write_file
from chatfold.agent.views import Opened
from chatfold.eventlog import (
    Entry,
    Event,
    File,
    Injected,
    Json,
    Log,
    Lost,
    ModelCalled,
    NoSuchChat,
    Noted,
    Part,
    Reasoning,
    SkillActivated,
    Unknown,
)
from chatfold.eventlog.codec import MAX_NAME
from chatfold.eventlog.search_text import OURS
from chatfold.eventlog.transfer import RedactedExport
from chatfold.eventlog.values import escape, unescape
from chatfold.projections import fold, start
from chatfold.projections.documents.describe import REDACTED_EXPORT
from chatfold.projections.text import text_of_file
from chatfold.replay.redact_rules import Rules, names_a_secret

_LISTED = 12  # seqs of a rule that a report names


class Found(msgspec.Struct, frozen=True):
    rule: str
    count: int
    seqs: tuple[int, ...]


class Report(msgspec.Struct, frozen=True):
    """What each rule found, and where."""

    found: tuple[Found, ...]

    @property
    def count(self) -> int:
        return sum(one.count for one in self.found)

    def lines(self) -> list[str]:
        return [f"{one.rule}: {_describe(one)}" for one in self.found]


def _describe(found: Found) -> str:
    if not found.count:
        return "nothing"
    more = len(found.seqs) - _LISTED
    rest = f" and {more} more" if more > 0 else ""
    return f"{found.count} in {', '.join(f'e{seq}' for seq in found.seqs[:_LISTED])}{rest}"


# --- entries ---------------------------------------------------------------------------------------------


class Redaction:
    """``of`` an entry is the entry without what the rules find.

    First all entries in their order, then any of them again, which is quicker and not counted once more.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._seqs: dict[str, dict[int, int]] = {label: {} for label in rules.labels}
        self._found: dict[str, int] = {}  # in the entry that is looked at
        self._names: dict[str, str] = {}  # what the names that had to be changed are now
        self._taken: set[str] = set()
        self._links: dict[
            int, str
        ] = {}  # of the entries that were looked at: another chat may take its place
        self._without: tuple[str, ...] = ()  # the rules that would find nothing
        self.first = 0
        """The seq of the first entry that was changed; 0 if there is none."""

    @property
    def report(self) -> Report:
        return Report(
            tuple(Found(label, sum(seqs.values()), tuple(sorted(seqs))) for label, seqs in self._seqs.items())
        )

    def of(self, entry: Entry) -> Entry:
        self._found = {}
        self._without = ()
        if self._links.get(entry.seq) == entry.link:  # only what found something then will find something now
            self._without = tuple(label for label, seqs in self._seqs.items() if entry.seq not in seqs)
            if len(self._without) == len(self._seqs):
                return self._without_proof(entry)
        event = self._event(entry.event)
        run, id_, key = (name and self.name(name) for name in (entry.run, entry.id, entry.key))
        self._links[entry.seq] = entry.link
        for label, count in self._found.items():
            self._seqs[label][entry.seq] = count
        if self._found:
            self.first = self.first or entry.seq
            event = self._without_fingerprint(event, entry.event)
            if id_ and isinstance(event, Noted) and event.name.startswith(OURS):
                id_ = self._distinct(id_, self._rules.mask)  # made from what it notes
            return replace(entry, event=event, run=run, id=id_, key=key)
        return self._without_proof(entry)

    def _without_proof(self, entry: Entry) -> Entry:
        """Its request cannot be proved any more if something before it was changed."""
        if isinstance(entry.event, ModelCalled) and 0 < self.first < entry.seq:
            return replace(entry, event=replace(entry.event, request=self._rules.mask))
        return entry

    def text(self, text: str) -> str:
        return self._rules.apply(text, self._found, without=self._without)

    def name(self, name: str) -> str:
        """Of something that other entries name, too."""
        changed = self.text(name)
        return name if changed == name else self._distinct(name, changed)

    def _distinct(self, name: str, changed: str) -> str:
        if name not in self._names:
            fitting = changed if len(changed) < MAX_NAME - 100 else self._rules.mask
            chosen, number = fitting, 0
            while chosen in self._taken:
                number = number + 1 if number else len(self._taken)
                chosen = fitting + self._rules.name(number)
            self._taken.add(chosen)
            self._names[name] = chosen
        return self._names[name]

    def _event(self, event: Event) -> Event:
        if isinstance(event, Unknown):
            return self._unknown(event)
        changed: Event = self._struct(event)
        return changed

    def _unknown(self, event: Unknown) -> Event:
        try:
            fields = unescape(msgspec.json.decode(event.raw))
        except (ValueError, RecursionError):  # made up: what cannot be read cannot be looked through
            lost: Event = Lost("it could not be read")
            return lost
        del fields["type"]
        name, changed = self.name(event.name), self.json(fields)
        if not self._found:
            return event
        told = escape({"type": name} | changed, lambda *_: None)
        return Unknown(told["type"], msgspec.json.encode(told))

    def _without_fingerprint(self, event: Event, old: Event) -> Event:
        if isinstance(event, ModelCalled):
            return replace(event, request=self._rules.mask)
        if isinstance(event, Injected | SkillActivated) and isinstance(old, Injected | SkillActivated):
            mark = old.fingerprint and self._distinct(old.fingerprint, self._rules.mask)
            return replace(event, fingerprint=mark)
        return event

    def _struct(self, value: Any) -> Any:
        """An event or a part."""
        changed: dict[str, Any] = {}
        kind: type[msgspec.Struct] = type(value)
        for field, method in _kinds(kind):
            old = getattr(value, field)
            if old:
                new = getattr(self, method)(old)
                if new is not old:
                    changed[field] = new
        if isinstance(value, File) and text_of_file(value) is not None:
            changed["data"] = self._bytes(value.data)
        if isinstance(value, Reasoning) and "text" in changed and changed["text"] != value.text:
            changed["signature"] = ""
        return replace(value, **changed) if changed else value

    def _bytes(self, data: bytes) -> bytes:
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def parts(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple(map(self._struct, parts))

    def names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self.name, names))

    def json(self, value: Json, *, secret: bool = False) -> Json:
        match value:
            case bool() | None:
                return value
            case str() if secret and value and not value.startswith("$"):
                return self._secret()
            case int() | float() if secret:
                return self._secret()
            case str():
                return self.text(value)
            case int() | float():
                found: dict[str, int] = {}
                shown = self._rules.apply(str(value), found, number=True, without=self._without)
                return self._count(found, shown) if found else value
            case bytes():
                try:
                    value.decode()
                except UnicodeDecodeError:
                    return value
                return self._bytes(value)
            case list():
                return [self.json(item, secret=secret) for item in value]
        return self._mapping(value)

    def _mapping(self, value: dict[str, Json]) -> dict[str, Json]:
        secrets = "secrets" in self._seqs
        made: dict[str, Json] = {}
        for key, item in value.items():
            new = self.text(key)
            while new in made:
                new += self._rules.name(len(made))
            made[new] = self.json(item, secret=secrets and names_a_secret(key))
        return made

    def counts(self, value: dict[str, int]) -> dict[str, int]:
        return {self.text(key): count for key, count in value.items()}

    def _secret(self) -> str:
        return self._count({"secrets": 1}, "•••")

    def _count(self, found: dict[str, int], shown: str) -> str:
        for label, count in found.items():
            self._found[label] = self._found.get(label, 0) + count
        return shown


_NAMES = {"call", "id", "to", "send", "name", "parent", "key", "fingerprint"}
"""Fields by which entries are told apart, or found."""


@cache
def _kinds(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """The fields of an event or a part that say something, and the method that redacts each."""
    found = ((name, _method(name, hint)) for name, hint in typing.get_type_hints(kind).items())
    return tuple((name, method) for name, method in found if method)


def _method(name: str, hint: Any) -> str:
    if hint is str:
        return "name" if name in _NAMES else "text"
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return {str: "names", int: ""}.get(args[0], "parts")
    if origin is dict:
        return "counts" if args[1] is int else "json"
    return "json" if hint is Any else ""


# --- chats -----------------------------------------------------------------------------------------------


class _RedactedLog(Log):
    """What is read of one chat, up to a seq, and then the note."""

    def __init__(self, log: Log, chat: str, redaction: Redaction, note: Entry) -> None:
        super().__init__(log.storage)
        self._chat = chat
        self._redaction = redaction
        self._note = note

    async def pages(self, chat: str, first: int = 1, last: int | None = None) -> AsyncIterator[list[Entry]]:  # noqa: ARG002 (may be redacted)
        end = self._note.seq - 1
        last = end + 1 if last is None else last
        async for page in super().pages(self._chat, first, min(last, end)):
            yield list(map(self._redaction.of, page))
        if first <= end + 1 <= last:
            yield [self._note]


class Redacted:
    """A chat after the rules, to be exported in any form. ``report``: what they found. ``moment``: what can be read of it."""

    def __init__(self, moment: Moment, report: Report) -> None:
        self.moment = moment
        self.report = report

    async def export(self, path: Path | str, form: Form = "jsonl", *, model: str = "") -> None:
        """Writes a file; it is there when it is complete."""
        await write_file(Path(path), self.export_bytes(form, model=model))

    async def export_bytes(self, form: Form = "jsonl", *, model: str = "") -> AsyncGenerator[bytes]:
        """The same, in pieces."""
        if form != "jsonl":
            async for piece in self.moment.export_bytes(form, model=model):
                yield piece
            return
        rewriting = RedactedExport()
        yield rewriting.begin()
        async for page in self.moment.log.pages(self.moment.key):
            yield rewriting.page(page)
        yield rewriting.end()


async def redact_chat(moment: Moment, rules: Rules) -> Redacted:
    """Reads all of the chat, up to this moment, once: whatever the rules cannot do is raised before anything is written."""
    now = await moment.now()
    redaction = Redaction(rules)
    view, last = start(now.view.projections, memory=now.seq), None  # what it goes back to can be read nowhere
    async for page in now.log.pages(now.key, 1, now.seq):
        view = fold(view, map(redaction.of, page))
        last = page[-1]
    if last is None:
        raise NoSuchChat("no such chat", chat=now.key)
    report = redaction.report
    data = {"rules": rules.labels, "entries": last.seq, "replaced": report.count, "first": redaction.first}
    note = Entry(last.seq + 1, last.ts, Noted(REDACTED_EXPORT, data), prev=last.link)
    log = _RedactedLog(now.log, now.key, redaction, note)
    key = rules.apply(now.key, {})
    return Redacted(Moment(log, key, Opened(view.then(note), [])), report)


async def export(moment: Moment, path: Path | str, form: Form, rules: Rules, *, model: str = "") -> Report:
    """Writes the chat to a file, redacted if there are rules, and says what they found."""
    if not rules:
        await moment.export(path, form, model=model)
        return Report(())
    found = await redact_chat(moment, rules)
    await found.export(path, form, model=model)
    return found.report
