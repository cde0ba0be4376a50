"""Options the paper published for its methods, dataset by dataset."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def published_options(method: str, model: str, dataset: str, task: str = "node") -> dict[str, Any]:
    """The paper's options for a method on a model and dataset, as `nora.influence` takes them.

    `nora-t1` and `nora-t2` take some of NORA's options. Those of the baselines belong to the baselines as in
    the paper's scripts, marked by `as_published`.

    Example:
        >>> published_options("nora-t1", "gcn", "cora")
        {'beta': 8.0, 'p': 1.0}
    """
    text = resources.files("nora.methods").joinpath("paper.json").read_text(encoding="utf-8")
    published = json.loads(text)
    parts = {"nora-t1": ("beta", "p"), "nora-t2": ("k1", "k2", "k2_prime")}
    source = "nora" if method in parts else method
    if source not in published:
        raise ValueError(
            f"the paper publishes no options for {method!r}; it does for "
            f"{', '.join([*published, *parts])}"
        )
    try:
        found = dict(published[source][task][dataset][model])
    except KeyError:
        raise ValueError(
            f"the paper publishes no options of {source!r} for {model} on {dataset} ({task} task)"
        ) from None
    if method in parts:
        return {key: found[key] for key in parts[method]}
    return found if source == "nora" else {**found, "as_published": True}
