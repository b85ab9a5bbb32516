"""HTTP connections with deadlines and limits, so that idle ones never block the page."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

READ_TIMEOUT = 10.0  # seconds for a complete request to arrive
KEEP_ALIVE = 5  # seconds without a byte between two requests
RESPONSE_TIMEOUT = 60.0  # seconds for a response to be computed and read
PER_CLIENT = 32  # connections of one address at once; browsers open about six
CONNECTIONS = 128  # at once


class Connection(H11Protocol):
    """Closes at its deadline; at the limit, a new connection replaces the longest idle one.

    Websockets leave this class at their upgrade; `app.MOST_PAGES` limits them.
    """

    _timer: asyncio.TimerHandle | None = None
    _since = 0.0  # when it became idle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline(READ_TIMEOUT)
        others = [
            each
            for each in self.connections
            if isinstance(each, Connection) and each is not self and not each.transport.is_closing()
        ]
        same = [each for each in others if each.address == self.address]
        if not (_room(same, PER_CLIENT) and _room(others, CONNECTIONS)):
            self._refuse(503, "There are too many connections already. Close some.")

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_busy = self.busy
        super().data_received(data)
        if self.busy and not was_busy:
            self._deadline(RESPONSE_TIMEOUT)

    def on_response_complete(self) -> None:
        self._deadline(READ_TIMEOUT)
        super().on_response_complete()  # may start the next request
        if self.busy:
            self._deadline(RESPONSE_TIMEOUT)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._deadline(None)
        super().handle_websocket_upgrade(event)

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def busy(self) -> bool:
        """Whether a response is in progress."""
        return self.cycle is not None and not self.cycle.response_complete

    def _deadline(self, seconds: float | None) -> None:
        """Set, or with None clear, the deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._since = time.monotonic()
            self._timer = self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self.busy:
            self.transport.abort()  # the client does not read the response
        elif self.conn.trailing_data[0]:
            self._refuse(408, f"The request did not arrive within {READ_TIMEOUT:g} seconds.")
        else:
            self.transport.close()

    def _refuse(self, status: int, reason: str) -> None:
        """Send an error response and close."""
        lines = (
            f"HTTP/1.1 {status} {'Service Unavailable' if status == 503 else 'Request Timeout'}",
            "content-type: text/plain; charset=utf-8",
            f"content-length: {len(reason)}",
            "connection: close",
        )
        self.transport.write("\r\n".join([*lines, "", reason]).encode())
        self.transport.close()


def _room(connections: list[Connection], limit: int) -> bool:
    """Whether one more connection is allowed; closes the longest idle one if necessary."""
    if len(connections) < limit:
        return True
    idle = [each for each in connections if not each.busy and not each.transport.is_closing()]
    if idle:
        min(idle, key=lambda each: each._since).transport.close()
    return bool(idle)
