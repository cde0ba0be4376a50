"""The smallest removal that flips a prediction, beside trying every set by full passes."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph

import nora
from graphs import GRAPHS, barabasi, double, some_pairs, two_camps
from hetero_graphs import library
from hetero_graphs import network as hetero_network
from networks import Centred, network
from nora.graph.edge_lookup import EdgeLookup


@torch.no_grad()
def predicted(model: torch.nn.Module, data: Data, node: int, edits: nora.Edits) -> int:
    """The node's class on the edited graph."""
    left = edits.apply(data)
    gone = sum(1 for other in (edits.remove or ()) if other < node)
    return int(model(left.x, left.edge_index)[node - gone].argmax())


def smallest(model: torch.nn.Module, data: Data, node: int, by: str, most: int, to=None) -> int:
    """The size of the smallest set that does it, by trying all; 0 for none."""
    now = predicted(model, data, node, nora.Edits())
    things = (
        [other for other in range(data.num_nodes) if other != node]
        if by == "nodes"
        else [tuple(pair) for pair in EdgeLookup(data).every()[None].t().tolist()]
    )
    for size in range(1, most + 1):
        for some in combinations(things, size):
            edits = nora.Edits(**{"remove" if by == "nodes" else "remove_edges": list(some)})
            found = predicted(model, data, node, edits)
            if found == to or (to is None and found != now):
                return size
    return 0


def random_graph(seed: int, nodes: int = 7) -> Data:
    torch.manual_seed(seed)
    edges = erdos_renyi_graph(nodes, 0.3, directed=seed % 2 == 1)
    return Data(x=torch.randn(nodes, 3).double(), edge_index=edges)


@pytest.mark.parametrize("by", ["nodes", "edges"])
@pytest.mark.parametrize("seed", [0, 2])
def test_no_smaller_set_does_it(by: str, seed: int) -> None:
    data, sizes = random_graph(seed), set()
    model = network("sage" if seed == 2 else "gcn", seed=seed)
    session = nora.Session(model, data)
    for node in range(data.num_nodes):
        found = session.flip(node, by=by, at_most=3, progress=False)
        truth = smallest(model, data, node, by, 2)
        assert found.size == truth or (truth == 0 and found.size in (0, 3))
        if found.size:
            assert predicted(model, data, node, found.edits) == found.to_class != found.from_class
            assert found.smallest
        sizes.add(found.size)
    assert len(sizes) > 1  # else this would test little


@pytest.mark.parametrize("by", ["nodes", "edges"])
def test_a_class_may_be_wanted(by: str) -> None:
    data, model = random_graph(2), network(seed=2)
    session = nora.Session(model, data, class_names=["a", "b", "c"])
    reached = 0
    for node in range(data.num_nodes):
        now = predicted(model, data, node, nora.Edits())
        for to in {0, 1, 2} - {now}:
            found = session.flip(node, "abc"[to], by=by, at_most=2, progress=False)
            assert found.size == smallest(model, data, node, by, 2, to)
            if found.size:
                reached += 1
                assert found.to_class == found.to == to
                assert found.class_name(to) == "abc"[to]
    assert reached


@pytest.mark.parametrize("by", ["nodes", "edges"])
def test_only_what_is_within_reach_is_tried_and_it_is_enough(by: str) -> None:
    torch.manual_seed(1)
    edges = barabasi(60, 1)
    data = Data(x=torch.randn(60, 3).double(), edge_index=edges)
    smaller = 0
    for name in ("gcn", "gat"):
        model = network(name, seed=5)
        session = nora.Session(model, data)
        for node in (7, 40, 52):
            found = session.flip(node, by=by, at_most=1, progress=False)
            assert found.size == smallest(model, data, node, by, 1)
            smaller += found.candidates < 59  # of other nodes, and of edges of this tree
    assert smaller


def test_the_proof_says_what_was_tried() -> None:
    data, model = double(two_camps()), network(seed=3)
    session = nora.Session(model, data)
    reply = {node: session.flip(node, by="edges", at_most=2, progress=False) for node in range(8)}
    for found in reply.values():
        every = found.candidates * (found.candidates - 1) // 2
        if found.size == 1:
            assert found.proof.startswith(f"Tried: all {found.candidates} single edges. ")
            assert f" {found.singles} edge" in found.proof
        elif found.size == 2:
            assert found.pairs[0] == found.pairs[1] == every
            assert f"all {found.candidates} single edges, all {every} pairs" in found.proof
            assert f"No single edge flips the prediction; {found.pairs[2]} pair" in found.proof
        else:
            assert f"all {found.candidates} single edges, all {every} pairs" in found.proof
            assert found.proof.endswith("None of them flips the prediction.")
            assert (found.size, found.removed, found.smallest) == (0, (), False)
            assert not found.edits


