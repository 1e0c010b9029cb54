"""``--json``: an object a line, each with ``"v":1``, and these fields. Programs rely on them: a field may be added, and is then
added here; none may go, and none may change its meaning, without another version."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.debugger.commanded import lines, run
from tests.support.debugger.scripted import CHAT, FORK, scripted

ITEM = "seq seqs kind role tokens text"
SIDE = "chat seq turn context title items tokens"
ARCHIVED = "contextId title createdAt archivedAt messageCount reason checkpoint summaryPreview"
ROW = "seq ts turn kind what glyph text failed run id name"
SCHEMAS: list[tuple[str, list[str], str]] = [
    (
        "ls",
        ["ls"],
        "key title turns messages created active preview role parent is_open error",
    ),
    ("log", ["log", CHAT], ROW),
    (
        "log --turns",
        ["log", CHAT, "--turns"],
        "turn first last ts question answer tools failures marks size outcome",
    ),
    (
        "show",
        ["show", f"{CHAT}@c1"],
        "chat turn name kind entry belongs left added tokens_before tokens_after context",
    ),
    (
        "context",
        ["context", CHAT],
        "chat seq turn id title items tokens by_kind compactions archive shelved",
    ),
    ("context --archive", ["context", CHAT, "--archive"], ARCHIVED),
    (
        "context --lifetimes",
        ["context", CHAT, "--lifetimes"],
        "item entered left cause name tokens text",
    ),
    ("messages", ["messages", CHAT], "chat seq shape fingerprint messages"),
    ("messages --hash", ["messages", CHAT, "--hash"], "fingerprint"),
    ("messages --for-call --hash", ["messages", CHAT, "--for-call", "1", "--hash"], "fingerprint"),
    (
        "messages --for-call",
        ["messages", CHAT, "--for-call", "-1"],
        "chat seq number model provider recorded rebuilt payload proved why",
    ),
    (
        "diff",
        ["diff", f"{CHAT}@c1^..c1"],
        "before after shared left kept added changed moved tokens steps undone archive prefix prefix_tokens cache",
    ),
    ("diff messages", ["diff", f"{CHAT}@1..", "--what", "messages"], "shape prefix suffix left added"),
    ("diff archive", ["diff", f"{CHAT}@1..", "--what", "archive"], "added removed changed kept"),
    ("diff events", ["diff", f"{CHAT}@1..", "--what", "events"], "shared before after"),
    ("why", ["why", CHAT, "vendor/"], "query exact total traces"),
    ("why nothing", ["why", CHAT, "xyzzy-nowhere"], "query exact total traces"),
    ("tree", ["tree", CHAT], "key depth parent at turns active title is_gone is_last"),
    ("search", ["search", "lexer"], "chat seq preview ts"),
    (
        "stats",
        ["stats", CHAT],
        (
            "chat title entries first last kinds turns messages usage tools errors runs compactions "
            "hidden_tokens contexts forks picture"
        ),
    ),
    ("check", ["check"], "path state entries segments problems lost kept unproven"),
    (
        "replay",
        ["replay", CHAT],
        "chat entries turns model_calls tool_calls proved unprovable other_rules snapshots runs skipped attempts divergence more",
    ),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import asyncio

    return asyncio.run(scripted(tmp_path_factory.mktemp("json") / "store"))


@pytest.mark.parametrize(("args", "fields"), [one[1:] for one in SCHEMAS], ids=[one[0] for one in SCHEMAS])
def test_the_fields_of_each_verb(args: list[str], fields: str, store: Path) -> None:
    code = 1 if "xyzzy-nowhere" in args else 0
    found = lines(run(*args, "--json", store=store), code)
    assert found
    for line in found:
        assert line["v"] == 1
        assert " ".join(line.keys() - {"v"} - set(fields.split())) == ""
        assert " ".join(set(fields.split()) - line.keys()) == ""


def one(store: Path, *args: str) -> dict[str, Any]:
    [found] = lines(run(*args, "--json", store=store))
    return found


def test_what_is_inside_of_a_context_and_of_a_comparison(store: Path) -> None:
    seen = one(store, "context", CHAT)
    assert all(" ".join(item) == ITEM for item in seen["items"])
    assert " ".join(seen["archive"][0]) == ARCHIVED
    assert seen["tokens"] == {"count": 64, "estimated": True}
    difference = one(store, "diff", f"{CHAT}@c1^..c1")
    assert " ".join(difference["before"]) == SIDE
    assert " ".join(difference["left"][0]) == ITEM
    assert " ".join(difference["steps"][0]) == (
        "seq ts kind number turn context title reason first last trigger policy tokens summary"
    )


def test_an_entry_is_given_as_it_is_on_disk(store: Path) -> None:
    entry = one(store, "show", f"{CHAT}@13")["entry"]
    [line] = [
        json.loads(line) for line in run("show", f"{CHAT}@13", "--raw", store=store).stdout.splitlines()
    ]
    assert entry == line
    assert entry["event"] == {
        "type": "tool_called",
        "call": "call-2",
        "name": "read_file",
        "args": {"path": "src/lexer.py"},
    }


def test_messages_come_in_the_shape_that_is_asked_for(store: Path) -> None:
    found = one(store, "messages", CHAT, "--as", "openai")
    assert found["shape"] == "openai"
    assert found["messages"][-1] == {"role": "user", "content": "And Windows line endings?"}
    assert json.loads(run("messages", CHAT, "--as", "openai", store=store).stdout) == found["messages"]


@pytest.mark.parametrize("point", ["24", "25", "26"])
def test_hostile_text_is_the_same_text_to_a_program(point: str, store: Path) -> None:
    from tests.support.debugger.scripted import HOSTILE

    assert HOSTILE in str(strings(one(store, "show", f"{CHAT}@{point}")["entry"]))


def strings(value: Any) -> "HasStrings":
    return HasStrings(value)


class HasStrings:
    """All the strings in a JSON value, to be looked through."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __str__(self) -> str:
        return "\n".join(_strings(self.value))


def _strings(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for item in value.values() for text in _strings(item)]
        case list():
            return [text for item in value for text in _strings(item)]
    return []


def test_what_makes_something_says_what_it_made(store: Path, tmp_path: Path) -> None:
    fork = one(store, "fork", f"{CHAT}@t1", "--name", "made")
    assert fork == {"v": 1, "key": "made", "parent": CHAT, "at": 16}
    exported = one(store, "export", FORK, "-o", str(tmp_path / "x.jsonl"))
    assert exported.keys() == {"v", "chat", "seq", "form", "path", "redacted"}
    imported = one(tmp_path / "new", "import", str(tmp_path / "x.jsonl"), "--store", str(tmp_path / "new"))
    assert imported.keys() == {"v", "key", "entries", "sum"}
    shown = lines(run("demo", tmp_path / "demo", "--json"))
    assert all(" ".join(line) == f"v {ROW}" for line in shown)
    saved = one(store, "salvage", str(store / "chats" / FORK), str(tmp_path / "saved"))
    assert saved == {"v": 1, "entries": 5, "path": str(tmp_path / "saved" / "salvaged.jsonl"), "unproven": 0}
