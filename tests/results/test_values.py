"""Results as values: choose nodes, average runs, and have all of it back from a file."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import nora
from graphs import bridge, double, some_pairs
from networks import network
from nora import Effect, Group, Influence, LinkPrediction, Top

NAN = float("nan")
SUFFIXES = pytest.mark.parametrize("suffix", ["parquet", "csv"])
TYPES = {"author": 2, "paper": 3}


def scores(*values: float, **parts: Any) -> Influence:
    made = {"method": "brute", "options": {"beta": 2.0}, "seconds": 1.5, **parts}
    return Influence(torch.tensor(values, dtype=torch.float64), **made)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(
            one.double().nan_to_num(-7.0), other.double().nan_to_num(-7.0)
        )
    return type(one) is type(other) and one == other


def assert_same(one: Any, other: Any) -> None:
    """Equal in every field, whichever fields there are."""
    assert type(one) is type(other)
    for field in fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        assert same(mine, theirs), (field.name, mine, theirs)


def chosen(found: Influence) -> list[int]:
    return (~found.scores.isnan()).nonzero().flatten().tolist()


@pytest.mark.parametrize(
    "nodes",
    [
        slice(1, 3),
        [1, 2],
        [2, 1, 1],
        torch.tensor([1, 2]),
        np.array([1, 2]),
        pd.Series([1, 2]),
        torch.tensor([False, True, True, False]),
        np.array([False, True, True, False]),
    ],
)
def test_choosing_nodes_keeps_their_ids_and_names(nodes: Any) -> None:
    whole = scores(4.0, 3.0, 2.0, 1.0, names=tuple("abcd"))
    part = whole[nodes]
    assert len(part) == 4
    assert part[1] == 3.0
    assert part.to_frame()["name"].tolist() == ["b", "c"]
    assert part.to_frame()["node"].tolist() == [1, 2]
    assert part.options == whole.options
    assert not whole.scores.isnan().any()


def test_one_node_is_a_number_however_it_is_counted() -> None:
    whole = scores(4.0, 3.0)
    for node in (1, np.int64(1), torch.tensor(1), -1):
        assert whole[node] == 3.0


def test_nodes_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="node 9 is out of range"):
        scores(1.0, 2.0)[[0, 9]]
    with pytest.raises(ValueError, match="mask has 3 entries, expected 2"):
        scores(1.0, 2.0)[torch.tensor([True, True, False])]


def test_nodes_with_types_are_chosen_within_them() -> None:
    whole = scores(1.0, 2.0, 3.0, 4.0, 5.0, node_types=TYPES)
    assert chosen(whole["paper", :2]) == [2, 3]
    assert chosen(whole["paper", [0, 2]]) == [2, 4]
    assert chosen(whole[[("author", 1), ("paper", 0)]]) == [1, 2]
    assert chosen(whole[{"author": [0], "paper": [1]}]) == [0, 3]
    assert chosen(whole["author"]) == [0, 1]
    assert whole["paper", :2].to_frame()["type"].tolist() == ["paper", "paper"]
    assert whole["paper", 2] == 5.0
    for bare in (0, slice(2)):
        with pytest.raises(KeyError, match="nodes have types here"):
            whole[bare]


def test_scores_are_iterated_in_the_order_of_ids_with_types_too() -> None:
    assert list(scores(1.0, 2.0, 3.0, 4.0, 5.0, node_types=TYPES)) == [1, 2, 3, 4, 5]


def test_parts_that_were_chosen_merge_into_the_whole() -> None:
    whole = scores(4.0, 3.0, 2.0, 1.0, names=tuple("abcd"), spread=torch.rand(4).double())
    assert_same(Influence.merge([whole[:2], whole[2:]]), replace(whole, seconds=3.0))


def test_sorted_scores_are_a_frame_with_the_first_first() -> None:
    made = scores(1.0, 3.0, NAN, 3.0)
    assert made.sort()["node"].tolist() == [1, 3, 0]
    pd.testing.assert_frame_equal(made.sort().head(2), made.top(2))


def test_a_mean_has_the_spread_of_its_parts() -> None:
    parts = [
        scores(1.0, 5.0, NAN, options={"beta": 2.0, "seed": 0}),
        scores(3.0, 5.0, 1.0, options={"beta": 2.0, "seed": 1}),
    ]
    mean = Influence.mean(parts)
    np.testing.assert_array_equal(mean.scores, [2.0, 5.0, NAN])
    np.testing.assert_allclose(mean.spread, [np.std([1, 3], ddof=1), 0.0, NAN])
    assert mean.options == {"beta": 2.0}
    assert mean.details == {"mean_of": 2}
    assert mean.seconds == 3.0
    assert list(mean.to_frame().columns) == ["node", "influence", "spread", "rank"]
    assert Influence.mean(parts[:1]).spread is None


def test_a_mean_of_what_does_not_belong_together_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to average"):
        Influence.mean([])
    with pytest.raises(ValueError, match=r"parts differ in method: brute.*nora"):
        Influence.mean([scores(1.0), scores(1.0, method="nora")])
    with pytest.raises(ValueError, match="parts have 1 and 2 nodes"):
        Influence.mean([scores(1.0), scores(1.0, 2.0)])


def test_of_a_type_the_spread_is_kept() -> None:
    spread = torch.arange(5.0)
    part = scores(1.0, 2.0, 3.0, 4.0, 5.0, node_types=TYPES, spread=spread).of("paper")
    assert part.spread is not None
    assert part.spread.tolist() == [2, 3, 4]


def test_a_spread_must_be_as_long_as_the_scores() -> None:
    with pytest.raises(ValueError, match=r"spread.*1; got 2"):
        scores(1.0, spread=torch.zeros(2))


@SUFFIXES
@pytest.mark.parametrize("types", [None, TYPES])
def test_scores_come_back_with_all_they_know(
    suffix: str, types: dict[str, int] | None, tmp_path: Path
) -> None:
    made = Influence(
        scores=torch.tensor([0.1, NAN, 3.0, NAN, 1e-9]),
        method="exact",
        task="link",
        options={"memory": "2GB", "classes": [0.5, 1.0]},
        seconds=2.25,
        details={"classes": [1], "note": "π"},
        names=("001", "", "NA", "unscored", 'ä,"b"'),
        node_types=types,
        spread=torch.tensor([0.25, NAN, NAN, NAN, 0.1], dtype=torch.float64),
    )
    assert_same(Influence.load(made.save(tmp_path / f"s.{suffix}")), made)
    nothing = made[[]] if types is None else made[{"paper": []}]
    assert_same(Influence.load(nothing.save(tmp_path / f"n.{suffix}")), nothing)


def effects() -> dict[str, Effect]:
    data, model = double(bridge()), network()
    names = tuple(f"n{k}" for k in range(int(data.num_nodes)))
    nodes = nora.what_if(model, data, [0, 3], targets=[1, 2, 3])
    some = nora.NodeClassification(classes=[0, 2])
    links = nora.what_if(model, data, [2, 4], LinkPrediction(some_pairs(data)))
    several = nora.NodeClassification(mode="multilabel")
    return {
        "nodes": nodes,
        "names": replace(nodes, names=names),
        "classes": nora.what_if(model, data, 1, some),
        "edges": nora.what_if(model, data, remove_edges=[(0, 1)]),
        "links": links,
        "labels": nora.what_if(model, data, 1, several),
        "isolated": replace(nodes, removal="isolated"),
        "types": replace(
            nodes,
            removed=(("author", 0), ("paper", 1)),
            node_types={"author": 2, "paper": len(names) - 2},
        ),
        "half": replace(nodes, before=nodes.before.bfloat16(), after=nodes.after.bfloat16()),
    }


@SUFFIXES
def test_an_effect_comes_back_with_all_it_knows(suffix: str, tmp_path: Path) -> None:
    for name, effect in effects().items():
        path = effect.save(tmp_path / f"{name}.{suffix}")
        back = Effect.load(path)
        assert_same(back, effect)
        assert back.total == effect.total
        pd.testing.assert_frame_equal(back.to_frame(), effect.to_frame())


@SUFFIXES
def test_an_effect_without_its_predictions_is_a_table_only(suffix: str, tmp_path: Path) -> None:
    effect = effects()["nodes"]
    path = effect.save(tmp_path / f"e.{suffix}")
    read = pd.read_parquet(path) if suffix == "parquet" else pd.read_csv(path)
    assert list(read.columns) == list(effect.to_frame().columns)
    beside = path.with_name(f"e.{suffix}.predictions.safetensors")
    nora.what_if(network(), double(bridge()), 5).save(tmp_path / f"other.{suffix}")
    path.with_name(f"other.{suffix}.predictions.safetensors").replace(beside)
    with pytest.raises(ValueError, match="is not what was saved with e"):
        Effect.load(path)
    beside.write_bytes(b"cut off")
    with pytest.raises(ValueError, match="edited or damaged"):
        Effect.load(path)
    beside.unlink()
    with pytest.raises(FileNotFoundError, match=r"needs all predictions.*predictions\.safetensors"):
        Effect.load(path)


@SUFFIXES
@pytest.mark.parametrize("nodes", [(4, 2), (("paper", 2), ("author", 0))])
def test_the_first_nodes_come_back_with_what_is_certain(
    suffix: str, nodes: tuple[Any, ...], tmp_path: Path
) -> None:
    made = Top(
        nodes,
        (1.1, 1 / 3),
        certified=1,
        refined=4,
        num_nodes=5,
        rest=0.7,
        seconds=0.1,
        screened_by={"method": "cauchy", "seconds": 0.5},
        names=("NA", "b", "c", "d", "e"),
    )
    back = Top.load(made.save(tmp_path / f"t.{suffix}"))
    assert_same(back, made)
    assert back.certificate == made.certificate


@SUFFIXES
@pytest.mark.parametrize("nodes", [(4, 2), (("paper", 2), ("author", 0))])
def test_a_group_comes_back_as_it_was(suffix: str, nodes: tuple[Any, ...], tmp_path: Path) -> None:
    made = Group(
        nodes,
        (1 / 3, 1.1),
        (1 / 3, 0.9),
        alone=1.05,
        evaluations=9,
        chosen_by="influence",
        task="link",
        seconds=2.5,
        names=tuple("abcde"),
    )
    assert_same(Group.load(made.save(tmp_path / f"g.{suffix}")), made)


def test_another_result_is_not_taken_for_this_one(tmp_path: Path) -> None:
    path = scores(1.0).save(tmp_path / "s.parquet")
    for kind in (Effect, Top, Group):
        with pytest.raises(
            ValueError, match=f"holds 'influence', expected '{kind.__name__.lower()}'"
        ):
            kind.load(path)
