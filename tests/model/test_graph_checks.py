"""What a graph must be, so that a model can be asked about it, beside `test_problem` and `test_hetero`."""

from __future__ import annotations

import pytest
import torch

import nora
from graphs import two_camps
from hetero_graphs import library, network
from networks import network as plain


def test_weights_that_are_not_one_per_edge_are_refused_in_any_graph() -> None:
    data = two_camps()
    data.edge_weight = torch.ones(3)
    with pytest.raises(ValueError, match=r"data\.edge_weight must be a tensor.*\[3\]"):
        nora.Session(plain(), data)
    typed = library()
    key = typed.edge_types[0]
    typed[key].edge_weight = torch.ones(typed[key].num_edges + 1)
    with pytest.raises(ValueError, match=r"\]\.edge_weight must be a tensor.*weight"):
        nora.Session(network(), typed, nora.NodeClassification(node_type="paper"))
