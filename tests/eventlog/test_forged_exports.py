"""Exports that anybody may have put together, with valid sums: refused at the door, or a chat like any other.

What is accepted must be usable for good: read both ways, searched, appended to, forked, erased, exported.
"""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatfold.eventlog import (
    CorruptLog,
    Head,
    IdConflict,
    Log,
    MemoryStorage,
    MessageAdded,
    NewerFormat,
    Noted,
    Text,
    check,
)
from chatfold.eventlog.line import MAX_LINE, add_checksum, header_line, link_after, seal_line
from chatfold.eventlog.transfer import _MOST, ExportReader
from chatfold.projections import STANDARD, fold, start
from chatfold.testing.strategies import VOCABULARY
from tests.support.exporting import (
    DIGEST,
    START,
    TINY,
    Line,
    adopt,
    blob_line,
    closed,
    entry_line,
    exported,
    forged,
    noted,
    opened,
    read,
    scratch,
    traces,
)
from tests.support.profile import searched

KINDS = ("files", "memory")
N = Line()
LONG = b'"%b"' % (b"x" * 600)
FIRST = noted(b'"data":%b' % LONG)
AT = entry_line(FIRST, 1, START).index(LONG)


def ref(seq: int, at: int = AT, size: int = len(LONG)) -> Line:
    return noted(b'"data":"\x7fref:%d:%d:%d"' % (seq, at, size))


def text(digest: bytes) -> Line:
    return noted(b'"data":"\x7ftext:%b"' % digest)


