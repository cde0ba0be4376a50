"""Which of PyG's layers does `exact` follow, and how?

Every class of `torch_geometric.nn.conv`, `.norm` and `.aggr` (their `__all__`, so that none is forgotten)
is put into a model of two such layers with a tanh between them. On a graph of followers and on a random
one, every node is removed once by the engine and once by a full pass, and all predictions are compared.

    python benchmarks/pyg_coverage.py                    # all, a few minutes; writes the table
    python benchmarks/pyg_coverage.py GATConv PairNorm   # some, printed only
    python benchmarks/pyg_coverage.py --page             # only the page, from what was measured

Writes `docs/coverage.md` and `benchmarks/results/pyg_coverage.json`, and fails if anything that is supported
differs from the full pass by more than rounding.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import aggr as aggregations
from torch_geometric.nn import conv as convolutions
from torch_geometric.nn import norm as norms
from torch_geometric.utils import add_remaining_self_loops, sort_edge_index

from nora.engine.engine import Engine
from nora.engine.exec.kernels import vectorised
from nora.engine.ir.op import EVERYWHERE
from nora.engine.unsupported import UnsupportedError
from nora.model import Problem, build_problem
from nora.model.checks import check_model
from nora.model.tasks.node_classification import NodeClassification

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from fuzz.grammar import settle  # noqa: E402
from fuzz.layers import DEGREES, EXCLUDED, EXPLICIT, GENERIC, Piece  # noqa: E402
from fuzz.norms import NORMS  # noqa: E402
from public_shapes import SHAPES as PUBLIC_SHAPES  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "pyg_coverage.json"
SHAPES = ROOT / "benchmarks" / "results" / "shapes.json"
PAGE = ROOT / "docs" / "coverage.md"
# Largest difference of two probabilities that rounding explains.
ROUNDING = 1e-9
LEAVES, CORE = 40, 12
PACKAGES = {"Convolutions": convolutions, "Norms": norms, "Aggregations": aggregations}
NAMES = {**vars(pyg), "torch": torch, "nn": nn, "F": F}

BASES = {
    "MessagePassing": "the base class of all others",
    "Aggregation": "the base class of all others",
}
LEFT_OUT = {**EXCLUDED, **BASES}

MORE_NORMS = {
    "HeteroBatchNorm": Piece("h = self.n{i}(h, node_type)", "self.n{i} = HeteroBatchNorm(8, 2)"),
    "HeteroLayerNorm": Piece("h = self.n{i}(h, node_type)", "self.n{i} = HeteroLayerNorm(8, 2)"),
}

# What each makes of the rows that edges lead to a node, and how wide the result is.
AGGREGATIONS = {
    "MultiAggregation": ('MultiAggregation(["mean", "std", "max"])', 24),
    "SumAggregation": ("SumAggregation()", 8),
    "MeanAggregation": ("MeanAggregation()", 8),
    "MaxAggregation": ("MaxAggregation()", 8),
    "MinAggregation": ("MinAggregation()", 8),
    "MulAggregation": ("MulAggregation()", 8),
    "VarAggregation": ("VarAggregation()", 8),
    "StdAggregation": ("StdAggregation()", 8),
    "SoftmaxAggregation": ("SoftmaxAggregation(learn=True)", 8),
    "PowerMeanAggregation": ("PowerMeanAggregation(learn=True)", 8),
    "MedianAggregation": ("MedianAggregation()", 8),
    "QuantileAggregation": ("QuantileAggregation([0.3, 0.6])", 16),
    "LSTMAggregation": ("LSTMAggregation(8, 8)", 8),
    "GRUAggregation": ("GRUAggregation(8, 8)", 8),
    "Set2Set": ("Set2Set(8, 2)", 16),
    "DegreeScalerAggregation": (
        f'DegreeScalerAggregation(["mean", "max"], ["linear", "attenuation"], {DEGREES})',
        32,
    ),
    "SortAggregation": ("SortAggregation(3)", 24),
    "GraphMultisetTransformer": ("GraphMultisetTransformer(8, 2, heads=2)", 8),
    "AttentionalAggregation": ("AttentionalAggregation(nn.Linear(8, 1))", 8),
    "EquilibriumAggregation": ("EquilibriumAggregation(8, 8, [8])", 8),
    "MLPAggregation": (f"MLPAggregation(8, 8, {LEAVES + 8}, num_layers=1)", 8),
    "DeepSetsAggregation": ("DeepSetsAggregation(nn.Linear(8, 8), nn.Linear(8, 8))", 8),
    "SetTransformerAggregation": ("SetTransformerAggregation(8, heads=2)", 8),
    "LCMAggregation": ("LCMAggregation(8, 8)", 8),
    "VariancePreservingAggregation": ("VariancePreservingAggregation()", 8),
    "PatchTransformerAggregation": ("PatchTransformerAggregation(8, 8, 2, 8)", 8),
}

# PyG's own code fails if the last node has no neighbour: give every node a self-loop.
LOOPS = ("MedianAggregation", "QuantileAggregation")

TYPED = {
    "HeteroConv": "HeteroConv({kind: SAGEConv((8, 8), 8) for kind in metadata[1]})",
    "HGTConv": "HGTConv(8, 8, metadata, heads=2)",
    "HANConv": "HANConv(8, 8, metadata, heads=2)",
}

KINDS = {
    "rule": "by its rule",
    "tape": "operation by operation",
    "whole": "in part on all rows",
    "falls back": "not supported",
    "left out": "not tried",
    "fails": "fails",
}


@dataclass
class Row:
    """What became of one layer.

    Attributes:
        package: Where it is from.
        name: The class.
        tried: How it was made.
        kind: A key of `KINDS`.
        why: Why it falls back or was not tried.
        changes: Whose predictions a removal can change: `none`, `nearby` or `all`.
        difference: Largest difference of a prediction to a full pass, over all removals.
        removals: How many there were.
        seconds: Time for preparing and for all comparisons.
    """

    package: str
    name: str
    tried: str = ""
    kind: str = ""
    why: str = ""
    changes: str = ""
    difference: float | None = None
    removals: int = 0
    seconds: float = 0.0


def recipes(package: str, name: str) -> list[Piece]:
    """How a class is put into a model; several where it has several forms."""
    if package == "Convolutions":
        named = {**GENERIC, **EXPLICIT}
        return [piece for key, piece in named.items() if key.split()[0] == name]
    if package == "Norms":
        named = {**NORMS, **MORE_NORMS}
        found = [piece for key, piece in named.items() if key.split()[0] == name]
        # A norm has no edges of its own: let it follow a mean over neighbours.
        heard, made = "h = self.m{i}(h, edge_index)", 'self.m{i} = SimpleConv("mean", "sum")'
        return [replace(p, lines=f"{heard}\n{p.lines}", init=f"{p.init}\n{made}") for p in found]
    if name not in AGGREGATIONS:
        return []
    made, width = AGGREGATIONS[name]
    given = "h[edge_index[0]], edge_index[1], dim_size=h.size(0), dim=0"
    line = f"h = self.l{{i}}(self.a{{i}}({given})) + h"
    return [Piece(line, f"self.a{{i}} = {made}\nself.l{{i}} = nn.Linear({width}, 8)")]


def model_of(piece: Piece) -> nn.Module:
    """Two layers with a tanh between them."""
    plain = [slot[0] for slot in piece.slots]
    init, body = [], ["h = h0 = x"]
    for i in (0, 1):
        init += piece.init.format(*plain, i=i).splitlines()
        body += [*piece.lines.format(*plain, i=i).splitlines(), "h = h.tanh()"]
    text = "\n".join(
        [
            "class Model(nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            *(f"        {line}" for line in init),
            "    def forward(self, x, edge_index, edge_weight, edge_attr, edge_type, node_type, pos,",
            "                edge_index2):",
            *(f"        {line}" for line in body[:-1]),
            "        return h",
        ]
    )
    names = dict(NAMES, __name__="coverage")
    exec(compile(text, "<model>", "exec"), names)
    torch.manual_seed(1)
    return settle(names["Model"](), 1).eval()


def graphs(ordered: bool = False, loops: bool = False) -> Iterator[Data]:
    """Accounts that follow a hub beside a small core, and a random graph.

    Args:
        ordered: Sort edges by where they lead, which some aggregations ask for.
        loops: Let every node hear itself.
    """
    torch.manual_seed(0)
    star = torch.stack([torch.arange(1, LEAVES + 1), torch.zeros(LEAVES, dtype=torch.long)])
    core = torch.randint(CORE, (2, 41)) + 1 + LEAVES
    for n, edges in (
        (1 + LEAVES + CORE, torch.cat([star, core], dim=1)),
        (30, torch.randint(30, (2, 101))),
    ):
        if loops:
            edges, _ = add_remaining_self_loops(edges, num_nodes=n)
        if ordered:
            edges = sort_edge_index(edges, num_nodes=n, sort_by_row=False)
        yield _data(n, edges)


def _data(n: int, edges: Tensor) -> Data:
    m = edges.size(1)
    return Data(
        x=torch.randn(n, 8),
        edge_index=edges,
        edge_weight=torch.rand(m) + 0.2,
        edge_attr=torch.rand(m, 4),
        edge_type=torch.randint(3, (m,)),
        node_type=torch.randint(2, (n,)),
        pos=torch.randn(n, 3),
        edge_index2=torch.randint(n, (2, n + 7)),
    )


def call(model: nn.Module, data: Data) -> Tensor:
    """The model with everything the graph has."""
    return model(
        data.x, data.edge_index, data.edge_weight, data.edge_attr, data.edge_type, data.node_type,
        data.pos, data.edge_index2,
    )  # fmt: skip


class Typed(nn.Module):
    """Two layers over several node types."""

    def __init__(self, made: str, metadata: Any) -> None:
        super().__init__()
        self.a, self.b = (eval(made, {**NAMES, "metadata": metadata}) for _ in range(2))

    def forward(self, x_dict: dict, edge_index_dict: dict) -> dict[str, Tensor]:
        h = self.a(x_dict, edge_index_dict)
        return self.b({kind: rows.tanh() for kind, rows in h.items()}, edge_index_dict)


def typed_graph() -> HeteroData:
    """Authors and their papers."""
    torch.manual_seed(0)
    data = HeteroData()
    data["author"].x, data["paper"].x = torch.randn(14, 8), torch.randn(20, 8)
    written = torch.stack([torch.randint(14, (45,)), torch.randint(20, (45,))])
    data["author", "writes", "paper"].edge_index = written
    data["paper", "written_by", "author"].edge_index = written.flip(0)
    data["paper", "cites", "paper"].edge_index = torch.randint(20, (2, 31))
    return data


def problems(package: str, name: str) -> Iterator[tuple[str, list[Callable[[], Problem]]]]:
    """For every form of a class: how it was made, and questions about it."""
    if name in TYPED:
        data = typed_graph()
        torch.manual_seed(1)
        model = settle(Typed(TYPED[name], data.metadata()), 1).eval()
        yield (
            TYPED[name],
            [lambda: build_problem(model, data, NodeClassification(node_type="paper"))],
        )
        return
    for piece in recipes(package, name):
        plain = [slot[0] for slot in piece.slots]
        made = piece.init.format(*plain, i=0).splitlines()[0].partition(" = ")[2]
        yield (
            made,
            [
                lambda piece=piece, data=data: build_problem(model_of(piece), data, forward=call)
                for data in graphs(package == "Aggregations", name in LOOPS)
            ],
        )


def tried(row: Row, asked: list[Callable[[], Problem]]) -> Row:
    """Ask all questions about one layer."""
    start = time.perf_counter()
    try:
        for question in asked:
            problem = check_model(question())
            with problem.evaluating(), torch.no_grad():
                engine = Engine.prepare(problem, vectorised)
                kind, row.changes = described(engine)
                row.kind = max(kind, row.kind or kind, key=KEYS.index)
                for node in torch.arange(problem.num_nodes).split(1):
                    truth, left = problem.predict_without(node)
                    off = (engine.effect(node)[left] - truth).abs().nan_to_num(torch.inf)
                    row.difference = max(row.difference or 0.0, float(off.max()))
                    row.removals += 1
    except UnsupportedError as reason:
        row.kind, row.why = "falls back", _without_lines(str(reason))
    except Exception as error:
        row.kind, row.why = "fails", f"{type(error).__name__}: {error}".splitlines()[0]
    if row.why:
        row.changes, row.difference = "", None
    row.seconds = round(time.perf_counter() - start, 2)
    return row


KEYS = list(KINDS)


def described(engine: Engine) -> tuple[str, str]:
    """How an engine follows its model, and whose predictions change."""
    steps = {type(step).__name__ for step in engine.program.ops}
    kind = "tape"
    if "WholeOp" in steps:
        kind = "whole"
    elif steps & {"Propagate", "Attend", "Blend"}:
        kind = "rule"
    depth = engine.program.output.depth
    return kind, "all" if depth >= EVERYWHERE else "nearby" if depth >= 0 else "none"


def _without_lines(text: str) -> str:
    """A reason without the lines it names, which are this file's."""
    return re.sub(r",? at \S+:\d+ \(\w+\)", "", text)


