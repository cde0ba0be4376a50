"""NORA inside PyTorch Geometric's `Explainer`: influence as an explanation's node mask and edge mask.

PyG's explainers ask which inputs make *this* prediction; NORA asks how predictions change without a
node. With `index=17` the two meet: node `r`'s mask is the change of node 17's prediction without `r`.
 Without an index it is `r`'s influence on all predictions. With `edge_mask_type="object"` the edge mask
has the same for every edge, and `explanation.visualize_graph("graph.png")` draws it.

    explainer = Explainer(
        model,
        algorithm=nora.NoraExplainer(),
        explanation_type="model",
        node_mask_type="object",
        edge_mask_type="object",  # where edges are asked for, too
        model_config={
            "mode": "multiclass_classification", "task_level": "node", "return_type": "raw"
        },
    )
    explanation = explainer(data.x, data.edge_index, index=17)
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import Explanation
from torch_geometric.explain.algorithm import ExplainerAlgorithm
from torch_geometric.explain.config import (
    ExplanationType,
    MaskType,
    ModelMode,
    ModelTaskLevel,
)

from nora.methods import METHODS
from nora.model.calling import Forward
from nora.model.known_influences import Labels
from nora.model.preserve import evaluating
from nora.model.task import Task
from nora.model.tasks.link_prediction import Decoder, LinkPrediction
from nora.model.tasks.node_classification import NodeClassification
from nora.questions.influence import bind_options, check_labels
from nora.questions.session import Session

PAIRS = "edge_label_index"


class NoraExplainer(ExplainerAlgorithm):
    """Run any of NORA's methods as an algorithm of `torch_geometric.explain.Explainer`.

    The explanation's `node_mask` `[N, 1]` contains the scores of `nora.influence`. They are not scaled to 1,
    so masks of different predictions can be compared and added. With `index`, only the change of these
    predictions counts. The own prediction of a removed node never counts, so the mask of node 17 is 0 in the
    explanation of node 17. The `edge_mask` `[E]`, with `edge_mask_type="object"`, holds the influence of
    every edge by `nora.edge_influence(method="auto")`, whichever method scores the nodes; the two directions
    of an undirected edge are removed together and have the same value. Removals do not show how much a single
    feature matters, so attribute masks are not supported.

    `explanation_type` must be `model`. Influence measures how predictions change, whatever the true class is,
    so a `phenomenon` has no meaning here.

    Node level: `mode` is `multiclass_classification`. Edge level: `mode` is
    `binary_classification`, the explainer is called with `edge_label_index=pairs`, and the model
    has PyG's `encode(x, edge_index)` and `decode(z, edge_label_index)`, which its `forward` puts
    together. Other arguments of the call, such as `edge_weight`, are the model's.

    Args:
        method: A name from `nora methods`. `auto` is exact if that fits the budget.
        labels: True influences of some nodes, for methods that learn from them.
        **options: The method's own options.

    Example:
        >>> import nora
        >>> from torch_geometric.explain import Explainer
        >>> dataset = nora.load_dataset("karate")
        >>> explainer = Explainer(
        ...     nora.train("gcn", dataset, epochs=5, progress=False).model,
        ...     algorithm=NoraExplainer("exact"),
        ...     explanation_type="model",
        ...     node_mask_type="object",
        ...     model_config=dict(
        ...         mode="multiclass_classification", task_level="node", return_type="raw"
        ...     ),
        ... )
        >>> explanation = explainer(dataset.data.x, dataset.data.edge_index, index=16)
        >>> explanation.node_mask.shape
        torch.Size([34, 1])
    """

    def __init__(
        self, method: str = "auto", *, labels: Labels | None = None, **options: Any
    ) -> None:
        super().__init__()
        entry = METHODS[method]
        bind_options(entry, options)
        check_labels(entry, labels is not None)
        self.method = method
        self.labels = labels
        self.options = options

    def supports(self) -> bool:
        """Whether NORA supports the explainer's settings; if not, the log gives the reason."""
        wanted, model = self.explainer_config, self.model_config
        reason = None
        if wanted.explanation_type != ExplanationType.model:
            reason = (
                "compares predictions with and without a node, not with a target: use "
                f"explanation_type='model' (got {wanted.explanation_type.value!r})"
            )
        elif wanted.node_mask_type not in (None, MaskType.object):
            got = wanted.node_mask_type.value
            reason = f"scores whole nodes: use node_mask_type='object' (got {got!r})"
        elif (model.task_level, model.mode) not in (
            (ModelTaskLevel.node, ModelMode.multiclass_classification),
            (ModelTaskLevel.edge, ModelMode.binary_classification),
        ):
            reason = (
                "needs mode='multiclass_classification' at task_level='node', or "
                "mode='binary_classification' at task_level='edge' (got "
                f"mode={model.mode.value!r} at task_level={model.task_level.value!r})"
            )
        if reason is not None:
            logging.error(f"'{self.__class__.__name__}' {reason}")
        return reason is None

    def forward(
        self,
        model: nn.Module,
        x: Tensor,
        edge_index: Tensor,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        **kwargs: Any,
    ) -> Explanation:
        """Each node's and edge's influence, on the predictions in `index` or on all.

        Args:
            model: The trained model; left exactly as found.
            x: Node features `[N, F]`.
            edge_index: Edges `[2, E]`.
            target: Not used: influence does not depend on which class is right.
            index: Positions in the model's output; all by default.
            **kwargs: The model's other arguments. Tensors with one row per node or edge lose
                the rows of a removed node.
        """
        if not isinstance(x, Tensor):
            raise ValueError(
                f"{self.__class__.__name__} explains graphs of one node type, got x as a "
                f"{type(x).__name__}; for a HeteroData ask nora.influence itself"
            )
        return_type = self.model_config.return_type.value
        if self.model_config.task_level == ModelTaskLevel.edge:
            pairs = kwargs.pop(PAIRS, None)
            decode = _decoder_of(model, x, edge_index, pairs, kwargs)
            task: Task = LinkPrediction(
                pairs,
                decoder=lambda z, some: decode(z, some).view(-1),
                return_type=return_type,
            )
            data, call = _posed("encode", x, edge_index, kwargs)
        else:
            task = NodeClassification(return_type=return_type)
            data, call = _posed("forward", x, edge_index, kwargs)
        targets = None if index is None else torch.as_tensor(index).flatten()
        session = Session(model, data, task, targets=targets, forward=call, once=True)
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        masks: dict[str, Tensor] = {}
        if self.explainer_config.node_mask_type is not None:
            asked = {"labels": self.labels, "progress": False, **self.options}
            scores = session.influence(self.method, **asked).scores
            masks["node_mask"] = scores.to(x.device, dtype).unsqueeze(-1)
        if self.explainer_config.edge_mask_type is not None:
            masks["edge_mask"] = _edge_mask(session, edge_index.size(1)).to(x.device, dtype)
        return Explanation(**masks)

    def __repr__(self) -> str:
        given = [repr(self.method), *(f"{key}={value!r}" for key, value in self.options.items())]
        return f"{self.__class__.__name__}({', '.join(given)})"


