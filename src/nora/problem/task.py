"""What a model predicts, and how a change of its predictions is measured.

A task turns the model's output into *items*: one row of class probabilities per node
(`NodeClassification`) or one link probability per node pair (`LinkPrediction`). The effect of a
removal is the change of every item that survives it, and the influence its L1 norm:

    F(r) = Σ_{i≠r} ‖p_i(G) − p_i(G−r)‖₁            nodes
    F(r) = Σ_{(i,j)∈D, i,j≠r} |q_ij(G) − q_ij(G−r)|   links
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import Literal

import torch
from torch import Tensor

ReturnType = Literal["raw", "probs", "log_probs"]
Mode = Literal["multiclass", "binary", "multilabel"]
Decoder = Callable[..., Tensor]
RETURN_TYPES = ("raw", "probs", "log_probs")
MODES = ("multiclass", "binary", "multilabel")


class _NotSaid(str):
    """`raw`, as long as the output does not speak against it."""


NOT_SAID = _NotSaid("raw")


def _said(return_type: str | None) -> str:
    """The return type that was given; `NOT_SAID` for none."""
    if return_type is None:
        return NOT_SAID
    if return_type not in RETURN_TYPES:
        raise ValueError(f"return_type is {return_type!r}; it must be one of {RETURN_TYPES}")
    return return_type


def dot_product(z: Tensor, pairs: Tensor) -> Tensor:
    """Score each pair by the dot product of its two nodes' outputs.

    Args:
        z: Node outputs `[N, D]`.
        pairs: Node pairs `[2, P]`.

    Returns:
        Link logits `[P]`.
    """
    return (z[pairs[0]] * z[pairs[1]]).sum(dim=-1)


def default_decoder(z: Tensor, pairs: Tensor) -> Tensor:
    """Stands for a decoder that was not said."""
    return dot_product(z, pairs)


@dataclass(frozen=True)
class NodeClassification:
    """Every node's class probabilities.

    Args:
        return_type: What the model returns: `raw` logits, `probs` or `log_probs`. When left out it is
            taken to return logits, and refused where its output looks like probabilities.
        classes: Measure the change on these classes' probabilities only; all by default. Kept
            sorted, each class once.
        node_type: Which nodes are classified, in a graph with several node types.
        mode: `multiclass`: one of several classes, from an output `[N, C]`. `binary`: one of two,
            from an output `[N]` or `[N, 1]` that is about the second. `multilabel`: any of several
            labels, each by itself, from an output `[N, C]`. When left out, the output's shape decides
            between the first two.

    Example:
        >>> output = torch.tensor([[0.0, 0.0]])
        >>> NodeClassification().predict(output)
        tensor([[0.5000, 0.5000]])
        >>> NodeClassification(classes=[1]).predict(output)
        tensor([[0.5000]])
    """

    return_type: ReturnType | None = None
    classes: Sequence[int] | None = None
    node_type: str | None = None
    mode: Mode | None = None
    name = "node"
    item = "node"

    def __post_init__(self) -> None:
        object.__setattr__(self, "return_type", _said(self.return_type))
        if self.mode is not None and self.mode not in MODES:
            raise ValueError(f"mode is {self.mode!r}; it must be one of {MODES}")
        if self.classes is not None:
            object.__setattr__(self, "classes", _class_ids(self.classes))

    def predict(self, output: Tensor) -> Tensor:
        """Probabilities of the classes that count `[N, K]` from the model's output `[N, C]`."""
        found = self.probabilities(output)
        return found if self.classes is None else found[:, list(self.classes)]

    def probabilities(self, output: Tensor) -> Tensor:
        """Probabilities of all classes `[N, C]`; of two where the output is one number per node."""
        if _one_number(output) and self.mode != "multilabel":
            second = _by_itself(output.reshape(len(output)), self.return_type)
            return torch.stack([1 - second, second], dim=-1)
        if self.mode == "multilabel":
            return _by_itself(output, self.return_type)
        if self.return_type == "raw":
            return output.softmax(dim=-1)
        return output.exp() if self.return_type == "log_probs" else output

    def on_every_class(self) -> NodeClassification:
        """The same task with all classes counted."""
        return replace(self, classes=None)

    def largest_change(self, columns: int) -> float:
        """No removal changes a prediction of so many classes by more than this.

        What sums to one moves by at most 2; what else lies in [0, 1] by 1 in every class.
        """
        sums_to_one = self.mode != "multilabel" and self.return_type == "raw"
        return min(2.0, columns) if sums_to_one else float(columns)

    def check(self, output: Tensor, num_nodes: int, rows: Tensor | None = None) -> None:
        """Raise when `output` is not one row of classes per node, or of another return type.

        Args:
            output: The model's output.
            num_nodes: How many rows it needs.
            rows: Mask `[N]` of the rows that say something; all by default.
        """
        _check_shape(self.mode, output, num_nodes)
        classes = self.probabilities(output[:1]).size(1)
        if self.classes is not None and self.classes[-1] >= classes:
            raise ValueError(
                f"classes name class {self.classes[-1]}: the model tells {classes} classes "
                f"apart (0 … {classes - 1})"
            )
        told = output if rows is None else output[rows]
        if isinstance(self.return_type, _NotSaid):
            if _one_number(output) or self.mode == "multilabel":
                refuse_unit_interval(told, "the model", "NodeClassification")
            else:
                _refuse_rows_that_sum_to_one(told)
        check_range(self.probabilities(told), str(self.return_type))

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


def _one_number(output: Tensor) -> bool:
    """Whether an output has one number per node."""
    return output.dim() == 1 or (output.dim() == 2 and output.size(1) == 1)