def all_rows(only: list[str]) -> Iterator[Row]:
    """Every class of the packages, in their order."""
    for package, module in PACKAGES.items():
        for name in module.__all__:
            if only and name not in only:
                continue
            asked = list(problems(package, name))
            if not asked:
                why = LEFT_OUT.get(name)
                if why is None:
                    raise SystemExit(f"no recipe for {name}: add one, or a reason to LEFT_OUT")
                yield Row(package, name, kind="left out", why=why)
            for made, questions in asked:
                yield tried(Row(package, name, made), questions)


def page(rows: list[Row]) -> str:
    """The table as a page."""
    counts = {kind: sum(row.kind == kind for row in rows) for kind in KINDS}
    done = [row for row in rows if row.difference is not None]
    worst = max(row.difference or 0.0 for row in done)
    count = sum(row.removals for row in done)
    opening = f"""Every class of `torch_geometric.nn.conv`, `.norm` and `.aggr` (PyG
        {torch_geometric.__version__}) in a model of two such layers with a tanh between them, on a
        graph of followers and on a random one, in float64. Norms follow a mean over neighbours;
        aggregations reduce messages at their targets. Every node is removed once by the engine and once by
        a full pass. Over {count:,} removals, the largest difference of a prediction is {worst:.0e}.
        `python benchmarks/pyg_coverage.py` writes this page;
        [pyg_coverage.json](../benchmarks/results/pyg_coverage.json) has the difference of each layer."""
    lines = [
        "<!-- Generated by benchmarks/pyg_coverage.py: do not edit, run it again. -->",
        "",
        "# PyG's layers, one by one",
        "",
        *textwrap.wrap(" ".join(opening.split()), 110, break_on_hyphens=False),
        "",
        "| how | forms | |",
        "|---|---|---|",
        f"| {KINDS['rule']} | {counts['rule']} | by a lowering of the convolution: fastest |",
        f"| {KINDS['tape']} | {counts['tape']} | by its traced operations; computes only rows that change |",
        f"| {KINDS['whole']} | {counts['whole']} | at least one operation mixes all rows and is "
        "computed again for every removal |",
        f"| {KINDS['falls back']} | {counts['falls back']} | one full pass per removal, with a warning that "
        "gives the reason |",
        f"| {KINDS['left out']} | {counts['left out']} | not a layer for nodes, or packages are missing |",
        "",
        "*Changes* lists whose predictions a removal can change: of no node, of nearby nodes or of all.",
        "[The exact engine](exact.md) explains the words.",
    ]
    for package in PACKAGES:
        own = [row for row in rows if row.package == package]
        lines += ["", f"## {package}", "", "| how | changes | layers, as tried |", "|---|---|---|"]
        for kind, changes in dict.fromkeys((row.kind, row.changes) for row in own if row.changes):
            same = (row for row in own if (row.kind, row.changes) == (kind, changes))
            tried_as = ", ".join(f"`{row.tried}`".replace("|", "\\|") for row in same)
            lines.append(f"| {KINDS[kind]} | {changes} | {tried_as} |")
        reasons: dict[tuple[str, str], list[str]] = {}
        for row in (row for row in own if not row.changes):
            reasons.setdefault((row.kind, row.why), []).append(f"`{row.tried or row.name}`")
        if reasons:
            lines += ["", "| layers | why not |", "|---|---|"]
            for (kind, why), layers in reasons.items():
                lines.append(f"| {', '.join(layers)} | {KINDS[kind]}: {why} |")
    return "\n".join([*lines, *shapes()]) + "\n"