def deep(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def after_the_seal(*lines: bytes) -> bytes:
    return b"\n".join([forged(N)[:-1], *lines, b""])


ONE = entry_line(N, 1, START)
HEAD = header_line(Head())

REFUSED: dict[str, tuple[str, bytes]] = {
    # the export
    "nothing": ("ends too early", b""),
    "a newline": ("does not verify", b"\n"),
    "a header alone": ("ends too early", HEAD + b"\n"),
    "no entries": ("not whole", forged()),
    "no header": ("not a segment header", closed([ONE], 1, link_after(ONE))),
    "a later segment": ("begin with the first", forged(N, first=header_line(Head(4, "0" * 16)))),
    "a header that follows something": ("begin with the first", forged(N, first=header_line(Head(0, "1" * 16)))),
    "a header without a first seq": ("cannot be read", forged(N, first=add_checksum(b'{"chatfold":1,"reader":1'))),
    "a second header": ("not the next entry", forged(N, HEAD, N)),
    "an entry after the seal": ("follows the last", after_the_seal(entry_line(N, 2, link_after(ONE)))),
    "an empty line after the seal": ("follows the last", after_the_seal(b"")),
    "half a line after the seal": ("follows the last", forged(N) + b"{"),
    "a seal of other bytes": ("another export", b"\n".join([HEAD, ONE, seal_line(1, 7, "0" * 64, link_after(ONE)), b""])),
    "a seal that counts wrong": ("another export", closed([HEAD, ONE], 2, link_after(ONE))),
    "a seal after another entry": ("not whole", closed([HEAD, ONE], 1, START)),
    "a seal that is none": ("cannot be read", forged(N, add_checksum(b'{"seal":7'))),
    "a line without an end": ("without an end", HEAD + b"\n" + b"x" * (MAX_LINE + 1)),
    # the order of entries
    "a gap": ("not the next entry", forged(N, Line(seq=3))),
    "a seq twice": ("not the next entry", forged(N, Line(seq=1))),
    "seqs from 0": ("not the next entry", forged(entry_line(N, 0, START))),
    "another predecessor": ("does not follow", forged(N, Line(prev=b"f" * 16))),
    "a predecessor that was erased": ("does not follow", forged(Line(marks=b',"was":"%b"' % (b"a" * 16)), Line(prev=b"b" * 16))),
    "another seq inside": ("fields", forged(Line(names=b'"seq":2,'))),
    "a batch before the event": ("fields", forged(Line(names=b'"batch":"1/2",'))),
    "durable too early": ("durable", forged(Line(marks=b',"synced":1'))),
    "half a batch": ("not whole", forged(N, Line(marks=b',"batch":"1/2"'))),
    "a place after the batch": ("batch", forged(Line(marks=b',"batch":"3/2"'))),
    "a place before the batch": ("batch", forged(Line(marks=b',"batch":"0/0"'))),
    "a batch of more than can be counted": ("cannot be read", forged(entry_line(Line(marks=b',"batch":"1/%b"' % (b"9" * 5_000)), 1, START))),
    "marks that are none": ("without prev", forged(entry_line(Line(marks=b',"batch":"a/b"'), 1, START))),
    # what an entry says
    "no JSON": ("not JSON", forged(Line(b"{nothing}"))),
    "NUL in a text": ("not JSON", forged(noted(b'"data":"\0"'))),
    "a return for a newline": ("does not verify", forged(N).replace(b"\n", b"\r\n")),
    "no UTF-8": ("cannot be read", forged(noted(b'"data":"\xff"'))),
    "no UTF-8 in a field of later": ("cannot be read", forged(noted(b'"later":"\xff"'))),
    "no event": ("without prev", forged(add_checksum(b'{"seq":1,"ts":1,"prev":"%b"' % START))),
    "an event without a type": ("not an entry", forged(Line(b'{"name":"n"}'))),
    "a type that is no string": ("not an entry", forged(Line(b'{"type":7}'))),
    "a longer line": ("not the next entry", forged(noted(b'"data":"%b"' % (b"x" * MAX_LINE)))),
    "nested too deep": ("nested", forged(noted(b'"data":' + deep(200)))),
    "nested too deep to be decoded": ("recursion", forged(noted(b'"data":' + deep(5_000)))),
    "nested too deep in a field of later": ("nested", forged(Line(names=b'"later":%b,' % deep(300)))),
    "nested too deep in an unknown event": ("nested", forged(Line(b'{"type":"later","x":%b}' % deep(200)))),
    "too many digits": ("digits", forged(noted(b'"data":' + b"9" * 4_100))),
    "too large a float in a field of later": ("out of range", forged(noted(b'"later":1e999'))),
    "bytes that are none": ("cannot be read", forged(noted(b'"data":"\x7fb64:A"'))),
    "a key that is a number": ("as a key", forged(noted(b'"data":{"\x7fnan":1}'))),
    "a run that is a number": ("run or an id", forged(Line(names=b'"run":"\x7fnan",'))),
    "an id that is bytes": ("run or an id", forged(Line(names=b'"id":"\x7fb64:AAAA",'))),
    "an empty id": ("run or an id", forged(Line(names=b'"id":"",'))),
    "a key that is not a number": ("cannot be read", forged(Line(names=b'"key":"\x7fnan",'))),
    "a key that is bytes": ("cannot be read", forged(Line(names=b'"key":"\x7fb64:AAAA",'))),
    "a key that is no string": ("not an entry", forged(Line(names=b'"key":7,'))),
    "an empty key": ("key that is not a string", forged(Line(names=b'"key":"",'))),
    "a longer key": ("key that is not a string", forged(Line(names=b'"key":"%b",' % (b"k" * 1_025)))),
    "a key that is a reference": ("where it must not be", forged(FIRST, Line(names=b'"key":"\x7fref:1:%d:602",' % AT))),
    "a time that is a text": ("not an entry", forged(Line(names=b'"said_at":"1",'))),
    "a time that is a fraction": ("not an entry", forged(Line(names=b'"said_at":1.5,'))),
    "a time that is true": ("not an entry", forged(Line(names=b'"said_at":true,'))),
    "a time of many digits": ("18 digits", forged(Line(names=b'"said_at":1%b,' % (b"0" * 18)))),
    "a time of very many digits": ("read|entry|digits", forged(Line(names=b'"said_at":%b,' % (b"9" * 4_400)))),
    "a longer id": ("run or an id", forged(Line(names=b'"id":"%b",' % (b"i" * 1_025)))),
    # what an entry keeps elsewhere
    "a reference forward": ("not before it", forged(ref(2), FIRST)),
    "a reference to itself": ("not before it", forged(FIRST, ref(2))),
    "a reference to nothing": ("not before it", forged(FIRST, ref(0))),
    "a reference into a string": ("not there", forged(FIRST, ref(1, AT + 5, 20))),
    "a reference beyond the line": ("not there", forged(FIRST, ref(1, 10_000))),
    "a reference to no byte": ("not there", forged(FIRST, ref(1, AT, 0))),
    "a reference that is no JSON": ("not JSON", forged(FIRST, ref(1, AT, 1))),
    "a reference to a tombstone": ("not there", forged(FIRST._replace(marks=b',"was":"%b"' % START), ref(1)._replace(prev=START))),
    "a reference to a reference": ("must not be", forged(FIRST, ref(1), ref(2, AT, len(b'"\x7fref:1:%d:602"' % AT)))),
    "a reference as an id": ("must not be", forged(FIRST, Line(names=b'"id":"\x7fref:1:%d:602",' % AT))),
    "a reference as a type": ("type is a ref", forged(N, Line(b'{"type":"\x7fref:1:%d:7","name":""}' % ONE.index(b'"noted"')))),
    "a missing blob": ("not before it", forged(text(DIGEST))),
    "a blob after the entry": ("not before it", forged(text(DIGEST), blob_line(b"hi"))),
    "a blob of another name": ("content of its name", forged(blob_line(b"ho", DIGEST.decode()), text(DIGEST))),
    "a blob with a path for a name": ("content of its name", forged(blob_line(b"hi", "../../../etc"), N)),
    "a blob that is no base64": ("cannot be read", forged(add_checksum(b'{"blob":"%b","base64":"*"' % DIGEST), text(DIGEST))),
    "a blob twice": ("twice", forged(blob_line(b"hi"), blob_line(b"hi"), text(DIGEST))),
    "a blob that nobody needs": ("does not need", forged(blob_line(b"hi"), N)),
    "a blob at the end": ("not whole", forged(N, blob_line(b"hi"))),
    "a text that is no UTF-8": ("cannot be read", forged(blob_line(b"\xff"), text(sha256(b"\xff").hexdigest().encode()))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_what_would_be_no_chat_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    message, data = REFUSED[name]
    for kind in KINDS:
        async with opened(kind, tmp_path) as log:
            with pytest.raises(CorruptLog, match=message) as caught:
                await adopt(log.storage, "chat", data)
            assert caught.value.offset is not None
            assert caught.value.chat == ("chat" if kind == "files" else None)
            assert [chat async for chat in log.chats()] == []
        assert not traces(tmp_path)


async def test_a_newer_format_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    newer = add_checksum(b'{"chatfold":9,"reader":9,"first":1,"prev":"%b"' % START)
    for kind in KINDS:
        async with opened(kind, tmp_path) as log:
            with pytest.raises(NewerFormat):
                await adopt(log.storage, "chat", forged(N, first=newer))
            assert [chat async for chat in log.chats()] == []
        assert not traces(tmp_path)


def test_an_entry_that_would_fill_the_memory_is_refused_before_it_is_made_whole() -> None:
    huge = noted(b'"data":[%b]' % b",".join([b'"\x7fref:1:%d:%d"' % (AT, _MOST // 99)] * 100))
    with pytest.raises(CorruptLog, match="too large when it is whole"):
        list(ExportReader().feed(forged(FIRST, huge)))


RICH: tuple[Line | bytes, ...] = (
    FIRST._replace(names=b'"run":"r","id":"i",'),
    ref(1, AT + len(b'"run":"r","id":"i",')),
    blob_line(b"hi"),
    text(DIGEST)._replace(marks=b',"batch":"1/2","synced":2'),
    Line(b'{"type":"compacted","first":1,"last":2,"count":2,"summary":"s"}', marks=b',"batch":"2/2"'),
    noted(b'"data":["\x7fnan","\x7fb64:AP8=","\x7fd83d"]', marks=b',"was":"0123456789abcdef"'),
    Line(b'{"type":"later","data":[1.5,{}]}', prev=b"0123456789abcdef"),
)
TAGS = {kind.__struct_config__.tag for kind in VOCABULARY}
ACCEPTED: dict[str, bytes] = {
    "one entry": forged(N),
    "a blob, a batch, a tombstone": TINY,
    "everything at once": forged(*RICH),
    "a reference": forged(FIRST, ref(1), ref(1)),
    "blanks": forged(Line(b'{ "type" : "noted", "name":\t"n" }', names=b' "run": "r" ,')),
    "returns between fields": forged(Line(b'{"type":"lost",\r"note":""}')),
    "an escape that is none": forged(noted(b'"data":"\x7f and \x7fzzzz"')),
    "a field twice": forged(Line(b'{"type":"lost"},"event":{"type":"noted","name":"n"}')),
    "more fields after the event": forged(Line(b'{"type":"lost"},"more":1,"x":{}')),
    "a header of later": forged(N, first=add_checksum(HEAD[:-26].replace(b',"first"', b',"more":1,"first"'))),
    "an unknown event": forged(Line(b'{"type":"later","x":["\x7fzz"]}')),
    "a known event of another shape": forged(Line(b'{"type":"noted","name":7}')),
    "any time": forged(Line(names=b'"ts":%b,' % (b"9" * 400)), Line(names=b'"ts":-5,')),
    "batches that lie": forged(*(Line(marks=b',"batch":"%b"' % b) for b in (b"2/9", b"2/9", b"1/9", b"7/7"))),
    "a batch of one": forged(Line(marks=b',"batch":"1/1"')),
    "a key twice, with two contents": forged(
        Line(b'{"type":"noted","name":"a"}', names=b'"key":"k",'),
        Line(b'{"type":"noted","name":"b"}', names=b'"key":"k",'),
    ),
    "any time it was said at": forged(*(Line(names=b'"said_at":%d,' % at) for at in (-1, 0, 10**18 - 1))),
    "an id twice": forged(*[Line(names=b'"id":"i",')] * 2),
    "an id inside a batch": forged(*(Line(names=b'"id":"i",', marks=b',"batch":"%d/2"' % i) for i in (1, 2))),
    "a fork and an erasure of what was never there": forged(
        Line(b'{"type":"forked","parent":"nobody","at":99}'),
        Line(b'{"type":"redacted","seqs":[0,-1,99]}'),
        Line(b'{"type":"compacted","first":9,"last":-9,"count":1,"summary":""}'),
        Line(b'{"type":"rewound","to":99}'),
    ),
    "the longest line": forged(noted(b'"data":"%b"' % (b"x" * 1_032_100))),
}


async def used(log: Log, data: bytes) -> None:
    """Everything that is ever asked of a chat."""
    entries = await read(log, "chat")
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert repr([entry async for entry in log.read_back("chat")]) == repr(entries[::-1])
    assert (await exported(log.storage, "chat")).split(b"\n")[1:-2] == data.split(b"\n")[1:-2]
    assert fold(start(STANDARD), entries).head == await log.head("chat")
    await log.search("chat", "n")
    [said] = await log.append("chat", MessageAdded("user", (Text("x" * 600),)), id="new")
    assert (await log.append("chat", MessageAdded("user", (Text("x" * 600),)), id="new"))[0] == said
    await log.fork("chat", "fork", 1)
    await log.redact("chat", *[entry.seq for entry in entries])
    await log.append("chat", Noted("last"))
    for chat in ("chat", "fork"):
        await adopt(MemoryStorage(), chat, await exported(log.storage, chat))


async def accepted_and_used(kind: str, data: bytes) -> bool:
    """A chat like any other, or refused without a trace."""
    with scratch() as root:
        async with opened(kind, root) as log:
            try:
                await adopt(log.storage, "chat", data)
            except CorruptLog:
                assert not traces(root)
                return False
            await used(log, data)
        for folder in root.glob("chats/*"):
            assert check(folder).problems == []
    return True


@pytest.mark.parametrize("name", ACCEPTED)
async def test_what_is_only_odd_is_a_chat_like_any_other(name: str) -> None:
    for kind in KINDS:
        assert await accepted_and_used(kind, ACCEPTED[name])


# --- anything else ---------------------------------------------------------------------------------------

FRAGMENTS = (
    b'"', b"}", b"{", b"]", b"[", b",", b":", b"\\", b"\x7f", b"\\u007f", b"\xff", b"\0", b"\r", b" ", b"null", b"-1",
    b"1e999", b"9" * 4_200, deep(150), b'"seq":2,', b'"event":{"type":"lost"}', b',"batch":"1/2"', b',"synced":9',
    b',"was":"0123456789abcdef"', b'"\x7fnan"', b'"\x7fb64:A"', b'"\x7fref:1:%d:602"' % AT, b'"\x7fref:2:50:18"',
    b'"\x7fref:0:0:1"', b'"\x7ftext:%b"' % DIGEST, b'"\x7fdata:%b"' % DIGEST, b'"type":"lost"', b'"id":"x",', b'"run":"",',
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """RICH with a few bytes changed: left out, written again, or others put in; all sums as they must be."""
    items: list[Line | bytes] = list(RICH)
    for _ in range(draw(st.integers(1, 2))):
        index = draw(st.sampled_from([i for i, item in enumerate(items) if isinstance(item, Line)]))
        line = items[index]
        assert isinstance(line, Line)
        field = draw(st.sampled_from(("event", "event", "names", "marks")))
        old: bytes = getattr(line, field)
        start, end = sorted(draw(st.integers(0, len(old))) for _ in range(2))
        new = draw(st.sampled_from((b"", old[start:end] * 2, *FRAGMENTS)))
        changed: dict[str, Any] = {field: old[:start] + new + old[end:]}
        items[index] = line._replace(**changed)
    return forged(*items)


@searched(8)
@given(data=mutated())
def test_whatever_is_forged_is_refused_or_a_chat_like_any_other(data: bytes) -> None:
    async def outcomes() -> set[bool]:
        return {await accepted_and_used(kind, data) for kind in KINDS}

    assert len(asyncio.run(outcomes())) == 1


@pytest.mark.parametrize("event", [b'{"type":"lost","note":7}', b'{"type":"\\u007fref:1:2:3"}'])
async def test_an_unknown_shape_of_a_known_type_can_be_erased(event: bytes) -> None:
    log = opened("memory", Path())
    await adopt(log.storage, "chat", forged(Line(event)))
    await log.redact("chat", 1)


async def test_the_first_entry_of_a_key_stands_for_it() -> None:
    """An export may hold a key twice. Nothing that was written can tell which one its writer meant."""
    for kind in KINDS:
        with scratch() as root:
            async with opened(kind, root) as log:
                await adopt(log.storage, "chat", ACCEPTED["a key twice, with two contents"])
                [known] = await log.append("chat", Noted("a"), keys=("k",))
                assert known.seq == 1
                with pytest.raises(IdConflict):
                    await log.append("chat", Noted("b"), keys=("k",))
