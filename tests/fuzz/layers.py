"""PyG's convolutions, norms and aggregations as pieces of source code, with random options.

What has a plain constructor is found by itself (`GENERIC`); the rest is in a table (`EXPLICIT`); what
is left out says why (`EXCLUDED`). Together they are all of `torch_geometric.nn.conv`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace

from torch_geometric.nn import conv as convolutions


@dataclass(frozen=True)
class Piece:
    """Source that turns `h` `[N, 8]` into another `h` `[N, 8]`.

    Attributes:
        lines: Lines of `forward`. `{i}` is the piece's number, `{0}`, `{1}`, … are its choices.
        init: Lines of `__init__`.
        slots: For every choice what there is; the plainest first, which shrinking prefers.
        jump: Whether rounding may change the result by more than rounding.
        row: Whether each row of the result follows from the same row of `h` alone.
        data: Whether it needs the whole `data`.
        limit: An expression whose value on the graph becomes `self.t{i}`, a little raised: a limit
            that nothing reaches before a removal, and something may after it.
    """

    lines: str
    init: str = ""
    slots: tuple[tuple[str, ...], ...] = ()
    jump: bool = False
    row: bool = False
    data: bool = False
    limit: str = ""


CALLS = {
    "x": ("(h, edge_index)",),
    "sorted": ("(h, sort_edge_index(edge_index, num_nodes=h.size(0), sort_by_row=False))",),
    "xw": ("(h, edge_index)", "(h, edge_index, edge_weight)"),
    "w": ("(h, edge_index, edge_weight)",),
    "xa": ("(h, edge_index, edge_attr)",),
    "xt": ("(h, edge_index, edge_type)",),
    "xp": ("(h, pos, edge_index)",),
    "x0": ("(h, h0, edge_index)",),
    "x0w": ("(h, h0, edge_index)", "(h, h0, edge_index, edge_weight)"),
    "heat": ("(h, edge_index, node_type, edge_type, edge_attr)",),
    "signed": ("(h, edge_index, edge_index2)",),
    "normal": ("(h, pos, F.normalize(pos), edge_index)",),
}


def layer(name: str, first: str, call: str, *slots: str, jump: bool = False) -> Piece:
    """A layer from its constructor's first arguments, and slots of further ones.

    Args:
        name: The class.
        first: Its positional arguments.
        call: How it is called, a key of `CALLS`, and what is done with the result.
        *slots: Alternatives `"a=1 | b=2"`; the empty one, which is always there, comes first.
        jump: As in `Piece`.
    """
    how, _, after = call.partition(" ")
    choices = tuple(tuple(", " + one.strip() for one in s.split("|")) for s in slots)
    places = "".join(f"{{{at + 1}}}" for at in range(len(slots)))
    init = f"self.c{{i}} = {name}({first}{places})"
    line = f"h = {after or '@'}".replace("@", "self.c{i}{0}")
    return Piece(line, init, (CALLS[how], *(("", *c) for c in choices)), jump=jump)


BIAS, LOOPS, BACK = "bias=False", "add_self_loops=False", 'flow="target_to_source"'
LOOPS_NORM = "add_self_loops=False | normalize=False, add_self_loops=False"
CACHED = "cached=True"
SUMS = 'aggr="mean" | aggr="max" | aggr="add"'
MORE = 'aggr="min" | aggr="std" | aggr="var" | aggr="softmax" | aggr="median" | aggr="mul"'
MANY = 'aggr=["mean", "max"] | aggr=["add", "std", "min"]'
MLP = "nn.Sequential(nn.Linear({}, 8), nn.ReLU(), nn.Linear(8, {}))".format
DEGREES = "torch.tensor([1.0, 5, 8, 9, 5, 3, 2])"
PNA = '["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"]'

EXPLICIT: dict[str, Piece] = {
    "GCNConv": layer("GCNConv", "8, 8", "xw", "improved=True", CACHED, LOOPS_NORM, BIAS, BACK),
    "ChebConv": layer("ChebConv", "8, 8, 2", "xw", 'normalization="rw"', BIAS),
    "ChebConv one": layer("ChebConv", "8, 8, 1", "xw"),
    "ChebConv far": layer("ChebConv", "8, 8, 3", "xw", 'normalization="rw"'),
    "SAGEConv": layer(
        "SAGEConv",
        "8, 8",
        "x",
        f"{SUMS} | {MORE} | {MANY}",
        "normalize=True",
        "root_weight=False",
        "project=True",
        BIAS,
        BACK,
    ),
    "GraphConv": layer("GraphConv", "8, 8", "xw", f"{SUMS} | {MORE}", BIAS, BACK),
    "SimpleConv": layer(
        "SimpleConv", '"mean"', "xw", 'combine_root="sum" | combine_root="self_loop"'
    ),
    "GatedGraphConv": layer("GatedGraphConv", "8, 2", "xw", 'aggr="mean" | aggr="max"', BIAS),
    "ResGatedGraphConv": layer("ResGatedGraphConv", "8, 8", "x", "root_weight=False", BIAS),
    "ResGatedGraphConv edges": layer("ResGatedGraphConv", "8, 8, edge_dim=4", "xa", BIAS),
    "GATConv": layer(
        "GATConv", "8, 4, heads=2", "x", LOOPS, "residual=True", "dropout=0.4", BIAS, BACK
    ),
    "GATConv mean": layer("GATConv", "8, 8, heads=3, concat=False", "x", LOOPS, "residual=True"),
    "GATConv edges": layer(
        "GATConv", "8, 4, heads=2, edge_dim=4", "xa", LOOPS, 'fill_value=0.5 | fill_value="max"'
    ),
    "GATv2Conv": layer(
        "GATv2Conv", "8, 4, heads=2", "x", LOOPS, "share_weights=True", "residual=True", BACK
    ),
    "GATv2Conv edges": layer("GATv2Conv", "8, 4, heads=2, edge_dim=4", "xa", LOOPS),
    "TransformerConv": layer(
        "TransformerConv", "8, 4, heads=2", "x", "beta=True", "root_weight=False", BIAS
    ),
    "TransformerConv edges": layer("TransformerConv", "8, 8, 2, False, edge_dim=4", "xa"),
    "AGNNConv": layer("AGNNConv", "True", "x", LOOPS),
    "TAGConv": layer("TAGConv", "8, 8", "xw", "K=1 | K=0 | K=2", "normalize=False", BIAS),
    "GINConv": layer("GINConv", MLP(8, 8), "x", "eps=0.4", "train_eps=True", f"{SUMS} | {MORE}"),
    "GINEConv": layer("GINEConv", f"{MLP(8, 8)}, edge_dim=4", "xa", "eps=0.4"),
    "ARMAConv": layer("ARMAConv", "8, 8", "xw", "num_stacks=2", "num_layers=2", "act=None", BIAS),
    "SGConv": layer("SGConv", "8, 8", "xw", "K=2", CACHED, LOOPS, BIAS),
    "SSGConv": layer("SSGConv", "8, 8, 0.1", "xw", "K=2 | K=3", CACHED, LOOPS, BIAS),
    "APPNP": layer("APPNP", "2, 0.2", "xw", CACHED, LOOPS_NORM, "dropout=0.3"),
    "MFConv": layer("MFConv", "8, 8", "x", "max_degree=2", BIAS),
    "RGCNConv": layer(
        "RGCNConv", "8, 8, 3", "xt", "num_bases=2 | num_blocks=2", SUMS, "root_weight=False", BIAS
    ),
    "FastRGCNConv": layer("FastRGCNConv", "8, 8, 3", "xt", "num_bases=2", 'aggr="add"', BIAS),
    "RGATConv": layer(
        "RGATConv",
        "8, 8, 3",
        "xt",
        'attention_mechanism="within-relation"',
        'mod="additive" | mod="scaled" | mod="f-additive" | mod="f-scaled"',
        'attention_mode="multiplicative-self-attention"',
    ),
    "SignedConv": layer("SignedConv", "8, 4, True", "signed", BIAS),
    "DNAConv": Piece(
        "h = self.c{i}(torch.stack([h, h0], dim=1), edge_index)",
        "self.c{i} = DNAConv(8, heads=2{0}{1})",
        (("", ", cached=True"), ("", ", add_self_loops=False")),
    ),
    "PointNetConv": layer("PointNetConv", MLP(11, 8), "xp", "global_nn=nn.Linear(8, 8)", LOOPS),
    "GMMConv": layer("GMMConv", "8, 8, 4, 2", "xa", "separate_gaussians=True", SUMS, BIAS),
    "NNConv": layer("NNConv", "8, 8, nn.Linear(4, 64)", "xa", SUMS, "root_weight=False", BIAS),
    "CGConv": layer("CGConv", "8, 4", "xa", SUMS, "batch_norm=True", BIAS),
    "EdgeConv": layer("EdgeConv", MLP(16, 8), "x", SUMS),
    "PPFConv": layer("PPFConv", MLP(12, 8), "normal", LOOPS),
    "FeaStConv": layer("FeaStConv", "8, 8", "x", "heads=2", LOOPS, BIAS),
    "PointTransformerConv": layer("PointTransformerConv", "8, 8", "xp", LOOPS),
    "HypergraphConv": layer("HypergraphConv", "8, 8", "x", BIAS),
    "LEConv": layer("LEConv", "8, 8", "xw", BIAS),
    "PNAConv": layer("PNAConv", f"8, 8, {PNA}, {DEGREES}", "x", "towers=2", "pre_layers=2"),
    "PNAConv edges": layer("PNAConv", f"8, 8, {PNA}, {DEGREES}, edge_dim=4", "xa"),
    "ClusterGCNConv": layer("ClusterGCNConv", "8, 8", "x", "diag_lambda=0.5", BIAS),
    "GENConv": layer(
        "GENConv",
        "8, 8",
        "x",
        'aggr="powermean" | aggr="max" | aggr="mean"',
        "learn_t=True",
        "msg_norm=True",
        'norm="layer" | norm="instance" | norm=None',
    ),
    "GENConv edges": layer("GENConv", "8, 8, edge_dim=4", "xa"),
    "GCN2Conv": layer(
        "GCN2Conv",
        "8, 0.2",
        "x0w",
        "theta=0.5, layer=2",
        "shared_weights=False",
        CACHED,
        LOOPS_NORM,
    ),
    "WLConvContinuous": layer("WLConvContinuous", "", "xw"),
    "FiLMConv": layer("FiLMConv", "8, 8", "x", SUMS, "act=None"),
    "FiLMConv types": layer("FiLMConv", "8, 8, num_relations=3", "xt"),
    "SuperGATConv": layer("SuperGATConv", "8, 4, heads=2", "x", 'attention_type="SD"', LOOPS),
    "FAConv": layer("FAConv", "8", "x0", "eps=0.3", CACHED, LOOPS),
    "EGConv": layer(
        "EGConv",
        "8, 8, num_heads=2",
        "x",
        'aggregators=["mean", "max"] | aggregators=["sum", "std", "var", "min"]',
        CACHED,
        LOOPS,
    ),
    "PDNConv": layer("PDNConv", "8, 8, 4, 8", "xa", LOOPS_NORM, BIAS),
    "GeneralConv": layer(
        "GeneralConv",
        "8, 8",
        "x",
        SUMS,
        "skip_linear=True",
        "directed_msg=False",
        'heads=2 | heads=2, attention=True | attention=True, attention_type="dot_product"',
        "l2_normalize=True",
    ),
    "GeneralConv edges": layer("GeneralConv", "8, 8, in_edge_channels=4", "xa"),
    "HEATConv": layer("HEATConv", "8, 4, 2, 3, 4, 4, 4, heads=2", "heat", "root_weight=False"),
    "LGConv": layer("LGConv", "True", "xw"),
    "PointGNNConv": layer("PointGNNConv", f"{MLP(8, 3)}, {MLP(11, 8)}, {MLP(8, 8)}", "xp"),
    "GPSConv": layer("GPSConv", "8, SAGEConv(8, 8), heads=2", "x", "norm=None | norm='layer_norm'"),
    "GPSConv alone": layer("GPSConv", "8, None, heads=2", "x", "attn_type='performer'"),
    "AntiSymmetricConv": layer("AntiSymmetricConv", "8", "x", "SAGEConv(8, 8)", "num_iters=2"),
    "DirGNNConv": layer("DirGNNConv", "SAGEConv(8, 8)", "x", "alpha=0.2", "root_weight=False"),
    "DirGNNConv GCN": layer("DirGNNConv", "GCNConv(8, 8, add_self_loops=False)", "x"),
    "MixHopConv": layer("MixHopConv", "8, 4, [0, 1]", "xw", LOOPS, BIAS),
    "MixHopConv far": layer("MixHopConv", "8, 8, [2]", "xw"),
}

# A parameter of it is whatever the memory held.
EXPLICIT["RGATConv"] = replace(
    EXPLICIT["RGATConv"], init=EXPLICIT["RGATConv"].init + "\nnn.init.constant_(self.c{i}.l2, 0.1)"
)

EXCLUDED = {
    "MessagePassing": "the base class: `custom` has layers made of it",
    "CuGraphSAGEConv": "needs pylibcugraphops and a GPU",
    "CuGraphGATConv": "needs pylibcugraphops and a GPU",
    "CuGraphRGCNConv": "needs pylibcugraphops and a GPU",
    "FusedGATConv": "needs dgNN and a GPU",
    "GravNetConv": "builds its own graph with torch-cluster",
    "DynamicEdgeConv": "builds its own graph with torch-cluster",
    "XConv": "builds its own graph with torch-cluster",
    "SplineConv": "needs the kernels of torch-spline-conv",
    "PANConv": "returns a torch_sparse.SparseTensor beside its rows, and needs torch-sparse",
    "WLConv": "hashes labels: its result is an arbitrary numbering, not features",
    "HGTConv": "for several node types: see `typed`",
    "HANConv": "for several node types: see `typed`",
    "HeteroConv": "for several node types: see `typed`",
    "MeshCNNConv": "its nodes are edges of a mesh, each with exactly four neighbours",
}


def _generic() -> dict[str, Piece]:
    """Convolutions whose constructor and call ask for nothing but widths and edges."""
    widths = {"in_channels": "8", "out_channels": "8", "channels": "8"}
    named = {key.split()[0] for key in EXPLICIT} | set(EXCLUDED)
    found = {}
    for name in convolutions.__all__:
        kind = getattr(convolutions, name)
        made, called = (_required(call) for call in (kind.__init__, kind.forward))
        if name not in named and set(made) <= set(widths) and called == ["x", "edge_index"]:
            found[name] = layer(name, ", ".join(widths[key] for key in made), "x")
    return found


def _required(call: object) -> list[str]:
    empty, many = (
        inspect.Parameter.empty,
        (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD),
    )
    given = list(inspect.signature(call).parameters.values())[1:]
    return [p.name for p in given if p.default is empty and p.kind not in many]


GENERIC = _generic()


CUSTOM = {
    "own pair": Piece(
        "h = self.c{i}(h, edge_index)", "self.c{i} = PairConv({0})", (('"mean"', '"max"', '"add"'),)
    ),
    "own attention": layer("OwnAttention", "", "x"),
    "own attention back": layer("OwnAttention", BACK, "x"),
    "own out-degree": layer("OutDegreeConv", "", "x"),
    "own two hops": layer("TwoHopConv", "", "x"),
    "own two hops back": layer("TwoHopConv", "back=True", "x"),
    "own global max": layer("GlobalMaxConv", "", "x"),
    "own virtual node": layer("VirtualNodeConv", "", "x"),
    "own aggregate": layer("OwnAggregate", "", "w"),
    "own edge updater": layer("EdgeUpdater", "", "xa"),
    "own neighbour degree": layer("NeighbourDegree", "", "x"),
    "own loops": Piece(
        "h = self.c{i}(h, edge_index)",
        "self.c{i} = HandMade({0})",
        (('"mean"', '"amax"', '"index_add"', '"put"', '"amin"', '"sum"', '"prod"'),),
    ),
}

POPULAR = (
    *("GCNConv", "SAGEConv", "GATConv", "GATv2Conv", "GINConv", "GraphConv", "RGCNConv", "APPNP"),
    *("SGConv", "TAGConv", "GCN2Conv", "TransformerConv", "own pair"),
)
