"""The explorer in a cell of a notebook: answered by the kernel, without a server."""

from __future__ import annotations

import asyncio
import base64
import json
import queue
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

import nora
from chromium import Watched, require_browser, violations
from explorer_page import total
from nora.explorer.app import Explorations
from nora.explorer.network import network_of
from nora.explorer.notebook import NotebookExplorer, ask, whole_page
from nora.questions.session import Session

CODE = """\
import nora
run = nora.train("gcn", "karate", epochs=60, progress=False)
session = run.session()
session.explore(title="In a cell")
"""
VIEW = "application/vnd.jupyter.widget-view+json"


def asked(app: Any, method: str, path: str, body: Any = None) -> tuple[dict, bytes]:
    sent: list[tuple[dict, list[bytes]]] = []
    text = b"" if body is None else json.dumps(body).encode()
    send = lambda head, parts: sent.append((head, parts))  # noqa: E731
    asyncio.run(ask(app, method, path, text, asyncio.Event(), send))
    ((head, (content,)),) = sent
    return head, content


def test_requests_in_process_are_answered_as_by_the_server(run, client) -> None:
    explorations = Explorations(lambda: network_of(Session(run.model, run.data, once=True)))
    app = explorations.app()
    edits = {"edits": [{"kind": "remove", "node": 0}]}
    head, content = asked(app, "POST", "/api/effect", edits)
    assert head["status"] == 200
    assert json.loads(content)["total"] == pytest.approx(client.ask("/api/effect", edits)["total"])
    head, content = asked(app, "GET", "/api/search?most=3&text=33")
    assert json.loads(content) == {"node": [33]}
    for path in ("/nothing", "/api/features?node=99"):
        head, content = asked(app, "GET", path)
        assert head["status"] >= 400
        assert "error" in json.loads(content)
    explorations.close()


def test_a_stream_is_sent_part_by_part_and_ends_with_its_page(run) -> None:
    explorations = Explorations(lambda: network_of(Session(run.model, run.data, once=True)))
    widget = NotebookExplorer(explorations)
    sent: queue.Queue[dict] = queue.Queue()
    widget.send = lambda content, parts: sent.put(content)
    question = {"nora": "page", "id": 3, "method": "GET", "path": "/api/ranking", "body": ""}
    widget._received(widget, question, [])
    scored = 0
    while scored < run.data.num_nodes:
        reply = sent.get(timeout=30)
        assert (reply["nora"], reply["id"]) == ("page", 3)
        (line,) = [one for one in reply["chunk"].splitlines() if one.startswith("data: ")]
        scored += len(json.loads(line[6:])["id"])
    assert explorations._streams == 1
    widget._received(widget, {"nora": "page", "id": 3, "abort": True}, [])
    deadline = time.monotonic() + 30
    while explorations._streams and time.monotonic() < deadline:
        time.sleep(0.05)
    assert explorations._streams == 0
    widget.close()
    assert not widget._thread.is_alive()


def test_the_page_loads_nothing() -> None:
    page = whole_page()
    assert 'src="/' not in page
    assert 'href="/' not in page
    assert "default-src 'none'" in page


def test_outside_of_a_notebook_it_is_the_server(run) -> None:
    with run.session().explore(browser=False) as explorer:
        assert explorer.url.startswith("http://127.0.0.1:")


def test_a_notebook_that_is_executed_shows_the_widget() -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    NotebookClient(book, timeout=180, kernel_name="python3").execute()
    (output,) = [one for one in book.cells[0].outputs if one.output_type == "execute_result"]
    model = book.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"][
        output.data[VIEW]["model_id"]
    ]
    assert "NORA explorer" in model["state"]["page"]