def shapes() -> list[str]:
    """The table of `benchmarks/shapes.py`, from its results."""
    found = json.loads(SHAPES.read_text("utf-8"))["rows"]
    followed = sum(row["how"] == "engine" for row in found)
    opening = f"""Sixty models in the shapes that public repositories have, in our own words
        (`tests/public_shapes`); {followed} of them are followed. *Times faster* compares a removal with
        a full pass, in CPU seconds on a graph of 20,000 nodes with hubs. *Reached* is the share of all nodes
        whose predictions one removal changes there: the more, the less there is to gain. *All rows* counts
        the operations that are computed again on all rows for every removal.
        `python benchmarks/shapes.py` measures again."""
    lines = [
        "", "## Shapes of public models", "",
        *textwrap.wrap(" ".join(opening.split()), 110, break_on_hyphens=False),
        "", "| family | shape | how | all rows | reached | times faster |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in found:
        how = "engine" if row["how"] == "engine" else f"one full pass per removal: {row['why']}"
        about = (PUBLIC_SHAPES[row["name"]].__doc__ or "").partition("\n")[0].rstrip(".")
        reached = "" if row.get("reached") is None else f"{row['reached']:.2%}"
        faster = "" if row["ratio"] is None else row["ratio"]
        lines.append(
            f"| {row['family']} | `{row['name']}`: {about} | {how} | {row['everything']} | {reached} | "
            f"{faster} |"
        )
    return lines


def main() -> None:
    """Ask, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("only", nargs="*", help="classes; all without")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    options = parser.parse_args()
    only = options.only
    if options.page:
        rows = [Row(**row) for row in json.loads(RESULTS.read_text("utf-8"))["rows"]]
        PAGE.write_text(page(rows), encoding="utf-8")
        return
    torch.set_default_dtype(torch.float64)
    warnings.simplefilter("ignore")
    rows = []
    for row in all_rows(only):
        rows.append(row)
        off = "" if row.difference is None else f"{row.difference:.0e}"
        print(f"{row.name:30} {row.kind:10} {off:6} {row.seconds:5.1f} s  {row.why}", flush=True)
    if not only:
        facts = {
            "command": "python benchmarks/pyg_coverage.py",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "torch_geometric": torch_geometric.__version__,
            "rows": [asdict(row) for row in rows],
        }
        RESULTS.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page(rows), encoding="utf-8")
    wrong = [row.name for row in rows if row.difference is not None and row.difference > ROUNDING]
    wrong += [row.name for row in rows if row.kind == "fails"]
    if wrong:
        raise SystemExit(f"wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
