"""A session: a model and a graph, checked and prepared once, asked many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch import Tensor, nn

from nora.engine.prepared import Prepared
from nora.problem import Problem, Transform, build_problem
from nora.problem.calling import Forward
from nora.problem.checks import check_deterministic, check_model
from nora.problem.edge_lookup import EdgeLookup, EdgeType
from nora.problem.edit_resolution import Resolved
from nora.problem.edits import Edits
from nora.problem.known_influences import Labels, label_tensor
from nora.problem.measuring import Asked, By, is_definition
from nora.problem.node_index import Graph, NodeIndex, Nodes
from nora.problem.task import Task
from nora.questions.naming import Naming
from nora.questions.unchanged import Stamp
from nora.results.effect import Effect
from nora.results.influence import Influence

if TYPE_CHECKING:
    from nora.results.edge_influence import EdgeInfluence
    from nora.results.flip import Flip
    from nora.results.fragile import Fragile
    from nora.results.group import Group
    from nora.results.top import Top


class Session:
    """Questions about one model and one graph, which share everything that takes time to prepare.

    Each question is also a function (`nora.influence`, `nora.what_if`, …), which tells its arguments; it
    is the same question to a session of its own.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        task: What is predicted; node classification from logits by default.
        forward: `(model, data) -> output` for models not called as `model(x, edge_index)`.
        transform: `data -> data`, applied to the graph, and again without each node.
        targets: Count only the change of these predictions: node ids, or for links positions in
            `task.pairs`.
        names: The nodes' names, which results then have; nodes may be given by name.
        class_names: The classes' names, by which measures and flips may name them.
        masks: Masks `[num_nodes]` by name for measures of some nodes only, e.g. `{"test": mask}`, beside
            those that `data` has as `test_mask`.
        once: For one question only: nobody need look whether model and graph have changed since.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> session = nora.Session(run.model, run.data)
        >>> first = session.influence(progress=False).top(1)["node"][0]
        >>> session.what_if(first).removed == (first,)
        True
    """

    def __init__(
        self,
        model: nn.Module,
        data: Graph,
        task: Task | None = None,
        *,
        forward: Forward | None = None,
        transform: Transform | None = None,
        targets: Nodes | None = None,
        names: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
        masks: Mapping[str, Tensor] | None = None,
        once: bool = False,
    ) -> None:
        self._problem = build_problem(
            model, data, task, None, targets, forward, transform=transform
        )
        self.names = None if names is None else tuple(map(str, names))
        if self.names is not None and len(self.names) != self._problem.num_nodes:
            raise ValueError(f"{len(self.names)} names for {self._problem.num_nodes} nodes")
        self.class_names = None if class_names is None else tuple(map(str, class_names))
        self.masks = dict(masks or {})
        for name, mask in self.masks.items():
            if mask.dtype != torch.bool or mask.shape != (self._problem.num_nodes,):
                raise ValueError(
                    f"masks: {name!r} must be a mask of {self._problem.num_nodes} nodes, got "
                    f"{mask.dtype} of shape {list(mask.shape)}"
                )
        self.prepared = Prepared()
        self._restricted = targets is not None
        self._checked = self._seen_again = False
        # As it was given: what is found out about it later is no change.
        self._given = self._problem
        self._stamp = None if once else Stamp(self._problem)

    def __repr__(self) -> str:
        problem = self._problem
        return (
            f"Session({type(problem.model).__name__}, {problem.num_nodes} nodes, "
            f"task={problem.task.name!r})"
        )

    @property
    def model(self) -> nn.Module:
        """The model."""
        return self._problem.model

    @property
    def data(self) -> Graph:
        """The graph."""
        return self._problem.data

    @property
    def task(self) -> Task:
        """What is predicted; its nodes are by global ids (see `nora.problem.node_index`)."""
        return self._problem.task

    @property
    def node_index(self) -> NodeIndex:
        """How the graph's nodes are numbered."""
        return self._problem.node_index

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return self._problem.num_nodes

    @property
    def restricted(self) -> bool:
        """Whether only the change of some predictions counts."""
        return self._restricted

    @cached_property
    def _naming(self) -> Naming:
        return Naming(None if self.node_index.types else self.names)

    def ids(self, nodes: Any) -> Nodes:
        """Nodes as given, names replaced by ids."""
        return self._naming.ids(nodes)

    def problem(
        self,
        nodes: Nodes | None = None,
        labels: Labels | None = None,
        *,
        uses_model: bool = True,
        again: bool = True,
    ) -> Problem:
        """The question, checked.

        Args:
            nodes: The nodes to remove, one at a time; all by default.
            labels: True influences of some nodes.
            uses_model: Whether the model is run at all; it is checked only then.
            again: Whether the model must have been run twice already, to see that it is deterministic; a
                method that does so itself need not ask for it.
        """
        if self._stamp is not None:
            self._stamp.check()
        index = self._problem.node_index
        asked = self._problem.nodes if nodes is None else index.ids(self.ids(nodes))
        if not asked.numel():
            raise ValueError("nodes= names no node: give some, or leave it out to ask about all")
        known = None if labels is None else label_tensor(labels, index)
        if uses_model:
            self._check(replace(self._problem, nodes=asked), again)
        return replace(self._problem, nodes=asked, labels=known)

    def _check(self, problem: Problem, again: bool) -> None:
        """Run the model where nobody has yet, and keep what was found out about it."""
        if not self._checked:
            found = check_model(problem, again)
            self._problem = replace(found, nodes=self._problem.nodes)
            self._checked, self._seen_again = True, again
        elif again and not self._seen_again:
            with self._problem.evaluating(), torch.no_grad():
                check_deterministic(self._problem)
            self._seen_again = True

    def seen_again(self) -> None:
        """A method has run the model on the graph once more, and found the same."""
        self._seen_again = True

    def influence(
        self,
        method: str = "auto",
        *,
        nodes: Nodes | None = None,
        labels: Labels | None = None,
        checkpoint: str | Path | None = None,
        measure: Asked = "change",
        by: By | None = None,
        key: str | None = None,
        progress: bool = True,
        **options: Any,
    ) -> Influence:
        """How much would everybody else's prediction change, had each node been removed?

        See `nora.influence`.
        """
        from nora.questions.influence import score_nodes
        from nora.questions.node_measures import score_by_measures

        if is_definition(measure, by):
            return score_nodes(self, method, nodes, labels, checkpoint, key, progress, options)
        if labels is not None:
            raise ValueError("methods that learn from labels tell the change of predictions only")
        return score_by_measures(
            self, method, nodes, measure, by, checkpoint, key, progress, options
        )

    def edge_influence(
        self,
        edges: Any = None,
        *,
        method: str = "exact",
        measure: Asked = "change",
        by: By | None = None,
        checkpoint: str | Path | None = None,
        key: str | None = None,
        progress: bool = True,
        **options: Any,
    ) -> EdgeInfluence:
        """How much would the predictions change, had each edge been removed?

        See `nora.edge_influence`.
        """
        from nora.questions.edge_influence import score_edges

        return score_edges(self, edges, method, measure, by, checkpoint, key, progress, options)

    @cached_property
    def edges(self) -> EdgeLookup:
        """The graph's edges, by their ends and by number."""
        return EdgeLookup(self.data)

    @cached_property
    def every_edge(self) -> dict[EdgeType, Tensor]:
        """All edges as people name them, by type `[2, k]`: undirected ones once."""
        return self.edges.every()

    @cached_property
    def edge_units(self) -> tuple[Tensor, Tensor]:
        """The numbers of each of them: `ptr [k+1]`, `number`."""
        return self.edges.units(self.every_edge)

    def resolved(self, edits: Edits) -> Resolved:
        """What edits mean for this graph, names replaced by ids; raises when they contradict it."""
        return self._naming.edits(edits).resolved(self.data, self.edges)

    def named_edges(self, edges: Any) -> dict[EdgeType, Tensor]:
        """Edges of the graph as given, by type, names of their ends replaced by ids.

        Raises:
            ValueError: When one is not there.
        """
        return self.edges.named(self._naming.edges(edges))

    def what_if(
        self,
        remove: Nodes | Edits = (),
        *,
        remove_edges: Any = (),
        add_edges: Any = (),
        add_nodes: Any = None,
        features: Any = None,
        method: str = "exact",
    ) -> Effect:
        """What would happen, had these nodes and edges been removed, added or changed together?

        See `nora.what_if`.
        """
        from nora.questions.what_if import effect_of

        if remove is None:
            raise TypeError("remove is a node id or several, e.g. 17 or [3, 17]; got None")
        given = isinstance(remove, Edits)
        more = Edits(() if given else remove, remove_edges, add_edges, add_nodes, features)
        if given and more:
            raise TypeError("give either nora.Edits or remove=, add_edges= and so on, not both")
        return effect_of(self, remove if given else more, method)

    def top(
        self,
        k: int = 100,
        *,
        budget: float = 60.0,
        screen: str = "auto",
        measure: Asked = "change",
        progress: bool = True,
    ) -> Top:
        """The `k` most influential nodes with exact scores, and a certificate.

        See `nora.top`.
        """
        from nora.questions.top import certified_top

        return certified_top(self, k, budget, screen, progress, measure)

    def best_group(
        self,
        size: int = 10,
        *,
        candidates: Nodes | None = None,
        measure: Asked = "change",
        method: str = "exact",
        recheck: int = 5,
        progress: bool = True,
    ) -> Group:
        """Which `size` nodes, removed together, change the other predictions most?

        See `nora.best_group`.
        """
        from nora.questions.group import grow_group

        return grow_group(self, size, self.ids(candidates), method, recheck, progress, measure)

    def flip(
        self,
        node: int | str | tuple[str, int],
        to: int | str | None = None,
        *,
        by: str = "nodes",
        at_most: int = 5,
        pairs: int | None = None,
        progress: bool = True,
    ) -> Flip:
        """What is the smallest set of removals that changes this node's predicted class?

        See `nora.flip`.
        """
        from nora.questions.flip import PAIRS, find_flip

        tried = PAIRS if pairs is None else pairs
        return find_flip(self, self.ids(node), to, by, at_most, tried, progress)

    def fragile(
        self,
        *,
        by: str = "nodes",
        method: str = "exact",
        progress: bool = True,
        **options: Any,
    ) -> Fragile:
        """Which predictions hang on a single node or edge?

        See `nora.fragile`.
        """
        from nora.questions.fragile import find_fragile

        return find_fragile(self, by, method, progress, options)

    def influence_matrix(
        self, nodes: Nodes, *, method: str = "exact", progress: bool = True
    ) -> pd.DataFrame:
        """By how much does the removal of each of these nodes change each prediction?

        See `nora.influence_matrix`.
        """
        from nora.questions.pairwise import changes_of

        return changes_of(self, self.ids(nodes), method, progress)

    def influencers(
        self,
        node: int | str | tuple[str, int],
        k: int = 10,
        *,
        measure: Asked = "change",
        method: str = "exact",
        progress: bool = True,
    ) -> pd.DataFrame:
        """Whose removal changes *this* node's prediction most?

        See `nora.influencers`.
        """
        from nora.questions.pairwise import influencers_of

        return influencers_of(self, self.ids(node), k, method, progress, measure)
