"""Writes the page of verdicts, `docs/paper.md`, its cells, `results/cells.md`, and the list of results, `results/README.md`.

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

from paper_claims import claims
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
from paper_people import politicians
from paper_text import CHOICES, HEAD, SUMMARY, VERDICTS, WHY

from nora.experiments import published

METHODS = ("nora", "nora-t1", "nora-t2", "mask", "predict-n", "predict-e")


def agreement() -> Iterator[str]:
    """The main table: both protocols beside the paper."""
    ours, full = (pearsons(results(name)) for name in ("published/citation", "paper/citation"))
    counts = [len({key[:3] for key in found}) for found in (ours, full)]
    yield "## Agreement with the truth"
    yield ""
    yield (
        "Pearson on the nodes without labels; scores and truth are averaged over five models. At the paper's sizes, "
        f"{counts[0]} of the 24 cells on citation graphs are finished in the published protocol "
        f"([table](../results/published/citation.md)) and {counts[1]} in the clean one ([table](../results/paper/citation.md)). "
        "With hidden sizes cut to 128, all are finished in the clean one ([table](../results/citation.md)). Each table starts with "
        "the results of single models."
    )
    yield ""
    yield from table(
        "method",
        "published: paper → ours",
        "mean \\|difference\\|",
        "within 0.03",
        "clean: paper → ours",
    )
    for method in METHODS:
        here, paper = paired(ours, method)
        apart = [abs(a - b) for a, b in zip(here, paper, strict=True)]
        near = sum(one <= 0.03 for one in apart)
        mean = f"{fmean(apart):.3f}" if apart else "–"
        yield row(
            f"`{method}`", means(ours, method), mean, f"{near} of {len(apart)}", means(full, method)
        )
    yield ""
    yield f"{WHY['clean']} {WHY['weak']}"
    yield ""
    yield ("[Every cell beside the paper](../results/cells.md).")
    yield ""
    yield f"ogbn-arxiv: **not possible here**: {WHY['ogbn-arxiv']} P50 and P_20_50: **not possible here**: {WHY['p50']}"
    yield "On PureP, and on the users of P_20_50 with two relations: see [Twitter](methods.md#relations-timme-on-twitter)."
    yield ""


def cells() -> str:
    """`results/cells.md`: every cell of the paper's main tables."""
    found = [
        pearsons(results(name)) for name in ("published/citation", "paper/citation", "citation")
    ]
    lines = [
        "# Every cell beside the paper",
        "",
        "Pearson: paper → published protocol / clean protocol, with the verdict on the published one (on the clean one if only",
        "that is finished). A star marks hidden sizes cut to 128, where the paper's size is not finished. Summary and verdicts:",
        "[the paper, table by table](../docs/paper.md). Made by `python docs/pictures/paper.py`.",
        "",
        *table("task", "dataset", "model", *METHODS),
    ]
    for task, datasets in published()["pearson"].items():
        for dataset, models in datasets.items():
            for model, of in models.items():
                key = (task, dataset, model)
                shown = (_cell((*key, one), of[one], *found) for one in METHODS)
                lines.append(row(*key, *shown))
    return "\n".join(lines) + "\n"


def _cell(key: tuple[str, ...], paper: float, *found: dict[tuple[str, ...], float]) -> str:
    """`0.903 → 0.900 / 0.886 =`."""
    ours, full, compact = (one.get(key) for one in found)
    star = "" if full is not None else "*"
    clean = compact if full is None else full
    if clean is None:
        return f"{paper:.3f} → –"
    mark = MARKS[verdict(clean if ours is None else ours, paper)]
    shown = "–" if ours is None else f"{ours:.3f}"
    return f"{paper:.3f} → {shown} / {clean:.3f}{star} {mark}"