def _by_itself(output: Tensor, return_type: str | None) -> Tensor:
    """Probabilities of what is decided by itself, not among several."""
    if return_type == "raw":
        return output.sigmoid()
    return output.exp() if return_type == "log_probs" else output


def _check_shape(mode: str | None, output: Tensor, num_nodes: int) -> None:
    """Raise unless an output is one row per node of the width that the mode needs."""
    one = f"[{num_nodes}] or [{num_nodes}, 1]"
    many = f"[{num_nodes}, classes ≥ 2]"
    wanted = {None: f"{many}, or {one} for two classes", "binary": one}.get(mode, many)
    fits = output.dim() in (1, 2) and output.size(0) == num_nodes
    single = fits and _one_number(output)
    if not fits or (mode == "binary" and not single) or (mode == "multiclass" and single):
        raise ValueError(
            f"node classification needs a model output of shape {wanted}; "
            f"the model returned {list(output.shape)}"
        )
    if mode == "multilabel" and output.dim() != 2:
        raise ValueError(
            f"with mode='multilabel' the model must return [{num_nodes}, labels]; it returned "
            f"{list(output.shape)}"
        )


def _refuse_rows_that_sum_to_one(output: Tensor) -> None:
    """Raise when logits look like probabilities, of which nothing was said.

    Log-probabilities need no word: they are logits too, whose softmax is the probabilities.
    """
    output = output.float()
    if output.numel() == 0 or bool((output < 0).any()):
        return
    if bool(((output.sum(dim=-1) - 1).abs() < 1e-4).all()):
        raise ValueError(
            "the model seems to return probabilities already (no row has a negative number, and each "
            "sums to one): pass task=nora.NodeClassification(return_type='probs'), or "
            "return_type='raw' if these are logits"
        )


def refuse_unit_interval(score: Tensor, who: str, task: str) -> None:
    """Raise when logits all lie in [0, 1], of which none was said that they are logits."""
    score = score.float().flatten()
    # Of one or two numbers, or the same one throughout, nothing can be told.
    if score.numel() <= 2 or bool((score == score[0]).all()):
        return
    if float(score.min()) >= 0 and float(score.max()) <= 1:
        raise ValueError(
            f"{who} returns numbers between {float(score.min()):.3g} and {float(score.max()):.3g}, "
            f"which may be probabilities already: pass task=nora.{task}(…, return_type='probs'), or "
            "return_type='raw' if they are logits"
        )


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
        decoder: `(z, pairs) -> scores [P]`, acting on each pair's two rows of `z` alone. When left
            out: the model's own `decode`, where it has PyG's `encode` and `decode`, or its scores,
            where its `forward` takes `edge_label_index`; else the dot product.
        return_type: What the decoder returns: `raw` logits, `probs` or `log_probs`. When left out
            it is taken to return logits, and refused where all scores lie in [0, 1].
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
    decoder: Decoder = default_decoder
    return_type: ReturnType | None = None
    relation: Tensor | None = None
    node_types: tuple[str, str] | None = None
    leaves_decoder_open: bool = field(init=False, repr=False, default=False)
    name = "link"
    item = "pair"

    def __post_init__(self) -> None:
        object.__setattr__(self, "return_type", _said(self.return_type))
        # What is left out is not what is asked for: a model may bring a decoder of its own.
        object.__setattr__(self, "leaves_decoder_open", self.decoder is default_decoder)
        if self.decoder is default_decoder:
            object.__setattr__(self, "decoder", dot_product)
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
        if relation is not None and self.decoder is dot_product and not self.leaves_decoder_open:
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
        return _by_itself(score, self.return_type)

    def check(self, output: Tensor, num_nodes: int, rows: Tensor | None = None) -> None:
        """Raise when pairs leave the graph or the decoder does not give one score per pair."""
        self.check_pairs(num_nodes)
        if output.dim() != 2 or output.size(0) != num_nodes:
            raise ValueError(
                f"link prediction needs a model output of shape [{num_nodes}, D]; the model "
                f"returned {list(output.shape)}. One that scores pairs itself needs a forward with "
                "an argument edge_label_index, and no forward=…"
            )
        given = () if self.relation is None else (self.relation,)
        self.check_scores(self.decoder(output, self.pairs, *given), "the decoder")

    def check_pairs(self, num_nodes: int) -> None:
        """Raise when pairs leave the graph."""
        if self.pairs.numel():
            low, high = int(self.pairs.min()), int(self.pairs.max())
            if low < 0 or high >= num_nodes:
                wrong = low if low < 0 else high
                raise ValueError(
                    f"pairs name node {wrong}: the graph has {num_nodes} nodes "
                    f"(0 … {num_nodes - 1})"
                )

    def check_scores(self, score: Tensor, who: str) -> None:
        """Raise when there is not one score per pair, or they are of another return type.

        Args:
            score: What the decoder returned, or a model that scores pairs itself.
            who: Which of the two, in words.
        """
        if not isinstance(score, Tensor) or list(score.shape) != [self.pairs.size(1)]:
            raise ValueError(
                f"{who} must return one score per pair, shape [{self.pairs.size(1)}]; it "
                f"returned {list(getattr(score, 'shape', []))}"
            )
        if isinstance(self.return_type, _NotSaid) and self.decoder is not dot_product:
            refuse_unit_interval(score, who, "LinkPrediction")
        check_range(self.from_scores(score), str(self.return_type))

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
    """L1 change of each item `[items]`, from predictions `[items]` or `[items, C]`.

    Predictions of half precision are subtracted and summed in single precision.
    """
    if before.element_size() < 4:
        before, after = before.float(), after.float()
    difference = (before - after).abs()
    return difference.sum(dim=-1) if difference.dim() > 1 else difference
