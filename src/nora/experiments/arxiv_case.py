"""The paper's case study on its own graph: which ranks do its ten papers have, by influence and by degree?

The ids are those of ogbn-arxiv. Its mapping names papers by their ids in the Microsoft Academic Graph, which
are given here, with the year that the graph has. Features are stand-ins, so that no influence here is one on
ogbn-arxiv. Removing a paper that thousands cite changes most of the graph; the truth is therefore computed
for the papers of highest degree, and for random others, which tell how far below them the rest is.
"""

from __future__ import annotations

from functools import partial

import pandas as pd
import torch
from torch import Tensor

from nora.experiments import RECIPES, RecipeFacts, Report
from nora.experiments.cells import Cell
from nora.experiments.lab import TRUTH, Lab, Step
from nora.experiments.lasting_truth import load_truth, save_truth
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


def degrees(lab: Lab, cell: Cell) -> Tensor:
    """Number of neighbours of every node."""
    data = lab.dataset(cell.dataset).data
    return torch.bincount(data.edge_index[0], minlength=int(data.num_nodes or 0))


def candidates(lab: Lab, cell: Cell) -> tuple[Tensor, Tensor]:
    """Nodes of highest degree, and as many random others."""
    half = (lab.sample or SAMPLE) // 2
    order = degrees(lab, cell).argsort(descending=True, stable=True)
    rest = order[half:]
    return order[:half], rest[shuffled(len(rest), lab.seed)[:half]]


def truth(lab: Lab, cell: Cell, cycle: int) -> Influence:
    """The exact influence of all candidates, NaN elsewhere."""
    run = lab.run(cell, cycle)
    path = lab.truth_path(cell, cycle, title=f"truth-of-{lab.sample or SAMPLE}-hubs")
    code = lab.method_code(TRUTH)

    def compute(nodes: Tensor) -> Influence:
        return run.influence(TRUTH, nodes=nodes, progress=lab.progress)

    if not path.exists():
        save_truth(compute(torch.cat(candidates(lab, cell)).sort().values), path, code)
    return load_truth(path, code, compute)


def _check(lab: Lab) -> None:
    """Raise for graphs that do not have the ten papers."""
    most = max(node for node, _, _ in TEN.values())
    for cell in lab.cells:
        nodes = int(lab.dataset(cell.dataset).data.num_nodes or 0)
        if nodes <= most:
            raise ValueError(
                f"arxiv-case is about ten papers of ogbn-arxiv's graph; {cell.dataset} has {nodes:,} nodes. "
                "Leave --datasets away"
            )


@RECIPES.register(
    "arxiv-case",
    "the case study's ten papers on ogbn-arxiv's graph: rank by influence and by degree",
    RecipeFacts(
        datasets=("ogbn-arxiv-stand-in",), models=("gcn",), tasks=("node",), cycles=1, sample=SAMPLE
    ),
)
class ArxivCase:
    """The paper's ten, beside plain degree."""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """See `Recipe.plan`."""
        _check(lab)
        steps = []
        for cell in lab.cells:
            steps += lab.training_steps([cell])
            for cycle in range(lab.cycles):
                path = lab.truth_path(cell, cycle, title=f"truth-of-{lab.sample or SAMPLE}-hubs")
                steps.append(
                    Step(
                        f"{TRUTH} on {cell} cycle {cycle}",
                        path,
                        partial(truth, lab, cell, cycle),
                    )
                )
        return steps

    @staticmethod
    def report(lab: Lab) -> Report:
        """See `Recipe.report`."""
        tables, facts = [], []
        for cell in lab.cells:
            scores = torch.stack([truth(lab, cell, k).scores for k in range(lab.cycles)]).mean(
                dim=0
            )
            hubs, others = candidates(lab, cell)
            degree = degrees(lab, cell)
            by_degree = degree.argsort(descending=True, stable=True).argsort() + 1
            known = scores.nan_to_num(-1.0)
            by_influence = known.argsort(descending=True, stable=True).argsort() + 1
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
            tables.append((f"{cell.model}, stand-in features", pd.DataFrame(rows)))
            facts.append(
                f"{cell.model}: the {len(others)} random others have at most "
                f"{float(scores[others].max()):.2f}, the {len(hubs)} of highest degree at least "
                f"{float(scores[hubs].min()):.2f}."
            )
        return Report(
            title="The case study's ten papers on ogbn-arxiv's graph",
            text=(
                "**Stand-in features: no influence here is one on ogbn-arxiv.** Exact influence, ranked "
                "among the papers of highest degree. " + " ".join(facts) + " " + lab.caption
            ),
            tables=tables,
        )
