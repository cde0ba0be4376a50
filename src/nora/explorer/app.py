"""The server's addresses: the page and its files, questions as JSON, the ranking as a stream."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nora.explorer.answer_cache import AnswerCache, LRUCache
from nora.explorer.background_ranking import Ranking
from nora.explorer.exports import as_csv, as_python, as_report
from nora.explorer.filters import kept_nodes
from nora.explorer.jobs import Job
from nora.explorer.neighbourhood import CENTRES, NEIGHBOURS, effect_neighbourhood, neighbourhood
from nora.explorer.network import Network, prepare_engine
from nora.explorer.page_edits import as_edits, features_of_node, node_id, read_edits
from nora.explorer.rankings import Rankings
from nora.explorer.rejection import Rejected
from nora.explorer.requests import answered, body, whole
from nora.explorer.worker import NOW, Worker
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
Handler = Callable[[Request], Awaitable[Response]]


class Explorations:
    """Everything that can be asked about one network.

    Args:
        prepare: Makes the network; called in the worker's thread unless `wait`.
        scores: Influences of nodes that are known already.
        wait: Prepare network and engine here and now, so that whatever is wrong is raised here.
    """

    network: Network
    answers: AnswerCache
    rankings: Rankings

    def __init__(
        self, prepare: Callable[[], Network], scores: Influence | None = None, wait: bool = True
    ) -> None:
        self.closing = False
        self._streams = 0
        self._jobs = LRUCache(JOBS)
        self._reports = ThreadPoolExecutor(1, "nora-report")  # one at a time
        self.preparing, self._began = Job("starting"), time.perf_counter()
        network = prepare() if wait else None
        self.worker = Worker()

        def take(network: Network) -> None:
            self.network = network
            self.answers = AnswerCache(network, self.worker)
            self.rankings = Rankings(network, self.worker, scores)
            if not wait:
                self.worker.submit(NOW, lambda: prepare_engine(network.session))
            self.answers.warm_up()

        self.prepared: Future[None] = Future()
        if network is None:
            self.prepared = self.worker.submit(NOW, self.preparing.of(lambda: take(prepare())))
            return
        prepare_engine(network.session)
        take(network)
        self.prepared.set_result(None)

    @property
    def ranking(self) -> Ranking:
        """The ranking of nodes by the change they make."""
        return self.rankings.main

    @cached_property
    def _value(self) -> bytes:
        return _json(self.network.value())

    def app(self) -> Starlette:
        """The application, without its guard."""
        questions: dict[str, tuple[str, Handler]] = {
            "effect": ("POST", self.effect),
            "singles": ("POST", self.singles),
            "neighbours": ("POST", self.neighbours),
            "search": ("GET", self.search),
            "features": ("GET", self.features),
            "why": ("GET", self.why),
            "flip": ("GET", self.flip),
            "progress": ("GET", self.progress),
            "export": ("POST", self.export),
            "rows": ("POST", self.rows),
        }
        app = Starlette(
            routes=[
                *(Route(path, self.file, methods=["GET"]) for path in FILES),
                Route("/api/network", self.value, methods=["GET"]),
                Route("/api/ranking", self._when_ready(self.stream), methods=["GET"]),
                Route("/api/ranking", self._when_ready(self.steer), methods=["POST"]),
                *(
                    Route(f"/api/{name}", self._when_ready(answer), methods=[method])
                    for name, (method, answer) in questions.items()
                ),
            ],
            exception_handlers={
                Rejected: _rejected,
                HTTPException: _unknown,
                Exception: _unexpected,
            },
        )
        app.state.explorations = self
        return app

    def _when_ready(self, answer: Handler) -> Handler:
        async def ask(request: Request) -> Response:
            if not self.prepared.done():
                raise Rejected(503, "the graph is still being prepared: ask again in a few seconds")
            return await answer(request)

        return ask

    def close(self) -> None:
        """End streams and work."""
        self.closing = self.preparing.cancelled = True
        self._reports.shutdown(wait=False, cancel_futures=True)
        if hasattr(self, "rankings"):
            self.rankings.pause()
        self.worker.close()

    async def file(self, request: Request) -> Response:
        """The page and its files: no path from a request ever reaches the disk."""
        name, kind = FILES[request.url.path]
        text = (files("nora.explorer") / "assets" / name).read_bytes()
        return Response(text, headers={"Content-Type": kind})

    async def value(self, request: Request) -> Response:
        """What the page knows from the start; how far preparing it is while it is not there."""
        if not self.prepared.done():
            seconds = round(time.perf_counter() - self._began, 1)
            return JSONResponse({**self.preparing.state(), "seconds": seconds}, 202)
        if self.prepared.exception() is not None:
            raise Rejected(422, str(self.prepared.exception()))
        text = await asyncio.to_thread(lambda: self._value)
        return Response(text, media_type="application/json")

    async def effect(self, request: Request) -> Response:
        """What edits change together."""
        start = time.perf_counter()
        asked = await body(request, {"edits", "page", "number", "centres"})
        page, number = asked.get("page", ""), asked.get("number", 0)
        if not isinstance(page, str) or len(page) > 64:
            raise Rejected(422, "page must be a string of at most 64 characters")
        if isinstance(number, bool) or not isinstance(number, int) or abs(number) > 2**53:
            raise Rejected(422, "number must be a whole number")
        edits = read_edits(asked.get("edits"), self.network.session)
        centres = asked.get("centres")
        if centres is not None and not (isinstance(centres, list) and len(centres) <= CENTRES):
            raise Rejected(422, f"centres must be a list of at most {CENTRES} nodes")
        chosen = [node_id(one, self.network.session) for one in centres or ()]
        found = await answered(request, self.answers.effect(edits, page, number))
        if centres is not None:
            neighbours = await asyncio.to_thread(
                effect_neighbourhood, self.network, edits, found, chosen
            )
            found = {**found, "neighbourhood": neighbours}
        text = _json(found)
        took = 1e3 * (time.perf_counter() - start)
        timing = {"Server-Timing": f"answer;dur={took:.2f}"}
        return Response(text, media_type="application/json", headers=timing)

    async def singles(self, request: Request) -> Response:
        """The effect of each edit alone, in the given order."""
        given: Any = (await body(request, {"edits"})).get("edits")
        session = self.network.session
        edits = read_edits(given, session)
        found = await answered(request, self.answers.singles(edits))
        known = dict(zip(edits, found, strict=True))
        each = [read_edits([one], session)[0] for one in given]
        return JSONResponse([known.get(one, {"total": None, "flips": None}) for one in each])

    async def neighbours(self, request: Request) -> Response:
        """Neighbours of some nodes, and edges among all these and others that are drawn."""
        asked = await body(request, {"nodes", "others", "most"})
        most = asked.get("most", NEIGHBOURS)
        if isinstance(most, bool) or not isinstance(most, int) or not 0 <= most <= 1000:
            raise Rejected(422, "most must be between 0 and 1000")
        lists = [asked.get(key, []) for key in ("nodes", "others")]
        if not all(isinstance(one, list) and len(one) <= 6000 for one in lists):
            raise Rejected(422, "nodes and others must be lists of at most 6000 ids")
        nodes, others = ([node_id(one, self.network.session) for one in part] for part in lists)
        return JSONResponse(
            await asyncio.to_thread(neighbourhood, self.network, nodes, others, most)
        )

    async def search(self, request: Request) -> Response:
        """Nodes whose name holds a text."""
        text = request.query_params.get("text", "")
        if len(text) > 200:
            raise Rejected(422, "text must have at most 200 characters")
        most = whole(request, "most", 8, 1, 200)
        return JSONResponse({"node": await asyncio.to_thread(self.network.find, text, most)})

    async def features(self, request: Request) -> Response:
        """A node's features: those that are not zero, the largest first."""
        session = self.network.session
        node = node_id(whole(request, "node", -1), session)
        row = features_of_node(node, session).double()
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
        asking = self.answers.ask(("why", node), job.of(ask))
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
                text = f"No removal of up to {FLIP_NODES} nodes was found that flips it."
            else:
                names = self.network.class_names
                least = (
                    "" if found.smallest else " A smaller set may exist: not every set was tried."
                )
                how = (
                    "One removal flips" if len(edits) == 1 else f"Removing {len(edits)} nodes flips"
                )
                text = f"{how} it to {names[found.to_class]}.{least}"
            return {"edits": edits, "text": text}

        job = self._job(request.query_params.get("job"))
        asking = self.answers.ask(("flip", node), job.of(ask))
        return JSONResponse(await answered(request, asking, job))

    def _job(self, name: Any) -> Job:
        """A new job, which the page may ask about by the name that it gave."""
        job = Job()
        if name is not None:
            if not isinstance(name, str) or not 0 < len(name) <= 64:
                raise Rejected(422, "job must be a string of 1 to 64 characters")
            self._jobs[name] = job
        return job

    async def progress(self, request: Request) -> Response:
        """How far a question is that the page waits for."""
        job = self._jobs.get(request.query_params.get("job", ""))
        return JSONResponse({} if job is None else job.state())

    async def export(self, request: Request) -> Response:
        """The state as a file."""
        asked = await body(request, {"edits", "kind", "text", "job"})
        kind, text = asked.get("kind"), asked.get("text", "")
        if not isinstance(kind, str) or kind not in EXPORTS:
            raise Rejected(422, f"kind must be one of {', '.join(EXPORTS)}")
        if not isinstance(text, str) or len(text) > 2000:
            raise Rejected(422, "text must be a string of at most 2000 characters")
        network = self.network
        edits = read_edits(asked.get("edits"), network.session)
        content: str | bytes
        if kind == "python":
            content = as_python(edits, network)
        elif kind == "csv":
            if not edits:
                raise Rejected(422, "edits is empty: give at least one edit")
            given = as_edits(edits, network.session)
            asking = self.answers.ask(
                ("csv", edits), lambda: as_csv(network.session.what_if(given), network)
            )
            content = await answered(request, asking)
        else:
            job = self._job(asked.get("job"))
            writing = self._reports.submit(job.of(lambda: as_report(edits, network, text)))
            try:
                content = await answered(request, writing, job)
            except (ValueError, TypeError) as error:
                raise Rejected(422, str(error)) from error
        name, media = EXPORTS[kind]
        disposition = f'attachment; filename="{name}"'
        return Response(
            content, headers={"Content-Type": media, "Content-Disposition": disposition}
        )

    async def rows(self, request: Request) -> Response:
        """A page of the ranking of edges or of fragile predictions, filtered."""
        keys = {"of", "measure", "start", "most", "class", "label", "degree", "text", "group"}
        asked = await body(request, keys)
        ranking = self._ranking(asked)
        if ranking.of == "nodes":
            raise Rejected(422, "nodes are ranked by the stream: of must be edges or fragile")
        numbers = ("start", "most", "class", "label", "degree")
        for key in numbers:
            one = asked.get(key)
            if one is not None and (
                isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < 2**53
            ):
                raise Rejected(422, f"{key} must be a whole number")
        text, group = asked.get("text", ""), asked.get("group", [])
        if not isinstance(text, str) or len(text) > 200:
            raise Rejected(422, "text must have at most 200 characters")
        if not isinstance(group, list) or not all(map(self._is_group, group)):
            raise Rejected(422, "group must be a list of pairs [grouping, group]")
        start, most = asked.get("start") or 0, min(asked.get("most") or 15, 200)

        def ask() -> dict[str, Any]:
            kept = kept_nodes(self.network, asked)
            return {**self.rankings.rows(ranking, kept, start, most), **ranking.state()}

        return Response(_json(await asyncio.to_thread(ask)), media_type="application/json")

    def _is_group(self, one: Any) -> bool:
        whole = isinstance(one, list) and len(one) == 2 and all(type(part) is int for part in one)
        return whole and 0 <= one[0] < len(self.network.groups)

    def _ranking(self, asked: Any) -> Ranking:
        of, measure = asked.get("of") or "nodes", asked.get("measure") or "change"
        if not isinstance(of, str) or not isinstance(measure, str):
            raise Rejected(422, "of and measure must be strings")
        return self.rankings.get(of, measure)

    async def steer(self, request: Request) -> Response:
        """Pause or resume a ranking."""
        asked = await body(request, {"act", "of", "measure"})
        act, ranking = asked.get("act"), self._ranking(asked)
        if act not in ("pause", "start"):
            raise Rejected(422, "act must be pause or start")
        (ranking.pause if act == "pause" else ranking.start)()
        return JSONResponse(ranking.state())

    async def stream(self, request: Request) -> Response:
        """A ranking as server-sent events; a browser that reconnects continues where it was."""
        if self._streams >= STREAMS:
            raise Rejected(429, f"at most {STREAMS} windows can follow the ranking")
        ranking = self._ranking(request.query_params)
        last = request.headers.get("last-event-id", "0")
        cursor = int(last) if last.isascii() and last.isdecimal() and len(last) < 16 else 0
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(
            self._events(request, ranking, min(cursor, ranking.done)),
            media_type="text/event-stream",
            headers=headers,
        )

    async def _events(self, request: Request, ranking: Ranking, cursor: int) -> AsyncIterator[str]:
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        self._streams += 1
        stop = ranking.listen(lambda: _awake(loop, news))
        if ranking.status == "waiting":
            ranking.start()
        try:
            while not self.closing:
                news.clear()
                while True:
                    # Rows of other rankings than that of nodes are asked for page by page.
                    streamed = ranking.of == "nodes"
                    cursor, part = (
                        ranking.part(cursor) if streamed else (ranking.done, ranking.state())
                    )
                    yield f"id: {cursor}\ndata: {json.dumps(part)}\n\n"
                    if cursor >= ranking.done:
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


async def _rejected(request: Request, error: Exception) -> Response:
    assert isinstance(error, Rejected)
    return JSONResponse({"error": error.message}, error.status)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    """A bug of ours: its traceback is for the terminal, not for the page."""
    if not isinstance(error, ClientDisconnect):
        traceback.print_exception(error, file=sys.stderr)
    return JSONResponse({"error": "internal error: see the terminal"}, 500)
