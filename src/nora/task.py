"""What a model predicts, and how a change of its predictions is measured.

A task turns the model's output into *items*: one row of class probabilities per node
(`NodeClassification`) or one link probability per node pair (`LinkPrediction`). The effect of a
removal is the change of every item that survives it, and the influence its L1 norm:

    F(r) = Σ_{i≠r} ‖p_i(G) − p_i(G−r)‖₁            nodes
    F(r) = Σ_{(i,j)∈D, i,j≠r} |q_ij(G) − q_ij(G−r)|   links
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Literal

import torch
from torch import Tensor

ReturnType = Literal["raw", "probs", "log_probs"]
Decoder = Callable[..., Tensor]
RETURN_TYPES = ("raw", "probs", "log_probs")


def _check_return_type(return_type: str) -> None:
    if return_type not in RETURN_TYPES:
        raise ValueError(f"return_type is {return_type!r}; it must be one of {RETURN_TYPES}")


def dot_product(z: Tensor, pairs: Tensor) -> Tensor:
    """Score each pair by the dot product of its two nodes' outputs.

    Args:
        z: Node outputs `[N, D]`.
        pairs: Node pairs `[2, P]`.

    Returns:
        Link logits `[P]`.
    """
    return (z[pairs[0]] * z[pairs[1]]).sum(dim=-1)


@dataclass(frozen=True)
class NodeClassification:
    """Every node's class probabilities.

    Args:
        return_type: What the model returns: `raw` logits, `probs` or `log_probs`.
        classes: Measure the change on these classes' probabilities only; all by default. Kept
            sorted, each class once.
        node_type: Which nodes are classified, in a graph with several node types.

    Example:
        >>> output = torch.tensor([[0.0, 0.0]])
        >>> NodeClassification().predict(output)
        tensor([[0.5000, 0.5000]])
        >>> NodeClassification(classes=[1]).predict(output)
        tensor([[0.5000]])
    """

    return_type: ReturnType = "raw"
    classes: Sequence[int] | None = None
    node_type: str | None = None
    name = "node"
    item = "node"

    def __post_init__(self) -> None:
        _check_return_type(self.return_type)
        if self.classes is not None:
            object.__setattr__(self, "classes", _class_ids(self.classes))

    def predict(self, output: Tensor) -> Tensor:
        """Probabilities of the classes that count `[N, K]` from the model's output `[N, C]`."""
        found = self.probabilities(output)
        return found if self.classes is None else found[:, list(self.classes)]

    def probabilities(self, output: Tensor) -> Tensor:
        """Probabilities of all classes `[N, C]`."""
        if self.return_type == "raw":
            return output.softmax(dim=-1)
        return output.exp() if self.return_type == "log_probs" else output

    def on_every_class(self) -> NodeClassification:
        """The same task with all classes counted."""
        return replace(self, classes=None)

    def check(self, output: Tensor, num_nodes: int) -> None:
        """Raise when `output` is not one row of classes per node."""
        if output.dim() != 2 or output.size(0) != num_nodes or output.size(1) < 2:
            raise ValueError(
                f"node classification needs a model output of shape [{num_nodes}, classes ≥ 2]; "
                f"the model returned {list(output.shape)}"
            )
        if self.classes is not None and self.classes[-1] >= output.size(1):
            raise ValueError(
                f"classes name class {self.classes[-1]}: the model tells {output.size(1)} classes "
                f"apart (0 … {output.size(1) - 1})"
            )
        check_range(self.probabilities(output), self.return_type)

    def num_items(self, num_nodes: int) -> int:
        """How many predictions there are: one per node."""
        return num_nodes

    def survivors(self, keep: Tensor) -> tuple[NodeClassification, Tensor]:
        """The task on the reduced graph, and which items survive.

        Args:
            keep: Mask `[N]` of the nodes that stay.

        Returns:
            The task whose items are those of the reduced graph, and the mask `[items]` over this
            task's items that selects them, in the same order.
        """
        return self, keep

    def credit(self, prediction: Tensor, num_nodes: int) -> Tensor:
        """Each node's own share of the prediction `[N, K]`: its class probabilities."""
        return prediction


def _class_ids(classes: Iterable[int]) -> tuple[int, ...]:
    """Sorted distinct class ids.

    >>> _class_ids([2, 0, 2])
    (0, 2)
    """
    given = classes.tolist() if hasattr(classes, "tolist") else classes
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"classes must be a list of class ids, e.g. classes=[2]; got {given!r}")
    given = list(given)
    # A mask would read as classes 0 and 1.
    if any(isinstance(one, bool) or not hasattr(one, "__index__") for one in given):
        raise TypeError(f"classes must hold class ids, which are whole numbers; got {given!r}")
    ids = sorted({index(one) for one in given})
    if not ids:
        raise ValueError("classes is empty: name at least one class, or leave it out for all")
    if ids[0] < 0:
        raise ValueError(f"classes name class {ids[0]}: classes are counted from 0")
    return tuple(ids)


