"""The explorer in a cell of a notebook: the same page in a frame, its questions answered by the kernel.

It needs neither a server nor a socket. The page's `fetch` is replaced by messages (`transport.js`), which the
widget passes on to the kernel over the notebook's own connection (`notebook.js`). Here each becomes a request
to the same application that the server runs. Answers go back as messages, the ranking in parts.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import anywidget
import traitlets

from nora.explorer.app import Explorations

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
EVENTS = "text/event-stream"
# What the page has in files of the server, and what is put in its place; our own files, no text of a user.
PARTS = {
    '<link rel="stylesheet" href="/explorer.css">': ("<style>{}</style>", "explorer.css"),
    '<script src="/theme.js"></script>': ("<script>{}</script>", "theme.js"),
    '<script src="/explorer.js"></script>': (
        "<script>{}</script>",
        "transport.js",
        "explorer.js",
    ),
}
# Sends a message with its binary parts.
Send = Callable[[dict[str, Any], list[bytes]], None]


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    loaded = sys.modules.get("IPython")
    shell = None if loaded is None else loaded.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _asset(name: str) -> str:
    return (files("nora.explorer") / "assets" / name).read_text(encoding="utf-8")


def whole_page() -> str:
    """The explorer's page as one text, which loads nothing and asks by messages."""
    page = _asset("index.html")
    for place, (element, *names) in PARTS.items():
        if place not in page:
            raise RuntimeError(f"index.html has no {place}")
        page = page.replace(place, "\n".join(element.format(_asset(name)) for name in names))
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    return page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy}')


class NotebookExplorer(anywidget.AnyWidget):
    """A running explorer in a cell; `close` ends it.

    Answers come while the kernel is idle: a cell that runs is finished first.
    """

    _esm = _asset("notebook.js")
    page = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(820).tag(sync=True)

    def __init__(self, explorations: Explorations, height: int = 820) -> None:
        super().__init__(page=whole_page(), height=height)
        self._explorations, self._app = explorations, explorations.app()
        self._asked: dict[tuple[str, int], asyncio.Event] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="nora-notebook", daemon=True
        )
        self._thread.start()
        self.on_msg(self._received)

    def _received(self, _: Any, message: Any, __: Any = None) -> None:
        """A message of the page: a question, or its cancellation."""
        asyncio.run_coroutine_threadsafe(self._take(message), self._loop)

    async def _take(self, message: dict[str, Any]) -> None:
        key = str(message["nora"]), int(message["id"])
        if message.get("abort"):
            if key in self._asked:
                self._asked[key].set()
            return
        aborted = self._asked[key] = asyncio.Event()

        def send(answer: dict[str, Any], parts: list[bytes]) -> None:
            if not aborted.is_set():
                self.send({"nora": key[0], "id": key[1], **answer}, parts)

        try:
            question = str(message["method"]), str(message["path"]), str(message["body"]).encode()
            await ask(self._app, *question, aborted, send)
        finally:
            del self._asked[key]

    def close(self) -> None:
        """End all work; the frame in the cell is removed."""
        if self._thread.is_alive():
            self._explorations.close()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)
        super().close()


async def ask(
    app: Any, method: str, path: str, body: bytes, aborted: asyncio.Event, send: Send
) -> None:
    """Put one request to an ASGI application, and send its answer: whole, or a stream part by part."""
    target = urlsplit(path)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": target.path,
        "query_string": target.query.encode(),
        "headers": [(b"host", b"kernel"), (b"content-length", str(len(body)).encode())],
    }
    unread, content = [body], bytearray()
    head: dict[str, Any] = {}

    async def receive() -> dict[str, Any]:
        if unread:
            return {"type": "http.request", "body": unread.pop()}
        await aborted.wait()
        return {"type": "http.disconnect"}

    async def answered(part: dict[str, Any]) -> None:
        if part["type"] == "http.response.start":
            headers = {key.decode(): value.decode() for key, value in part["headers"]}
            head.update(status=part["status"], headers=headers)
            return
        found, more = part.get("body", b""), part.get("more_body", False)
        if head["headers"].get("content-type", "").startswith(EVENTS):
            if found:
                send({"chunk": found.decode()}, [])
        else:
            content.extend(found)
            if not more:
                send(head, [bytes(content)])

    await app(scope, receive, answered)