def means(found: dict[tuple[str, ...], float], method: str) -> str:
    """`0.901 → 0.907` and a verdict, over the cells that both have; a dash where there are none."""
    here, paper = paired(found, method)
    if not here:
        return "–"
    return f"{fmean(paper):.3f} → {fmean(here):.3f}, **{verdict(fmean(here), fmean(paper))}**"


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
    """A table whose entries have a figure here and one in the paper, with a verdict each."""
    small, full = figures_of(name), figures_of(f"paper/{name}")
    yield f"## {heading}"
    yield ""
    links = f"[hidden sizes cut to 128](../results/{name}.md)"
    if full:
        links += f", [paper's sizes](../results/paper/{name}.md)"
    yield f"{text} ({links}): paper → hidden sizes cut / paper's sizes if finished, clean protocol."
    yield ""
    columns = list(dict.fromkeys(about[-1] for about in small))
    yield from table("dataset", "task", *columns)
    for where in dict.fromkeys(about[:-1] for about in small):
        shown = []
        for column in columns:
            here, paper = small.get((*where, column), (None, None))
            later = full.get((*where, column), (None, None))[0]
            best = here if later is None else later
            known = best is not None and paper is not None
            mark = f" {MARKS[verdict(best, paper, bounds)]}" if known else ""
            ours = _shown(here) if later is None else f"{_shown(here)} / {_shown(later)}"
            shown.append(f"{_shown(paper)} → {ours}{mark}")
        yield row(*where, *shown)
    yield ""


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if abs(value) < 1 else f"{value:.1f}"


def labels() -> Iterator[str]:
    """Label usage."""
    document = results("labels")
    assert document is not None
    yield "## Do more labels help?"
    yield ""
    yield (
        f"**not possible here** on the paper's graph: {WHY['ogbn-arxiv']} On other graphs they do, most for `predict-n` "
        "([table](../results/labels.md)); the mean over all cells:"
    )
    yield ""
    rows = document["tables"]["Pearson by share of labelled nodes"]
    shown = list(rows[0])[2:]
    yield from table("where", "method", *shown)
    for one in document["tables"]["The paper, ogbn-arxiv"]:
        yield row(
            f"paper, {one['cell']}", f"`{one['method']}`", *(f"{one[key]:.3f}" for key in shown)
        )
    for method in dict.fromkeys(one["method"] for one in rows):
        mine = [one for one in rows if one["method"] == method]
        figures = (fmean(one[key] for one in mine) for key in shown)
        yield row(
            f"here, {len(mine)} cells", f"`{method}`", *(f"{figure:.3f}" for figure in figures)
        )
    yield ""


def times() -> Iterator[str]:
    """Running time."""
    document = results("time")
    assert document is not None
    yield "## Running time"
    yield ""
    yield (
        "The paper timed brute force on a GPU, which is **not possible here**. Each cell: the paper's seconds → brute force on one "
        "core here (how many times faster `exact` and `nora` are; hidden sizes cut to 128, [table](../results/time.md)):"
    )
    yield ""
    rows = {one["cell"]: one for one in document["tables"]["Seconds to score all nodes"]}
    yield from table("task", "dataset", "GCN", "GraphSAGE", "GAT or DrGAT", "GCNII", "TIMME")
    for task, datasets in published()["brute_seconds_gpu"].items():
        for dataset, models in datasets.items():
            cells = {
                model: _time(seconds, rows.get(f"{dataset}-{model}-{task}"))
                for model, seconds in models.items()
            }
            attention = cells.get("gat", cells.get("drgat", ""))
            yield row(
                task, dataset, cells.get("gcn", ""), cells.get("sage", ""), attention,
                cells.get("gcnii", ""), cells.get("timme", ""),
            )  # fmt: skip
    yield ""


def _time(seconds: float, here: dict[str, Any] | None) -> str:
    if here is None:
        return f"{seconds:,.0f} s → –"
    faster = ", ".join(f"{here[f'brute / {one}']:,.0f}×" for one in ("exact", "nora"))
    return f"{seconds:,.0f} s → {here['brute (extrapolated)']:,.0f} s ({faster})"