@dataclass(frozen=True, eq=False)
class LinkPrediction:
    """The link probability of every pair in `pairs`.

    Args:
        pairs: The node pairs `D` whose link is predicted, `[2, P]`.
        decoder: `(z, pairs) -> scores [P]`, acting on each pair's two rows of `z` alone.
        return_type: What the decoder returns: `raw` logits, `probs` or `log_probs`.
        relation: Which relation each pair is about, `[P]`; the decoder then is called as
            `(z, pairs, relation)`.
        node_types: The types that sources and targets have, in a graph with several node types;
            the model must give both outputs of the same width.

    Example:
        >>> task = LinkPrediction(torch.tensor([[0], [1]]))
        >>> task.predict(torch.zeros(2, 4))
        tensor([0.5000])
    """

    pairs: Tensor
    decoder: Decoder = dot_product
    return_type: ReturnType = "raw"
    relation: Tensor | None = None
    node_types: tuple[str, str] | None = None
    name = "link"
    item = "pair"

    def __post_init__(self) -> None:
        _check_return_type(self.return_type)
        pairs = self.pairs
        if pairs.dim() != 2 or pairs.size(0) != 2 or pairs.dtype != torch.long:
            raise ValueError(
                f"pairs must be a long tensor of shape [2, P]; got {pairs.dtype} of shape "
                f"{list(pairs.shape)}"
            )
        kinds = self.node_types
        if kinds is not None and (isinstance(kinds, str) or len(kinds) != 2):
            raise ValueError(
                f"node_types must be the types of source and target, e.g. ('author', 'paper'); got {kinds!r}"
            )
        relation = self.relation
        if relation is not None and self.decoder is dot_product:
            raise ValueError("relation is for a decoder of your own: decoder(z, pairs, relation)")
        if relation is not None and (
            relation.shape != pairs.shape[1:] or relation.dtype != torch.long
        ):
            raise ValueError(
                f"relation must be a long tensor of shape [{pairs.size(1)}], one per pair; got "
                f"{relation.dtype} of shape {list(relation.shape)}"
            )

    def predict(self, output: Tensor) -> Tensor:
        """Link probabilities `[P]` from the model's output `[N, D]`."""
        return self.decode(output, self.pairs, self.relation)

    def decode(self, z: Tensor, pairs: Tensor, relation: Tensor | None = None) -> Tensor:
        """Link probabilities of arbitrary `pairs` `[2, P]` of rows of `z`."""
        if relation is None:
            return self.from_scores(self.decoder(z, pairs))
        return self.from_scores(self.decoder(z, pairs, relation))

    def from_scores(self, score: Tensor) -> Tensor:
        """Link probabilities from what the decoder returns."""
        if self.return_type == "raw":
            return score.sigmoid()
        return score.exp() if self.return_type == "log_probs" else score

    def check(self, output: Tensor, num_nodes: int) -> None:
        """Raise when pairs leave the graph or the decoder does not give one score per pair."""
        if self.pairs.numel():
            low, high = int(self.pairs.min()), int(self.pairs.max())
            if low < 0 or high >= num_nodes:
                wrong = low if low < 0 else high
                raise ValueError(
                    f"pairs name node {wrong}: the graph has {num_nodes} nodes "
                    f"(0 … {num_nodes - 1})"
                )
        if output.dim() != 2 or output.size(0) != num_nodes:
            raise ValueError(
                f"link prediction needs a model output of shape [{num_nodes}, D]; the model "
                f"returned {list(output.shape)}"
            )
        prediction = self.predict(output)
        if list(prediction.shape) != [self.pairs.size(1)]:
            raise ValueError(
                f"the decoder must return one score per pair, shape [{self.pairs.size(1)}]; it "
                f"returned {list(prediction.shape)}"
            )
        check_range(prediction, self.return_type)

    def num_items(self, num_nodes: int) -> int:
        """How many predictions there are: one per pair."""
        return self.pairs.size(1)

    def survivors(self, keep: Tensor) -> tuple[LinkPrediction, Tensor]:
        """See `NodeClassification.survivors`: pairs that touch a removed node do not count."""
        alive = keep[self.pairs[0]] & keep[self.pairs[1]]
        new_id = keep.long().cumsum(0) - 1
        relation = None if self.relation is None else self.relation[alive]
        return replace(self, pairs=new_id[self.pairs[:, alive]], relation=relation), alive

    def credit(self, prediction: Tensor, num_nodes: int) -> Tensor:
        """Each pair's probability credited to both of its end nodes, `[N, 1]`."""
        total = prediction.new_zeros(num_nodes)
        total = total.index_add(0, self.pairs[0], prediction)
        return total.index_add(0, self.pairs[1], prediction).unsqueeze(-1)


Task = NodeClassification | LinkPrediction


def check_range(prediction: Tensor, return_type: str) -> None:
    """Raise when predictions are not probabilities, which means a wrong `return_type`."""
    if not bool(torch.isfinite(prediction).all()):
        raise ValueError("the model predicts NaN or infinite values on this graph")
    if prediction.numel() and not (
        float(prediction.min()) >= -1e-4 and float(prediction.max()) <= 1 + 1e-4
    ):
        raise ValueError(
            f"with return_type={return_type!r} the predictions should lie in [0, 1] but span "
            f"[{float(prediction.min()):.3g}, {float(prediction.max()):.3g}]; does the model "
            "return raw logits (return_type='raw') or log-probabilities ('log_probs')?"
        )


def item_change(before: Tensor, after: Tensor) -> Tensor:
    """L1 change of each item `[items]`, from predictions `[items]` or `[items, C]`."""
    difference = (before - after).abs()
    return difference.sum(dim=-1) if difference.dim() > 1 else difference
