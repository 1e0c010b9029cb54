"""Who is answered: this machine, this user, this origin, this session."""

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from chatfold.replay.web.peer import ask_kernel, is_own_peer, search_tables, socket_owner
from tests.replay.web.serving import Server, serving
from tests.replay.web.story import CHAT

SAME = {"Sec-Fetch-Site": "same-origin"}


def test_the_link_gives_a_session_and_the_address_forgets_the_token(server: Server) -> None:
    response = server.send("GET", f"/c/{CHAT}?at=e3&token={server.token}&tab=diff")
    assert (response.status, response.getheader("location")) == (303, f"/c/{CHAT}?at=e3&tab=diff")
    cookie = response.getheader("set-cookie") or ""
    assert cookie.startswith(f"chatfold_{server.port}=")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert server.token not in cookie


def test_without_a_session_nothing_is_seen(server: Server) -> None:
    for path in (
        "/",
        f"/c/{CHAT}",
        "/api/v1/chats",
        f"/api/v1/tail?chat={CHAT}",
        "/static/x/start.js",
        "/favicon.ico",
        "/nowhere",
    ):
        for cookie in (
            "",
            "chatfold_1=x",
            f"chatfold_{server.port}=",
            f"chatfold_{server.port}={server.token}",
            "=;=;\x7f",
        ):
            assert server.send("GET", path, {"Cookie": cookie}).status == 401, (path, cookie)
    response = server.send("GET", "/api/v1/chats")
    assert "Open the link" in json.loads(response.body)["error"]
    for token in ("", "x", server.token[:-1], server.token + "x", "é"):
        assert server.send("GET", f"/?token={token.encode().hex() if token == 'é' else token}").status == 401


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:1",
        "[::1]",
        "127.0.0.1.evil.example",
        "",
    ],
)
def test_another_host_is_refused(server: Server, host: str) -> None:
    """A name that somebody points at 127.0.0.1 is not ours, whatever else the request has."""
    for path in ("/", "/api/v1/chats", f"/?token={server.token}"):
        response = server.send("GET", path, {"Host": host, "Cookie": server.cookie, **SAME})
        assert response.status == 421
        assert response.getheader("set-cookie") is None


def test_our_two_names_are_answered(server: Server) -> None:
    for name in ("127.0.0.1", "localhost"):
        assert server.get("/api/v1/chats", Host=f"{name}:{server.port}").status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
def test_another_site_is_refused(server: Server, site: str) -> None:
    assert server.get("/api/v1/chats", **{"Sec-Fetch-Site": site}).status == 403


def test_the_link_may_be_followed_from_anywhere(server: Server) -> None:
    """A strict cookie does not go along with what began elsewhere: so the answer begins anew, without the token."""
    response = server.send("GET", f'/c/a"b?token={server.token}', {"Sec-Fetch-Site": "cross-site"})
    text = response.body.decode()
    assert (response.status, server.token in text) == (200, False)
    assert text.endswith('content="0;url=/c/a&quot;b">')
    assert response.getheader("set-cookie")


def test_a_page_that_only_reads_takes_no_post(server: Server) -> None:
    ours = {
        "Cookie": server.cookie,
        "Origin": server.base,
        "X-Chatfold": "1",
        "Content-Type": "application/json",
        **SAME,
    }
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert server.send(method, "/api/v1/fork", ours, b"{}").status == 405


def test_a_post_needs_our_origin_our_header_and_json(story: Path, tmp_path: Path) -> None:
    with serving(story, tmp_path, "--write") as server:
        ours = {
            "Cookie": server.cookie,
            "Origin": server.base,
            "X-Chatfold": "1",
            "Content-Type": "application/json",
            **SAME,
        }
        body = json.dumps({"chat": "nobody", "at": 1, "name": "x"}).encode()
        assert server.send("POST", "/api/v1/fork", ours, body).status == 404, (
            "there is no such chat; but it was let in"
        )
        for change in (
            {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": f"http://127.0.0.1:{server.port + 1}"},
            {"Origin": f"https://127.0.0.1:{server.port}"}, {"X-Chatfold": ""}, {"Content-Type": "text/plain"},
        ):  # fmt: skip
            assert server.send("POST", "/api/v1/fork", {**ours, **change}, body).status == 403, change
        without = {name: value for name, value in ours.items() if name != "Origin"}
        assert server.send("POST", "/api/v1/fork", without, body).status == 403
        assert server.send("PUT", "/api/v1/fork", ours, body).status == 405


def test_every_answer_has_the_policy_and_none_lets_another_origin_in(server: Server) -> None:
    for path in ("/", "/api/v1/chats", "/api/v1/nothing", "/nowhere"):
        response = server.get(path)
        policy = response.getheader("content-security-policy") or ""
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.getheader("x-content-type-options") == "nosniff"
        assert response.getheader("referrer-policy") == "no-referrer"
        assert not [name for name, _ in response.headers if name.lower().startswith("access-control")]
        assert response.getheader("cache-control") in ("no-store", "no-cache")


def test_only_the_loopback_is_bound(server: Server) -> None:
    own = socket.gethostbyname(socket.gethostname())
    if own.startswith("127."):
        return
    with pytest.raises(OSError):
        socket.create_connection((own, server.port), timeout=2)


def test_whose_the_other_end_is_stands_in_the_system_s_table() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
    ):
        ports = client.getsockname()[1], listening.getsockname()[1]
        assert socket_owner(*ports) == search_tables(*ports) == os.geteuid()
        assert ask_kernel(*ports) in (os.geteuid(), None), "where it may not be asked, the tables are read"
        assert is_own_peer({"client": ("127.0.0.1", ports[0]), "server": ("127.0.0.1", ports[1])})
    assert socket_owner(1, 2) is None
    assert not is_own_peer({"client": ("192.0.2.7", 4242), "server": ("127.0.0.1", 80)})
    assert not is_own_peer({"client": None, "server": None})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_of_the_machine_is_refused_even_with_the_token(server: Server) -> None:
    program = (
        "import os, socket, sys; c = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); c.close();"
        "os.setuid(65534); c = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
        "c.sendall(f'GET /?token={sys.argv[2]} HTTP/1.1\\r\\nHost: 127.0.0.1:{sys.argv[1]}\\r\\n\\r\\n'.encode());"
        "print(c.recv(4096).split()[1].decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(server.port), server.token],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "403\n"


def test_a_restart_keeps_the_session_and_the_token_is_ours_alone(story: Path, tmp_path: Path) -> None:
    with serving(story, tmp_path) as first:
        cookie, port = first.cookie, first.port
    kept = tmp_path / "state" / "chatfold" / "view-token"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    with serving(story, tmp_path, port=port) as again:
        assert again.token == first.token
        assert again.send("GET", "/api/v1/store", {"Cookie": cookie}).status == 200
    kept.chmod(0o644)  # others may have read it
    with serving(story, tmp_path) as third:
        assert third.token != first.token


def test_a_taken_port_is_told_or_refused(story: Path, tmp_path: Path, server: Server) -> None:
    with pytest.raises(AssertionError, match="in use"), serving(story, tmp_path, port=server.port):
        pass
