"""Serving: the server from its start to Ctrl-C, which ends it at once, also while pages are open.

It binds 127.0.0.1 and nothing else. From another machine: ``ssh -L 8742:127.0.0.1:8742 host``, then the same link.
"""

import asyncio
import errno
import logging
import socket
import webbrowser
from collections.abc import Callable
from types import FrameType
from urllib.parse import quote, urlencode

import uvicorn

from chatfold.replay.web.desk import Desk
from chatfold.replay.web.guard import Guard
from chatfold.replay.web.routes import make_app
from chatfold.replay.web.session import keep_token, state_folder, write_opening_file

PORT = 8742


async def serve(
    desk: Desk,
    *,
    start: str = "/",
    port: int | None = None,
    browser: bool = True,
    writes: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Until it is interrupted. ``start``: the path that the link leads to. ``port``: exactly this one; 0: any."""
    listening = listen(port, say)
    number = listening.getsockname()[1]
    folder = state_folder()
    token = keep_token(folder)
    ended = asyncio.Event()
    app = Guard(make_app(desk, ended, writes=writes), port=number, token=token, writes=writes)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = _Server(config, ended)
    link = f"http://127.0.0.1:{number}{start}{'&' if '?' in start else '?'}token={token}"
    say(f"chatfold view: {link}")
    say("Ctrl-C ends it.")
    opening = write_opening_file(folder, link) if browser else None
    if opening is not None:
        await asyncio.to_thread(webbrowser.open, opening.as_uri())
    try:
        await server.serve(sockets=[listening])
    finally:
        listening.close()
        if opening is not None:
            opening.unlink(missing_ok=True)


class _Server(uvicorn.Server):
    """Tells what is streamed that it is over, so that nothing is waited for."""

    def __init__(self, config: uvicorn.Config, ended: asyncio.Event) -> None:
        super().__init__(config)
        self._ended = ended

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._ended.set()
        logging.getLogger("uvicorn.error").disabled = True  # a question that is cut off now is no error
        super().handle_exit(sig, frame)


def listen(port: int | None, say: Callable[[str], None]) -> socket.socket:
    """On the port asked for; else on the usual one, so that bookmarks last, or on any if that is taken."""
    for wanted in (PORT, 0) if port is None else (port,):
        # Named TCP, so that asyncio turns Nagle's algorithm off: else each answer waits 40 ms for an acknowledgement.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", wanted))
            listening.listen(128)
        except OSError as error:
            listening.close()
            if error.errno != errno.EADDRINUSE or port is not None:
                raise
            say(f"port {wanted} is taken; using another one")
            continue
        return listening
    raise AssertionError("any port means any")


def path_to(key: str, at: str = "") -> str:
    """The path of a chat in the page."""
    return f"/c/{quote(key, safe='')}" + (f"?{urlencode({'at': at})}" if at else "")
