"""A page's websocket: the newest frame goes out once the page has drawn those before."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from wmtk.errors import WmtkError
from wmtk.viz.live import protocol
from wmtk.viz.live.engine import Engine, Seat
from wmtk.viz.live.measure import Measurer

AHEAD = 2  # frames that may be on their way
NONSENSE = 1008  # websocket: policy violation


class Link:
    """Takes frames and events from any thread; sends them in the event loop, never queueing.

    Of frames that wait there is one, the newest. Of events of a kind there is one, too.
    """

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._lock = threading.Lock()
        self._frame: protocol.Frame | None = None
        self._events: dict[str, dict[str, Any]] = {}
        self._sent = self._seen = 0
        self._owing_since = 0.0
        self._closed = False

    # --- from the inference thread ---

    def draw(self, frame: protocol.Frame) -> None:
        with self._lock:
            self._frame = frame.after(self._frame)
        self._rouse()

    def tell(self, kind: str, **about: Any) -> None:
        with self._lock:
            self._events.pop(kind, None)
            self._events[kind] = {"type": kind, **about}
        self._rouse()

    def unseen_for(self) -> float:
        with self._lock:
            owing = self._sent > self._seen
            return time.monotonic() - self._owing_since if owing else 0.0

    def _rouse(self) -> None:
        if not self._closed:
            try:
                self._loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:  # the loop has just been closed
                self._closed = True

    # --- in the event loop ---

    def seen(self, frame: int) -> None:
        with self._lock:
            self._seen = max(self._seen, min(frame, self._sent))
            self._owing_since = time.monotonic()
        self._wake.set()

    async def send_all(self) -> None:
        """Send what there is, as it comes, until the connection ends."""
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
        """Both at once: a frame never overtakes what was told before it was drawn."""
        with self._lock:
            events, self._events = list(self._events.values()), {}
            if self._frame is None or self._sent - self._seen >= AHEAD:
                return events, None
            frame, self._frame = self._frame, None
            if self._sent == self._seen:
                self._owing_since = time.monotonic()
            self._sent += 1
            number = self._sent
        return events, frame.pack(number)


async def serve_page(
    socket: WebSocket, engine: Engine, measurer: Measurer, hello: dict[str, Any]
) -> None:
    """Talk to a page until it is closed."""
    await socket.accept()
    link = Link(socket)
    seat = engine.enter(link)
    link.tell("hello", **hello)
    sending = asyncio.create_task(link.send_all())
    listening = asyncio.create_task(_listen(socket, link, engine, seat, measurer))
    try:
        await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        link.close()
        measurer.stop(link)
        engine.leave(seat)
        for task in (sending, listening):
            task.cancel()
        await asyncio.gather(sending, listening, return_exceptions=True)


async def _listen(
    socket: WebSocket, link: Link, engine: Engine, seat: Seat, measurer: Measurer
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
            link.tell("error", message=text, hint="")
            continue
        if isinstance(message, protocol.Seen):
            link.seen(message.frame)
        elif isinstance(message, protocol.Measure):
            measurer.start(link, message)
        else:
            engine.post(seat, message)
    await socket.close(NONSENSE, "Too many messages that make no sense.")
