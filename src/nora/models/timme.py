"""TIMME: several relations between the same nodes, mixed by attention (Xiao et al., 2020).

Each of R directed relations gives two adjacencies, itself and its reverse; with the identity there are
`K = 2R + 1`, each normalised to rows that sum to 1 (a user's neighbours are averaged; a user without
any gets 0). One layer computes

    Z_k = A_k X W_k                                  [N, F] for every adjacency
    m_k = mean over all nodes of Z_k                 query and key
    a   = softmax_k( Σ_q m_q · m_k / √F )            one weight per adjacency, shared by all nodes
    out = Σ_k a_k Z_k

so that removing a node changes its neighbours' means and, through `m`, a little of everybody. There
are two layers; the first one's output is added to the second's. The features are one-hot, so `X W_k` of
the first layer is a lookup of the user's own row in a table: `x` holds the users' numbers, which stay
with them when others are removed.

Two kinds of heads share this embedding and are trained together: a linear map to the party, and a
`RelationDecoder` for the links of every relation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import MessagePassing

from nora.models import MODELS, ModelFacts

# A relation's edges [2, E], or both of its directions ready to be multiplied with (`both_ways`).
Relation = Tensor | tuple[EdgeIndex, EdgeIndex]
Relations = Sequence[Relation] | Mapping[object, Relation]

# Scores of all pairs of nodes by one matrix product, where no more than so many times what was asked.
DENSE_BELOW = 16


def both_ways(edge_index: Tensor, num_nodes: int) -> tuple[EdgeIndex, EdgeIndex]:
    """A relation `[2, E]` as two sparse matrices, outgoing and incoming.

    `TIMMEConv` takes these in place of the edges and gives the same, several times as fast, where
    the edges are used again and again, as in training.
    """
    outgoing, incoming = (
        EdgeIndex(edges.contiguous(), sparse_size=(num_nodes, num_nodes)).sort_by("col").values
        for edges in (edge_index.flip(0), edge_index)
    )
    return outgoing.fill_cache_(), incoming.fill_cache_()


class TIMMEConv(MessagePassing):
    """One layer: neighbours averaged over `2R + 1` adjacencies, mixed by attention over these.

    Adjacency `2r` of relation `r` averages over those a node acts on (the targets of its edges),
    `2r + 1` over those who act on it; the last is the node itself.

    Args:
        in_channels: Width of the input, or None when the input is already `X W_k` for every `k`.
        out_channels: Width `F` of the output.
        num_relations: Number of relations `R`.

    Example:
        >>> conv = TIMMEConv(None, 1, num_relations=1)
        >>> follows = torch.tensor([[0, 0], [1, 2]])
        >>> x = torch.zeros(3, 3, 1)
        >>> x[:, 0] = torch.tensor([[1.0], [2.0], [4.0]])  # what adjacency 0 averages
        >>> conv.results(x, [follows])[:, 0].flatten()
        tensor([3., 0., 0.])
    """

    SUPPORTS_FUSED_EDGE_INDEX = True
    both_directions = True

    def __init__(self, in_channels: int | None, out_channels: int, num_relations: int) -> None:
        super().__init__(aggr="mean")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.num_relations = num_relations
        self.num_adjacencies = 2 * num_relations + 1
        self.lin = (
            None
            if in_channels is None
            else nn.Linear(in_channels, self.num_adjacencies * out_channels, bias=False)
        )

    def sent(self, x: Tensor) -> Tensor:
        """`X W_k` of every adjacency `[N, K, F]`."""
        return x if self.lin is None else self.lin(x).unflatten(1, (-1, self.out_channels))

    def results(self, x: Tensor, edge_indices: Relations) -> Tensor:
        """`Z_k = A_k X W_k` of every adjacency `[N, K, F]`."""
        edges = list(edge_indices.values() if isinstance(edge_indices, Mapping) else edge_indices)
        if len(edges) != self.num_relations:
            raise ValueError(
                f"expected the edges of {self.num_relations} relations, got {len(edges)}"
            )
        sent = self.sent(x)
        found = []
        for number, edge_index in enumerate(edges):
            if isinstance(edge_index, tuple):
                outgoing, incoming = edge_index
            else:
                outgoing, incoming = edge_index.flip(0), edge_index
            found.append(self.propagate(outgoing, x=sent[:, 2 * number]))
            found.append(self.propagate(incoming, x=sent[:, 2 * number + 1]))
        return torch.stack([*found, sent[:, -1]], dim=1)

    def message_and_aggregate(self, edge_index: EdgeIndex, x: Tensor) -> Tensor:
        """The mean over the neighbours as a sparse product, where `both_ways` has prepared it."""
        ones = x.new_ones(edge_index.size(1))  # in the precision of x, which PyG does not see to
        return edge_index.matmul(x, ones, reduce="mean", transpose=True)

    def weights(self, means: Tensor) -> Tensor:
        """The weight of every adjacency `[…, K]` from the results' means over all nodes `[…, K, F]`."""
        scores = means @ means.transpose(-1, -2) / math.sqrt(self.out_channels)
        return scores.sum(dim=-2).softmax(dim=-1)

    def attention(self, results: Tensor) -> Tensor:
        """The weight of every adjacency `[K]` from the results `[N, K, F]`."""
        return self.weights(results.mean(dim=0))

    def forward(self, x: Tensor, edge_indices: Relations) -> Tensor:
        """Node outputs `[N, F]`.

        Args:
            x: `[N, in_channels]`, or `[N, K, F]` when `in_channels` is None.
            edge_indices: The edges `[2, E_r]` of every relation, in order, or what `both_ways` made
                of them.
        """
        results = self.results(x, edge_indices)
        return torch.einsum("nkf,k->nf", results, self.attention(results))


