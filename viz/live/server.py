"""The server of the live page: socket, URL, shutdown."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import uvicorn

from wmtk.errors import UsageError
from wmtk.viz.live import protocol
from wmtk.viz.live.app import make_app
from wmtk.viz.live.catalog import Catalog
from wmtk.viz.live.connection import KEEP_ALIVE, Connection
from wmtk.viz.live.engine import Engine
from wmtk.viz.live.security import Guard, allowed_hosts, is_loopback, new_token

BACKLOG = 64
SHUTDOWN_SECONDS = 2  # for open pages when the server stops


@dataclass(frozen=True)
class Address:
    """The URL of the page."""

    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        """The URL for a browser on this machine."""
        anywhere = self.host in {"0.0.0.0", "::"}
        host = "127.0.0.1" if anywhere else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/{self.token}/"

    @property
    def tunnel(self) -> str:
        """The ssh command that makes the URL work on another machine."""
        to = self.host if self.host not in {"0.0.0.0", "::", "localhost"} else "127.0.0.1"
        to = f"[{to}]" if ":" in to else to
        return f"ssh -N -L {self.port}:{to}:{self.port} {socket.gethostname()}"

    @property
    def exposed(self) -> bool:
        """Whether other machines can reach the server."""
        return not is_loopback(self.host)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 selects a free port."""
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(
            f"{host!r} is not an address of this machine.", "Use 127.0.0.1."
        ) from error
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"Cannot listen at {host}, port {port}: {error.strerror}.",
            "Choose another port; 0 selects a free one.",
        ) from error
    return listening


class _Uvicorn(uvicorn.Server):
    """Ends on Ctrl-C and SIGTERM without raising the signal again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread can handle signals
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        handled = [
            n for n in signals if signal.getsignal(n) is not signal.SIG_IGN
        ]  # as inherited from the shell
        before = {number: signal.signal(number, self.handle_exit) for number in handled}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Server:
    """The page, its inference thread and its HTTP server."""

    def __init__(self, catalog: Catalog, host: str, port: int, *, human: bool = False) -> None:
        self.socket = listen(host, port)
        self.address = Address(host, self.socket.getsockname()[1], new_token())
        self.catalog = catalog
        self.engine = Engine(catalog)
        self.app = make_app(catalog, self.engine, human=human)
        guard = Guard(
            self.app, self.address.token, allowed_hosts(host), any_address=self.address.exposed
        )
        config = uvicorn.Config(
            guard,
            lifespan="off",
            log_config=None,  # uvicorn's default closes the log handlers of other libraries
            log_level="error",
            access_log=False,
            server_header=False,
            ws_max_size=protocol.MAX_MESSAGE,
            ws_per_message_deflate=False,  # frames rarely leave this machine
            http=Connection,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        self._uvicorn = _Uvicorn(config)

    def run(self, on_ready: Callable[[Address], None] = lambda _: None) -> None:
        """Serve until Ctrl-C or `stop`, then free all resources."""
        try:
            with self._uvicorn.capture_signals():  # a signal before the loop starts ends it too
                on_ready(self.address)  # the socket listens already: requests are queued
                self._uvicorn.run(sockets=[self.socket])
        finally:
            self.app.state.metrics.stop_all()
            self.engine.stop()
            self.socket.close()

    @property
    def connections(self) -> list[Connection]:
        """The open HTTP connections, without websockets."""
        connections = list(self._uvicorn.server_state.connections)
        return [each for each in connections if isinstance(each, Connection)]

    def stop(self) -> None:
        self._uvicorn.should_exit = True
