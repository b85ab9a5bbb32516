"""Attacks on the live page, tried against the real server."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from wmtk.viz.live import app, protocol
from wmtk.viz.live.security import allowed_hosts, is_loopback
from wmtk.viz.live.server import Address


@pytest.fixture
def server(serve):
    return serve()


def ask(server, path="", *, method="GET", token=None, host=None, headers=None):
    """One request, with a path that nothing normalizes on the way."""
    token = server.address.token if token is None else token
    line = http.client.HTTPConnection("127.0.0.1", server.address.port, timeout=30)
    line.putrequest(method, f"/{token}/{path}", skip_host=True, skip_accept_encoding=True)
    line.putheader("Host", host or f"127.0.0.1:{server.address.port}")
    for name, value in (headers or {}).items():
        line.putheader(name, value)
    line.endheaders()
    answer = line.getresponse()
    body = answer.read()
    line.close()
    return answer, body


def talk(server, *, origin="same", token=None, host=None):
    port = server.address.port
    token = server.address.token if token is None else token
    names = {"Host": host} if host else {}
    where = f"http://{host or f'127.0.0.1:{port}'}" if origin == "same" else origin
    return connect(
        f"ws://127.0.0.1:{port}/{token}/socket",
        origin=where,
        additional_headers=names,
        open_timeout=60,
        proxy=None,
    )


def how_it_ends(line) -> int:
    """The code with which the server closes a connection, after whatever it still says."""
    while True:
        try:
            line.recv(timeout=60)
        except ConnectionClosed as closed:
            return closed.rcvd.code


def test_the_page_is_served_to_who_has_the_token(server) -> None:
    answer, body = ask(server)
    assert answer.status == 200
    assert b"wmtk live" in body
    with talk(server) as line:
        assert json.loads(line.recv(timeout=60))["type"] == "hello"


@pytest.mark.parametrize("token", ["", "x", "..", "assets", "%00"])
def test_without_the_token_there_is_nothing(server, token) -> None:
    for path in ("", "assets/main.js", "data/d0", "socket"):
        answer, body = ask(server, path, token=token)
        assert answer.status == 403
        assert b"wmtk live" not in body
        assert server.address.token.encode() not in body
    with pytest.raises(InvalidStatus, match="403"), talk(server, token=token or "x"):
        pass


def test_a_token_cannot_be_guessed_from_another(serve) -> None:
    tokens = {serve().address.token for _ in range(3)}
    assert len(tokens) == 3
    assert min(map(len, tokens)) >= 32


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "0x7f000001", "[", ""]
)
def test_a_name_that_was_made_to_point_here_is_refused(server, host) -> None:
    """DNS rebinding: a page elsewhere lets its own name resolve to this machine."""
    answer, _ = ask(server, host=host or " ")
    assert answer.status in {400, 403}
    if host and "[" not in host:
        with pytest.raises(InvalidStatus), talk(server, host=host):
            pass


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1:1", "[::1]:80"])
def test_a_tunnel_may_have_another_port(server, host) -> None:
    assert ask(server, host=host)[0].status == 200


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://127.0.0.1:1", "http://localhost"]
)
def test_another_page_cannot_open_the_websocket(server, origin) -> None:
    with pytest.raises(InvalidStatus, match="403"), talk(server, origin=origin):
        pass


def test_another_page_cannot_read(server) -> None:
    answer, _ = ask(server, "data/d0", headers={"Origin": "http://evil.example"})
    assert answer.status == 403
    answer, _ = ask(server, "data/d0")
    assert answer.getheader("Access-Control-Allow-Origin") is None
    assert answer.getheader("Cross-Origin-Resource-Policy") == "same-origin"
    assert "frame-ancestors 'none'" in answer.getheader("Content-Security-Policy", "")
    assert answer.getheader("Referrer-Policy") == "no-referrer"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "MOVE"])
def test_only_reading_is_possible(server, method) -> None:
    for path in ("", "data/d0", "socket"):
        assert ask(server, path, method=method)[0].status == 405


@pytest.mark.parametrize(
    "path",
    [
        "assets/../app.py",
        "assets/..%2fapp.py",
        "assets/%2e%2e/app.py",
        "assets//etc/passwd",
        "assets/%2fetc%2fpasswd",
        "../../../../etc/passwd",
        "data/../../etc/passwd",
        "data/..%2f..%2fx",
        "data/%2ftmp",
        "data/d0/episodes/..%2f0",
        "data/d99",
        "data/d0/episodes/-1",
        "data/d0/episodes/999999",
        "docs",
        "openapi.json",
    ],
)
def test_paths_lead_nowhere(server, path) -> None:
    answer, body = ask(server, path)
    assert answer.status in {403, 404, 422}
    assert b"root:" not in body
    assert b"import" not in body


def test_messages_have_a_largest_size(server) -> None:
    with talk(server) as line:
        line.send(json.dumps({"kind": "keys", "held": ["x" * (protocol.MAX_MESSAGE + 1)]}))
        assert how_it_ends(line) == 1009
    assert ask(server)[0].status == 200


@pytest.mark.parametrize(
    "message",
    [
        "no JSON",
        "[]",
        "{}",
        '{"kind": "start"}',
        '{"kind": "start", "source": "data", "run": "../../etc"}',
        '{"kind": "start", "source": "data", "run": "r0", "data": "/etc/passwd"}',
        '{"kind": "start", "source": "seed", "run": "r0", "path": "/etc/passwd"}',
        '{"kind": "settings", "playing": true, "actor": "person", "speed": 1e9, "temperature": 1,'
        ' "futures": 1}',
        '{"kind": "settings", "playing": true, "actor": "person", "speed": 9, "temperature": 1,'
        ' "futures": 1000000}',
        '{"kind": "keys", "values": [NaN]}',
        '{"kind": "goto", "line": 0, "step": -1}',
        '{"kind": "force", "codes": {"x": 1}}',
    ],
)
def test_nonsense_is_refused_and_said_to_be(server, message) -> None:
    with talk(server) as line:
        line.recv(timeout=60)
        line.send(message)
        said = json.loads(line.recv(timeout=60))
        assert said["type"] == "error"
        assert "Invalid message" in said["message"]


def test_who_goes_on_with_nonsense_is_shown_the_door(server) -> None:
    with talk(server) as line:
        for _ in range(20):
            line.send(b"\x00\x01")
        assert how_it_ends(line) == 1008


def test_pages_have_a_largest_number(server, until) -> None:
    with contextlib.ExitStack() as lines:
        for _ in range(app.MOST_PAGES):
            lines.enter_context(talk(server))
        until(lambda: server.engine.clients == app.MOST_PAGES)
        with talk(server) as one_more:
            assert how_it_ends(one_more) == app.BUSY
    until(lambda: server.engine.clients == 0)


def test_other_machines_cannot_reach_it(server) -> None:
    """Bound to one address: not even another one of this machine's answers."""
    assert server.socket.getsockname()[0] == "127.0.0.1"
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", server.address.port), timeout=5)


def test_what_is_reachable_from_elsewhere_is_known() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("localhost")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("192.168.1.5")
    assert not is_loopback("example.org")
    assert Address("0.0.0.0", 1, "t").exposed
    assert Address("0.0.0.0", 1, "t").url == "http://127.0.0.1:1/t/"
    assert Address("::1", 1, "t").url == "http://[::1]:1/t/"
    assert "evil.example" not in allowed_hosts("127.0.0.1")


def test_nothing_is_loaded_from_outside() -> None:
    """No address of another machine in any file of the page, but the name of SVG itself."""
    for name, content in app.assets().items():
        text = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|[\"'(]//|@import", text), name
        assert "innerHTML" not in text, name
        assert "eval(" not in text, name
