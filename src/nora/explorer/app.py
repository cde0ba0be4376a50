"""The server's addresses: the page and its files, questions as JSON, the ranking as a stream."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nora.explorer.around import CENTRES, NEIGHBOURS, around, around_effect
from nora.explorer.boards import Boards
from nora.explorer.changes import as_edits, features_of, node_id, read_changes
from nora.explorer.desk import Desk, Kept
from nora.explorer.exports import as_csv, as_python, as_report
from nora.explorer.filters import kept_nodes
from nora.explorer.jobs import Job
from nora.explorer.network import Network
from nora.explorer.ranking import Ranking
from nora.explorer.refusal import Refused
from nora.explorer.requests import answered, body, whole
from nora.explorer.worker import Worker
from nora.results.influence import Influence

STREAMS, JOBS = 16, 64
# How far to look for what flips a prediction: a person waits for it.
FLIP_NODES, FLIP_PAIRS = 3, 500
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/explorer.js": ("explorer.js", "text/javascript; charset=utf-8"),
    "/theme.js": ("theme.js", "text/javascript; charset=utf-8"),
    "/explorer.css": ("explorer.css", "text/css; charset=utf-8"),
}
EXPORTS = {
    "csv": ("changes.csv", "text/csv; charset=utf-8"),
    "python": ("what_if.py", "text/x-python; charset=utf-8"),
    "report": ("report.html", "application/octet-stream"),
}
Answer = Callable[[Request], Awaitable[Response]]


class Explorations:
    """Everything that can be asked about one network."""

    def __init__(self, network: Network, scores: Influence | None = None) -> None:
        self.network = network
        self.worker = Worker()
        self.desk = Desk(network, self.worker)
        self.boards = Boards(network, self.worker, scores)
        self.desk.practise()
        self.closing = False
        self._streams = 0
        self._jobs = Kept(JOBS)
        self._reports = ThreadPoolExecutor(1, "nora-report")  # one at a time

    @property
    def ranking(self) -> Ranking:
        """The ranking of nodes by the change they make."""
        return self.boards.main

    @cached_property
    def _value(self) -> bytes:
        return _json(self.network.value())

    def app(self) -> Starlette:
        """The application, without its guard."""
        get, post = ["GET"], ["POST"]
        return Starlette(
            routes=[
                *(Route(path, self.file, methods=get) for path in FILES),
                Route("/api/network", self.value, methods=get),
                Route("/api/effect", self.effect, methods=post),
                Route("/api/singles", self.singles, methods=post),
                Route("/api/neighbours", self.neighbours, methods=post),
                Route("/api/search", self.search, methods=get),
                Route("/api/features", self.features, methods=get),
                Route("/api/why", self.why, methods=get),
                Route("/api/flip", self.flip, methods=get),
                Route("/api/progress", self.progress, methods=get),
                Route("/api/export", self.export, methods=post),
                Route("/api/rows", self.rows, methods=post),
                Route("/api/ranking", self.stream, methods=get),
                Route("/api/ranking", self.steer, methods=post),
            ],
            exception_handlers={
                Refused: _refused,
                HTTPException: _unknown,
                Exception: _unexpected,
            },
        )

    def close(self) -> None:
        """End streams and work."""
        self.closing = True
        self._reports.shutdown(wait=False, cancel_futures=True)
        self.boards.pause()
        self.worker.close()

    async def file(self, request: Request) -> Response:
        """The page and its files: no path from a request ever reaches the disk."""
        name, kind = FILES[request.url.path]
        text = (files("nora.explorer") / "assets" / name).read_bytes()
        return Response(text, headers={"Content-Type": kind})

    async def value(self, request: Request) -> Response:
        """What the page knows from the start."""
        text = await asyncio.to_thread(lambda: self._value)
        return Response(text, media_type="application/json")

    async def effect(self, request: Request) -> Response:
        """What edits change together."""
        start = time.perf_counter()
        asked = await body(request, {"edits", "page", "number", "around"})
        page, number = asked.get("page", ""), asked.get("number", 0)
        if not isinstance(page, str) or len(page) > 64:
            raise Refused(422, "page must be a short text")
        if isinstance(number, bool) or not isinstance(number, int) or abs(number) > 2**53:
            raise Refused(422, "number must be a whole number")
        changes = read_changes(asked.get("edits"), self.network.session)
        chosen = asked.get("around")
        if chosen is not None and not (isinstance(chosen, list) and len(chosen) <= CENTRES):
            raise Refused(422, f"around must be a list of at most {CENTRES} nodes")
        near = [node_id(one, self.network.session) for one in chosen or ()]
        found = await answered(request, self.desk.effect(changes, page, number))
        if chosen is not None:
            told = await asyncio.to_thread(around_effect, self.network, changes, found, near)
            found = {**found, "around": told}
        text = _json(found)
        took = 1e3 * (time.perf_counter() - start)
        timing = {"Server-Timing": f"answer;dur={took:.2f}"}
        return Response(text, media_type="application/json", headers=timing)

    async def singles(self, request: Request) -> Response:
        """What each edit changes by itself, in the order in which they were given."""
        given: Any = (await body(request, {"edits"})).get("edits")
        session = self.network.session
        changes = read_changes(given, session)
        found = await answered(request, self.desk.singles(changes))
        known = dict(zip(changes, found, strict=True))
        each = [read_changes([one], session)[0] for one in given]
        return JSONResponse([known.get(one, {"total": None, "flips": None}) for one in each])

    async def neighbours(self, request: Request) -> Response:
        """Neighbours of some nodes, and ties among all these and others that are drawn."""
        asked = await body(request, {"nodes", "others", "most"})
        most = asked.get("most", NEIGHBOURS)
        if isinstance(most, bool) or not isinstance(most, int) or not 0 <= most <= 1000:
            raise Refused(422, "most must be between 0 and 1000")
        lists = [asked.get(key, []) for key in ("nodes", "others")]
        if not all(isinstance(one, list) and len(one) <= 6000 for one in lists):
            raise Refused(422, "nodes and others must be lists of at most 6000 ids")
        nodes, others = ([node_id(one, self.network.session) for one in part] for part in lists)
        return JSONResponse(await asyncio.to_thread(around, self.network, nodes, others, most))

    async def search(self, request: Request) -> Response:
        """Nodes whose name holds a text."""
        text = request.query_params.get("text", "")
        if len(text) > 200:
            raise Refused(422, "a text to search for has at most 200 letters")
        most = whole(request, "most", 8, 1, 200)
        return JSONResponse({"node": await asyncio.to_thread(self.network.find, text, most)})

    async def features(self, request: Request) -> Response:
        """A node's features: those that are not zero, the largest first."""
        session = self.network.session
        node = node_id(whole(request, "node", -1), session)
        row = features_of(node, session).double()
        some = row.abs().argsort(descending=True, stable=True)[:100]
        shown = [(int(at), float(row[at])) for at in some if float(row[at]) != 0.0]
        return JSONResponse({"count": len(row), "feature": shown})

    async def why(self, request: Request) -> Response:
        """Whose removal changes this node's prediction most."""
        network, session = self.network, self.network.session
        node = node_id(whole(request, "node", -1), session)

        def ask() -> dict[str, Any]:
            frame = session.influencers(network.named(node), 12, progress=False)
            influence = [float(one) for one in frame["influence"]]
            found = frame["node"].tolist()
            if "type" in frame:
                found = list(zip(frame["type"], found, strict=True))
            return {"node": [network.position(one) for one in found], "influence": influence}

        job = self._job(request.query_params.get("job"))
        asking = self.desk.ask(("why", node), job.of(ask))
        return JSONResponse(await answered(request, asking, job))

    async def flip(self, request: Request) -> Response:
        """The smallest removal of nodes that was found to change this node's class, as edits."""
        session = self.network.session
        node = node_id(whole(request, "node", -1), session)

        def ask() -> dict[str, Any]:
            found = session.flip(
                self.network.named(node), at_most=FLIP_NODES, pairs=FLIP_PAIRS, progress=False
            )
            edits = [
                {"kind": "remove", "node": self.network.position(one)} for one in found.removed
            ]
            if not edits:
                told = f"No {FLIP_NODES} nodes or fewer were found whose removal flips it."
            else:
                names = self.network.class_names
                least = "" if found.smallest else " Fewer may do; not every choice was tried."
                how = "removal flips" if len(edits) == 1 else f"removal of {len(edits)} nodes flips"
                told = f"One {how} it to {names[found.to_class]}.{least}"
            return {"edits": edits, "told": told}

        job = self._job(request.query_params.get("job"))
        asking = self.desk.ask(("flip", node), job.of(ask))
        return JSONResponse(await answered(request, asking, job))

    def _job(self, name: Any) -> Job:
        """A new job, which the page may ask about by the name that it gave."""
        job = Job()
        if name is not None:
            if not isinstance(name, str) or not 0 < len(name) <= 64:
                raise Refused(422, "job must be a short text")
            self._jobs[name] = job
        return job

    async def progress(self, request: Request) -> Response:
        """How far a question is that the page waits for."""
        job = self._jobs.get(request.query_params.get("job", ""))
        return JSONResponse({} if job is None else job.state())

    async def export(self, request: Request) -> Response:
        """The state as a file."""
        asked = await body(request, {"edits", "kind", "told", "job"})
        kind, told = asked.get("kind"), asked.get("told", "")
        if not isinstance(kind, str) or kind not in EXPORTS:
            raise Refused(422, f"kind must be one of {', '.join(EXPORTS)}")
        if not isinstance(told, str) or len(told) > 2000:
            raise Refused(422, "told must be a text of at most 2000 letters")
        network = self.network
        changes = read_changes(asked.get("edits"), network.session)
        content: str | bytes
        if kind == "python":
            content = as_python(changes, network)
        elif kind == "csv":
            if not changes:
                raise Refused(422, "nothing is changed yet: there are no changes to write")
            edits = as_edits(changes, network.session)
            key = ("csv", changes)
            asking = self.desk.ask(key, lambda: as_csv(network.session.what_if(edits), network))
            content = await answered(request, asking)
        else:
            job = self._job(asked.get("job"))
            writing = self._reports.submit(job.of(lambda: as_report(changes, network, told)))
            try:
                content = await answered(request, writing, job)
            except (ValueError, TypeError) as error:
                raise Refused(422, str(error)) from error
        name, media = EXPORTS[kind]
        disposition = f'attachment; filename="{name}"'
        return Response(
            content, headers={"Content-Type": media, "Content-Disposition": disposition}
        )

    async def rows(self, request: Request) -> Response:
        """A page of the ranking of ties or of fragile predictions, filtered."""
        keys = {"of", "measure", "start", "most", "class", "label", "degree", "text", "group"}
        asked = await body(request, keys)
        board = self._board(asked)
        if board.of == "nodes":
            raise Refused(422, "nodes are ranked by the stream: of must be edges or fragile")
        numbers = ("start", "most", "class", "label", "degree")
        for key in numbers:
            one = asked.get(key)
            if one is not None and (
                isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < 2**53
            ):
                raise Refused(422, f"{key} must be a whole number")
        text, group = asked.get("text", ""), asked.get("group", [])
        if not isinstance(text, str) or len(text) > 200:
            raise Refused(422, "a text to search for has at most 200 letters")
        if not isinstance(group, list) or not all(map(self._is_group, group)):
            raise Refused(422, "group must be pairs of a grouping and a group")
        start, most = asked.get("start") or 0, min(asked.get("most") or 15, 200)

        def ask() -> dict[str, Any]:
            kept = kept_nodes(self.network, asked)
            return {**self.boards.rows(board, kept, start, most), **board.state()}

        return Response(_json(await asyncio.to_thread(ask)), media_type="application/json")

    def _is_group(self, one: Any) -> bool:
        whole = isinstance(one, list) and len(one) == 2 and all(type(part) is int for part in one)
        return whole and 0 <= one[0] < len(self.network.groups)

    def _board(self, asked: Any) -> Ranking:
        of, measure = asked.get("of") or "nodes", asked.get("measure") or "change"
        if not isinstance(of, str) or not isinstance(measure, str):
            raise Refused(422, "of and measure must be texts")
        return self.boards.get(of, measure)

    async def steer(self, request: Request) -> Response:
        """Stop a ranking, or go on with it."""
        asked = await body(request, {"act", "of", "measure"})
        act, board = asked.get("act"), self._board(asked)
        if act not in ("pause", "start"):
            raise Refused(422, "act must be pause or start")
        (board.pause if act == "pause" else board.start)()
        return JSONResponse(board.state())

    async def stream(self, request: Request) -> Response:
        """A ranking as server-sent events; a browser that comes back goes on where it was."""
        if self._streams >= STREAMS:
            raise Refused(429, f"at most {STREAMS} windows can follow the ranking")
        board = self._board(request.query_params)
        last = request.headers.get("last-event-id", "0")
        cursor = int(last) if last.isascii() and last.isdecimal() and len(last) < 16 else 0
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(
            self._events(request, board, min(cursor, board.done)),
            media_type="text/event-stream",
            headers=headers,
        )

    async def _events(self, request: Request, board: Ranking, cursor: int) -> AsyncIterator[str]:
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        self._streams += 1
        stop = board.listen(lambda: _awake(loop, news))
        if board.status == "waiting":
            board.start()
        try:
            while not self.closing:
                news.clear()
                while True:
                    # Rows of other rankings than that of nodes are asked for page by page.
                    streamed = board.of == "nodes"
                    cursor, part = board.part(cursor) if streamed else (board.done, board.state())
                    yield f"id: {cursor}\ndata: {json.dumps(part)}\n\n"
                    if cursor >= board.done:
                        break
                try:
                    await asyncio.wait_for(news.wait(), 10)
                    await asyncio.sleep(0.1)  # a few slices at once
                except TimeoutError:
                    yield ": still here\n\n"
                if await request.is_disconnected():
                    break
        finally:
            stop()
            self._streams -= 1


def _awake(loop: asyncio.AbstractEventLoop, news: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(news.set)


def _json(value: Any) -> bytes:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Half of a surrogate pair, which a name from a broken file may hold, becomes a "?".
    return text.encode("utf-8", "replace")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return JSONResponse({"error": error.message}, error.status)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    """A bug of ours: its traceback is for the terminal, not for the page."""
    if not isinstance(error, ClientDisconnect):
        traceback.print_exception(error, file=sys.stderr)
    return JSONResponse({"error": "something went wrong; the terminal says what"}, 500)
