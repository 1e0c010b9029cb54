"""What the page is told is what the command says."""

import json
import struct
from pathlib import Path
from typing import Any

from tests.replay.web.serving import Server
from tests.replay.web.story import CHAT
from tests.support.debugger.commanded import run


def _command(story: Path, *words: str) -> list[Any]:
    return [json.loads(line) for line in run(*words, "--json", store=story).stdout.splitlines()]


def test_home_lists_what_ls_lists(story: Path, server: Server) -> None:
    assert server.ask("chats")["chats"] == [
        {name: value for name, value in row.items() if name != "v"}
        for row in _command(story, "ls", "-n", "0")
    ]


def test_a_difference_is_that_of_diff(story: Path, server: Server) -> None:
    [told] = _command(story, "diff", f"{CHAT}@c1^..c1")
    found = server.ask("difference", chat=CHAT, a="c1^", b="c1")["difference"]
    for name in ("before", "after", "left", "kept", "added", "prefix", "prefix_tokens"):
        assert found["comparison"][name] == told[name]
    assert set(found["kept_words"]) <= {str(item["seq"]) for item in found["comparison"]["left"]}


def test_why_is_that_of_why(story: Path, server: Server) -> None:
    [told] = _command(story, "why", CHAT, "must not touch vendor")
    found = server.ask("why", chat=CHAT, q="must not touch vendor")["why"]
    assert found["traces"]["traces"][0]["visits"] == told["traces"][0]["visits"]
    assert found["summaries"], "what the summary became is followed"


def test_a_request_is_proved_as_by_messages(story: Path, server: Server) -> None:
    [told] = _command(story, "messages", CHAT, "--for-call", "3")
    found = server.ask("request", chat=CHAT, at="m3")["request"]
    assert (found["proof"], found["number"], found["recorded"]) == ("proved", 3, told["recorded"])
    assert json.loads(server.ask("request", chat=CHAT, at="m3", **{"as": "sent"})["text"]) == told["payload"]
    assert found["same"] > 0
    after = server.ask("request", chat=CHAT, at="head")["request"]
    assert (after["proof"], after["number"]) == ("next", 0)


def test_the_columns_are_those_of_the_lines(server: Server) -> None:
    response = server.get(f"/api/v1/columns?chat={CHAT}")
    data, end = response.body, int(response.getheader("x-end") or 0)
    assert len(data) == 18 * end
    kinds = server.ask("store")["kinds"]
    lines = server.ask("lines", chat=CHAT, first=1, last=500)["lines"]
    assert [kinds[code] for code in data[16 * end : 17 * end]] == [line["what"] for line in lines]
    assert list(struct.unpack(f"<{end}d", data[: 8 * end])) == [line["ts"] for line in lines]


def test_what_is_not_there_is_said_with_the_next_step(server: Server) -> None:
    for path, status, kind in (
        ("chat?chat=nobody", 404, "gone"),
        (f"event?chat={CHAT}&at=e99999", 404, "point"),
        (f"event?chat={CHAT}&at=c9", 404, "point"),
        (f"event?chat={CHAT}&at=e0", 404, "point"),
        (f"event?chat={CHAT}&at=^^", 400, "refused"),
        ("search?q=%21", 400, "refused"),
    ):
        response = server.get(f"/api/v1/{path}")
        value = json.loads(response.body)
        assert (response.status, value["kind"]) == (status, kind), path
        assert value["error"]


def test_a_large_body_comes_in_parts(server: Server) -> None:
    event = server.ask("event", chat=CHAT, at="e9")["event"]
    whole = server.ask("event", chat=CHAT, at="e9", whole=1)["event"]
    assert len(event["line"]["text"]) <= 1 << 16
    assert len(whole["line"]["text"]) == whole["line"]["size"] == event["line"]["size"]


def test_search_finds_in_all_chats_and_says_where_it_is_now(server: Server) -> None:
    response = server.get("/api/v1/search?q=vendor")
    groups = [json.loads(line)["hits"] for line in response.body.splitlines()]
    assert {CHAT, "http-retries-what-if"} <= {group["chat"] for group in groups}
    [mine] = [group for group in groups if group["chat"] == CHAT]
    assert {hit["now"]["where"] for hit in mine["hits"] if hit["now"]} & {"active", "compacted"}
    only = server.get(f"/api/v1/search?q=vendor&only={CHAT}&kinds=user").body.splitlines()
    assert [{hit["what"] for hit in json.loads(line)["hits"]["hits"]} for line in only] == [{"user"}]
