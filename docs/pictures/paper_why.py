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
    found = {"": results("paper/length"), ", hidden sizes cut to 128": results("length")}
    if not any(found.values()):
        return
    yield (
        f"**How long models are trained.** {WHY['length']} The same models after so many epochs "
        "([table](../results/paper/length.md), [hidden sizes cut](../results/length.md)):"
    )
    yield ""
    figures = {"nora": "`nora`", "nora, other samples": "three other samples", "degree": "`degree`"}
    begun = False
    for size, document in found.items():
        every = [] if document is None else document["tables"]["Every cell"]
        lengths = list(dict.fromkeys(one["trained"] for one in every))
        if every and not begun:
            yield from table("mean of", "", *lengths, "the paper")
            begun = True
        for dataset in dict.fromkeys(one["cell"].split("-")[0] for one in every):
            mine = [one for one in every if one["cell"].startswith(f"{dataset}-")]
            models = [cell.split("-")[1] for cell in dict.fromkeys(one["cell"] for one in mine)]
            for key, shown in ({**figures, "test accuracy": "test accuracy"}).items():
                means = [
                    fmean(one[key] for one in mine if one["trained"] == length)
                    for length in lengths
                ]
                paper = f"{fmean(one['paper'] for one in mine):.3f}" if key == "nora" else ""
                yield row(
                    f"{dataset}, {', '.join(models)}{size}",
                    shown,
                    *(f"{mean:.3f}" for mean in means),
                    paper,
                )
    yield ""
    yield WHY["longer"]
    yield ""
