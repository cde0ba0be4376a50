"""The ten most influential people of a network with names, and the predictions they change.

Influence is the mean over the cycles' models. The influence of a person's edges of one relation is the change
when these edges alone are removed; the parts need not add up, since a removal also changes how relations are
weighed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd
import torch

from nora.experiments import RecipeFacts
from nora.experiments.case_study import TOP, ranks
from nora.experiments.lab import TRUTH, Lab
from nora.experiments.recipe import Report, recipe
from nora.experiments.twitter import caption
from nora.training.runs import Run

YARDSTICKS = ("degree", "pagerank")


def edges_of_node(run: Run, node: int) -> dict[Any, list[tuple[int, int]]]:
    """The edges between a node and others, by edge type."""
    found = {}
    for kind in run.data.edge_types:
        edges = run.data[kind].edge_index
        mine = (edges == node).any(dim=0) & (edges[0] != edges[1])
        found[kind] = [(int(source), int(target)) for source, target in edges[:, mine].t()]
    return found


def change_by_relation(run: Run, node: int) -> dict[str, float]:
    """The total change if only the node's edges of one relation are removed, by relation."""
    session = run.session()
    return {
        kind[1]: session.what_if(remove_edges={kind: pairs}).total if pairs else 0.0
        for kind, pairs in edges_of_node(run, node).items()
    }


def predicted_otherwise(runs: list[Run], node: int, names: tuple[str, ...]) -> str:
    """Whose prediction flips without a node, with the number of models in which it does."""
    count: Counter[str] = Counter()
    for run in runs:
        count.update(names[int(one)] for one in run.session().what_if(node).flips()["node"])
    flipped = [f"{name} ({times} of {len(runs)})" for name, times in count.most_common()]
    return ", ".join(flipped) or "none"


@recipe(
    "politicians",
    "PureP: the ten most influential politicians, and whom they would change",
    RecipeFacts(datasets=("pure-p",), models=("timme",), tasks=("node",)),
    methods=YARDSTICKS,
)
def politicians(lab: Lab) -> Report:
    """The first ten by name, beside degree and PageRank, and relation by relation."""
    (cell,) = lab.cells
    dataset = lab.dataset(cell.dataset)
    names = dataset.node_names or tuple(map(str, range(int(dataset.data.num_nodes or 0))))
    parties = dataset.class_names or ()
    runs = [lab.run(cell, cycle) for cycle in range(lab.cycles)]
    each = torch.stack([found.scores for found in lab.all_scores(cell, TRUTH)])
    by = {method: ranks(lab.mean_scores(cell, method)) for method in YARDSTICKS}
    people, relations = [], []
    for rank, node in enumerate(each.mean(dim=0).argsort(descending=True)[:TOP].tolist(), 1):
        label = int(dataset.data["user"].y[node])
        people.append(
            {
                "rank": rank,
                "name": names[node],
                "party": parties[label] if label >= 0 else "–",
                "influence": float(each[:, node].mean()),
                "least, most": f"{each[:, node].min():.2f}, {each[:, node].max():.2f}",
                **{f"rank by {method}": int(found[node]) for method, found in by.items()},
                "predicted otherwise without them": predicted_otherwise(runs, node, names),
            }
        )
        changes = pd.DataFrame([change_by_relation(run, node) for run in runs])
        relations.append({"name": names[node], **changes.mean().to_dict()})
    heading = "What changes when only their ties of one relation are cut"
    return Report(
        title="Whose removal would change the others most?",
        text=(
            f"TIMME predicts the parties of {len(names)} politicians from whom they follow, reply to, "
            f"retweet, like and mention. Exact influence, the mean over {lab.cycles} models with the "
            "least and the most, and who would be predicted to be of the other party without them. "
            + caption(lab)
        ),
        tables=[("The first ten", pd.DataFrame(people)), (heading, pd.DataFrame(relations))],
    )
