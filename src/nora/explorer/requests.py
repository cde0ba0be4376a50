"""Reading requests: bodies of bounded size, numbers in addresses; waiting for answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request

from nora.explorer.jobs import Job
from nora.explorer.rejection import Rejected

MOST_BYTES = 200_000
# Less than the second that uvicorn gives requests when it stops.
CHECK_SECONDS = 0.25


async def answered(request: Request, future: Any, job: Job | None = None) -> Any:
    """A future's value; where the page is closed or the server stops, its work is cancelled."""
    wrapped = asyncio.wrap_future(future)
    while True:
        done, _ = await asyncio.wait([wrapped], timeout=CHECK_SECONDS)
        if done:
            return wrapped.result()
        closing = request.app.state.explorations.closing
        if closing or await request.is_disconnected():
            future.cancel()
            if job is not None:
                job.cancelled = True
            raise Rejected(503 if closing else 409, "this question was cancelled")


async def body(request: Request, known: set[str]) -> dict[str, Any]:
    """The request's JSON object, of bounded size and without unknown keys."""
    size = request.headers.get("content-length", "0")
    if not (size.isascii() and size.isdecimal()) or int(size) > MOST_BYTES:
        raise Rejected(413, f"a request has at most {MOST_BYTES:,} bytes")
    text = bytearray()
    async for part in request.stream():
        text += part
        if len(text) > MOST_BYTES:
            raise Rejected(413, f"a request has at most {MOST_BYTES:,} bytes")
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Rejected(400, "the request is not valid JSON") from None
    if not isinstance(value, dict):
        raise Rejected(422, "the request must be a JSON object")
    strange = sorted(set(value) - known)
    if strange:
        raise Rejected(422, f"this request takes the fields {', '.join(sorted(known))}")
    return value


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not valid JSON")


def whole(request: Request, key: str, default: int, low: int = -1, high: int = 2**53) -> int:
    """A whole number of the address, within bounds."""
    text = request.query_params.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 17 and low <= int(text) <= high):
        raise Rejected(422, f"{key} must be a whole number")
    return int(text)
