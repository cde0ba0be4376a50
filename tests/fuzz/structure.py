"""What users do to the edges inside `forward`, as pieces of source code."""

from __future__ import annotations

from fuzz.layers import Piece

LAYER = (
    "SAGEConv(8, 8)",
    "GCNConv(8, 8)",
    "GATConv(8, 8)",
    "GINConv(nn.Linear(8, 8))",
    "GraphConv(8, 8)",
)
WEIGHED = ("GraphConv(8, 8)", "GCNConv(8, 8)", "LEConv(8, 8)", "ChebConv(8, 8, 2)")


def edges(*lines: str, jump: bool = False) -> Piece:
    """Makes edges `e`, and passes messages along them."""
    text = "\n".join((*lines, "h = self.c{i}(h, e)"))
    return Piece(text, "self.c{i} = {0}", (LAYER,), jump)


def weighed(*lines: str, jump: bool = False) -> Piece:
    """Makes edges `e` with weights `w`, and passes messages along them."""
    text = "\n".join((*lines, "h = self.c{i}(h, e, w)"))
    return Piece(text, "self.c{i} = {0}", (WEIGHED,), jump)


def product(*lines: str) -> Piece:
    """A product with an adjacency matrix, made in `forward`."""
    return Piece("\n".join(lines), "self.l{i} = nn.Linear(8, 8)")


SIZE = "(h.size(0), h.size(0))"
KEEP = (
    "edge_index, edge_weight, edge_attr, edge_type = "
    "edge_index[:, k], edge_weight[k], edge_attr[k], edge_type[k]"
)

