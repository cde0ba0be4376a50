"""A model and a graph, checked once and prepared once: what every question stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nora.artefact import Check
from nora.engine.compile import traced_call
from nora.engine.prepared import Prepared
from nora.graph.edge_lookup import EdgeLookup, EdgeType
from nora.graph.edit_batch import EditBatch
from nora.graph.edits import Edits
from nora.graph.naming import Naming
from nora.graph.node_index import Graph, NodeIndex, Nodes
from nora.model import Problem, Transform, build_problem
from nora.model.calling import Forward
from nora.model.checks import check_model
from nora.model.known_influences import Labels, label_tensor
from nora.model.problem import uncompiled
from nora.model.task import Task
from nora.model.tasks.node_classification import NodeClassification
from nora.options import option
from nora.questions.staleness import Staleness, staleness_of


class Checked:
    """The checked model and graph of a `Session`, which describes the arguments.

    Attributes:
        prepared: The engine, once it is needed.
        given_task: The task as it was given.
        given: What else of the arguments another process needs to make the same session.
        folder: Where the engine is kept, if it is: other processes may open it there.
    """

    def __init__(  # noqa: PLR0913
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
        strict: bool = False,
        check: Check = "quick",
        once: bool = False,
    ) -> None:
        self._problem = build_problem(
            model, data, task, None, targets, forward, transform=transform, strict=strict
        )
        self.names = None if names is None else tuple(map(str, names))
        if self.names is not None and len(self.names) != self._problem.num_nodes:
            raise ValueError(
                f"names must have one entry per node, {self._problem.num_nodes}; got {len(self.names)}"
            )
        self.class_names = None if class_names is None else tuple(map(str, class_names))
        self.masks = dict(masks or {})
        for name, mask in self.masks.items():
            if mask.dtype != torch.bool or mask.shape != (self._problem.num_nodes,):
                raise ValueError(
                    f"masks: {name!r} must be a mask of {self._problem.num_nodes} nodes, got "
                    f"{mask.dtype} of shape {list(mask.shape)}"
                )
        self.prepared = Prepared()
        self.given_task: Task = NodeClassification() if task is None else task
        self.given = {"forward": forward, "transform": transform, "targets": targets}
        self.folder: Path | None = None
        self._restricted = targets is not None
        self._checked = False
        # As it was given: what is found out about it later does not change it.
        self._given = self._problem
        # Of the caller's own: what is asked may be copies on the CPU.
        own = replace(self._problem, model=uncompiled(model), data=data)
        self._stale = None if once else staleness_of(own, check)

    def __repr__(self) -> str:
        problem = self._problem
        return (
            f"Session({type(problem.model).__name__}, {problem.num_nodes} nodes, "
            f"task={problem.task.name!r})"
        )

    @property
    def unchecked(self) -> Problem:
        """The question as it was given: the model has not been run."""
        return self._given

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
        """The task, with nodes by global ids (see `nora.graph.node_index`)."""
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
    ) -> Problem:
        """The question, checked.

        Args:
            nodes: The nodes to remove, one at a time; all by default.
            labels: True influences of some nodes.
            uses_model: Whether the model is run at all; it is checked only then.
        """
        if self._stale is not None:
            self._stale.raise_if_changed("this session", "nora.Session(model, data)")
        index = self._problem.node_index
        asked = self._problem.nodes if nodes is None else index.ids(self.ids(nodes))
        if not asked.numel():
            raise ValueError(
                f"{option('nodes')} names no node: give some, or leave it out to ask about all"
            )
        known = None if labels is None else label_tensor(labels, index)
        if uses_model:
            self._check(replace(self._problem, nodes=asked))
        return replace(self._problem, nodes=asked, labels=known)

    def _check(self, problem: Problem) -> None:
        """Run the model where it has not been run, and keep what was found out about it."""
        if self._checked:
            return
        call = traced_call(problem)
        found = check_model(problem, call)
        if call is not None and not problem.passes.caches:
            self.prepared.first_trace = call.trace
        self._problem = replace(found, nodes=self._problem.nodes)
        self._checked = True

    def adopt(self, problem: Problem, prepared: Prepared, stale: Staleness, folder: Path) -> None:
        """Take over what was found out and prepared before, and is kept in a folder."""
        self._problem = self._given = problem
        self.prepared, self._stale, self.folder = prepared, stale, folder
        self._checked = True

    @cached_property
    def edges(self) -> EdgeLookup:
        """The graph's edges, by their ends and by edge id."""
        return EdgeLookup(self.data)

    @cached_property
    def every_edge(self) -> dict[EdgeType, Tensor]:
        """All edges as people name them, by type `[2, k]`: undirected ones once."""
        return self.edges.every()

    @cached_property
    def edge_units(self) -> tuple[Tensor, Tensor]:
        """The edge ids of each of them: `ptr [k+1]`, `ids`."""
        return self.edges.units(self.every_edge)

    def with_ids(self, edits: Edits) -> Edits:
        """Edits with the names of nodes replaced by ids."""
        return self._naming.edits(edits)

    def resolve(self, edits: Edits) -> EditBatch:
        """Edits resolved for this graph, with ids for names; raises if they contradict the graph."""
        return self.with_ids(edits).resolve(self.data, self.edges)

    def named_edges(self, edges: Any) -> dict[EdgeType, Tensor]:
        """Edges of the graph as given, by type, names of their ends replaced by ids.

        Raises:
            ValueError: When one is not there.
        """
        return self.edges.named(self._naming.edges(edges))