def test_where_pairs_are_too_many_the_most_likely_are_tried() -> None:
    data, model = random_graph(0), network(seed=0)
    session = nora.Session(model, data)
    for node in range(7):
        whole = session.flip(node, by="edges", at_most=2, progress=False)
        some = session.flip(node, by="edges", at_most=2, pairs=6, progress=False)
        if whole.size == 0 and whole.pairs[0] > 6:
            assert some.size == 0
            assert some.pairs[1] <= 6
            assert f"the {some.pairs[1]} most promising of" in some.proof
            assert some.at_least == 2
            return
    pytest.fail("no node of this graph asks for pairs")


def test_larger_sets_are_found_and_shrunk() -> None:
    # Every leaf says the same to the middle, whose own word counts little.
    class Vote(torch.nn.Module):
        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return x.index_add(0, edge_index[1], x[edge_index[0]])

    leaves = torch.arange(1, 8)
    edges = torch.stack([leaves, torch.zeros_like(leaves)])
    x = torch.zeros(8, 2).double()
    x[1:, 1], x[0, 0] = 1.0, 3.5
    data = Data(x=x, edge_index=edges)
    found = nora.flip(Vote(), data, 0, by="edges", at_most=5, progress=False)
    assert (found.size, found.from_class, found.to_class) == (4, 1, 0)
    assert not found.smallest
    assert found.at_least == 3
    assert found.proof.endswith("The smallest set has at least 3.")
    assert nora.flip(Vote(), data, 0, by="edges", at_most=3, progress=False).size == 0
    x[0, 0] = 4.5
    found = nora.flip(Vote(), data, 0, by="nodes", at_most=5, progress=False)
    assert (found.size, found.smallest) == (3, True)
    assert len(found.to_frame()) == 3


@pytest.mark.parametrize("by", ["nodes", "edges"])
def test_types(by: str) -> None:
    data, model = library(edges=10), hetero_network()
    task = nora.NodeClassification(node_type="paper")
    session = nora.Session(model, data, task)
    flipped = 0
    for node in range(7):
        found = session.flip(("paper", node), by=by, at_most=2, progress=False)
        if not found.size:
            continue
        flipped += 1
        left = found.edits.apply(data)
        gone = 0
        if by == "nodes":
            gone = sum(kind == "paper" and other < node for kind, other in found.removed)
        with torch.no_grad():
            rows = model(left.x_dict, left.edge_index_dict)["paper"]
        assert int(rows[node - gone].argmax()) == found.to_class != found.from_class
        assert len(found.to_frame()) == found.size
        assert found.to_dict()["edits"] == found.edits.to_dict()
    assert flipped


def test_names_and_models_that_cannot_be_followed() -> None:
    data = double(GRAPHS["bridge"]())
    names = [f"n{node}" for node in range(7)]
    with pytest.warns(RuntimeWarning, match="falls back"):
        session = nora.Session(Centred(), data, names=names)
        found = session.flip("n3", by="edges", at_most=1, progress=False)
    assert found.candidates == 8
    assert found.size == smallest(Centred(), data, 3, "edges", 1)


def test_a_node_on_its_own_cannot_be_flipped() -> None:
    data = random_graph(0, nodes=40)
    data.x = torch.randn(40, 3).double()
    at_five = (data.edge_index == 5).any(dim=0)
    data.edge_index = data.edge_index[:, ~at_five]
    found = nora.flip(network(), data, 5, by="edges", progress=False)
    assert (found.size, found.proof) == (0, "No other edge can change this prediction.")


def test_what_is_found_is_written_as_edits(tmp_path) -> None:
    torch.manual_seed(0)
    data = random_graph(3)
    model = pyg.GraphSAGE(3, 8, 2, 3).double()
    for node in range(7):
        found = nora.flip(model, data, node, progress=False)
        if found.size:
            back = nora.Edits.load(found.save(tmp_path / "edits.json"))
            assert list(back.remove) == list(found.removed)
            return
    pytest.fail("nothing flips")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"by": "links"}, "it must be 'nodes' or 'edges'"),
        ({"at_most": 0}, "at_most must be at least 1"),
        ({"pairs": -1}, "pairs must not be negative"),
        ({"node": [1, 2]}, "got 2 nodes"),
        ({"node": 9}, "node 9 is out of range"),
        ({"to": 7}, r"'7' is not a class of this model\..*0 … 2"),
        ({"task": nora.NodeRegression()}, "this task predicts values"),
        ({"task": nora.LinkPrediction(some_pairs(two_camps()))}, "this task predicts links"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nora.flip(network(), double(two_camps()), **{"node": 1, "progress": False, **asked})


def test_a_class_that_is_predicted_already_is_refused() -> None:
    data, model = double(two_camps()), network()
    now = predicted(model, data, 1, nora.Edits())
    with pytest.raises(ValueError, match=r"already predicted as class \d.*to="):
        nora.flip(model, data, 1, now, progress=False)
