"""A session: a model and a graph, checked and prepared once, asked many times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from torch import nn

from nora.engine.store.folder import Check
from nora.graph.edits import Edits
from nora.graph.node_index import Graph, Nodes
from nora.model.known_influences import Labels
from nora.model.measuring import Asked, By
from nora.model.task import Task
from nora.questions.checked import Checked
from nora.results.effect import Effect
from nora.results.influence import Influence

if TYPE_CHECKING:
    from nora.results.edge_influence import EdgeInfluence
    from nora.results.flip import Flip
    from nora.results.fragile import Fragile
    from nora.results.group import Group
    from nora.results.top import Top


class Session(Checked):
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
        strict: Refuse structure in `data` that was recognised as computed beforehand (normalised weights,
            positional encodings, degrees), instead of warning of it; see `transform`.
        check: Before every question it is checked that model, graph and task are still those that were
            prepared: `quick` by versions and identities, which takes no longer on a large graph (see
            the guide to own models for what that cannot see); `all` reads everything.
        once: For one question only: nothing is checked again.

    Example:
        >>> import nora
        >>> run = nora.train("gcn", "karate", epochs=5, progress=False)
        >>> session = nora.Session(run.model, run.data)
        >>> first = session.influence(progress=False).top(1)["node"][0]
        >>> session.what_if(first).removed == (first,)
        True
    """

    @classmethod
    def open(
        cls,
        folder: str | Path,
        model: nn.Module,
        task: Task | None = None,
        *,
        data: Graph | None = None,
        check: Check = "quick",
        key: str | None = None,
        verify: int = 2,
        **about: Any,
    ) -> Session:
        """A session with an engine that `nora.prepare` has kept: ready in about a second and a few passes.

        Args:
            folder: The engine; nothing in it is executed.
            model: The model it was prepared for.
            task: The task it was prepared for, where that has code of its own (a decoder).
            data: The graph, to see that the engine was prepared for it; by default nothing is compared, and
                the graph is the folder's.
            check: `quick` reads small files, and parts of large ones, to see that they are as they were
                written; `all` reads everything.
            key: As for `nora.prepare`.
            verify: Predictions, and what so many random removals change, are compared with the model: a
                changed folder may have checksums that fit. 0 compares nothing.
            **about: `forward`, `transform`, `targets`, `names`, `class_names` and `masks`, as for a session.

        Raises:
            ValueError: When the folder is damaged, or was prepared for another model, graph, task or version.
        """
        from nora.questions.prepare import opened

        return opened(folder, model, task, data=data, check=check, key=key, verify=verify, **about)

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
        executor: Any = None,
        progress: bool = True,
        **options: Any,
    ) -> Influence:
        """How much would everybody else's prediction change, had each node been removed?

        See `nora.influence`.
        """
        from nora.questions.influence import score_nodes

        return score_nodes(
            self,
            method,
            nodes=nodes,
            labels=labels,
            checkpoint=checkpoint,
            measure=measure,
            by=by,
            key=key,
            executor=executor,
            progress=progress,
            options=options,
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
        executor: Any = None,
        progress: bool = True,
        **options: Any,
    ) -> EdgeInfluence:
        """How much would the predictions change, had each edge been removed?

        See `nora.edge_influence`.
        """
        from nora.questions.edge_influence import score_edges

        return score_edges(
            self,
            edges,
            method,
            measure=measure,
            by=by,
            checkpoint=checkpoint,
            key=key,
            executor=executor,
            progress=progress,
            options=options,
        )

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
        executor: Any = None,
        progress: bool = True,
    ) -> Top:
        """The `k` most influential nodes with exact scores, and a certificate.

        See `nora.top`.
        """
        from nora.questions.top import certified_top

        return certified_top(self, k, budget, screen, progress, measure, executor)

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
        """Which predictions depend on a single node or edge?

        See `nora.fragile`.
        """
        from nora.questions.fragile import find_fragile

        return find_fragile(self, by, method, progress, options)

    def explore(self, **shown: Any) -> Any:
        """The live explorer of this model and graph: in a notebook in the cell, elsewhere in the browser.

        See `nora.explore`, which takes the same arguments, `title=` for instance. In a cell the kernel
        answers the page, without a server (extra `[notebook]`).
        """
        import nora

        about = {"names": self.names, "class_names": self.class_names, **self.given}
        return nora.explore(
            self.model, self.data, self.given_task, **{"notebook": None, **about, **shown}
        )

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
