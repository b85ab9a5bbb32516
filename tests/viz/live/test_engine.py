"""One thread for all: newest input wins, frames are dropped, two pages at once, all is freed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from wmtk.viz.live import protocol
from wmtk.viz.live.engine import Engine
from wmtk.viz.live.page_socket import AHEAD, PageSocket
from wmtk.viz.live.protocol import Frame


@pytest.fixture
def engine(make_catalog):
    made = Engine(make_catalog())
    yield made
    made.stop()


def incoming(kind: str, **about: Any) -> protocol.Incoming:
    return protocol._INCOMING.validate_python({"kind": kind, **about})


START = incoming("start", source="seed", run="r0")
PLAYING = incoming("settings", playing=True, actor="person", speed=60, temperature=1, futures=1)


def test_of_messages_of_a_kind_the_newest_counts(engine, page, until) -> None:
    """While the thread is busy, a hundred messages come to no more than one of each kind."""
    busy, go = threading.Event(), threading.Event()

    def hold() -> None:
        busy.set()
        go.wait(60)

    waiting = threading.Thread(target=lambda: engine.call(hold))
    waiting.start()
    busy.wait(60)
    client = engine.connect(page)
    engine.post(client, START)
    for _ in range(50):
        engine.post(client, incoming("keys", held=["left"]))
        engine.post(client, incoming("step"))
    engine.post(client, incoming("keys", held=["right"]))
    engine.post(client, incoming("step"))
    assert len(client.mailbox) == 3
    go.set()
    waiting.join()
    until(lambda: bool(page.frames) and page.step == 1)
    assert page.last.rows[0][1] == "right"


def test_two_pages_play_at_once_and_closing_one_leaves_the_other(engine, page, until) -> None:
    other = type(page)()
    clients = [engine.connect(one) for one in (page, other)]
    for client in clients:
        engine.post(client, START)
        engine.post(client, PLAYING)
    until(lambda: len(page.frames) > 20 and len(other.frames) > 20)
    assert len(engine.models) == 1  # the model is there once
    engine.disconnect(clients[0])
    until(lambda: engine.clients == 1)
    before = other.step
    until(lambda: other.step > before + 5)
    engine.disconnect(clients[1])
    until(lambda: engine.clients == 0 and len(engine.models) == 0)


def test_a_failure_is_told_and_the_others_play_on(engine, page, until) -> None:
    other = type(page)()
    wrong, right = engine.connect(page), engine.connect(other)
    engine.post(wrong, incoming("start", source="seed", run="r9"))
    engine.post(right, START)
    engine.post(right, PLAYING)
    until(lambda: bool(page.told("error")) and len(other.frames) > 5)
    assert "no run" in page.told("error")[0]["message"]


def test_work_of_others_gets_its_turn(engine, page, until) -> None:
    client = engine.connect(page)
    engine.post(client, START)
    engine.post(client, PLAYING)
    until(lambda: len(page.frames) > 3)
    assert [engine.call(lambda n=n: n * n) for n in range(20)] == [n * n for n in range(20)]
    with pytest.raises(ZeroDivisionError):
        engine.call(lambda: 1 // 0)
    before = page.step
    until(lambda: page.step > before)


def frame(step: int, branch: int = 0) -> Frame:
    pixels = np.full((2, 2, 1), step, np.uint8)
    return Frame(1, branch, step, [[step]], {"step": step}, [({"role": "dream0"}, pixels)])


def test_frames_are_dropped_but_their_numbers_are_not() -> None:
    packed = frame(3).after(frame(2).after(frame(1)))
    assert packed.first == 1
    assert packed.rows == [[1], [2], [3]]
    assert packed.header["step"] == 3
    assert frame(3, branch=1).after(frame(2)).rows == [[3]]


class Socket:
    """A websocket to a page that draws when it is told to."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.texts: list[str] = []
        self.on_text: Callable[[], None] = lambda: None

    async def send_bytes(self, data: bytes) -> None:
        self.frames.append(data)

    async def send_text(self, text: str) -> None:
        self.texts.append(text)
        self.on_text()


def test_a_frame_does_not_overtake_what_was_told_before() -> None:
    """A page that is not told of a start leaves its first frame out, and no other follows."""

    async def check() -> None:
        socket = Socket()
        link = PageSocket(socket)  # type: ignore[arg-type]

        def start() -> None:  # while something else is being sent
            socket.on_text = lambda: order.append("started" if not socket.frames else "late")
            link.send_event("started")
            link.send_frame(frame(0))

        order: list[str] = []
        socket.on_text = start
        sending = asyncio.create_task(link.send_all())
        link.send_event("note")
        while not socket.frames:
            await asyncio.sleep(0)
        assert order == ["started"]
        sending.cancel()

    asyncio.run(check())


def test_a_slow_page_gets_the_newest_frame_and_no_queue() -> None:
    async def check() -> None:
        socket = Socket()
        link = PageSocket(socket)  # type: ignore[arg-type]
        sending = asyncio.create_task(link.send_all())

        async def settle() -> None:
            for _ in range(20):
                await asyncio.sleep(0)

        for step in range(AHEAD):
            link.send_frame(frame(step))
            await settle()
        for step in range(AHEAD, 200):
            link.send_frame(frame(step))
            link.send_event("note", text=str(step))
        await settle()
        assert len(socket.frames) == AHEAD
        assert socket.texts == ['{"type":"note","text":"199"}']
        assert link.seconds_behind() >= 0
        link.on_drawn(1)
        await settle()
        assert len(socket.frames) == AHEAD + 1
        newest = socket.frames[-1]
        assert newest[-4:] == bytes([199] * 4)
        assert b'"rows":[[2],[3]' in newest
        link.on_drawn(10**9)  # more than was sent: nobody is fooled
        await settle()
        assert link.seconds_behind() == 0
        sending.cancel()

    asyncio.run(check())
