"""The paper's claims, counted and measured: one row each."""
# ruff: noqa: E501

from __future__ import annotations

import json
from collections.abc import Iterator
from math import log
from statistics import fmean

from paper_figures import ROOT, pearsons, results, row, table

from nora.experiments import published

RIVALS = ("mask", "predict-n", "predict-e")
PARTS = ("nora-t1", "nora-t2")
CITATION = ("cora", "citeseer", "pubmed")
# Nodes and edges of the three graphs, whose times tell how costs grow.
SIZES = {"cora": 2708 + 5429, "citeseer": 3327 + 4732, "pubmed": 19717 + 44338}
# Of the ogbn-arxiv graph, and how many removals were timed there.
NODES, REMOVALS = 169_343, 150

Figures = dict[tuple[str, ...], float]


def papers() -> Figures:
    """The paper's Pearson by task, dataset, model and method, on the citation graphs."""
    return {
        (task, dataset, model, method): value
        for task, datasets in published()["pearson"].items()
        for dataset, models in datasets.items()
        for model, methods in models.items()
        for method, value in methods.items()
        if dataset in CITATION
    }


def ahead(found: Figures, others: tuple[str, ...], margin: float = 0.0) -> str:
    """In how many cells `nora` is ahead of all others: `14 of 24`."""
    cells = list(dict.fromkeys(key[:3] for key in found))
    first = [
        cell
        for cell in cells
        if all(found[(*cell, "nora")] >= found[(*cell, one)] - margin for one in others)
    ]
    return f"{len(first)} of {len(cells)}" if cells else "–"


def growth(column: str) -> float:
    """The power of nodes + edges with which seconds grow, from Cora and CiteSeer to PubMed."""
    document = results("time")
    assert document is not None
    rows = document["tables"]["Seconds to score all nodes"]
    mean = {
        name: fmean(log(one[column]) for one in rows if one["cell"].startswith(name))
        for name in SIZES
    }
    small = [name for name in SIZES if name != "pubmed"]
    return fmean(
        (mean["pubmed"] - mean[name]) / (log(SIZES["pubmed"]) - log(SIZES[name])) for name in small
    )


def exact_hours() -> str:
    """Core hours of `exact` for all nodes of the ogbn-arxiv graph, from 150 random removals."""
    path = ROOT / "benchmarks" / "results" / "commits_arxiv.json"
    settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
    seconds = [settings[f"arxiv-{name}"]["now"]["cpu"] for name in ("gcn", "sage", "gat")]
    return " / ".join(f"{one / REMOVALS * NODES / 3600:.1f}" for one in seconds)


def claims() -> Iterator[str]:
    """One row per claim."""
    several = [
        papers(),
        *(pearsons(results(name)) for name in ("published/citation", "paper/citation", "citation")),
    ]
    best = [ahead(found, RIVALS) for found in several]
    both = [ahead(found, PARTS, 0.0005) for found in several]
    document = results("arxiv/arxiv")
    assert document is not None
    seconds = [
        one["seconds"]
        for one in document["tables"]["Agreement with the truth of the sample (stand-in features)"]
        if one["method"] == "nora"
    ]
    yield "## Claims"
    yield ""
    yield "Numbers of cells on the citation graphs. `clean, cut` has hidden sizes cut to 128."
    yield ""
    yield from table("claim", "paper", "published", "clean", "clean, cut", "verdict")
    yield row(
        "NORA outperforms the baselines in most cases",
        *best,
        "true in the published protocol; in the clean protocol in about half of the cells, because `mask` steps along the gradient there and is best in about as many",
    )
    yield row(
        "both components are needed",
        *both,
        "true: together they are at least as good as either part in nearly every cell",
    )
    yield row(
        "one forward and one backward pass",
        "yes",
        "yes",
        "yes",
        "yes",
        "true for given options; tuning them needs the truth of 10 % of the nodes first",
    )
    yield row(
        "the truth takes up to 41 hours",
        "41 GPU hours",
        "–",
        f"{exact_hours()} core hours",
        "–",
        "`exact` needs far less: all nodes of ogbn-arxiv's graph with GCN / SAGE / GAT, extrapolated from 150 random removals ([benchmarks](../benchmarks/README.md))",
    )
    yield row(
        "NORA takes less than a minute",
        "< 1 min",
        "–",
        f"{min(seconds):.0f} to {max(seconds):.0f} s",
        "–",
        "true: ogbn-arxiv's graph at the paper's sizes, one thread",
    )
    yield row(
        "complexity: brute force grows with N (N + E), NORA with N + E",
        "powers 2 and 1",
        "–",
        "–",
        f"{growth('brute (extrapolated)'):.1f} and {growth('nora'):.1f}",
        "consistent: the powers differ by one; both are lower than stated, because the graphs are small (Cora, CiteSeer, PubMed); the power of `exact` is "
        + f"{growth('exact'):.1f}",
    )
    yield ""
