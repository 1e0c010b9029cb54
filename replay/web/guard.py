"""The guard: who is answered. Everything passes it, the files of the page included.

    peer            a process of this user (or root) on this machine, as far as the system tells
    Host            exactly ours, with the port: a name that somebody points at 127.0.0.1 is refused (DNS rebinding)
    Sec-Fetch-Site  not another site's, but for the link with its token, which may be followed from anywhere
    session         the cookie; or the token, which is exchanged for it and leaves the address bar
    POST            with ``--write`` only, from our own Origin, with a header that no form can set

No CORS header is ever sent. The policy allows our own scripts, styles and connections and nothing else: no inline code, no eval, no
frame, no form. Nothing is kept in the browser's cache but the files of the page.
"""

import hmac
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chatfold.replay.inspect.serial import json_object
from chatfold.replay.web.peer import is_own_peer

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
_SAME = ("same-origin", "none", "")
ENDED = "Your session ended. Open the link that `chatfold view` printed."


class Guard:
    def __init__(self, app: ASGIApp, *, port: int, token: str, writes: bool) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._token = token
        self._cookie = f"chatfold_{port}"
        self._session = hmac.new(token.encode(), f"session {port}".encode(), sha256).hexdigest()
        self._writes = writes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # a web socket is never accepted

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """What is answered instead; None: it may pass."""
        headers = Headers(scope=scope)
        if not is_own_peer(scope):
            return PlainTextResponse("This page belongs to another user.\n", 403)
        if headers.get("host", "") not in self._hosts:
            return PlainTextResponse("This is not the address of this page.\n", 421)
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        site = headers.get("sec-fetch-site", "")
        if scope["method"] == "GET" and self._is_token(query.get("token", [""])[0]):
            return self._let_in(scope["path"], query, site)
        if site not in _SAME:
            return PlainTextResponse("Another site asked for this.\n", 403)
        if not self._is_session(headers.get("cookie", "")):
            if scope["path"].startswith("/api/"):
                return Response(
                    json_object({"error": ENDED, "kind": "session"}), 401, media_type="application/json"
                )
            return PlainTextResponse(ENDED + "\n", 401)
        if scope["method"] in ("GET", "HEAD"):
            return None
        return self._write_refusal(scope["method"], headers)

    def _write_refusal(self, method: str, headers: Headers) -> Response | None:
        if method != "POST" or not self._writes:
            return PlainTextResponse("This page only reads; chatfold view --write lets it fork.\n", 405)
        is_ours = headers.get("origin") in self._origins and headers.get("x-chatfold") == "1"
        if not is_ours or headers.get("content-type", "").partition(";")[0] != "application/json":
            return PlainTextResponse("Another site asked for this.\n", 403)
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _is_session(self, cookies: str) -> bool:
        try:
            morsel = SimpleCookie(cookies).get(self._cookie)
        except CookieError:
            return False
        return morsel is not None and hmac.compare_digest(morsel.value.encode(), self._session.encode())

    def _let_in(self, path: str, query: dict[str, list[str]], site: str) -> Response:
        rest = urlencode(
            [(name, value) for name, values in query.items() if name != "token" for value in values]
        )
        clean = "/" + path.lstrip("/") + (f"?{rest}" if rest else "")
        if site in _SAME:
            response: Response = RedirectResponse(clean, 303)
        else:  # A strict cookie is not sent along with a navigation that began elsewhere: this page begins another one.
            response = HTMLResponse(
                f'<!DOCTYPE html><meta http-equiv="refresh" content="0;url={_attribute(clean)}">'
            )
        response.set_cookie(self._cookie, self._session, path="/", httponly=True, samesite="strict")
        return response


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
