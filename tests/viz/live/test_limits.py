"""Connections that wait, headers that are malformed, messages that are wrong: answered or ended."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from wmtk.errors import UsageError, WmtkError
from wmtk.viz.live import connection, measure, protocol
from wmtk.viz.live.page_socket import PageSocket
from wmtk.viz.live.player import Player

WAIT = 60.0


@pytest.fixture
def server(serve):
    return serve()


@pytest.fixture
def lines(server) -> Iterator[Callable[[], socket.socket]]:
    """Connections to the server, which are closed at the end."""
    with contextlib.ExitStack() as stack:

        def new() -> socket.socket:
            address = ("127.0.0.1", server.address.port)
            return stack.enter_context(socket.create_connection(address, timeout=WAIT))

        yield new


def request(server, path: str = "", *headers: str) -> bytes:
    host = () if any(x.lower().startswith("host:") for x in headers) else ("Host: 127.0.0.1",)
    head = [f"GET /{server.address.token}/{path} HTTP/1.1", *host, *headers, "", ""]
    return "\r\n".join(head).encode("latin-1")


def answer(line: socket.socket) -> tuple[int, bytes]:
    """The status and everything that came until the end of the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := line.recv(2**16):
            data += chunk
    return (int(data.split()[1]) if data else 0), data


def ask(server, line: socket.socket, path: str = "", *headers: str) -> tuple[int, bytes]:
    line.sendall(request(server, path, *headers, "Connection: close"))
    return answer(line)


@pytest.mark.parametrize("sent", [b"", b"GET / HT"], ids=["silent", "half a request"])
def test_two_hundred_idle_connections_do_not_block_the_page(server, lines, sent: bytes) -> None:
    for _ in range(200):
        lines().sendall(sent)
    status, body = ask(server, lines())
    assert status == 200
    assert b"wmtk live" in body
    with talk(server) as page:
        assert json.loads(page.recv(timeout=WAIT))["type"] == "hello"


def test_a_connection_that_asks_nothing_is_ended(server, lines, monkeypatch) -> None:
    monkeypatch.setattr(connection, "READ_TIMEOUT", 0.2)
    silent, slow, kept = lines(), lines(), lines()
    slow.sendall(b"GET / HTTP/1.1\r\nHost:")
    kept.sendall(request(server))  # answered, and then idle
    assert answer(silent) == (0, b"")
    status, text = answer(slow)
    assert status == 408
    assert b"did not arrive within 0.2 seconds" in text
    assert answer(kept)[0] == 200


def test_answers_that_are_never_read_are_given_up(server, lines, monkeypatch) -> None:
    monkeypatch.setattr(connection, "RESPONSE_TIMEOUT", 0.2)
    with next(iter(server.catalog.datasets.values())).lock:  # the answer cannot be made
        line = lines()
        line.sendall(request(server, "data/d0"))
        assert answer(line) == (0, b"")
    assert ask(server, lines(), "data/d0")[0] == 200


@pytest.mark.parametrize("limit", ["PER_CLIENT", "CONNECTIONS"])
def test_connections_that_are_all_busy_have_a_largest_number(
    server, lines, until, monkeypatch, limit: str
) -> None:
    monkeypatch.setattr(connection, limit, 3)
    with next(iter(server.catalog.datasets.values())).lock:
        busy = [lines() for _ in range(3)]
        for line in busy:
            line.sendall(request(server, "data/d0", "Connection: close"))
        until(lambda: sum(each.busy for each in server.connections) == 3)
        status, text = answer(lines())
        assert status == 503
        assert b"too many connections" in text
    assert [answer(line)[0] for line in busy] == [200] * 3


MALFORMED = ["[", "http://[", "http://]", "http://[::1", "http://\xff", "//", "http://a@[b", ":"]
MALFORMED += ["http://127.0.0.1:99999999999", "http://\u2100".encode().decode("latin-1")]


@pytest.mark.parametrize("value", MALFORMED)
def test_malformed_headers_are_refused(server, lines, caplog, value: str) -> None:
    caplog.set_level(logging.ERROR)
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    upgrade += ("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",)
    for headers in (f"Origin: {value}",), (f"Host: {value}",), (f"Referer: {value}", "Host: [x"):
        assert ask(server, lines(), "", *headers)[0] in {400, 403}
        line = lines()
        line.sendall(request(server, "socket", *headers, *upgrade))
        assert int(line.recv(2**16).split()[1]) in {400, 403}
    assert not caplog.records


def test_no_query_fails(server, lines, caplog) -> None:
    caplog.set_level(logging.ERROR)
    rng = random.Random(0)
    names = ["offset", "limit", "order", "descending", "min_return", "max_return", "min_length"]
    names += ["max_length", "ended", "first", "x"]
    values = [
        "",
        "0",
        "-1",
        "nan",
        "inf",
        "-inf",
        "1e999",
        str(2**31 - 1),
        str(2**70),
        "%00",
        "%ff",
    ]
    values += ["return", "true", "terminated", "[]", "1.5", "%e2%84%80"]
    seen = set()
    for _ in range(150):
        path = rng.choice(["episodes", "episodes/0", "episodes/0/frames.png", "episodes/5", ""])
        query = "&".join(f"{rng.choice(names)}={rng.choice(values)}" for _ in range(3))
        status, body = ask(server, lines(), f"data/d0/{path}?{query}")
        assert status < 500, (path, query, body)
        seen.add(status)
    assert {200, 422} <= seen
    assert not caplog.records