class Kernel:
    """A kernel that has run the cell, and the messages of its widget."""

    def __init__(self) -> None:
        self.manager, self.client = start_new_kernel(startup_timeout=120)
        self.client.execute(CODE)
        self.opened: dict[str, Any] = {}
        deadline = time.monotonic() + 180
        while "page" not in self.opened.get("state", {}) and time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=180)
            assert message["msg_type"] != "error", message["content"]
            if message["msg_type"] == "comm_open":
                found = message["content"]
                if "page" in found["data"].get("state", {}):
                    self.opened = {"id": found["comm_id"], **found["data"]}

    def send(self, content: Any) -> None:
        data = {"method": "custom", "content": content}
        message = self.client.session.msg("comm_msg", {"comm_id": self.opened["id"], "data": data})
        self.client.shell_channel.send(message)

    def answers(self) -> list[tuple[dict, list[bytes]]]:
        """What the widget has sent since."""
        found = []
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=0.05)
            except queue.Empty:
                return found
            data = message["content"].get("data", {})
            if message["msg_type"] == "comm_msg" and data.get("method") == "custom":
                found.append((data["content"], [bytes(part) for part in message["buffers"]]))

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


# What anywidget does around the widget's own module: a model whose messages the test takes to a real kernel.
HOST = """async ([esm, state]) => {
  const listeners = [];
  window.deliver = (content, parts) => {
    const of = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
    const bytes = parts.map((text) => new DataView(of(text)));
    for (const listener of listeners) listener(content, bytes);
  };
  const model = { get: (key) => state[key], send: (content) => window.toKernel(content),
                  on: (_, listener) => listeners.push(listener), off: () => {} };
  const module = await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
  module.default.render({ model, el: document.getElementById("cell") });
}"""


@pytest.fixture(scope="module")
def kernel():
    require_browser()
    found = Kernel()
    yield found
    found.close()


def test_the_widget_in_a_browser_is_answered_by_a_real_kernel(
    browser, kernel, tmp_path: Path
) -> None:
    context = browser.new_context(viewport={"width": 1100, "height": 950}, reduced_motion="reduce")
    watched = Watched(context.new_page())
    page = watched.page
    text = "<!doctype html><html lang=en><title>Notebook</title><main id=cell></main>"
    page.route("**/*", lambda route: route.fulfill(body=text, content_type="text/html"))
    page.goto("http://notebook.test/")
    page.expose_function("toKernel", kernel.send)
    state = kernel.opened["state"]
    page.evaluate(HOST, [state["_esm"], {"page": state["page"], "height": state["height"]}])

    def carry(until: str) -> None:
        """Pass answers on until something holds in the frame."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for content, parts in kernel.answers():
                page.evaluate(
                    "([c, p]) => deliver(c, p)",
                    [content, [base64.b64encode(p).decode() for p in parts]],
                )
            if len(page.frames) > 1 and page.frames[1].evaluate(until):
                return
        page.screenshot(path=tmp_path / "cell.png")
        pytest.fail(f"not in half a minute: {until}; {watched.complaints}")

    carry("() => document.body?.classList.contains('ready')")
    frame = page.frames[1]
    carry(
        "() => [...document.querySelectorAll('#panel h4')]"
        ".some((one) => one.textContent === 'Most influential')"
    )
    assert frame.locator("h1").text_content() == "In a cell"
    assert frame.get_by_role("button", name="Link").count() == 0
    frame.get_by_role("combobox").first.fill("member 34")
    carry("() => document.querySelectorAll('#finder [role=option]').length > 0")
    frame.get_by_role("combobox").first.press("Enter")
    carry("() => document.querySelector('#chosen-title')?.textContent === 'member 34'")
    frame.locator("#chosen").get_by_role("button", name="Remove").first.click()
    carry("() => document.querySelectorAll('.edits .value[data-total]').length === 1 "
          "&& document.getElementById('panel').getAttribute('aria-busy') === 'false'")  # fmt: skip
    run = nora.train("gcn", "karate", epochs=60, progress=False)
    true = run.what_if(33).total
    assert total(frame) == pytest.approx(true, rel=1e-4)
    assert not violations(frame)
    page.screenshot(path=tmp_path / "cell.png")
    assert not watched.complaints
    assert [one for one in watched.requests if not one.startswith(("blob:", "data:"))] == [
        "http://notebook.test/"
    ]
    context.close()
