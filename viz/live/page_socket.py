"""The websocket of a page: sends the newest frame once the page has drawn earlier ones."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from wmtk.errors import WmtkError
from wmtk.viz.live import protocol
from wmtk.viz.live.engine import Client, Engine
from wmtk.viz.live.measure import MetricsRunner

AHEAD = 2  # frames sent but not yet drawn
POLICY_VIOLATION = 1008  # websocket: policy violation


class PageSocket:
    """Accepts frames and events from any thread and sends them in the event loop.

    Only the newest frame and the newest event of each kind wait.
    """

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._lock = threading.Lock()
        self._frame: protocol.Frame | None = None
        self._events: dict[str, dict[str, Any]] = {}
        self._sent = self._drawn = 0
        self._behind_since = 0.0
        self._closed = False

    # --- from the inference thread ---

    def send_frame(self, frame: protocol.Frame) -> None:
        with self._lock:
            self._frame = frame.after(self._frame)
        self._wake_up()

    def send_event(self, kind: str, **about: Any) -> None:
        with self._lock:
            self._events.pop(kind, None)
            self._events[kind] = {"type": kind, **about}
        self._wake_up()

    def seconds_behind(self) -> float:
        with self._lock:
            is_behind = self._sent > self._drawn
            return time.monotonic() - self._behind_since if is_behind else 0.0

    def _wake_up(self) -> None:
        if not self._closed:
            try:
                self._loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:  # the loop has just been closed
                self._closed = True

    # --- in the event loop ---

    def on_drawn(self, frame: int) -> None:
        with self._lock:
            self._drawn = max(self._drawn, min(frame, self._sent))
            self._behind_since = time.monotonic()
        self._wake.set()

    async def send_all(self) -> None:
        """Send frames and events until the connection ends."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            events, packed = self._take()
            for event in events:
                await self._socket.send_text(protocol.dump(event))
            if packed is not None:
                await self._socket.send_bytes(packed)

    def close(self) -> None:
        self._closed = True

    def _take(self) -> tuple[list[dict[str, Any]], bytes | None]:
        """Take the waiting events and frame together, so that no frame is sent before an event."""
        with self._lock:
            events, self._events = list(self._events.values()), {}
            if self._frame is None or self._sent - self._drawn >= AHEAD:
                return events, None
            frame, self._frame = self._frame, None
            if self._sent == self._drawn:
                self._behind_since = time.monotonic()
            self._sent += 1
            number = self._sent
        return events, frame.pack(number)


async def serve_page(
    socket: WebSocket, engine: Engine, metrics: MetricsRunner, hello: dict[str, Any]
) -> None:
    """Serve a page until it is closed."""
    await socket.accept()
    page = PageSocket(socket)
    client = engine.connect(page)
    page.send_event("hello", **hello)
    sending = asyncio.create_task(page.send_all())
    listening = asyncio.create_task(_listen(socket, page, engine, client, metrics))
    try:
        await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        page.close()
        metrics.stop(page)
        engine.disconnect(client)
        for task in (sending, listening):
            task.cancel()
        await asyncio.gather(sending, listening, return_exceptions=True)


async def _listen(
    socket: WebSocket, page: PageSocket, engine: Engine, client: Client, metrics: MetricsRunner
) -> None:
    refused = 0
    while refused < protocol.MOST_REFUSED:
        try:
            message = protocol.parse(await socket.receive_text())
        except WebSocketDisconnect:
            return
        except (WmtkError, KeyError) as error:
            refused += 1
            bytes_sent = isinstance(error, KeyError)
            text = "Messages are text, not bytes." if bytes_sent else str(error)
            page.send_event("error", message=text, hint="")
            continue
        if isinstance(message, protocol.FrameDrawn):
            page.on_drawn(message.frame)
        elif isinstance(message, protocol.Measure):
            metrics.start(page, message)
        else:
            engine.post(client, message)
    await socket.close(POLICY_VIOLATION, "Too many invalid messages.")
