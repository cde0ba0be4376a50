"""PyG's norms and aggregations, and torch's norms, as pieces of source code."""

from __future__ import annotations

from fuzz.layers import DEGREES, Piece, layer


def _aggregated(inside: str, call: str = "x") -> Piece:
    return layer("SAGEConv", f"8, 8, aggr={inside}", call)


AGGREGATIONS = {
    "aggr softmax": _aggregated("SoftmaxAggregation(learn=True)"),
    "aggr powermean": _aggregated("PowerMeanAggregation(learn=True)"),
    "aggr quantile": _aggregated("QuantileAggregation(0.3)"),
    "aggr median": _aggregated("MedianAggregation()"),
    "aggr LSTM": _aggregated("LSTMAggregation(8, 8)", "sorted"),
    "aggr GRU": _aggregated("GRUAggregation(8, 8)", "sorted"),
    "aggr attentional": _aggregated("AttentionalAggregation(nn.Linear(8, 1))"),
    "aggr deep sets": _aggregated("DeepSetsAggregation(nn.Linear(8, 8), nn.Linear(8, 8))"),
    "aggr variance": _aggregated("VariancePreservingAggregation()"),
    "aggr set transformer": _aggregated("SetTransformerAggregation(8, heads=2)", "sorted"),
    "aggr degree scaler": _aggregated(f'DegreeScalerAggregation(["mean"], ["linear"], {DEGREES})'),
    "aggr LCM": _aggregated("LCMAggregation(8, 8)", "sorted"),
    "aggr several": _aggregated('MultiAggregation(["mean", "std", "median"], mode="cat")'),
}


def _norm(made: str, *slots: tuple[str, ...], row: bool = False) -> Piece:
    return Piece("h = self.n{i}(h)", f"self.n{{i}} = {made}", slots, row=row)


NORMS = {
    "BatchNorm": _norm("BatchNorm(8{0})", ("", ", allow_single_element=True"), row=True),
    "nn.BatchNorm1d": _norm("nn.BatchNorm1d(8{0})", ("", ", affine=False"), row=True),
    "batch statistics": _norm("nn.BatchNorm1d(8, track_running_stats=False)"),
    "LayerNorm": _norm('LayerNorm(8, mode="node")', row=True),
    "LayerNorm graph": _norm('LayerNorm(8, mode="graph")'),
    "nn.LayerNorm": _norm("nn.LayerNorm(8)", row=True),
    "nn.GroupNorm": _norm("nn.GroupNorm(2, 8)", row=True),
    "nn.RMSNorm": _norm("nn.RMSNorm(8)", row=True),
    "GraphNorm": _norm("GraphNorm(8)"),
    "GraphSizeNorm": _norm("GraphSizeNorm()"),
    "PairNorm": _norm("PairNorm({0})", ("", "scale_individually=True")),
    "InstanceNorm": _norm("InstanceNorm(8{0})", ("", ", affine=True")),
    "InstanceNorm running": _norm("InstanceNorm(8, track_running_stats=True)", row=True),
    "MeanSubtractionNorm": _norm("MeanSubtractionNorm()"),
    "DiffGroupNorm": _norm("DiffGroupNorm(8, 3)", row=True),
    "MessageNorm": Piece("h = self.n{i}(h, h0)", "self.n{i} = MessageNorm(True)", row=True),
}