# --- messages ---


def talk(server):
    where = f"127.0.0.1:{server.address.port}"
    url = f"ws://{where}/{server.address.token}/socket"
    return connect(url, origin=f"http://{where}", open_timeout=WAIT, proxy=None, max_queue=None)


MESSAGES: list[dict[str, Any]] = [
    {"kind": "start", "source": "data", "run": "r0", "data": "d0", "episode": 1, "step": 2},
    {"kind": "start", "source": "seed", "run": "r0", "seed": 3},
    {"kind": "start", "source": "real", "run": "r0"},
    {
        "kind": "settings",
        "playing": True,
        "actor": "recorded",
        "speed": 60,
        "temperature": 1,
        "futures": 2,
    },
    {"kind": "keys", "held": ["left"], "values": [0.5]},
    {"kind": "step"},
    {"kind": "goto", "branch": 0, "step": 0},
    {"kind": "fork"},
    {"kind": "force", "codes": {"0": 1}},
    {"kind": "force", "codes": {"0": 8}},  # one too many
    {"kind": "force", "codes": {"0": 2**31 - 1, "4": 0}},
    {"kind": "goto", "branch": 7, "step": 0},
    {"kind": "sync"},
    {"kind": "record", "on": True},
    {"kind": "measure", "runs": ["r0"], "data": "d0", "windows": 2, "horizon": 3},
    {"kind": "drawn", "frame": 1},
]
VALUES: list[Any] = [None, True, False, -1, 0, 7, 1.5, 99, 2**31 - 1, 2**31, 2**63, 2**200, -1e308]
VALUES += [1e308, "", "x", "r0", "d0", "r9999", "0", "\x00\x1b[31m", "\ud800", "x" * 999, "policy"]
VALUES += [
    [],
    {},
    [[]],
    ["r0", "r0"],
    ["r0"] * 99,
    {"0": 8},
    {"4": 0},
    {"0": 2**31 - 1},
    {"9999": 1},
]
VALUES += [{"0": -1}, {"00": 0}, [1e9], [2.0] * 300, ["\ud800"], float("nan"), float("inf")]


def mutated(rng: random.Random) -> str | bytes:
    message = dict(rng.choice(MESSAGES))
    for _ in range(rng.randint(0, 2)):
        name = rng.choice([*message, "codes", "branch", "step", "episode", "extra"])
        if rng.random() < 0.1:
            message.pop(name, None)
        else:
            message[name] = rng.choice(VALUES)
    text = json.dumps(message)
    if rng.random() < 0.05:
        return b"\x00" + text.encode()
    if rng.random() < 0.05:
        place = rng.randrange(len(text))
        return text[:place] + rng.choice('[]{}\\"0e') * rng.choice([1, 5000]) + text[place:]
    return text


def heard(page, kind: str) -> None:
    """Wait for an event of a kind."""
    while True:
        data = page.recv(timeout=WAIT)
        if isinstance(data, str) and json.loads(data)["type"] == kind:
            return


def not_measured(*_: Any) -> None:
    raise UsageError("Not measured.")


def test_no_message_fails(server, until, caplog, monkeypatch) -> None:
    """Wrong ones give an error that says what is wrong, and nothing else happens."""
    caplog.set_level(logging.ERROR)
    failures: list[Exception] = []
    crashed: list[Any] = []
    told: list[dict[str, Any]] = []
    fail, send_event = Player.fail, PageSocket.send_event
    monkeypatch.setattr(threading, "excepthook", crashed.append)
    monkeypatch.setattr(Player, "fail", lambda self, e: (failures.append(e), fail(self, e)))
    monkeypatch.setattr(
        PageSocket,
        "send_event",
        lambda self, kind, **about: (told.append(about), send_event(self, kind, **about)),
    )
    monkeypatch.setattr(measure._Job, "_measurements", not_measured)
    rng = random.Random(0)
    for _ in range(40):
        with talk(server) as page, contextlib.suppress(ConnectionClosed):  # too long a message
            page.send(json.dumps({"kind": "start", "source": "seed", "run": "r0"}))
            heard(page, "started")
            for _ in range(protocol.MOST_REFUSED // 2 - 1):
                page.send(mutated(rng))
                before = len(told)
                page.send(json.dumps({"kind": "end"}))
                until(lambda: any("'end'" in str(x.get("message")) for x in told[before:]))  # noqa: B023
                server.engine.call(lambda: None)  # now both are read, and what they ask for is done
    assert [error for error in failures if not isinstance(error, WmtkError)] == []
    texts = [x.get("message") or x["error"] for x in told if x.get("message") or x.get("error")]
    wrong = [text for text in texts if "'end'" not in text]
    assert len(wrong) > 100
    assert [text for text in wrong if re.match(r"\w+(Error|Exception): ", text)] == []
    assert {type(text) for text in wrong} == {str}
    assert max(map(len, wrong)) < 400
    for part in ("There is no class", "There is no step", "Invalid message", "text, not bytes"):
        assert any(part in text for text in wrong), part
    assert not crashed
    assert not caplog.records
    with talk(server) as page:
        heard(page, "hello")
