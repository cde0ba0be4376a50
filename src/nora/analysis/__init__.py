"""From a person's own files to an answer: what `nora run` does, as a function.

    analysis = nora.analyse("edges.csv", labels="labels.csv")
    analysis.top(5)
    analysis.save("results")

One order of work, one file each: `pipeline` (read, train, assess, ask for scores and effects), `asking` and
`as_time_allows` (ask what a page shows, within its time), `writing` and `tables` (save), `reporting` (render:
`nora.write_report`). `result` is what comes out, `summary` has graph and model in words, `stages` times and
progress, `checks` and `folder` what is refused at once.

Names are imported on first use, so that a slip can be refused before torch is loaded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nora.analysis.pipeline import analyse
    from nora.analysis.result import Analysis

__all__ = ["Analysis", "analyse"]

_HOME = {"Analysis": "result", "analyse": "pipeline"}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"nora.analysis.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'nora.analysis' has no attribute {name!r}")
