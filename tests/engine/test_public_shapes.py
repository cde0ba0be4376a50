"""Sixty models of shapes that public repositories have: followed as the table says, and none is wrong."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import by_hand
from nora.engine.engine import Engine
from nora.engine.exec.kernels import vectorised
from nora.engine.unsupported import UnsupportedError
from nora.graph.edit_batch import EditBatch
from nora.model import build_problem
from nora.model.checks import check_model
from public_shapes import FAMILY, SHAPES, SparseTensor, asked_of, matmul

ROOT = Path(__file__).parents[2]
ROWS = json.loads((ROOT / "benchmarks" / "results" / "shapes.json").read_text("utf-8"))["rows"]
TABLE = {row["name"]: row for row in ROWS}
NODES, ASKED = 60, (0, 1, 7, 20, 41, 59)
# Where PyG's own transform computes in single precision.
SINGLE = ("Precomputed", "HalfPrecision")


def test_there_are_sixty_of_eight_families():
    assert len(SHAPES) == 60
    assert list(TABLE) == list(SHAPES)
    assert len(set(FAMILY.values())) == 8


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_followed_as_the_table_says_and_right(name):
    single = name in SINGLE
    model, data = asked_of(name, NODES, (6, 8, 3), torch.float if single else torch.double)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = check_model(build_problem(model, data))
    with problem.evaluating(), torch.no_grad():
        try:
            engine = Engine.prepare(problem, vectorised)
        except UnsupportedError:
            assert TABLE[name]["how"] == "brute"
            return
        found = engine.influences(EditBatch.remove_nodes(torch.tensor(ASKED)))
    assert TABLE[name]["how"] == "engine", "it is followed by now: run benchmarks/shapes.py"
    assert found.max() > 1e-6
    if problem.by_id:  # a removed node stays without its edges
        alone = [_isolated(model, data, node) for node in ASKED]
        truth = torch.tensor(alone, dtype=torch.double)
    else:
        truth = by_hand.influence(model, data, ASKED)
    tolerance = {"HalfPrecision": 1e-5, "Precomputed": 2e-4}.get(name, 1e-9)
    assert torch.allclose(found.double(), truth.double(), rtol=tolerance, atol=tolerance)


def _isolated(model, data, node):
    bare = data.clone()
    stay = (data.edge_index != node).all(dim=0)
    bare.edge_index = data.edge_index[:, stay]
    others = torch.arange(data.num_nodes) != node
    before, after = (by_hand.plain(model, graph).softmax(-1) for graph in (data, bare))
    return float((before - after)[others].abs().sum())


class WithoutSizes(torch.nn.Module):
    """A `SparseTensor` that takes its size from the largest id."""

    def forward(self, x, edge_index):
        return matmul(SparseTensor.from_edge_index(edge_index.flip(0)), x)


def test_a_sparse_tensor_without_sizes_has_its_own_remedy():
    ring = torch.arange(40)
    data = Data(x=torch.randn(40, 3), edge_index=torch.stack([ring, ring.roll(1)]))
    problem = build_problem(WithoutSizes(), data)
    with problem.evaluating(), pytest.raises(UnsupportedError, match=r"sparse_sizes=\(x.size\(0\)"):
        Engine.prepare(check_model(problem), vectorised)


def test_nine_in_ten_are_followed_and_who_is_not_says_why():
    assert sum(row["how"] == "engine" for row in ROWS) >= 54
    assert all(row["why"] for row in ROWS if row["how"] != "engine")
