"""Access control of the live page: token, Host, Origin, read-only methods."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

METHODS = ("GET", "HEAD")
LOOPBACK = frozenset(["localhost", "127.0.0.1", "::1"])
# The browser loads nothing from other origins, even if strings of a dataset contain markup.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",  # the token is part of the address
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
REFUSAL = 4403  # close code of a websocket that was refused


def new_token() -> str:
    """An unguessable part of the URL."""
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Whether a server that listens at `host` is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str) -> frozenset[str]:
    """The Host headers that a server at `host` accepts.

    This stops DNS rebinding: a foreign page can resolve its own name to this address, but not send
    another Host header.
    """
    if is_loopback(host):
        return LOOPBACK | {host}
    return LOOPBACK | {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}


class Guard:
    """ASGI middleware: requires the token, the server's Host and Origin, and a read-only method."""

    def __init__(self, app: App, token: str, hosts: Collection[str], *, any_address: bool) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(hosts)
        self._any_address = any_address  # accept any IP address as Host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        problem = self._problem(scope)
        if problem is None:
            _, _, path = scope["path"].lstrip("/").partition("/")
            inner = {**scope, "path": f"/{path}", "raw_path": f"/{path}".encode()}
            await self._app(inner, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": REFUSAL, "reason": problem[1]})
        else:
            await _refuse(_with_headers(send), *problem)

    def _problem(self, scope: Scope) -> tuple[int, str] | None:
        """The status and reason of a refusal, or None."""
        headers = _headers(scope)
        if scope["type"] == "http" and scope["method"] not in METHODS:
            return 405, "This server is read-only."
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._is_own(_hostname(f"//{hosts[0]}")):
            return 403, "The Host header does not name this server."
        origins = headers.get("origin", [])
        # Browsers always send the Origin of the page that opens a websocket.
        if scope["type"] == "websocket" and len(origins) != 1:
            return 403, "Connections from other origins are refused."
        if any(_netloc(origin) != hosts[0].lower() for origin in origins):
            return 403, "Connections from other origins are refused."
        token = scope["path"].lstrip("/").partition("/")[0]
        if not secrets.compare_digest(token.encode(), self._token):
            return 403, "Open the complete URL that `wmtk viz serve` printed."
        return None

    def _is_own(self, name: str) -> bool:
        if name in self._hosts:
            return True
        return self._any_address and _is_address(name)


def _headers(scope: Scope) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


def _hostname(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _netloc(url: str) -> str:
    """Host and port of an origin; empty if it is malformed."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _with_headers(send: Send) -> Send:
    """Add the security headers to every response."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return sending


async def _refuse(send: Send, status: int, reason: str) -> None:
    text = reason.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(text)),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
