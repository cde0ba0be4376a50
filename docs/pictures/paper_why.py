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
        f"At the paper's sizes `nora` has {' and '.join(told)}: the gap is one of models that classify nodes. Two reasons "
        "were found, neither of them in the method."
    )
    yield ""
    rows = document["tables"]["Every cell"]
    mean = {one["options"]: one["pearson"] for one in document["tables"]["Means over the cells"]}
    own = mean["other samples, their own nodes"]
    gap = mean["paper"] - mean["here"]
    yield (
        f"**Which nodes are labelled.** On {len(rows)} cells ([table](../results/paper/tuning.md)) the paper has "
        f"{mean['paper']:.3f}, here it is {mean['here']:.3f}. The same protocol with three other samples of labelled nodes, each "
        f"measured on the nodes it does not label: {own:.3f} on average, {(own - mean['here']) / gap:.0%} of the gap. Their "
        f"options on the nodes of the main table: {mean['other samples']:.3f}. The options that the paper published, there: "
        f"{mean['published options']:.3f}. What the search finds when it sees the truth of all nodes, which nobody may: "
        f"{mean['all nodes seen']:.3f}, so that no choice of a sample closes the gap. {WHY['tuning']}"
    )
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
