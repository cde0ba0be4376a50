"""The paper's case study on its own graph: which ranks do its ten papers have, by influence and by degree?

The ids are those of ogbn-arxiv. Its mapping names papers by their ids in the Microsoft Academic Graph, which
are given here, with the year that the graph has. Features are stand-ins, so that no influence here is one on
ogbn-arxiv. Removing a paper that thousands cite changes most of the graph; the truth is therefore computed
for the papers of highest degree, and for random others, which show how far below them the rest is.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch
from torch import Tensor

from nora.experiments import RecipeFacts
from nora.experiments.cache import Step
from nora.experiments.case_study import ranks
from nora.experiments.cells import Cell
from nora.experiments.lab import Lab
from nora.experiments.recipe import Report, recipe
from nora.results.influence import Influence
from nora.seeds import shuffled

# The paper's ten in its order: node, id in the Microsoft Academic Graph, year.
TEN = {
    "Adam": (1353, 1522301498, 2014),
    "ResNet": (67166, 2949650786, 2015),
    "VGG": (25208, 1686810756, 2014),
    "Skip-gram": (106699, 2950133940, 2013),
    "ImageNet challenge": (93649, 2952020226, 2014),
    "word2vec": (94874, 2950577311, 2013),
    "GoogLeNet": (22035, 2950179405, 2014),
    "Batch normalisation": (69794, 2949117887, 2015),
    "Caffe": (98786, 2950094539, 2014),
    "Faster R-CNN": (133376, 2953106684, 2015),
}
# Half of the sample are the nodes of highest degree, half random others.
SAMPLE = 200


def neighbour_counts(lab: Lab, cell: Cell) -> Tensor:
    """Number of neighbours of every node."""
    data = lab.dataset(cell.dataset).data
    return torch.bincount(data.edge_index[0], minlength=int(data.num_nodes or 0))


def candidates(lab: Lab, cell: Cell) -> tuple[Tensor, Tensor]:
    """Nodes of highest degree, and as many random others."""
    half = (lab.sample or SAMPLE) // 2
    order = neighbour_counts(lab, cell).argsort(descending=True, stable=True)
    rest = order[half:]
    return order[:half], rest[shuffled(len(rest), lab.seed)[:half]]


def truth_of_candidates(lab: Lab, cell: Cell, cycle: int) -> Step[Influence]:
    """Compute the exact influence of all candidates, NaN elsewhere."""
    nodes = torch.cat(candidates(lab, cell)).sort().values
    title = f"truth-of-{lab.sample or SAMPLE}-hubs"
    return lab.truth_step(cell, cycle, title=title, nodes=nodes)


def _check(lab: Lab) -> None:
    """Raise for graphs without the ten papers."""
    most = max(node for node, _, _ in TEN.values())
    for cell in lab.cells:
        nodes = int(lab.dataset(cell.dataset).data.num_nodes or 0)
        if nodes <= most:
            raise ValueError(
                f"arxiv-case is about ten papers of ogbn-arxiv's graph; {cell.dataset} has {nodes:,} nodes. "
                "Leave out --datasets"
            )


def _plan(lab: Lab) -> list[Step[Any]]:
    _check(lab)
    steps: list[Step[Any]] = []
    for cell in lab.cells:
        steps += lab.training_steps([cell])
        steps += [truth_of_candidates(lab, cell, cycle) for cycle in range(lab.cycles)]
    return steps


def ten_table(lab: Lab, cell: Cell) -> tuple[pd.DataFrame, str]:
    """The ten papers with their ranks, and the largest influence of the others."""
    found = [truth_of_candidates(lab, cell, cycle).get().scores for cycle in range(lab.cycles)]
    scores, degree = torch.stack(found).mean(dim=0), neighbour_counts(lab, cell)
    hubs, others = candidates(lab, cell)
    by_degree, by_influence = ranks(degree), ranks(scores.nan_to_num(-1.0))
    rows = [
        {
            "rank in the paper": rank,
            "paper": name,
            "node": node,
            "year": year,
            "degree": int(degree[node]),
            "rank by degree": int(by_degree[node]),
            "influence": float(scores[node]),
            "rank by influence": int(by_influence[node]),
        }
        for rank, (name, (node, _, year)) in enumerate(TEN.items(), start=1)
    ]
    return pd.DataFrame(rows), (
        f"{cell.model}: the {len(others)} random others have at most "
        f"{float(scores[others].max()):.2f}, the {len(hubs)} of highest degree at least "
        f"{float(scores[hubs].min()):.2f}."
    )


@recipe(
    "arxiv-case",
    "the case study's ten papers on ogbn-arxiv's graph: rank by influence and by degree",
    RecipeFacts(
        datasets=("ogbn-arxiv-stand-in",), models=("gcn",), tasks=("node",), cycles=1, sample=SAMPLE
    ),
    plan=_plan,
)
def arxiv_case(lab: Lab) -> Report:
    """The paper's ten, beside plain degree."""
    found = {cell: ten_table(lab, cell) for cell in lab.cells}
    return Report(
        title="The case study's ten papers on ogbn-arxiv's graph",
        text=(
            "**Stand-in features: no influence here is one on ogbn-arxiv.** Exact influence, ranked "
            "among the papers of highest degree. "
            + " ".join([*(fact for _, fact in found.values()), lab.caption])
        ),
        tables=[(f"{cell.model}, stand-in features", table) for cell, (table, _) in found.items()],
    )
