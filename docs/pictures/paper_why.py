"""Why NORA is below the paper: what the recipes `tuning` and `length` have found."""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from paper_figures import paired, pearsons, results, row, table
from paper_text import WHY


def why_below() -> Iterator[str]:
    """What was found out about cells below the paper."""
    full = pearsons(results("paper/citation"))
    document = results("paper/tuning")
    if document is None or not full:
        return
    yield "### Why `nora` is below the paper"
    yield ""
    told = []
    for task in ("node", "link"):
        here, paper = paired({key: value for key, value in full.items() if key[0] == task}, "nora")
        told.append(
            f"{fmean(here):.3f} beside {fmean(paper):.3f} on the {len(here)} cells about {task}s"
        )
    yield (
        f"At the paper's sizes `nora` has {' and '.join(told)}: the gap is one of models that classify nodes. {WHY['found']}"
    )
    yield ""
    rows = document["tables"]["Every cell"]
    yield (
        f"**Options, and the nodes they are found on.** {len(rows)} cells ([table](../results/paper/tuning.md)), with options found "
        "in other ways: the same protocol with three other samples of labelled nodes, each measured on the nodes it does not "
        "label; the options that the paper published; and what the search finds when it sees the truth of all nodes, which "
        "nobody may."
    )
    yield ""
    shown = (
        "paper",
        "here",
        "other samples, their own nodes",
        "published options",
        "all nodes seen",
    )
    yield from table("mean of", "the paper", "here", *shown[2:])
    datasets = dict.fromkeys(one["cell"].split("-")[0] for one in rows)
    for dataset in (*datasets, ""):
        mine = [one for one in rows if one["cell"].startswith(dataset)]
        name = f"{dataset or 'all'}, {len(mine)} cells"
        yield row(name, *(f"{fmean(one[key] for one in mine):.3f}" for key in shown))
    yield ""
    yield WHY["tuning"]
    yield ""
    yield from trained_longer()


def trained_longer() -> Iterator[str]:
    """How well NORA agrees with models that were trained for shorter and longer."""
    document = results("paper/length")
    if document is None:
        return
    every = document["tables"]["Every cell"]
    cells = list(dict.fromkeys(one["cell"] for one in every))
    yield (
        f"**How long models are trained.** {WHY['length']} The same models after so many epochs, {len(cells)} cells "
        "([table](../results/paper/length.md)):"
    )
    yield ""
    yield from table(
        "trained for", "test accuracy", "`nora`", "three other samples", "the paper", "degree"
    )
    shown = ("test accuracy", "nora", "nora, other samples", "paper", "degree")
    for one in document["tables"]["Means over the cells"]:
        chosen = one["trained"] == "by validation"
        name = (
            f"as validation chooses, {one['epochs']:.0f} on average" if chosen else one["trained"]
        )
        yield row(name, *(f"{one[key]:.3f}" for key in shown))
    yield ""
    falls, within = 0, 0
    for cell in cells:
        mine = [one for one in every if one["cell"] == cell and one["trained"] != "by validation"]
        values = [one["nora, other samples"] for one in mine]
        falls += values[0] > values[-1]
        within += max(values) >= mine[0]["paper"] >= min(values)
    yield (
        f"From {mine[0]['epochs']:.0f} to {mine[-1]['epochs']:.0f} epochs the agreement falls in {falls} of {len(cells)} cells, "
        f"and the paper's figure lies within what these lengths give in {within} of them. {WHY['longer']}"
    )
    yield ""
