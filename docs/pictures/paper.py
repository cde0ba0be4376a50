"""Writes the page of verdicts, `docs/paper.md`, and the list of results, `results/README.md`.

    python docs/pictures/paper.py

Figures come from `results/` and from the paper's own (`paper.json` of `nora.experiments`); only the reasons
are written by hand, in `paper_text.py`.
"""
# ruff: noqa: E501

from __future__ import annotations

import json
from collections.abc import Iterator
from statistics import fmean
from typing import Any

from paper_figures import (
    CORRELATION,
    MARKS,
    PERCENT,
    ROOT,
    paired,
    pearsons,
    results,
    row,
    table,
    verdict,
)
from paper_text import CHOICES, HEAD, SAID, SUMMARY, WEAK, WHY
from paper_why import why_below

from nora.experiments import lookup, published

METHODS = ("nora", "nora-t1", "nora-t2", "mask", "predict-n", "predict-e")


def means(found: dict[tuple[str, ...], float], method: str) -> str:
    """`0.901 → 0.907` and a verdict, over the cells that both have; a dash where there are none."""
    here, paper = paired(found, method)
    if not here:
        return "–"
    return f"{fmean(paper):.3f} → {fmean(here):.3f}, **{verdict(fmean(here), fmean(paper))}**"


def agreement() -> Iterator[str]:
    """The main table."""
    compact, full = pearsons(results("citation")), pearsons(results("paper/citation"))
    figures = published()["pearson"]
    cells = len({key[:3] for key in full})
    yield "## Agreement with the truth"
    yield ""
    yield (
        "Pearson on the nodes that were not labelled, scores and truth averaged over five models: the "
        f"paper's figure → ours. At the paper's sizes {cells} of 24 cells on the citation graphs are finished "
        "([table](../results/paper/citation.md), which also tells what *one* model gets); with hidden sizes "
        "cut to 128 all are ([table](../results/citation.md))."
    )
    yield ""
    yield from table(
        "method", f"paper's sizes, {cells} cells", "hidden sizes cut to 128, 24 cells", "why"
    )
    for method in METHODS:
        yield row(f"`{method}`", means(full, method), means(compact, method), WHY[method])
    yield ""
    yield (
        "Every cell; `=` reproduced, `≈` close, `≠` differs; * with hidden sizes cut to 128, where the "
        "paper's size is not finished:"
    )
    yield ""
    yield from table("task", "dataset", "model", *METHODS)
    for task, datasets in figures.items():
        for dataset, models in datasets.items():
            for model, of in models.items():
                shown = []
                for method in METHODS:
                    key = (task, dataset, model, method)
                    here = full.get(key, compact.get(key))
                    if here is None:
                        shown.append(f"{of[method]:.3f} → –")
                        continue
                    star = "" if key in full else "*"
                    mark = MARKS[verdict(here, of[method])]
                    shown.append(f"{of[method]:.3f} → {here:.3f}{star} {mark}")
                yield row(task, dataset, model, *shown)
    yield ""
    yield WEAK
    yield ""
    yield f"ogbn-arxiv: **not possible here**: {WHY['ogbn-arxiv']}"
    yield ""
    yield (
        f"P50 and P_20_50: **not possible here**: {WHY['p50']} On PureP ([table](../results/twitter.md)), and on the "
        "users of P_20_50 with the two relations that are left, friend and reply "
        "([table](../results/p-20-50-partial/twitter.md)):"
    )
    yield ""
    document = results("twitter")
    if document is not None:
        left = "node, 2 relations of P_20_50"
        yield from table(
            "method", "node, PureP", "link, PureP", left, "paper's P50 / P_20_50, node", "link"
        )
        found = pearsons(document)
        partial = pearsons(results("p-20-50-partial/twitter"))
        for method in METHODS:
            beside = [
                " / ".join(
                    f"{lookup(figures, task, name, 'timme', method):.3f}"
                    for name in ("p50", "p_20_50")
                )
                for task in ("node", "link")
            ]
            here = [f"{found[task, 'pure-p', 'timme', method]:.3f}" for task in ("node", "link")]
            here.append(f"{partial['node', 'p-20-50-partial', 'timme', method]:.3f}")
            yield row(f"`{method}`", *here, *beside)
        yield ""
    yield from why_below()