def case() -> Iterator[str]:
    """The case study and the figures on Twitter."""
    document = results("arxiv-case/arxiv-case")
    assert document is not None
    (rows,) = document["tables"].values()
    yield "## Case study"
    yield ""
    shown = sum(one["rank by influence"] <= 10 for one in rows)
    degree = sum(one["rank by degree"] <= 10 for one in rows)
    yield (
        f"The paper's ten most influential papers on its own graph, with stand-in features ([table](../results/arxiv-case/arxiv-case.md)): "
        f"**close**, {shown} of the ten are among our first ten, the first four in the same order. Plain degree has {degree} of "
        "them among its first ten, so most of the finding needs no model. Influence ranks Skip-gram and word2vec where the "
        f"paper does; degree does not. {WHY['case']}"
    )
    yield ""
    yield from table("paper", "rank in the paper", "by influence here", "by degree")
    for one in rows:
        yield row(
            one["paper"],
            str(one["rank in the paper"]),
            str(one["rank by influence"]),
            str(one["rank by degree"]),
        )
    yield ""
    yield "The same for people: [politicians](politicians.md)."
    yield ""
    yield from relations()


def relations() -> Iterator[str]:
    """Influence by degree and by relation."""
    edges, degrees = results("twitter-edges"), results("twitter-degree")
    assert edges is not None and degrees is not None
    heading = "Rank correlation (Spearman) with influence, by task"
    found = {
        one["degree"]: one["both"]
        for one in (*degrees["tables"][heading], *edges["tables"][heading])
    }
    yield "## Influence by degree and by relation"
    yield ""
    yield (
        "P50 and P_20_50: **not possible here**. On PureP, both tasks together ([degree](../results/twitter-degree.md), "
        f"[ten directed types](../results/twitter-edges.md)), the paper's finding holds: influence correlates more with being *followed* ({found['followed']:.2f}) "
        f"than with *follow* ({found['follow']:.2f}), and more with being acted upon than with acting, in every relation but *mention*."
    )
    yield ""
    yield from table("Spearman", "all", "friend", "reply", "retweet", "favorite", "mention")
    ways = {
        "acted upon": ("in-degree", "followed", "replied", "retweeted", "liked", "mentioned"),
        "acting": ("out-degree", "follow", "reply", "retweet", "like", "mention"),
    }
    for way, names in ways.items():
        yield row(way, *(f"{found[name]:.2f}" for name in names))
    yield ""


def summary() -> Iterator[str]:
    """One line for every table and figure."""
    yield "## In short"
    yield ""
    yield from table("in the paper", "verdict", "ours")
    for what, key, ours in SUMMARY:
        yield row(what, verdict_on(key), ours)
    yield ""


def verdict_on(key: str) -> str:
    """The verdict on a table or a figure: of its figures' mean, or in words if there is none."""
    if key in VERDICTS:
        return VERDICTS[key]
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
        *claims(),
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
            "Percent of all influence that belongs to the first nodes, averaged over cycles and models",
            PERCENT,
        ),
        *labels(),
        *times(),
        *case(),
    ]
    return HEAD + "\n".join(lines) + "\n" + CHOICES.rstrip() + "\n"


def index() -> str:
    """`results/README.md`."""
    lines = [
        "# How each result was made",
        "",
        "Every file records its command (`about`); `python docs/pictures/paper.py` makes this list. The same command gives the same",
        "figures, except for times. Seconds are the sum over all parts. Files without a commit are from before commits were recorded.",
        "",
        *table("file", "command", "commit", "seconds of work", "machine"),
    ]
    for path in sorted((ROOT / "results").rglob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        about = document.get("about", document)
        name = path.relative_to(ROOT / "results").as_posix()
        lines.append(how_made(f"[{name}]({name})", about))
        for taken in about.get("taken_over", ()):
            lines.append(how_made(f"of which cells: {len(taken['cells'])}", taken))
    return "\n".join(lines) + "\n"


def how_made(what: str, about: dict[str, Any]) -> str:
    """The row of a result, or of cells that a result has taken over from an earlier one."""
    machine = about.get("machine")
    size = "–" if machine is None else f"{machine['cores']} cores, {machine['memory_gb']} GB"
    if machine is None and "cores" in about:
        size = f"{about['cores']} cores"
    seconds = "–" if about.get("seconds") is None else f"{about['seconds']:,.0f}"
    return row(what, f"`{about['command']}`", str(about.get("commit") or "–"), seconds, size)


PAGES = {
    "docs/paper.md": page,
    "docs/politicians.md": politicians,
    "results/README.md": index,
    "results/cells.md": cells,
}

if __name__ == "__main__":
    for name, write in PAGES.items():
        (ROOT / name).write_text(write(), encoding="utf-8")
