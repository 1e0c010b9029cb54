"""Structure-aware fuzzing of everything that takes bytes or words from outside.

``number`` inputs, made from the seed alone: lines, segments, caches, exports, messages of providers, addresses, chat keys. Whatever
comes in, it is understood as what it says or refused with the error that is documented for it; never anything else.
"""

import asyncio
import inspect
import random
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from chatfold.eventlog import (
    CorruptLog,
    Event,
    FileStorage,
    InvalidEvent,
    InvalidKey,
    Log,
    MemoryStorage,
    NewerFormat,
    Noted,
    Storage,
    check,
    scan,
)
from chatfold.eventlog.codec import DEL_BYTE, decode, encode_event, parse_references, resolve_line
from chatfold.eventlog.files.recovery import find_valid_lines
from chatfold.eventlog.files.survey import survey_segment
from chatfold.eventlog.keys import chat_key, folder_name, is_hashed
from chatfold.eventlog.line import has_valid_sum, parse_header
from chatfold.projections import from_anthropic, from_openai, from_ui
from chatfold.replay.inspect.address import BadAddress, address, point
from tests.support.damage.intact import cached, small
from tests.support.damage.mutations import forged, mutated, mutated_value
from tests.support.damage.provider_messages import ANTHROPIC, OPENAI, UI
from tests.support.figures import Figures
from tests.support.judges.judging_reads import Judge, Wrong, judge_writer

_REFUSED = (CorruptLog, NewerFormat)


class Fuzzing:
    """One method for each thing that is fuzzed: takes one input, raises if it goes wrong, says whether it was accepted."""

    def __init__(self, chance: random.Random, folder: Path) -> None:
        self._chance = chance
        self._folder = folder
        self.intact = small(folder / "small" / "store")
        self._lines = [
            line for path in self.intact.segments for line in self.intact.files[path].split(b"\n")[:-1]
        ]
        self._export = asyncio.run(self._exported())
        self.cached = cached(folder / "cached" / "store")
        self._titles = [
            content.partition(b"\n")[0].rstrip()
            for path, content in self.cached.files.items()
            if path in (*self.cached.caches, self.cached.head_file)
        ]
        self._titles = [title for title in self._titles if has_valid_sum(title)]
        self._cached_files = [
            path
            for path, content in self.cached.files.items()
            if has_valid_sum(content.partition(b"\n")[0].rstrip()) and path not in self.cached.segments
        ]

    def begin(self, seed: str) -> None:
        """The next input follows from this alone."""
        self._chance.seed(seed)

    async def _exported(self) -> bytes:
        async with Log(FileStorage(self.intact.root, read_only=True)) as log:
            return b"".join([piece async for piece in log.storage.export("chat")])

    # --- lines -----------------------------------------------------------------------------------------------

    def line(self) -> bool:
        """Without its sum made anew, no changed line verifies."""
        line = self._chance.choice(self._lines)
        changed = mutated(self._chance, line, self._lines)
        assert not has_valid_sum(changed) or changed in self._lines, f"verifies: {changed!r}"
        self._decoded(changed)  # nobody does that without asking; if so, an error that is documented
        return has_valid_sum(changed)

    def forged_line(self) -> bool:
        """A line that verifies is decoded as the JSON it is, or is no entry."""
        return self._decoded(forged(self._chance, self._chance.choice(self._lines), self._lines))

    def _decoded(self, line: bytes) -> bool:
        for inner in find_valid_lines(line):
            assert has_valid_sum(inner)
        survey_segment(line, 1)
        try:
            if line.startswith(b'{"chatfold"'):
                parse_header(line)
                return True
            entry = decode(resolve_line(line, self._line_of, self._blob_of))
        except _REFUSED:
            return False
        parse_references(line)
        if DEL_BYTE not in line:
            text = line.decode(errors="replace")  # a field that nobody reads may be none
            fields = msgspec.json.decode(text)
            assert (entry.seq, entry.ts, entry.id) == (fields["seq"], fields["ts"], fields.get("id"))
        return True

    def _line_of(self, seq: int) -> bytes:
        if not 0 < seq < len(self._lines):
            raise CorruptLog("there is no such line", seq=seq)
        return self._lines[seq]

    def _blob_of(self, digest: str) -> bytes:
        raise CorruptLog("a blob is missing")

    # --- segments and exports --------------------------------------------------------------------------------

    async def segment(self) -> bool:
        """Mutated anywhere, as often as it likes: nothing wrong is read."""
        path = self._chance.choice(self.intact.segments)
        others = list(self.intact.files.values())
        with self.intact.replaced(path, mutated(self._chance, self.intact.files[path], others)):
            judge = Judge(self.intact)
            await judge.quickly()
        return not judge.told

    async def forged_segment(self) -> bool:
        """By somebody who knows how sums are made: read, called damaged, or written on; no other error."""
        path = self._chance.choice(self.intact.segments)
        lines = self.intact.files[path].split(b"\n")
        at = self._chance.randrange(len(lines) - 1)
        lines[at] = forged(self._chance, lines[at], self._lines)
        root = self._folder / "forged"
        try:
            shutil.copytree(self.intact.root, root)
            (root / "chats" / "chat" / path.name).write_bytes(b"\n".join(lines))
            return await self._used(root)
        finally:
            shutil.rmtree(root)

    async def _used(self, root: Path) -> bool:
        try:
            report = check(root / "chats" / "chat")
            found = list(scan(root / "chats" / "chat"))
            async with Log(FileStorage(root, durability="off")) as log:
                assert len([entry async for entry in log.read("chat")]) == len(found)
                await log.last("chat", 3)
                await log.append("chat", Noted("after"), id="after")
                await log.search("chat", "answer")
        except NewerFormat:
            return False
        except CorruptLog as error:
            if report.ok:
                raise AssertionError("check says nothing of it") from error
            return False
        return True

    async def forged_cache(self) -> bool:
        """By somebody who knows how sums are made: what is read is what was written. A witness may be believed instead."""
        path = self._chance.choice(self._cached_files)
        line, newline, rest = self.cached.files[path].partition(b"\n")
        changed = forged(self._chance, line.rstrip(), self._titles)
        with self.cached.replaced(path, changed + newline + rest):
            judge = Judge(self.cached)
            try:
                await judge.by_caches(self._chance)
                return await judge_writer(self.cached, self._folder)
            except Wrong:
                if path != self.cached.head_file or not judge.told:
                    raise
                return False

    async def export(self) -> bool:
        """Taken in whole, as it is, or refused without a trace."""
        how = self._chance.random()
        lines = self._export.split(b"\n")
        if how < 0.5:
            at = self._chance.randrange(len(lines) - 1)
            lines[at] = forged(self._chance, lines[at], self._lines)
        data = b"\n".join(lines) if how < 0.5 else mutated(self._chance, self._export, [self._export])
        storage: Storage = MemoryStorage(clock=lambda: 1)
        try:
            await storage.import_chat("chat", _pieces(data))
        except _REFUSED:
            assert [key async for key in Log(storage).chats()] == []
            return False
        taken = b"".join([piece async for piece in storage.export("chat")])
        assert taken.split(b"\n")[1:-2] == data.split(b"\n")[1:-2]
        assert [entry async for entry in Log(storage).read("chat")]
        return True

    # --- words from outside ----------------------------------------------------------------------------------

    def messages(self) -> bool:
        """Of a provider: events that can be recorded, or a ValueError that says where."""
        take, examples = self._chance.choice(_PROVIDERS)
        changed = mutated_value(self._chance, self._chance.choice(examples))
        try:
            events: list[Event] = take(changed)
        except ValueError as error:
            if not str(error).startswith("messages"):
                raise
            return False
        for event in events:
            try:
                encode_event(event)
            except InvalidEvent:  # bytes or a tuple where JSON has none: told when it is recorded
                assert any(odd in repr(changed) for odd in ("(1, 2)",)), event
        return True

    def address(self) -> bool:
        text = "".join(self._chance.choices(_WORDS, k=self._chance.randint(0, 6)))
        try:
            found = address(text)
            assert text.startswith(found.chat)
            for one in (found.first, found.last):
                assert one is None or point(str(one)) == one, one
        except BadAddress:
            return False
        return True

    def key(self) -> bool:
        """Two keys that differ have folders that differ, also where case does not matter."""
        one, other = (self._key() for _ in range(2))
        try:
            name, another = folder_name(one), folder_name(other)
        except InvalidKey:
            return "" not in (one, other)
        assert (name.casefold() == another.casefold()) == (one == other), (one, other)
        assert name.isascii()
        assert len(name) <= 200
        assert chat_key(name) == (None if is_hashed(name) else one)
        return True

    def _key(self) -> str:
        length = self._chance.choice((0, 1, 2, 3, 8, 66, 67, 199, 200, 201, 5_000))
        alphabet = self._chance.choice(("ab", "aAbB=1é/", _EVERY, "\ud800\udfffx", "con.aux1"))
        return "".join(self._chance.choices(alphabet, k=length))


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