def figures_of(name: str) -> dict[tuple[str, ...], tuple[float | None, float | None]]:
    """Ours and the paper's figure of every row of a result's one table, by what the row is about."""
    document = results(name)
    if document is None:
        return {}
    (rows,) = document["tables"].values()
    here, paper = (next(key for key in rows[0] if word in key) for word in ("here", "paper"))
    about = [key for key in rows[0] if key not in (here, paper, "difference")]
    return {tuple(str(one[key]) for key in about): (one[here], one[paper]) for one in rows}


def compared(name: str, heading: str, text: str, bounds: tuple[float, float]) -> Iterator[str]:
    """A table whose rows have a figure here and one in the paper, with a verdict each."""
    small, full = figures_of(name), figures_of(f"paper/{name}")
    yield f"## {heading}"
    yield ""
    links = f"[hidden sizes cut to 128](../results/{name}.md)"
    if full:
        links += f", [paper's sizes](../results/paper/{name}.md)"
    yield f"{text} ({links}). The verdict is on the last of the columns that is finished."
    yield ""
    (cut, whole) = (_cycles(one) for one in (name, f"paper/{name}"))
    blank = [""] * (len(next(iter(small))) - 1)
    yield from table(
        "", *blank, "paper", f"hidden sizes cut{cut}", f"paper's sizes{whole}", "verdict"
    )
    for about, (here, paper) in small.items():
        later = full.get(about, (None, None))[0]
        best = here if later is None else later
        known = best is not None and paper is not None
        yield row(
            *about, _shown(paper), _shown(here), _shown(later),
            verdict(best, paper, bounds) if known else "–",
        )  # fmt: skip
    yield ""


def _cycles(name: str) -> str:
    document = results(name)
    return "" if document is None else f", {document['about']['cycles']} cycles"


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if abs(value) < 1 else f"{value:.1f}"


def labels() -> Iterator[str]:
    """Label usage."""
    document = results("labels")
    yield "## Do more labels help?"
    yield ""
    yield f"**not possible here** on the paper's graph: {WHY['ogbn-arxiv']} On the cells named, with the"
    yield "question the same ([table](../results/labels.md)):"
    yield ""
    if document is None:
        return
    rows = document["tables"]["Pearson by share of labelled nodes"]
    shown = list(rows[0])[2:]
    yield from table("where", "method", *shown)
    for one in document["tables"]["The paper, ogbn-arxiv"]:
        yield row(
            f"paper, {one['cell']}", f"`{one['method']}`", *(f"{one[key]:.3f}" for key in shown)
        )
    for dataset in dict.fromkeys(one["cell"].split("-")[0] for one in rows):
        mine = [one for one in rows if one["cell"].startswith(f"{dataset}-")]
        cells = dict.fromkeys(one["cell"].removeprefix(f"{dataset}-") for one in mine)
        for method in dict.fromkeys(one["method"] for one in mine):
            means = (fmean(one[key] for one in mine if one["method"] == method) for key in shown)
            yield row(
                f"here, {dataset}, mean of {', '.join(cells)}",
                f"`{method}`",
                *(f"{mean:.3f}" for mean in means),
            )
    for one in document["tables"].get("One model: mean Pearson over all models", []):
        yield row(
            "here, one model, mean of all",
            f"`{one['method']}`",
            *(f"{one[key]:.3f}" for key in shown),
        )
    yield ""