def _edge_mask(session: Session, num_edges: int) -> Tensor:
    """The influence of every edge, by its place in `edge_index` `[E]`."""
    mask = torch.zeros(num_edges, dtype=torch.double)
    if num_edges:
        scores = session.edge_influence(method="auto", progress=False).scores
        ptr, number = session.edge_units
        mask[number.cpu()] = scores.double().cpu().repeat_interleave(ptr.diff().cpu())
    return mask


def _posed(part: str, x: Tensor, edge_index: Tensor, more: dict[str, Any]) -> tuple[Data, Forward]:
    """The call `model.<part>(x, edge_index, **more)` as a graph and a function of the graph."""
    # Tensors with rows are put into the graph, where rows follow their nodes and edges.
    rows = {key: value for key, value in more.items() if isinstance(value, Tensor) and value.dim()}
    fixed = {key: value for key, value in more.items() if key not in rows}

    def forward(model: nn.Module, data: Data) -> Tensor:
        ask = model if part == "forward" else getattr(model, part)
        given = {key: getattr(data, key) for key in rows}
        return ask(data.x, data.edge_index, **given, **fixed)

    return Data(x=x, edge_index=edge_index, **rows), forward


def _decoder_of(
    model: Any, x: Tensor, edge_index: Tensor, pairs: Tensor | None, more: dict[str, Any]
) -> Decoder:
    """The model's `decode`, after a check that its `forward` is that after its `encode`."""
    if pairs is None:
        raise ValueError(
            f"at task_level='edge' the pairs are needed: explainer(x, edge_index, {PAIRS}=pairs)"
        )
    name = type(model).__name__
    if not callable(getattr(model, "encode", None)) or not callable(getattr(model, "decode", None)):
        raise ValueError(
            f"{name} has no encode(x, edge_index) and decode(z, {PAIRS}): split its forward into "
            "the two, or ask nora.influence with task=nora.LinkPrediction(pairs, decoder)"
        )
    with evaluating(model), torch.no_grad():
        whole = model(x, edge_index, **{PAIRS: pairs}, **more).view(-1)
        parts = model.decode(model.encode(x, edge_index, **more), pairs).view(-1)
    if whole.shape != parts.shape or not torch.allclose(whole, parts, rtol=1e-3, atol=1e-4):
        raise ValueError(
            f"{name}'s forward gives other scores than decode(encode(x, edge_index), {PAIRS}): "
            "what it does besides belongs in one of the two"
        )
    return model.decode
