"""Access control: only the person who started the server may ask, on this machine.

The server listens on 127.0.0.1, where other users of a shared machine and any web page in the person's own
browser can reach it, too. Hence

- a secret: an address with a token that works once gives the browser a cookie, which scripts cannot read
  (`HttpOnly`) and which other sites' requests do not carry (`SameSite=Strict`); it is named with the port,
  since cookies of all ports of a host are kept together;
- `Host` must be a loopback name, or a foreign name that was re-pointed to 127.0.0.1 (DNS rebinding) would
  make a foreign page our own;
- `Origin`, which browsers send with every POST, must be our own, and a body must be JSON, which a foreign
  form cannot send;
- answers carry a policy that lets the page load only what comes from here, and forbids frames;
- sizes and rates are bounded.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nora.explorer.rejection import Rejected

ENTER = "/enter"
# Requests per second over a long time, and at once.
RATE, BURST = 200.0, 600
TOKENS = 64
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# Not a redirect: the browser would take it for a request of the page that linked here, and keep the cookie.
WELCOME = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>NORA</title>'
    '<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url=/">'
    '<p><a href="/">Open the explorer</a></p></html>'
)
STRANGER = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>NORA</title>'
    '<link rel="icon" href="data:,">'
    "<h1>This address is not open to you</h1><p>{reason}</p></html>"
)
ASK_AGAIN = (
    "Open the address with a token that the terminal shows; each works once. "
    "For another one, press Enter there, or print explorer.url in Python."
)


class Keys:
    """Tokens that work once, and the secret they are exchanged for."""

    def __init__(self) -> None:
        self.secret = secrets.token_urlsafe(32)
        self._tokens: OrderedDict[str, None] = OrderedDict()

    def token(self) -> str:
        """A new token; only the last few unused tokens stay valid."""
        made = secrets.token_urlsafe(32)
        self._tokens[made] = None
        while len(self._tokens) > TOKENS:
            self._tokens.popitem(last=False)
        return made

    def spend(self, given: str) -> bool:
        """Whether a token is valid; afterwards it is not."""
        found = [
            own for own in self._tokens if hmac.compare_digest(own.encode(), given.encode("utf-8"))
        ]
        for own in found:
            self._tokens.pop(own, None)
        return bool(found)

    def fits(self, given: str) -> bool:
        """Whether a cookie holds the secret."""
        return hmac.compare_digest(self.secret.encode(), given.encode("utf-8", "replace"))


class Allowance:
    """At most so many per second, and so many at once.

    >>> now = [0.0]
    >>> allowance = Allowance(1.0, 2, clock=lambda: now[0])
    >>> allowance.take(), allowance.take(), allowance.take()
    (True, True, False)
    >>> now[0] = 1.5
    >>> allowance.take(), allowance.take()
    (True, False)
    """

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst, self.clock = rate, burst, clock
        self.left, self.seen = float(burst), clock()

    def take(self) -> bool:
        """Take one; False if none is left."""
        now = self.clock()
        self.left = min(self.burst, self.left + (now - self.seen) * self.rate)
        self.seen = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class RequestGuard:
    """Lets the right requests through to `app`; all answers get the headers."""

    def __init__(self, app: ASGIApp, port: int, keys: Keys) -> None:
        self.app, self.port, self.keys = app, port, keys
        self.cookie = f"nora-{port}"
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self.allowance = Allowance(RATE, BURST)
        self.attempts = Allowance(1.0, 20)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        try:
            own = self._answer(scope)
        except Rejected as rejected:
            own = self._rejection(scope, rejected)
        await (own or self.app)(scope, receive, with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """The guard's own response; None if the request may pass to the app."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            raise Rejected(421, "this server answers to 127.0.0.1 and localhost only")
        own = f"http://{hosts[0].lower()}"
        origin, post = headers.get("origin"), scope["method"] not in ("GET", "HEAD")
        if (origin is None and post) or (origin is not None and origin.lower() != own):
            raise Rejected(403, "requests from other pages are rejected")
        entering = scope["path"] == ENTER and scope["method"] == "GET"
        page = entering or scope["path"] == "/"
        if not page and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Rejected(403, "requests from other pages are rejected")
        if entering:
            return self._enter(scope, headers)
        if not self._known(headers):
            raise Rejected(403, ASK_AGAIN)
        if not self.allowance.take():
            raise Rejected(429, "too many requests at once: wait a second")
        if post and headers.get("content-type", "").split(";")[0].strip() != "application/json":
            raise Rejected(415, "send JSON, with Content-Type: application/json")
        return None

    def _known(self, headers: Headers) -> bool:
        # Another server of this machine may have set cookies of the same name: ours is among them.
        for line in headers.getlist("cookie"):
            for part in line.split(";"):
                name, _, value = part.strip().partition("=")
                if name == self.cookie and self.keys.fits(value):
                    return True
        return False

    def _enter(self, scope: Scope, headers: Headers) -> Response:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        answer = HTMLResponse(WELCOME)
        if self.keys.spend(given):
            answer.set_cookie(self.cookie, self.keys.secret, httponly=True, samesite="strict")
            return answer
        if self._known(headers):
            return answer
        if not self.attempts.take():
            raise Rejected(429, "too many attempts: wait a minute")
        raise Rejected(403, ASK_AGAIN)

    def _rejection(self, scope: Scope, rejected: Rejected) -> Response:
        if scope["path"] in (ENTER, "/"):
            return HTMLResponse(STRANGER.format(reason=rejected.message), rejected.status)
        return JSONResponse({"error": rejected.message}, rejected.status)