def times() -> Iterator[str]:
    """Running time."""
    document = results("time")
    yield "## Running time"
    yield ""
    yield (
        "**not possible here**: the paper timed brute force on a GPU, and there is none. Seconds of brute force and how "
        "many times faster each is, in one process on one machine ([table](../results/time.md)); cells that are not in "
        "it have not been timed yet:"
    )
    yield ""
    if document is None:
        return
    yield from table("cell", "paper's brute force, GPU", "brute force here", "`exact`", "`nora`")
    rows = {one["cell"]: one for one in document["tables"]["Seconds to score all nodes"]}
    for task, datasets in published()["brute_seconds_gpu"].items():
        for dataset, models in datasets.items():
            for model, seconds in models.items():
                one = rows.get(f"{dataset}-{model}-{task}")
                here = (
                    ("–", "–", "–")
                    if one is None
                    else (
                        f"{one['brute (extrapolated)']:,.0f} s",
                        f"{one['brute / exact']:,.0f} times faster",
                        f"{one['brute / nora']:,.0f} times faster",
                    )
                )
                yield row(f"{dataset}-{model}-{task}", f"{seconds:,.0f} s", *here)
    yield ""


def summary() -> Iterator[str]:
    """One line for every table and figure."""
    yield "## In short"
    yield ""
    yield from table("in the paper", "verdict", "ours")
    for what, key, ours in SUMMARY:
        yield row(what, told_verdict(key), ours)
    yield ""


def told_verdict(key: str) -> str:
    """The verdict on a table or a figure: of its figures' mean, or in words where it cannot be."""
    if key in SAID:
        return SAID[key]
    if key.startswith("pearson "):
        _, profile, method = key.split()
        here, paper = paired(pearsons(results(profile)), method)
        if not here:
            return "–"
        words = [verdict(a, b) for a, b in zip(here, paper, strict=True)]
        cells = ", ".join(f"{words.count(word)} {mark}" for word, mark in MARKS.items())
        return f"**{verdict(fmean(here), fmean(paper))}** on average; cells: {cells}"
    name, column = key.split()
    best = figures_of(name) | figures_of(f"paper/{name}")
    pairs = [(here, paper) for here, paper in best.values() if None not in (here, paper)]
    bounds = PERCENT if column == "percent" else CORRELATION
    words = [verdict(here, paper, bounds) for here, paper in pairs]
    counts = {word: words.count(word) for word in MARKS if word in words}
    worst = list(counts)[-1]
    return (
        f"**{worst}**" if len(counts) == 1 else "; ".join(f"{n} **{w}**" for w, n in counts.items())
    )


def page() -> str:
    """`docs/paper.md`."""
    lines = [
        *summary(),
        *agreement(),
        *compared(
            "stability",
            "Stability",
            "Mean Pearson between the exact influences of models that differ in hidden size, and between architectures",
            CORRELATION,
        ),
        *compared(
            "skew",
            "How uneven is influence?",
            "Percent of all influence that the first nodes have, averaged over cycles and models",
            PERCENT,
        ),
        *labels(),
        *times(),
    ]
    return HEAD + "\n".join(lines) + "\n" + CHOICES.rstrip() + "\n"


def index() -> str:
    """`results/README.md`."""
    lines = [
        "# How each result was made",
        "",
        "Written by the commands themselves into every file (`about`); this list by `python docs/pictures/paper.py`. The same",
        "command gives the same figures, but for those that are times; seconds are of all parts, on one core or more of the",
        "machine. Files without a commit were made before results said it.",
        "",
        *table("file", "command", "commit", "seconds of work", "machine"),
    ]
    for path in sorted((ROOT / "results").rglob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        about = document.get("about", document)
        name = path.relative_to(ROOT / "results").as_posix()
        lines.append(how_made(f"[{name}]({name})", about))
        for taken in about.get("taken_over", ()):
            lines.append(how_made(f"{len(taken['cells'])} cells in it", taken))
    return "\n".join(lines) + "\n"


def how_made(what: str, about: dict[str, Any]) -> str:
    """The row of a result, or of cells that a result has taken over from an earlier one."""
    machine = about.get("machine")
    size = "–" if machine is None else f"{machine['cores']} cores, {machine['memory_gb']} GB"
    if machine is None and "cores" in about:
        size = f"{about['cores']} cores"
    seconds = "–" if about.get("seconds") is None else f"{about['seconds']:,.0f}"
    return row(what, f"`{about['command']}`", str(about.get("commit") or "–"), seconds, size)


PAGES = {"docs/paper.md": page, "results/README.md": index}

if __name__ == "__main__":
    for name, write in PAGES.items():
        (ROOT / name).write_text(write(), encoding="utf-8")
