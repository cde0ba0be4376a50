"""A session: a model and a graph, checked and prepared once, asked many times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from torch import nn

from nora.artefact import Check
from nora.graph.edits import Edits
from nora.graph.node_index import Graph, Nodes
from nora.model.known_influences import Labels
from nora.model.measuring import By, MeasureNames
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
    """One model and one graph, prepared once for many questions.

    Each method is also a function (`nora.influence`, `nora.what_if`, …), whose documentation describes the
    arguments. The function creates a session for a single question.

    Args:
        model: A trained PyTorch Geometric model; left exactly as found.
        data: The graph.
        task: What is predicted; node classification from logits by default.
        forward: `(model, data) -> output` for models not called as `model(x, edge_index)`.
        transform: `data -> data`, applied to the graph, and again to the graph without each node.
        targets: Count only the change of these predictions: node ids, or positions in `task.pairs` for links.
        names: Node names `[num_nodes]`. Results show them, and you can refer to nodes by name.
        class_names: Class names, used in results, measures and flips.
        masks: Masks `[num_nodes]` by name, such as `{"test": mask}`, for measures on some nodes only. Masks
            in `data`, such as `test_mask`, need not be passed.
        strict: Raise an error, not a warning, if `data` contains structure that was computed beforehand
            (normalised weights, positional encodings, degrees); see `transform`.
        check: How to check before every question that model, graph and task have not changed. `quick`
            compares versions and identities of tensors, which is fast on any graph; the page *Your own model*
            describes what it can miss. `all` reads everything.
        once: The session is for one question only, so nothing is checked again.

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
        """Open a session with an engine that `nora.prepare` saved.

        Args:
            folder: The folder of the engine. NORA executes nothing in it.
            model: The model it was prepared for.
            task: The task it was prepared for; only needed for a task with code of its own, such as a
                decoder.
            data: The graph to compare with that in the folder. Default: use the graph in the folder, without
                a comparison.
            check: How to check the files for damage. `quick` reads small files and parts of large ones; `all`
                reads everything.
            key: As in `nora.prepare`.
            verify: How many random removals to compare with the model, in addition to the predictions. This
                detects a modified folder even if its checksums are valid. 0 compares nothing.
            **about: `forward`, `transform`, `targets`, `names`, `class_names` and `masks`, as in
                `nora.Session`.

        Raises:
            ValueError: If the folder is damaged, or was prepared for another model, graph, task or version.
        """
        from nora.questions.prepare import open_session

        return open_session(
            folder, model, task, data=data, check=check, key=key, verify=verify, **about
        )

    def influence(
        self,
        method: str = "auto",
        *,
        nodes: Nodes | None = None,
        labels: Labels | None = None,
        checkpoint: str | Path | None = None,
        measure: MeasureNames = "change",
        by: By | None = None,
        key: str | None = None,
        executor: Any = None,
        progress: bool = True,
        **options: Any,
    ) -> Influence:
        """Score every node by how much its removal changes the predictions of the other nodes.

        See `nora.influence`.
        """
        from nora.questions.influence import score_nodes
        from nora.questions.score import Checkpoint

        return score_nodes(
            self,
            method,
            nodes=nodes,
            labels=labels,
            checkpoint=Checkpoint(checkpoint, key, alone=executor is not None),
            measure=measure,
            by=by,
            executor=executor,
            progress=progress,
            options=options,
        )

    def edge_influence(
        self,
        edges: Any = None,
        *,
        method: str = "exact",
        measure: MeasureNames = "change",
        by: By | None = None,
        checkpoint: str | Path | None = None,
        key: str | None = None,
        executor: Any = None,
        progress: bool = True,
        **options: Any,
    ) -> EdgeInfluence:
        """Score every edge by how much its removal changes the predictions.

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
        """Compute how all predictions change if nodes, edges and features are edited together.

        See `nora.what_if`.
        """
        from nora.questions.what_if import effect_of

        if remove is None:
            raise TypeError("remove must be a node id or several, e.g. 17 or [3, 17]; got None")
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
        measure: MeasureNames = "change",
        executor: Any = None,
        progress: bool = True,
    ) -> Top:
        """Find the `k` most influential nodes, with exact scores and a certificate.

        See `nora.top`.
        """
        from nora.questions.top import certified_top

        return certified_top(self, k, budget, screen, progress, measure, executor)

    def best_group(
        self,
        size: int = 10,
        *,
        candidates: Nodes | None = None,
        measure: MeasureNames = "change",
        method: str = "exact",
        recheck: int = 5,
        progress: bool = True,
    ) -> Group:
        """Find `size` nodes whose joint removal changes the other predictions most.

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
        """Find the smallest set of removals that changes a node's predicted class.

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
        """Find every single removal of a node or edge that flips predictions.

        See `nora.fragile`.
        """
        from nora.questions.fragile import find_fragile

        return find_fragile(self, by, method, progress, options)

    def explore(self, **shown: Any) -> Any:
        """Open the explorer: in the cell if this is a notebook, otherwise in the browser.

        It takes the arguments of `nora.explore`, such as `title=`. In a notebook, the page talks to the
        kernel, without a server (extra `[notebook]`).
        """
        import nora

        about = {"names": self.names, "class_names": self.class_names, **self.given}
        return nora.explore(
            self.model, self.data, self.given_task, **{"notebook": None, **about, **shown}
        )

    def influence_matrix(
        self, nodes: Nodes, *, method: str = "exact", progress: bool = True
    ) -> pd.DataFrame:
        """Compute how much the removal of each of these nodes changes each prediction.

        See `nora.influence_matrix`.
        """
        from nora.questions.pairwise import changes_of

        return changes_of(self, self.ids(nodes), method, progress)

    def influencers(
        self,
        node: int | str | tuple[str, int],
        k: int = 10,
        *,
        measure: MeasureNames = "change",
        method: str = "exact",
        progress: bool = True,
    ) -> pd.DataFrame:
        """Find the nodes whose removal changes the prediction of one node most.

        See `nora.influencers`.
        """
        from nora.questions.pairwise import influencers_of

        return influencers_of(self, self.ids(node), k, method, progress, measure)
