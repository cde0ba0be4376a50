"""The rankings of a page: nodes, edges and fragile predictions, by any measure, filtered and in pages.

The ranking of nodes by their change always exists; the others start when a page shows them, and of those that
no page shows any more only the last few are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from nora.explorer.background_ranking import Ranking
from nora.explorer.network import Network
from nora.explorer.rejection import Rejected
from nora.explorer.worker import Worker
from nora.questions.fragile import flips_in
from nora.questions.score import score
from nora.results.influence import Influence

KEPT_RANKINGS = 6
OF = ("nodes", "edges", "fragile")
# Of those whose removal flips a prediction, so many are named.
NAMED = 12


class FragileRanking(Ranking):
    """How many single nodes flip each prediction; as `nora.fragile`, in slices.

    Attributes:
        counts: By how many single removals each node's prediction flips, as far as known `[N]`.
        by: Of each such node, the first of those nodes.
    """

    def __init__(self, network: Network, worker: Worker) -> None:
        super().__init__(network, worker, measure="flips")
        self.of = "fragile"
        self.counts = np.zeros(network.num_nodes, dtype=np.int64)
        self.by: dict[int, list[tuple[int, int]]] = {}

    def _work(self, ids: np.ndarray) -> None:
        session = self.network.session
        asked = session.problem()
        problem = replace(asked, task=asked.task.on_every_class())
        batch = self._batch(torch.from_numpy(ids))
        flips, count = flips_in(problem), len(self.order)
        with problem.evaluating(), torch.no_grad():
            for nodes, found, _ in score(session, problem, batch, flips, count=count):
                removal, items, ends = found
                np.add.at(self.counts, items.numpy(), 1)
                for removed, item, end in zip(nodes[removal], items, ends, strict=True):
                    own = self.by.setdefault(int(item), [])
                    if len(own) < NAMED:
                        own.append((int(removed), int(end)))

    def best_first(self) -> np.ndarray:
        """Nodes whose prediction some single removal flips: by how many do, then the least sure first."""
        before = self.network.before.topk(2, dim=1).values
        margin = (before[:, 0] - before[:, 1]).numpy()
        order = np.lexsort((margin, -self.counts))
        return order[: int((self.counts > 0).sum())]


class Rankings:
    """All rankings of one network."""

    def __init__(self, network: Network, worker: Worker, scores: Influence | None = None) -> None:
        self.network, self.worker = network, worker
        self.main = Ranking(network, worker, scores)
        self._others: OrderedDict[tuple[str, str], Ranking] = OrderedDict()

    def get(self, of: str, measure: str) -> Ranking:
        """A ranking, which may have to be made.

        Raises:
            Rejected: When this network has no such ranking.
        """
        if of not in OF:
            raise Rejected(422, f"of must be one of {', '.join(OF)}")
        if of == "fragile":
            measure = "change"
            if self.network.predicts != "classes":
                raise Rejected(422, "fragile predictions exist for classes only")
        if measure not in self.network.measures:
            raise Rejected(422, f"measure must be one of {', '.join(self.network.measures)}")
        if (of, measure) == ("nodes", "change"):
            return self.main
        key = (of, measure)
        if key not in self._others:
            made: Ranking = (
                FragileRanking(self.network, self.worker)
                if of == "fragile"
                else Ranking(self.network, self.worker, of=of, measure=measure)
            )
            self._others[key] = made
        self._others.move_to_end(key)
        for old in list(self._others):
            if (
                len(self._others) > KEPT_RANKINGS
                and old != key
                and not self._others[old].has_listeners
            ):
                self._others.pop(old).pause()
        return self._others[key]

    def pause(self) -> None:
        """Stop them all."""
        for one in (self.main, *self._others.values()):
            one.pause()

    def rows(
        self, ranking: Ranking, kept: np.ndarray | None, start: int, most: int
    ) -> dict[str, Any]:
        """A page of a ranking of edges or fragile predictions.

        Args:
            ranking: The ranking.
            kept: Mask `[N]` of the nodes that a filter leaves; an edge stays if one of its ends does. None
                for all.
            start: The first row.
            most: So many rows.
        """
        order = ranking.best_first()
        if kept is not None and isinstance(ranking, FragileRanking):
            order = order[kept[order]]
        elif kept is not None:
            source, target = self.network.edge_pairs
            order = order[kept[source[order]] | kept[target[order]]]
        part = order[start : start + most]
        found: dict[str, Any] = {"count": len(order), "start": start}
        if isinstance(ranking, FragileRanking):
            found["node"] = part.tolist()
            found["flips"] = ranking.counts[part].tolist()
            found["by"] = [ranking.by.get(int(node), []) for node in part]
            return found
        source, target = self.network.edge_pairs
        found["edge"] = np.stack([source[part], target[part]], axis=1).tolist()
        found["influence"] = [float(one) for one in ranking.scores[part]]
        return found
