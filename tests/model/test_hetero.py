"""Graphs with node and edge types, from the question to the result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv

import nora
from graphs import star
from hetero_graphs import Mixed, library, network
from networks import network as plain
from nora.graph.node_index import NodeIndex, node_index_of
from nora.graph.removal import remove_nodes
from nora.model.fingerprint import graph_fingerprint

PAPERS = nora.NodeClassification(node_type="paper")
KINDS = ("author", "paper", "venue")


def links(seed: int = 0) -> nora.LinkPrediction:
    random = torch.Generator().manual_seed(seed)
    ends = [torch.randint(count, (9,), generator=random) for count in (5, 7)]
    return nora.LinkPrediction(torch.stack(ends), node_types=("author", "paper"))


def by_hand(model: torch.nn.Module, data: HeteroData, kind: str, node: int) -> HeteroData:
    """`data` without one node, edge by edge."""
    less = HeteroData()
    for name in data.node_types:
        left = [n for n in range(data[name].num_nodes) if (name, n) != (kind, node)]
        less[name].x = data[name].x[left]
    for edge_type in data.edge_types:
        ends = []
        for source, target in data[edge_type].edge_index.t().tolist():
            if (edge_type[0], source) == (kind, node) or (edge_type[2], target) == (kind, node):
                continue
            source -= edge_type[0] == kind and source > node
            target -= edge_type[2] == kind and target > node
            ends.append((source, target))
        index = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t()
        less[edge_type].edge_index = index
    return less


@pytest.mark.parametrize("kind", KINDS)
def test_removal_is_what_taking_a_node_out_by_hand_gives(kind: str) -> None:
    data = library()
    line = node_index_of(data)
    for node in range(data[kind].num_nodes):
        expected = by_hand(network(), data, kind, node)
        found = remove_nodes(data, line.ids((kind, node)))
        for name in KINDS:
            assert torch.equal(found[name].x, expected[name].x)
            assert found[name].num_nodes == expected[name].num_nodes
        for edge_type in data.edge_types:
            assert torch.equal(found[edge_type].edge_index, expected[edge_type].edge_index)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["mixed", "to_hetero", "hgt"])
def test_brute_sums_the_change_of_the_other_papers(name: str, kind: str) -> None:
    model, data = network(name).eval(), library()
    scores = nora.influence(model, data, "brute", PAPERS, nodes=kind, progress=False)

    def papers(graph: HeteroData) -> torch.Tensor:
        found = model(graph.x_dict, graph.edge_index_dict)
        return (found["paper"] if isinstance(found, dict) else found).softmax(dim=-1)

    with torch.no_grad():
        before = papers(data)
        for node in range(data[kind].num_nodes):
            left = [n for n in range(7) if (kind, n) != ("paper", node)]
            after = papers(by_hand(model, data, kind, node))
            expected = float((before[left] - after).abs().sum())
            assert scores[kind, node] == pytest.approx(expected, abs=1e-12)
    others = [other for other in KINDS if other != kind]
    assert all(scores.of(other).scores.isnan().all() for other in others)


@pytest.mark.parametrize("method", ["degree", "pagerank", "nora", "nora-t2", "mask", "cauchy"])
def test_every_kind_of_node_is_scored(method: str) -> None:
    scores = nora.influence(network(), library(), method, PAPERS, progress=False)
    assert len(scores) == 14
    assert not scores.scores.isnan().any()
    assert scores.of("venue").scores.shape == (2,)


def test_nora_looks_into_a_transformer_over_types() -> None:
    scores = nora.influence(network("hgt"), library(), "nora", PAPERS, progress=False)
    assert float(scores.of("author").scores.max()) > 0


def test_mask_says_what_it_cannot_mask() -> None:
    with pytest.raises(ValueError, match="the source nodes of HGTConv"):
        nora.influence(network("hgt"), library(), "mask", PAPERS, progress=False)


@pytest.mark.parametrize("method", ["predict-n", "predict-e"])
def test_trained_baselines_give_every_type_columns_of_its_own(method: str) -> None:
    model, data = network(), library((12, 20, 4), edges=40)
    truth = nora.influence(model, data, "exact", PAPERS, progress=False)
    scores = nora.influence(model, data, method, PAPERS, labels=truth, epochs=3, progress=False)
    assert not scores.scores.isnan().any()


def test_degree_counts_the_edges_of_all_types_once_without_self_loops() -> None:
    data = library()
    scores = nora.influence(network(), data, "degree", PAPERS, progress=False)
    touching = set()
    for first, _, last in data.edge_types:
        for edge in data[first, _, last].edge_index.t().tolist():
            ends = ((first, edge[0]), (last, edge[1]))
            if ("paper", 3) in ends and ends[0] != ends[1]:
                touching.add(ends)
    assert scores["paper", 3] == len(touching)


def test_links_between_types_are_predicted_from_both() -> None:
    model, data, task = network(), library(), links()
    exact = nora.influence(model, data, "exact", task, progress=False)
    brute = nora.influence(model, data, "brute", task, progress=False)
    assert torch.allclose(exact.scores, brute.scores, atol=1e-12)
    effect = nora.what_if(model, data, ("author", 2), task)
    assert effect.total == pytest.approx(brute["author", 2])
    frame = effect.to_frame()
    assert set(frame["source_type"]) == {"author"}
    assert set(frame["target_type"]) == {"paper"}
    assert 2 not in frame["source"].tolist()
    given = set(map(tuple, task.pairs.t().tolist()))
    assert set(zip(frame["source"], frame["target"], strict=True)) <= given


class TestAsking:
    def test_a_node_is_named_with_its_type(self) -> None:
        effect = nora.what_if(network(), library(), ("author", 1), PAPERS)
        assert effect.removed == (("author", 1),)
        assert set(effect.to_frame()["type"]) == {"paper"}

    def test_several_at_once_in_any_spelling(self) -> None:
        line = NodeIndex(("author", "paper"), (3, 5))
        for asked in (
            [("author", 1), ("paper", 4)],
            {"author": [1], "paper": 4},
            [("paper", [4]), ("author", torch.tensor([False, True, False]))],
        ):
            assert line.ids(asked).tolist() == [1, 7]
        assert line.ids("paper").tolist() == [3, 4, 5, 6, 7]
        assert line.ids(torch.tensor([True] + [False] * 7)).tolist() == [0]
        assert line.located(torch.tensor([0, 3, 7])) == [("author", 0), ("paper", 0), ("paper", 4)]

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            (("editor", 1), "'editor'. Did you mean 'author'?"),
            (("author", 9), "type 'author' has 5 nodes (0 … 4)"),
            (3, "node, e.g. ('author', 17)"),
            ([3, 4], "node, e.g. ('author', 17)"),
        ],
    )
    def test_a_node_that_is_not_there_is_refused(self, asked: object, message: str) -> None:
        with pytest.raises(ValueError, match=re.escape(message)):
            nora.what_if(network(), library(), asked, PAPERS)

    def test_the_type_that_is_predicted_must_be_named(self) -> None:
        with pytest.raises(ValueError, match=r"NodeClassification\(node_type='author'\)"):
            nora.influence(network(), library(), "brute", progress=False)
        with pytest.raises(ValueError, match=r"LinkPrediction\(pairs, node_types="):
            task = nora.LinkPrediction(torch.tensor([[0], [1]]))
            nora.influence(network(), library(), "brute", task, progress=False)
        with pytest.raises(ValueError, match="no node type 'editor'"):
            task = nora.NodeClassification(node_type="editor")
            nora.influence(network(), library(), "brute", task, progress=False)

    def test_pairs_outside_their_type_are_refused(self) -> None:
        task = nora.LinkPrediction(torch.tensor([[5], [1]]), node_types=("author", "paper"))
        with pytest.raises(ValueError, match="pairs name node 5: type 'author' has 5"):
            nora.influence(network(), library(), "brute", task, progress=False)

    def test_targets_are_nodes_of_the_predicted_type(self) -> None:
        model, data = network(), library()
        some = nora.influence(model, data, "exact", PAPERS, targets=[2, 3], progress=False)
        same = nora.influence(
            model, data, "brute", PAPERS, targets={"paper": [2, 3]}, progress=False
        )
        assert torch.allclose(some.scores, same.scores, atol=1e-12)
        effect = nora.what_if(model, data, ("venue", 1), PAPERS, targets=[2, 3])
        assert effect.to_frame()["node"].tolist() == [2, 3]
        with pytest.raises(ValueError, match="the task is about 'paper'"):
            nora.what_if(model, data, ("venue", 1), PAPERS, targets=("author", 0))

    def test_a_graph_that_is_not_sound_is_refused(self) -> None:
        data = library()
        data["author", "writes", "paper"].edge_index = torch.tensor([[0], [7]])
        with pytest.raises(ValueError, match=r"names node 7: the graph has 7 nodes"):
            nora.influence(network(), data, "brute", PAPERS, progress=False)
        data = library()
        data["paper"].x[3, 1] = float("nan")
        with pytest.raises(ValueError, match=r"data\['paper'\].x holds NaN .* node 3"):
            nora.influence(network(), data, "brute", PAPERS, progress=False)

    def test_a_model_with_rows_of_its_own_for_the_nodes_keeps_them(self) -> None:
        """Deleting a venue would give the others their neighbours' rows, and no error would show it."""

        class Holding(Mixed):
            def __init__(self) -> None:
                super().__init__()
                self.venues = torch.nn.Embedding(2, 3)

            def forward(self, x_dict: dict, edge_index_dict: dict) -> dict:
                return super().forward({**x_dict, "venue": self.venues.weight}, edge_index_dict)

        torch.manual_seed(0)
        model, data = Holding().double().eval(), library()
        with pytest.warns(RuntimeWarning, match="has weights per node id"):
            found = nora.influence(model, data, "brute", PAPERS, progress=False)
        assert found.details["removal"] == "isolated"
        cut = data.clone()
        for kind in [("venue", "prints", "paper"), ("paper", "printed_in", "venue")]:
            edges = cut[kind].edge_index
            cut[kind].edge_index = edges[:, edges[0 if kind[0] == "venue" else 1] != 0]
        with torch.no_grad():
            before, after = (
                model(one.x_dict, one.edge_index_dict)["paper"].softmax(dim=-1)
                for one in (data, cut)
            )
        assert found["venue", 0] == pytest.approx(float((before - after).abs().sum()))

    def test_types_that_a_plain_graph_lacks_are_refused(self) -> None:
        with pytest.raises(ValueError, match="but data has no node types"):
            nora.influence(plain("gcn"), star(), "brute", PAPERS, progress=False)

    def test_layers_that_have_not_seen_data_are_named(self) -> None:
        model = HeteroConv({("author", "writes", "paper"): SAGEConv((-1, -1), 3)})
        with pytest.raises(ValueError, match="have not seen data yet"):
            nora.influence(model, library(), "brute", PAPERS, progress=False)

    def test_types_without_nodes_are_named(self) -> None:
        data = library()
        data["author", "edits", "book"].edge_index = data["author", "writes", "paper"].edge_index
        with pytest.raises(ValueError, match="'book', of which there are none"):
            nora.influence(network(), data, "brute", PAPERS, progress=False)
        data = library()
        data["editor"].age = None
        with pytest.raises(ValueError, match=r"number of 'editor' nodes.*not known"):
            nora.influence(network(), data, "brute", PAPERS, progress=False)

    def test_a_type_that_the_model_does_not_know_is_named(self) -> None:
        data = library()
        data["editor"].x = torch.zeros(2, 3)
        with pytest.raises(ValueError, match=r"run on this graph.*no 'editor'"):
            nora.influence(network(), data, "brute", PAPERS, progress=False)

    def test_edges_that_are_not_those_of_the_data_cannot_be_masked(self) -> None:
        class Copying(Mixed):
            def forward(self, x_dict: dict, edge_index_dict: dict) -> dict:
                copied = {kind: edges.clone() for kind, edges in edge_index_dict.items()}
                return super().forward(x_dict, copied)

        with pytest.raises(ValueError, match=r"edges that are not.*the data"):
            nora.influence(Copying().double(), library(), "mask", PAPERS, progress=False)

    def test_edges_need_their_type(self) -> None:
        with pytest.raises(ValueError, match="the graph has several edge types"):
            nora.what_if(network(), library(), remove_edges=[(0, 1)], task=PAPERS)


