"""What-if questions: influence on some classes only, removal of edges; against the definition."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import nora
from by_hand import changes, outputs, total
from graphs import GRAPHS, bridge, directed, double, duplicated, star
from networks import CLASSES, PLAIN, Centred, network, patchwork
from nora import NodeClassification
from nora.graph.edge_lookup import EdgeLookup
from nora.methods import METHODS
from posed import CLOSE, both_ways, every_graph, every_task, posed


def directed_edges(data: Data) -> list[tuple[int, int]]:
    return sorted({(int(i), int(j)) for i, j in data.edge_index.t()})


class TestClasses:
    @every_graph
    @pytest.mark.parametrize("classes", [[2], [0, 1], [1, 0, 2]])
    @both_ways
    def test_only_their_change_counts(self, kind: str, classes: list[int], method: str) -> None:
        model, (data, _) = network(), posed(kind)
        task = NodeClassification(classes=classes)
        scores = nora.influence(model, data, method, task, progress=False).scores
        truth = [total(model, data, [node], task) for node in range(data.num_nodes)]
        assert scores.tolist() == pytest.approx(truth, **CLOSE)

    @pytest.mark.parametrize("entry", list(METHODS), ids=lambda entry: entry.name)
    def test_every_method_takes_them(self, entry: nora.registry.Entry) -> None:
        model, (data, _) = network(), posed("two_camps")
        task = NodeClassification(classes=[1])
        labels = None
        if entry.facts.labels:
            labels = nora.influence(model, data, "brute", task, nodes=range(7), progress=False)
        made = nora.influence(model, data, entry.name, task, labels=labels, progress=False)
        assert torch.isfinite(made.scores).all()
        assert (made.scores > 0).any()
        assert made.details["classes"] == [1]

    @pytest.mark.parametrize("name", ["mask", "nora", "nora-t1"])
    def test_methods_that_look_at_predictions_look_at_these(self, name: str) -> None:
        model, (data, _) = network(), posed("two_camps")
        one, other = (
            nora.influence(model, data, name, NodeClassification(classes=[k]), progress=False)
            for k in (0, 1)
        )
        assert not torch.allclose(one.scores, other.scores, rtol=1e-6)

    def test_influences_on_the_classes_add_up_to_the_influence(self) -> None:
        model, (data, _) = network("gat"), posed("bridge")
        parts = [
            nora.influence(model, data, task=NodeClassification(classes=[k]), progress=False)
            for k in range(CLASSES)
        ]
        whole = nora.influence(model, data, progress=False).scores
        torch.testing.assert_close(sum(part.scores for part in parts), whole)

    @both_ways
    def test_an_effect_counts_them_and_tells_flips_on_all(self, method: str) -> None:
        model, (data, _) = network(seed=4), posed("bridge")
        whole = nora.what_if(model, data, [2, 4], method=method)
        task = NodeClassification(classes=[1])
        some = nora.what_if(model, data, [2, 4], task, method=method)
        assert some.total == pytest.approx(total(model, data, [2, 4], task), **CLOSE)
        assert some.total < whole.total
        assert len(whole.flips())
        assert set(some.flips()["node"]) == set(whole.flips()["node"])
        columns = ["node", "from_class", "to_class", "flipped"]
        assert some.to_frame()[columns].equals(whole.to_frame()[columns])
        assert "removed=[2, 4], classes=[1], total=" in repr(some)

    def test_targets_and_classes_go_together(self) -> None:
        model, (data, _) = network(), posed("two_camps")
        task = NodeClassification(classes=[0])
        made = nora.influence(model, data, "exact", task, targets=[1, 5], progress=False)
        found = [changes(model, data, [node], task=task) for node in range(8)]
        truth = [change.get(1, 0) + change.get(5, 0) for change in found]
        assert made.scores.tolist() == pytest.approx(truth, **CLOSE)

    def test_they_are_kept_sorted_and_once_and_survive(self) -> None:
        task = NodeClassification(classes=torch.tensor([2, 0, 2]))  # type: ignore[arg-type]
        assert task == NodeClassification(classes=(0, 2))
        assert task.survivors(torch.tensor([True, False]))[0] == task
        assert task.on_every_class() == NodeClassification()
        assert NodeClassification(classes=np.array([1])).classes == (1,)

    @pytest.mark.parametrize("return_type", ["raw", "probs", "log_probs"])
    def test_probabilities_are_taken_over_all_classes(self, return_type: str) -> None:
        logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).double()
        output = {
            "raw": logits,
            "probs": logits.softmax(dim=1),
            "log_probs": logits.log_softmax(dim=1),
        }[return_type]
        task = NodeClassification(return_type, classes=[0, 2])  # type: ignore[arg-type]
        torch.testing.assert_close(task.predict(output), logits.softmax(dim=1)[:, [0, 2]])

    @pytest.mark.parametrize(
        ("classes", "error", "message"),
        [
            ([], ValueError, "empty: name at least one class"),
            ([-1], ValueError, "class -1: classes are counted from 0"),
            ([0.5], TypeError, "whole numbers"),
            ([True, False, True], TypeError, "whole numbers"),
            ("12", TypeError, "a list of class ids"),
            (2, TypeError, r"e\.g\. classes=\[2\]; got 2"),
        ],
    )
    def test_what_is_no_class_is_refused(
        self, classes: object, error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            NodeClassification(classes=classes)  # type: ignore[arg-type]

    def test_a_class_the_model_does_not_have_is_refused(self) -> None:
        data = double(bridge())
        task = NodeClassification(classes=[0, 3])
        for ask in (nora.influence, lambda *args, **kw: nora.what_if(*args, 0, **kw)):
            with pytest.raises(ValueError, match=r"class 3: the model predicts 3 classes \(0"):
                ask(network(), data, task=task)

    def test_checkpoints_of_other_classes_are_not_mixed(self, tmp_path: Path) -> None:
        model, data = network(), double(bridge())

        def ask(task: NodeClassification) -> nora.Influence:
            return nora.influence(model, data, task=task, checkpoint=tmp_path, progress=False)

        made = ask(NodeClassification(classes=[0, 1]))
        assert torch.equal(ask(NodeClassification(classes=[1, 0])).scores, made.scores)
        for task in (NodeClassification(classes=[0]), NodeClassification()):
            with pytest.raises(ValueError, match=r"belongs to another run.*task differ"):
                ask(task)

    def test_parts_on_other_classes_do_not_merge(self) -> None:
        model, data = network(), double(bridge())
        parts = [
            nora.influence(
                model, data, task=NodeClassification(classes=[k]), nodes=[k], progress=False
            )
            for k in (0, 1)
        ]
        with pytest.raises(ValueError, match=r"parts differ in the classes.*count"):
            nora.Influence.merge(parts)

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_files_say_which(self, suffix: str, tmp_path: Path) -> None:
        model, data = network(), double(bridge())
        task = NodeClassification(classes=[1])
        scores = nora.influence(model, data, task=task, progress=False)
        back = nora.Influence.load(scores.save(tmp_path / f"s.{suffix}"))
        assert back.details["classes"] == [1]
        path = nora.what_if(model, data, 3, task).save(tmp_path / f"e.{suffix}")
        assert provenance(path)["classes"] == [1]


def provenance(path: Path) -> dict:
    if path.suffix == ".csv":
        return json.loads(path.with_name(path.name + ".meta.json").read_text())
    return json.loads(pq.read_schema(path).metadata[b"nora"])


class TestEdges:
    @every_task
    @every_graph
    def test_every_edge_goes_as_the_definition_says(self, kind: str, name: str) -> None:
        model, (data, task) = network(), posed(kind, name)
        undirected, session = kind != "directed", nora.Session(model, data, task)
        for i, j in directed_edges(data):
            effect = session.what_if(remove_edges=[(i, j)])
            gone = [(i, j), (j, i)] if undirected else [(i, j)]
            truth = changes(model, data, edges=gone, task=task)
            assert effect.counted.all()
            assert effect.change.tolist() == pytest.approx(list(truth.values()), **CLOSE)
            assert effect.removed == ()
            assert effect.removed_edges == ((min(i, j), max(i, j)) if undirected else (i, j),)

    @pytest.mark.parametrize("name", [*PLAIN, "patchwork", "centred"])
    def test_with_any_model(self, name: str) -> None:
        own = {"patchwork": lambda: patchwork(cached=True), "centred": Centred}
        model = own[name]() if name in own else network(name, norm=True, layers=3)
        data = double(bridge())
        effect = nora.what_if(model, data, remove_edges=[(0, 2), (5, 4)])
        plain = patchwork() if name == "patchwork" else model
        truth = changes(plain, data, edges=[(0, 2), (2, 0), (5, 4), (4, 5)])
        assert effect.change.tolist() == pytest.approx(list(truth.values()), **CLOSE)
        assert effect.removed_edges == ((0, 2), (4, 5))

    @every_task
    @every_graph
    @both_ways
    def test_together_with_nodes(self, kind: str, name: str, method: str) -> None:
        model, (data, task) = network(), posed(kind, name)
        first, *_, last = directed_edges(data)
        effect = nora.what_if(model, data, 1, task, remove_edges=[first, last], method=method)
        gone = [first, last]
        if kind != "directed":
            gone += [edge[::-1] for edge in gone]
        truth = changes(model, data, [1], gone, task)
        assert effect.removed == (1,)
        assert effect.counted.nonzero().flatten().tolist() == list(truth)
        assert effect.change[effect.counted].tolist() == pytest.approx([*truth.values()], **CLOSE)
        assert effect.total == pytest.approx(sum(truth.values()), **CLOSE)

    @given(
        ends=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=20),
        turned=st.booleans(),
        seed=st.integers(0, 99),
    )
    @settings(max_examples=25, deadline=None)
    def test_weights_and_features_go_with_their_edges(
        self, ends: list[tuple[int, int]], turned: bool, seed: int
    ) -> None:
        edges = ends + [edge[::-1] for edge in ends] if turned else ends
        random = torch.Generator().manual_seed(seed)
        data = Data(
            x=torch.randn(7, 3, generator=random).double(),
            edge_index=torch.tensor(edges).t().contiguous(),
            edge_weight=torch.rand(len(edges), generator=random).double(),
            edge_year=torch.arange(len(edges)),
        )
        chosen = [edges[0], edges[seed % len(edges)]]
        undirected = all(edge[::-1] in edges for edge in edges)
        gone = set(chosen) | {edge[::-1] for edge in chosen if undirected}
        reduced = nora.Edits(remove_edges=chosen).apply(data)
        left = [at for at, edge in enumerate(edges) if edge not in gone]
        assert reduced.edge_year.tolist() == left
        assert torch.equal(reduced.edge_index, data.edge_index[:, left])
        assert torch.equal(reduced.edge_weight, data.edge_weight[left])
        assert torch.equal(reduced.x, data.x)
        assert data.edge_year.tolist() == list(range(len(edges)))
        model = network()
        effect = nora.what_if(model, data, remove_edges=chosen)
        truth = changes(model, data, edges=gone)
        assert effect.change.tolist() == pytest.approx(list(truth.values()), **CLOSE)

    def test_all_copies_and_named_self_loops_go(self) -> None:
        left = nora.Edits(remove_edges=[(1, 0)]).apply(duplicated()).edge_index.t().tolist()
        assert sorted(left) == [[1, 2], [2, 1], [2, 3], [3, 2], [3, 4], [4, 3]]
        loops = nora.Edits(remove_edges=[(1, 1)]).apply(GRAPHS["looped"]()).edge_index
        assert loops[:, loops[0] == loops[1]].tolist() == [[4], [4]]

    @pytest.mark.filterwarnings("ignore:Unable to accurately infer")
    def test_nodes_are_counted_without_features_too(self) -> None:
        data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        assert nora.Edits(remove_edges=[(1, 2)]).apply(data).num_nodes == 3

    def test_they_may_be_given_in_many_ways(self) -> None:
        data = star()
        for given_as in (
            [(0, 3), (5, 0)],
            [[3, 0], [0, 3], [0, 5]],
            iter([(0, 5), (0, 3)]),
            torch.tensor([[0, 5], [3, 0]]),
            np.array([[0, 3], [0, 5]]),
        ):
            assert EdgeLookup(data).named(given_as)[None].t().tolist() == [[0, 3], [0, 5]]
        found = EdgeLookup(directed()).named([(4, 5), (0, 1)])
        assert found[None].t().tolist() == [[0, 1], [4, 5]]

    @pytest.mark.parametrize(
        ("kind", "edges", "error", "message"),
        [
            ("bridge", [(0, 1), (0, 4)], ValueError, "edge 0–4 is not in the graph$"),
            ("bridge", [(3, 3)], ValueError, "edge 3–3 is not in the graph$"),
            ("directed", [(5, 0)], ValueError, "edge 5→0 is not in the graph$"),
            ("directed", [(5, 4)], ValueError, r"edge 5→4 is not.*graph \(4→5"),
            ("bridge", [(0, 7)], ValueError, "node 7.*range: the graph has 7 nodes"),
            ("bridge", [(-1, 0)], ValueError, "node -1 is out of range"),
            ("bridge", (0, 1), TypeError, r"pairs of node ids, e\.g\. \[\(3, 17\)"),
            ("bridge", [(0, 1, 2)], TypeError, "pairs of node ids"),
            ("bridge", [(0.0, 1.0)], TypeError, "pairs of node ids"),
            ("bridge", torch.tensor([0, 1]), ValueError, r"shape \[2, k\], got \[2\]"),
        ],
    )
    def test_what_is_no_edge_is_refused(
        self, kind: str, edges: object, error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            nora.what_if(network(), double(GRAPHS[kind]()), remove_edges=edges)  # type: ignore[arg-type]

    def test_nothing_to_remove_is_refused(self) -> None:
        with pytest.raises(ValueError, match="the edit is empty: give remove="):
            nora.what_if(network(), double(bridge()))
        with pytest.raises(ValueError, match="method is 'nora'"):
            nora.what_if(network(), double(bridge()), remove_edges=[(0, 1)], method="nora")

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_the_effect_says_which(self, suffix: str, tmp_path: Path) -> None:
        effect = nora.what_if(network(), double(bridge()), 5, remove_edges=[(1, 0), (2, 3)])
        assert repr(effect).startswith("Effect(removed=[5], removed_edges=[(0, 1), (2, 3)], total")
        path = effect.save(tmp_path / f"e.{suffix}")
        assert provenance(path)["removed_edges"] == [[0, 1], [2, 3]]
        assert provenance(path)["removed"] == [5]


def test_models_and_graphs_are_left_as_found() -> None:
    model, data = patchwork(cached=True).train(), double(bridge())
    with torch.no_grad():
        model.eval()(data.x, data.edge_index)
    model.train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    cached = model.shared._cached_edge_index
    edges = data.edge_index.clone()
    nora.what_if(model, data, remove_edges=[(0, 1)])
    nora.influence_matrix(model, data, [0], progress=False)
    nora.influencers(model, data, 0, progress=False)
    nora.best_group(model, data, 2, progress=False)
    assert model.training
    assert model.shared._cached_edge_index is cached
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert torch.equal(data.edge_index, edges)
    assert set(data.keys()) == {"x", "edge_index"}


def test_the_definition_of_these_tests_is_the_libraries() -> None:
    model, data = network(), double(bridge())
    with torch.no_grad():
        whole = model(data.x, data.edge_index)
    assert torch.equal(torch.stack(list(outputs(model, data).values())), whole)