STRUCTURE = {
    "flipped": edges("e = edge_index.flip(0)"),
    "both directions": edges("e = torch.cat([edge_index, edge_index.flip(0)], dim=1)"),
    "self-loops": edges("e, _ = add_self_loops(edge_index, num_nodes=h.size(0))"),
    "no self-loops": edges("e, _ = remove_self_loops(edge_index)"),
    "remaining loops": weighed(
        "e, w = add_remaining_self_loops(edge_index, edge_weight, 2.0, h.size(0))"
    ),
    "loops by mean": weighed(
        'e, w = add_self_loops(edge_index, edge_weight, fill_value="mean", num_nodes=h.size(0))'
    ),
    "undirected": edges("e = to_undirected(edge_index, num_nodes=h.size(0))"),
    "undirected weights": weighed(
        'e, w = to_undirected(edge_index, edge_weight, num_nodes=h.size(0), reduce="mean")'
    ),
    "coalesced": edges("e = coalesce(edge_index, num_nodes=h.size(0))"),
    "coalesced weights": weighed("e, w = coalesce(edge_index, edge_weight, num_nodes=h.size(0))"),
    "sorted": edges("e = sort_edge_index(edge_index, num_nodes=h.size(0))"),
    "by type": edges("e = edge_index[:, edge_type == 1]"),
    "by weight": weighed("k = edge_weight > 0.3", "e, w = edge_index[:, k], edge_weight[k]"),
    "each type": Piece(
        "h = sum(c(h, edge_index[:, edge_type == t]) for t, c in enumerate(self.c{i}))",
        "self.c{i} = nn.ModuleList([{0} for _ in range(3)])",
        (LAYER,),
    ),
    "mask for good": Piece(f"k = edge_type != 0\n{KEEP}"),
    "every second": Piece(f"k = torch.arange(0, edge_index.size(1), 2)\n{KEEP}"),
    "flip for good": Piece("edge_index = edge_index.flip(0)"),
    "upper": edges("e = edge_index[:, edge_index[0] < edge_index[1]]"),
    "equal only": edges(
        "e = edge_index[:, (h[edge_index[0]] * h[edge_index[1]]).sum(-1) > 0]", jump=True
    ),
    "same node type": edges(
        "e = edge_index[:, node_type[edge_index[0]] == node_type[edge_index[1]]]"
    ),
    "from busy nodes": edges(
        "e = edge_index[:, degree(edge_index[1], h.size(0))[edge_index[0]] > 1]"
    ),
    "dropped edges": edges("e, _ = dropout_edge(edge_index, p=0.5, training=self.training)"),
    "second set": edges("e = edge_index2"),
    "second weights": weighed("e, w = edge_index2, edge_weight2"),
    "both sets": edges("e = torch.cat([edge_index, edge_index2], dim=1)"),
    "equal weights": weighed(
        "e, w = edge_index, torch.cosine_similarity(h[edge_index[0]], h[edge_index[1]]).abs()"
    ),
    "softmax weights": weighed(
        "e, w = edge_index, softmax(edge_weight, edge_index[1], num_nodes=h.size(0))"
    ),
    "normed by hand": weighed(
        "d = degree(edge_index[1], h.size(0), dtype=h.dtype).clamp(min=1).pow(-0.5)",
        "e, w = edge_index, d[edge_index[0]] * edge_weight * d[edge_index[1]]",
    ),
    "gcn_norm": weighed("e, w = gcn_norm(edge_index, edge_weight, h.size(0), dtype=h.dtype)"),
    "laplacian": Piece(
        'e, w = get_laplacian(edge_index, edge_weight, normalization="{1}", num_nodes=h.size(0))'
        "\nh = self.c{i}(h, e, w)",
        "self.c{i} = {0}",
        (("GraphConv(8, 8)", "LEConv(8, 8)"), ("sym", "rw")),
    ),
    "edge features": Piece(
        "m = self.m{i}(torch.cat([h[edge_index[0]], edge_attr], dim=-1)).tanh()\n"
        "h = h + torch.zeros_like(h).index_add_(0, edge_index[1], m)",
        "self.m{i} = nn.Linear(12, 8)",
    ),
    "scatter": edges(
        "h = h + scatter(h[edge_index[0]], edge_index[1], 0, h.size(0), 'max')", "e = edge_index"
    ),
    "coo": product(
        f"a = torch.sparse_coo_tensor(edge_index.flip(0), edge_weight, {SIZE})",
        "h = self.l{i}(torch.sparse.mm(a, h))",
    ),
    "csr": product(
        f"a = torch.sparse_coo_tensor(edge_index.flip(0), edge_weight, {SIZE}).to_sparse_csr()",
        "h = self.l{i}(a @ h)",
    ),
    "csr twice": product(
        f"a = to_torch_csr_tensor(edge_index.flip(0), edge_weight, {SIZE})",
        "h = self.l{i}(a @ (a @ h))",
    ),
    "dense": product(
        f"a = h.new_zeros{SIZE}.index_put_((edge_index[1], edge_index[0]), edge_weight, accumulate=True)",
        "h = self.l{i}(a @ h)",
    ),
    "to_dense_adj": product(
        "a = to_dense_adj(edge_index, edge_attr=edge_weight, max_num_nodes=h.size(0))[0]",
        "h = self.l{i}(a.t() @ h)",
    ),
    "dense attention": product(
        f"a = torch.full({SIZE}, float('-inf')).to(h).fill_diagonal_(0.0)",
        "a[edge_index[1], edge_index[0]] = 0.0",
        "h = torch.softmax(self.l{i}(h) @ h.t() + a, dim=-1) @ h",
    ),
    "rows of dense": product(
        f"a = h.new_zeros{SIZE}.index_put_((edge_index[1], edge_index[0]), edge_weight, accumulate=True)",
        "h = self.l{i}((a / (a.abs().sum(dim=1, keepdim=True) + 1)) @ h)",
    ),
    "spmm": product(
        f"a = to_torch_coo_tensor(edge_index.flip(0), size={SIZE}).to(h.dtype)",
        "h = self.l{i}(spmm(a, h, reduce='sum'))",
    ),
    "adj_t": Piece(
        f"a = to_torch_csr_tensor(edge_index, size={SIZE}).to(h.dtype).t()\nh = self.c{{i}}(h, a)",
        "self.c{i} = {0}",
        (("SAGEConv(8, 8)", "GraphConv(8, 8)", "GINConv(nn.Linear(8, 8))"),),
    ),
    "two hops": product(
        f"a = torch.sparse_coo_tensor(edge_index, torch.ones_like(edge_weight), {SIZE})",
        "e = torch.sparse.mm(a, a).coalesce().indices()",
        "h = h + torch.zeros_like(h).index_add_(0, e[1], self.l{i}(h)[e[0]]) / 10",
    ),
}
