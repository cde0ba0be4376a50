"""The link probability of pairs of nodes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from nora.arguments import shown
from nora.graph.removal import check_in_range
from nora.model.return_types import (
    DefaultReturnType,
    ReturnType,
    by_itself,
    check_range,
    checked_return_type,
    reject_unit_interval,
)
from nora.model.task import Predicts, Task

Decoder = Callable[..., Tensor]


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
    """The decoder where none was given."""
    return dot_product(z, pairs)


@dataclass(frozen=True, eq=False)
class LinkPrediction(Task):
    """The link probability of every pair in `pairs`.

    Args:
        pairs: The node pairs whose links are predicted, `[2, P]`.
        decoder: `(z, pairs) -> scores [P]`, which reads only the two rows of `z` of each pair. Default: the
            model's `decode` if it has PyG's `encode` and `decode`; the output of `forward` if that takes
            `edge_label_index`; otherwise the dot product.
        return_type: What the decoder returns: `raw` logits, `probs` or `log_probs`. Default: logits, with an
            error if all scores lie in [0, 1].
        relation: The relation of each pair, `[P]`. The decoder is then called as `(z, pairs, relation)`.
        node_types: The node types of sources and targets in a `HeteroData`. Both outputs must have the same
            width.

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
        object.__setattr__(self, "return_type", checked_return_type(self.return_type))
        # What is left out is not what is asked for: a model may bring a decoder of its own.
        object.__setattr__(self, "leaves_decoder_open", self.decoder is default_decoder)
        if self.decoder is default_decoder:
            object.__setattr__(self, "decoder", dot_product)
        pairs = self.pairs
        if not isinstance(pairs, Tensor):
            raise TypeError(
                f"pairs must be a long tensor of shape [2, P]; got {shown(pairs)}. From a list of pairs: "
                "torch.tensor(pairs).t()"
            )
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

    @property
    def predicts(self) -> Predicts:
        """Links."""
        return "links"

    def largest_change(self, columns: int) -> float:
        """A probability moves by at most 1."""
        return 1.0

    def predict(self, output: Tensor) -> Tensor:
        """Link probabilities `[P]` from the model's output `[N, D]`."""
        return self.decode(output, self.pairs, self.relation)

    def decode(self, z: Tensor, pairs: Tensor, relation: Tensor | None = None) -> Tensor:
        """Link probabilities of arbitrary `pairs` `[2, P]` of rows of `z`."""
        more = () if relation is None else (relation,)
        return self.from_scores(self.decoder(z, pairs, *more))

    def scores_of(self, output: Tensor) -> Tensor:
        """What the decoder returns for the pairs `[P]`, from the model's output `[N, D]`."""
        more = () if self.relation is None else (self.relation,)
        return self.decoder(output, self.pairs, *more)

    def from_scores(self, score: Tensor) -> Tensor:
        """Link probabilities from what the decoder returns."""
        return by_itself(score, self.return_type)

    def check(self, output: Tensor, num_nodes: int, rows: Tensor | None = None) -> None:
        """Raise when pairs leave the graph or the decoder does not give one score per pair."""
        self.check_pairs(num_nodes)
        if output.dim() != 2 or output.size(0) != num_nodes:
            raise ValueError(
                f"link prediction needs a model output of shape [{num_nodes}, D]; the model "
                f"returned {list(output.shape)}. One that scores pairs itself needs a forward with "
                "an argument edge_label_index, and no forward=…"
            )
        self.check_scores(self.scores_of(output), "the decoder")

    def check_pairs(self, num_nodes: int) -> None:
        """Raise when pairs leave the graph."""
        check_in_range(self.pairs, num_nodes, "pairs name")

    def check_scores(self, score: Tensor, source: str) -> None:
        """Raise when there is not one score per pair, or they are of another return type.

        Args:
            score: What the decoder returned, or a model that scores pairs itself.
            source: What returned the scores, in words.
        """
        if not isinstance(score, Tensor) or list(score.shape) != [self.pairs.size(1)]:
            raise ValueError(
                f"{source} must return one score per pair, shape [{self.pairs.size(1)}]; it "
                f"returned {list(getattr(score, 'shape', []))}"
            )
        if isinstance(self.return_type, DefaultReturnType) and self.decoder is not dot_product:
            reject_unit_interval(score, source, "LinkPrediction")
        check_range(self.from_scores(score), str(self.return_type))

    def to(self, device: torch.device) -> LinkPrediction:
        """The same task with its pairs on a device."""
        # Not by `replace`: it would take the default decoder for one that was given.
        moved = copy.copy(self)
        object.__setattr__(moved, "pairs", self.pairs.to(device))
        if self.relation is not None:
            object.__setattr__(moved, "relation", self.relation.to(device))
        return moved

    def num_items(self, num_nodes: int) -> int:
        """How many predictions there are: one per pair."""
        return self.pairs.size(1)

    def survivors(self, keep: Tensor) -> tuple[LinkPrediction, Tensor]:
        """See `Task.survivors`: pairs that touch a removed node do not count."""
        alive = keep[self.pairs[0]] & keep[self.pairs[1]]
        new_id = keep.long().cumsum(0) - 1
        relation = None if self.relation is None else self.relation[alive]
        return replace(self, pairs=new_id[self.pairs[:, alive]], relation=relation), alive

    def credit(self, prediction: Tensor, num_nodes: int) -> Tensor:
        """Each pair's probability credited to both of its end nodes, `[N, 1]`."""
        total = prediction.new_zeros(num_nodes)
        total = total.index_add(0, self.pairs[0], prediction)
        return total.index_add(0, self.pairs[1], prediction).unsqueeze(-1)
