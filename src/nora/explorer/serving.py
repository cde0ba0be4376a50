"""The server itself: a socket on 127.0.0.1, a thread, and an address with a token."""

from __future__ import annotations

import asyncio
import html
import os
import socket
import tempfile
import threading
import time
import webbrowser
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nora.explorer.app import Explorations
from nora.explorer.guard import ENTER, Keys, RequestGuard

HOST = "127.0.0.1"
# A request is there whole by then; those of the page take milliseconds.
REQUEST_SECONDS = 5.0


class Prompt(H11Protocol):
    """A connection that is closed where a request is not there whole within a few seconds.

    Otherwise idle connections, or a byte now and then, would keep the owner out.
    """

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what comes; a request that is whole ends the waiting."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class Explorer:
    """A running explorer.

    `url` is an address that works once; each time it is read there is a new one. `close` stops the server,
    `wait` blocks until it is stopped or interrupted.
    """

    def __init__(self, explorations: Explorations, port: int = 0) -> None:
        self._explorations, self._keys = explorations, Keys()
        self._socket = _bound(port)
        self.port: int = self._socket.getsockname()[1]
        self._opened: Path | None = None
        guard = RequestGuard(explorations.app(), self.port, self._keys)
        config = uvicorn.Config(
            guard,
            log_level="warning",
            access_log=False,
            lifespan="off",
            loop="asyncio",
            http=Prompt,
            ws="none",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=1000,
            timeout_keep_alive=5,
            h11_max_incomplete_event_size=32_768,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)

    def __repr__(self) -> str:
        state = "running" if self.running else "closed"
        return f"Explorer(http://{HOST}:{self.port}, {state})"

    def _repr_html_(self) -> str:
        if not self.running:
            return "<p>The explorer is closed.</p>"
        return f'<p><a href="{html.escape(self.url)}" target="_blank">Open the explorer</a></p>'

    @property
    def url(self) -> str:
        """An address for a browser on this machine; it works once."""
        return f"http://{HOST}:{self.port}{ENTER}?token={self._keys.token()}"

    @property
    def running(self) -> bool:
        """Whether the server answers."""
        return self._thread.is_alive()

    def open(self) -> bool:
        """Open the browser, by a file that only its owner can read: command lines are seen by everybody."""
        self._forget()
        handle, name = tempfile.mkstemp(prefix="nora-", suffix=".html")
        self._opened = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(
                '<!doctype html><meta charset="utf-8"><title>NORA</title><meta http-equiv="refresh" '
                f'content="0; url={html.escape(self.url)}">'
            )
        return webbrowser.open(self._opened.as_uri())

    def wait(self) -> None:
        """Wait until the explorer is closed; Ctrl-C closes it. Raises what preparing the graph raised."""
        try:
            while self.running:
                if self._explorations.prepared.done():
                    self._explorations.prepared.result()
                self._thread.join(0.5)
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Stop the server; open pages show it."""
        self._explorations.close()
        self._server.should_exit = True
        self._thread.join(5)
        self._socket.close()
        self._forget()

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _forget(self) -> None:
        if self._opened is not None:
            self._opened.unlink(missing_ok=True)
            self._opened = None


def _bound(port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise ValueError(f"port must be between 0 and 65535, got {port}")
    # Named with its protocol, by which asyncio knows that small answers must not wait for each other.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except OSError as error:
        made.close()
        reason = error.strerror or str(error)
        raise OSError(f"cannot listen on port {port} ({reason}); choose another port") from None
    return made