_EVERY = "".join(map(chr, range(0x250))) + "\ufb01\u017f\u212a\u0130\u0131\u0301漢\U0001f469\ud83d"
_WORDS = [
    *"etcsm^@.-", "..", ".0", "head", "label:", "0", "7", "12", "999999999999999", "9" * 40, "-2h", "-1w", "2026-11-15",
    "T10:00", "Z", "+02:00", " ", "\0", "\n", "\ud800", "漢", "٣", "²", "chat", "a@b",
]  # fmt: skip

_PROVIDERS: tuple[tuple[Callable[[Any], list[Event]], list[Any]], ...] = (
    (from_openai, [OPENAI]),
    (from_anthropic, [ANTHROPIC]),
    (from_ui, [UI]),
)

_SHARES: dict[str, float] = {
    "line": 30, "forged_line": 30, "messages": 20, "address": 6, "key": 6, "segment": 3, "forged_segment": 2, "forged_cache": 0.5, "export": 4,
}  # fmt: skip


def campaign(number: int, seed: int, folder: Path) -> Figures:
    """Every input has a seed of its own, so that it can be made again alone."""
    figures = Figures()
    fuzzing = Fuzzing(random.Random(seed), folder)
    targets = random.Random(seed).choices(list(_SHARES), list(_SHARES.values()), k=number)

    async def run() -> None:
        for count, target in enumerate(targets):
            figures.tried += 1
            try:
                fuzzing.begin(f"{seed} {count}")
                outcome = getattr(fuzzing, target)()
                accepted = await outcome if inspect.isawaitable(outcome) else outcome
            except Exception as error:  # noqa: BLE001 (anything that is not refused as documented is a violation)
                figures.violated(f"{target}, input {count} of seed {seed}", error)
            else:
                figures.count(f"{target}: {'accepted' if accepted else 'refused'}")

    asyncio.run(run())
    return figures
