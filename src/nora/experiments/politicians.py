"""Who matters in a network of people with names: the ten most influential, and whom they would change.

Influence is the mean over the cycles' models. What a person's ties of one relation carry is the change when
these ties alone are cut; the parts need not add up, since a removal also changes how relations are weighed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd
import torch

from nora.experiments import RECIPES, RecipeFacts, Report
from nora.experiments.citation import plan_for
from nora.experiments.lab import TRUTH, Lab, Step
from nora.experiments.twitter import caption
from nora.training.runs import Run

TOP = 10
YARDSTICKS = ("degree", "pagerank")


def ties_of(run: Run, node: int) -> dict[Any, list[tuple[int, int]]]:
    """The edges of a node to others, by edge type."""
    found = {}
    for kind in run.data.edge_types:
        edges = run.data[kind].edge_index
        mine = (edges == node).any(dim=0) & (edges[0] != edges[1])
        found[kind] = [(int(source), int(target)) for source, target in edges[:, mine].t()]
    return found


def cut_one_by_one(run: Run, node: int) -> dict[str, float]:
    """What changes when the node's ties of one relation are cut, by relation."""
    session = run.session()
    return {
        kind[1]: session.what_if(remove_edges={kind: pairs}).total if pairs else 0.0
        for kind, pairs in ties_of(run, node).items()
    }


def predicted_otherwise(runs: list[Run], node: int, names: tuple[str, ...]) -> str:
    """Who is predicted otherwise without a node, with the number of models that say so."""
    count: Counter[str] = Counter()
    for run in runs:
        count.update(names[int(one)] for one in run.session().what_if(node).flips()["node"])
    told = [f"{name} ({times} of {len(runs)})" for name, times in count.most_common()]
    return ", ".join(told) or "nobody"


@RECIPES.register(
    "politicians",
    "PureP: the ten most influential politicians, and whom they would change",
    RecipeFacts(datasets=("pure-p",), models=("timme",), tasks=("node",)),
)
class Politicians:
    """The first ten by name, beside degree and PageRank, and relation by relation."""

    @staticmethod
    def plan(lab: Lab) -> list[Step]:
        """See `Recipe.plan`."""
        return plan_for(lab, YARDSTICKS)

    @staticmethod
    def report(lab: Lab) -> Report:
        """See `Recipe.report`."""
        (cell,) = lab.cells
        dataset = lab.dataset(cell.dataset)
        names = dataset.node_names or tuple(map(str, range(int(dataset.data.num_nodes or 0))))
        parties = dataset.class_names or ()
        runs = [lab.run(cell, cycle) for cycle in range(lab.cycles)]
        each = torch.stack([found.scores for found in lab.all_scores(cell, TRUTH)])
        ranks = {method: _ranks(lab.mean_scores(cell, method)) for method in YARDSTICKS}
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
                    "rank by degree": int(ranks["degree"][node]),
                    "rank by pagerank": int(ranks["pagerank"][node]),
                    "predicted otherwise without them": predicted_otherwise(runs, node, names),
                }
            )
            cut = pd.DataFrame([cut_one_by_one(run, node) for run in runs]).mean().to_dict()
            relations.append({"name": names[node], **cut})
        return Report(
            title="Whose removal would change the others most?",
            text=(
                f"TIMME tells the parties of {len(names)} politicians from whom they follow, reply to, "
                f"retweet, like and mention. Exact influence, the mean over {lab.cycles} models with the "
                "least and the most, and who would be predicted to be of the other party without them. "
                + caption(lab)
            ),
            tables=[
                ("The first ten", pd.DataFrame(people)),
                (
                    "What changes when only their ties of one relation are cut",
                    pd.DataFrame(relations),
                ),
            ],
        )


def _ranks(scores: torch.Tensor) -> torch.Tensor:
    return scores.argsort(descending=True, stable=True).argsort() + 1