class RelationDecoder(nn.Module):
    """Link logits, with separate weights for every relation.

    With `u = L_r z` (a linear map), the score of source `i` and target `j` is
    `Σ_f d_rf u_if u_jf + v_r · u_i + w_r · u_j + b_r`.

    Args:
        channels: Width of the node embeddings.
        num_relations: Number of relations.
    """

    def __init__(self, channels: int, num_relations: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(channels, channels) for _ in range(num_relations))
        self.diagonal = nn.Parameter(torch.empty(num_relations, channels))
        self.source = nn.Parameter(torch.empty(num_relations, channels))
        self.target = nn.Parameter(torch.empty(num_relations, channels))
        self.bias = nn.Parameter(torch.zeros(num_relations))
        for weight in (self.diagonal, self.source, self.target):
            nn.init.xavier_uniform_(weight)

    def forward(self, z: Tensor, pairs: Tensor, relation: Tensor) -> Tensor:
        """Logits `[P]` of pairs `[2, P]` of rows of `z` `[N, F]`, each in its `relation` `[P]`."""
        places = [(relation == number).nonzero().flatten() for number in range(len(self.maps))]
        scores = [self._score(z, pairs[:, place], number) for number, place in enumerate(places)]
        place = torch.cat(places)
        if len(place) < relation.numel():
            wrong = relation[(relation < 0) | (relation >= len(self.maps))][0]
            raise ValueError(
                f"pairs name relation {int(wrong)}: there are {len(self.maps)} relations "
                f"(0 … {len(self.maps) - 1})"
            )
        logits = torch.cat(scores)
        return torch.zeros_like(logits).scatter(0, place, logits)

    def _score(self, z: Tensor, pairs: Tensor, number: int) -> Tensor:
        """Logits of pairs that are all of one relation.

        Short cuts that depend on sizes are taken in training only: a trained decoder does the same on
        every graph, so that it can be followed.
        """
        if self.training and z.size(0) > pairs.numel():  # rows that no pair asks for are not mapped
            z, pairs = z[pairs.flatten()], torch.arange(pairs.numel(), device=z.device).view(2, -1)
        u = self.maps[number](z)
        source, target = pairs
        weighted = u * self.diagonal[number]
        if self.training and z.size(0) ** 2 <= DENSE_BELOW * pairs.size(1):
            place = source * z.size(0) + target
            together = (weighted @ u.t()).flatten().index_select(0, place)
        else:
            together = (weighted[source] * u[target]).sum(dim=-1)
        alone = (u @ self.source[number])[source] + (u @ self.target[number])[target]
        return together + alone + self.bias[number]


@MODELS.register(
    "timme",
    "TIMME: several relations mixed by attention, party and links trained together",
    ModelFacts(needs=("relations", "task"), node_type="user"),
)
class TIMME(nn.Module):
    """Two `TIMMEConv` layers with a skip connection, a party head and a link decoder.

    Args:
        num_nodes: Number of users of the whole graph: the rows of the lookup table.
        num_classes: Number of parties.
        relations: Names of the relations, in order.
        hidden_channels: Width of both layers.
        dropout: Dropout probability after each layer.
        task: What `forward` returns: `node` for the parties' logits, `link` for the embeddings that
            `decoder` takes. The weights are the same for both.

    Example:
        >>> model = TIMME(3, 2, relations=["friend"], hidden_channels=4).eval()
        >>> friends = {("user", "friend", "user"): torch.tensor([[0, 0], [1, 2]])}
        >>> model({"user": torch.arange(3)}, friends)["user"].shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        num_nodes: int,
        num_classes: int,
        *,
        relations: Sequence[str],
        hidden_channels: int = 100,
        dropout: float = 0.1,
        task: str = "node",
    ) -> None:
        super().__init__()
        if task not in ("node", "link"):
            raise ValueError(f"task is {task!r}; it must be 'node' or 'link'")
        if not relations:
            raise ValueError("relations is empty: name at least one, e.g. relations=['friend']")
        self.relations = tuple(relations)
        self.dropout = dropout
        self.task = task
        count = len(self.relations)
        self.first = TIMMEConv(None, hidden_channels, count)
        self.second = TIMMEConv(hidden_channels, hidden_channels, count)
        self.table = nn.Embedding(num_nodes, self.first.num_adjacencies * hidden_channels)
        self.party = nn.Linear(hidden_channels, num_classes)
        self.decoder = RelationDecoder(hidden_channels, count)
        bound = 1 / math.sqrt(hidden_channels)
        nn.init.uniform_(self.table.weight, -bound, bound)

    def embed(
        self, x_dict: Mapping[str, Tensor], edge_index_dict: Mapping[tuple[str, str, str], Relation]
    ) -> Tensor:
        """The users' embeddings `[N, hidden_channels]` that all heads share."""
        edges = [edge_index_dict["user", relation, "user"] for relation in self.relations]
        looked_up = self.table(x_dict["user"]).unflatten(1, (-1, self.first.out_channels))
        first = F.dropout(self.first(looked_up, edges).relu(), self.dropout, self.training)
        second = F.dropout(self.second(first, edges).relu(), self.dropout, self.training)
        return first + second

    def forward(
        self, x_dict: Mapping[str, Tensor], edge_index_dict: Mapping[tuple[str, str, str], Relation]
    ) -> dict[str, Tensor]:
        """Parties' logits `[N, C]` or embeddings `[N, F]` under `"user"`, by `task`.

        Args:
            x_dict: `{"user": numbers [N]}`: rows of the lookup table, long.
            edge_index_dict: Edges `[2, E]` of `("user", relation, "user")` for every relation.
        """
        embedding = self.embed(x_dict, edge_index_dict)
        return {"user": self.party(embedding) if self.task == "node" else embedding}