class TestResults:
    def test_ranking_across_types_and_within_one(self) -> None:
        scores = nora.influence(network(), library(), "exact", PAPERS, progress=False)
        frame = scores.top(14)
        assert list(frame) == ["type", "node", "influence", "rank"]
        assert sorted(map(tuple, frame[["type", "node"]].to_numpy().tolist())) == sorted(
            (kind, node)
            for kind, count in (("author", 5), ("paper", 7), ("venue", 2))
            for node in range(count)
        )
        best = frame[frame["type"] == "author"].iloc[0]
        own = scores.of("author").top(1).iloc[0]
        assert (own["node"], own["influence"]) == (best["node"], best["influence"])

    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    def test_saved_scores_come_back(self, tmp_path: Path, suffix: str) -> None:
        scores = nora.influence(
            network(), library(), "exact", PAPERS, nodes=["author", "venue"][0], progress=False
        )
        scores.save(tmp_path / f"scores{suffix}")
        back = nora.Influence.load(tmp_path / f"scores{suffix}")
        assert back.node_types == {"author": 5, "paper": 7, "venue": 2}
        assert torch.equal(back.scores.nan_to_num(-1), scores.scores.nan_to_num(-1))

    def test_a_checkpoint_resumes(self, tmp_path: Path) -> None:
        asked = (network(), library(), "exact", PAPERS)
        first = nora.influence(
            *asked, nodes="author", checkpoint=tmp_path / "parts", progress=False
        )
        whole = nora.influence(*asked, checkpoint=tmp_path / "parts", progress=False)
        assert torch.equal(first.of("author").scores, whole.of("author").scores)
        changed = library()
        changed["venue"].x[0] += 1
        with pytest.raises(ValueError, match="its graph differ"):
            nora.influence(
                network(), changed, "exact", PAPERS, checkpoint=tmp_path / "parts", progress=False
            )
        merged = nora.merge_checkpoints([tmp_path / "parts"])
        assert merged.node_types == whole.node_types

    def test_the_order_of_the_types_is_part_of_the_graph(self) -> None:
        data, other = library((3, 7, 3)), HeteroData()
        for kind in ("venue", "paper", "author"):
            other[kind].x = data[kind].x
        for kind in data.edge_types:
            other[kind].edge_index = data[kind].edge_index
        assert graph_fingerprint(other) != graph_fingerprint(data)

    def test_the_other_questions_name_nodes_by_type_too(self) -> None:
        model, data = network(), library()
        scores = nora.influence(model, data, "exact", PAPERS, progress=False)
        best = nora.top(model, data, 3, PAPERS, progress=False)
        first = scores.top(1).iloc[0]
        assert best.nodes[0] == (first["type"], first["node"])
        assert list(best.to_frame())[:3] == ["rank", "type", "node"]
        group = nora.best_group(model, data, 2, PAPERS, progress=False)
        assert group.nodes[0] == best.nodes[0]
        matrix = nora.influence_matrix(model, data, ("author", 1), PAPERS, progress=False)
        assert set(matrix["removed_type"]) == {"author"}
        assert matrix["change"].sum() == pytest.approx(scores["author", 1])
        who = nora.influencers(model, data, ("paper", 3), 2, PAPERS, progress=False)
        kind, node = who.iloc[0][["type", "node"]]
        alone = nora.what_if(model, data, (kind, int(node)), PAPERS, targets=[3])
        assert who.iloc[0]["influence"] == pytest.approx(alone.total)
        with pytest.raises(ValueError, match="the type that is classified"):
            nora.influencers(model, data, ("author", 3), 2, PAPERS, progress=False)

    def test_labels_name_nodes_by_type(self) -> None:
        model, data = network(), library((12, 20, 4), edges=40)
        truth = nora.influence(model, data, "exact", PAPERS, progress=False)
        labels = {("author", n): truth["author", n] for n in range(12)}
        tuned = nora.tune(model, data, labels, "nora", PAPERS, progress=False)
        assert tuned.options
