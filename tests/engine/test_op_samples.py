"""Every lowering of an ATen operation gives torch's own samples their rows, or refuses them.

By default a few cases of every operation are run; all of `benchmarks/results/op_coverage.json` with
`NORA_OP_SAMPLES=all` (two minutes).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from edge_samples import (
    SAMPLES,
    EdgeSample,
    adjacency,
    around,
    per_row,
    torch_scatter,
    variants,
)  # fmt: skip
from nora.engine.lower import lower_program
from nora.engine.lower.lowerings import LOWERINGS, Lowering
from nora.engine.unsupported import UnsupportedError
from op_lowered import edge_outcome, lowered, lowered_on_edges, lowerings, outcome
from op_samples import Case, cases

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "op_coverage.json"
FROZEN = json.loads(RESULTS.read_text("utf-8"))
PARTS = 8
# Cases of an operation that are run by default: so many that are followed, and so many that are refused.
FOLLOWED, REFUSED = 1, 1
# Lowerings that no followed case goes through.
ALWAYS_REFUSED = {
    "_unique", "_unique2", "bincount", "equal", "unfold", "unique_consecutive", "unique_dim",
}  # fmt: skip
# No sample has them (or rows enough), or their result does not have one row per node; models reach some.
NOT_REACHED = {
    "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "_reshape_alias", "as_strided",
    "_convert_indices_from_coo_to_csr", "_sparse_coo_tensor_with_dims_and_tensors",
    "sparse_compressed_tensor",
    "empty_strided", "lift_fresh_copy", "native_layer_norm", "new_empty_strided", "nonzero", "ones_like",
    "select_backward", "slice_backward",
}  # fmt: skip


def _chosen(name: str, found: list[Case]) -> list[tuple[Case, str]]:
    """The cases to run, each with its frozen outcome, if it is of this version of torch."""
    if FROZEN["torch"] != torch.__version__:  # other samples
        return [(case, "") for case in found[: FOLLOWED + REFUSED]]
    known = list(zip(found, FROZEN["operations"][name], strict=True))
    if os.environ.get("NORA_OP_SAMPLES") == "all":
        return known
    followed = [one for one in known if one[1] == "F"][:FOLLOWED]
    return followed + [one for one in known if one[1] == "R"][:REFUSED]


@pytest.mark.parametrize("part", range(PARTS))
def test_an_operation_gives_its_samples_their_rows_or_is_refused(part: int) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    count: Counter[str] = Counter()
    failed = []
    for op in op_db[part::PARTS]:
        for case, before in _chosen(op.formatted_name, cases(op)):
            now = outcome(case)
            count[now] += 1
            if now in "WE":
                why = {"W": "wrong rows", "E": "a lowering raises"}[now]
                failed.append(f"{case.label}: {why}")
            elif before == "F" != now:
                failed.append(f"{case.label}: followed before, not now")
    assert not failed, "\n".join(failed)
    assert count["F"] >= 50


def test_every_lowering_is_reached_by_a_sample_that_is_followed() -> None:
    table = FROZEN["lowerings"]
    missed = {name for name in lowerings() if not table.get(name, {}).get("followed")}
    assert missed == NOT_REACHED | ALWAYS_REFUSED


def test_a_wrong_lowering_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    op = next(op for op in op_db if op.name == "cumsum")
    found = cases(op)
    assert {outcome(case) for case in found} == {"F"}

    def each_row_by_itself(walk: Any, step: Any) -> None:
        walk.apply(step, walk.layout(step.args["self"]))

    monkeypatch.setitem(LOWERINGS, "cumsum", Lowering(each_row_by_itself))
    assert "W" in {outcome(case) for case in found}


@pytest.mark.parametrize("name", SAMPLES)
def test_an_operation_between_nodes_and_edges_is_followed_as_its_oracle_says(name: str) -> None:
    sample = SAMPLES[name]
    found = {variant: edge_outcome(sample, *variant) for variant in variants(sample)}
    assert set(found.values()) == {"F"}, found


def _largest_places(x: Tensor, edges: Tensor) -> Tensor:
    return torch_scatter.scatter_max(x[edges[0]], edges[1], 0, dim_size=len(x))[1].to(x.dtype)


def _read_noise(x: Tensor, edges: Tensor) -> Tensor:
    torch.manual_seed(0)
    return around(x, edges) + torch.randn_like(x)


def _read_pointers(x: Tensor, edges: Tensor) -> Tensor:
    return x * per_row(adjacency(x, edges).csr()[0][1:], x)


def _counted_mask(x: Tensor, edges: Tensor) -> Tensor:
    y = around(x, edges)
    return y / (1 + len(y[y[:, 0] > 0]))


def _sizes_by_values(x: Tensor, edges: Tensor) -> Tensor:
    return around(x, edges) * per_row(torch.bincount(edges[1], minlength=99)[: len(x)], x)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (_largest_places, "positions of edges"),
        (_read_noise, "draws random numbers"),
        (_read_pointers, "pointers of a compressed sparse matrix"),
        (_counted_mask, "mask"),
        (_sizes_by_values, "bincount"),
    ],
)
def test_what_depends_on_positions_chance_or_values_is_refused(function: Any, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        lowered_on_edges(EdgeSample(function, function), "mixed", 2, torch.double)


def test_a_wrong_result_between_nodes_and_edges_is_found() -> None:
    sample = SAMPLES["torch_scatter max"]
    variant = ("mixed", 2, torch.double)
    assert edge_outcome(sample, *variant) == "F"
    wrong = EdgeSample(sample.function, SAMPLES["torch_scatter min"].oracle)
    assert edge_outcome(wrong, *variant) == "W"


def _on_rows(function: Any, *arguments: Any) -> Case:
    """A case of a function whose tensors all have a row per node along their first axis."""
    flat, spec = tree_flatten((arguments, {}))
    return Case(function, flat, spec, {at: 0 for at in range(len(flat))})


@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_layer_norms_are_followed_row_by_row(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    function = partial(torch.nn.functional.layer_norm, normalized_shape=shape)
    found = lowered(_on_rows(function, torch.randn(6, 3, 4).double()))
    assert all(rows.same for rows in found)
    assert len(found) == 9  # the graph itself, six nodes one by one, two at once, other features


@pytest.mark.filterwarnings("ignore:Using torch.cross without")
def test_a_cross_product_without_an_axis_is_not_followed_to_a_graph_of_three_nodes() -> None:
    # It takes the first axis of size 3: that of the nodes, once two of five are removed.
    torch.manual_seed(0)
    a, b = torch.randn(2, 5, 3).double()
    found = lowered(_on_rows(torch.cross, a, b))
    assert all(rows.same for rows in found)
    assert min(len(rows.truth) for rows in found) == 4  # the graph of three nodes gets a full pass
    found = lowered(_on_rows(lambda a, b: torch.cross(a, b, dim=1), a, b))
    assert all(rows.same for rows in found)
    assert min(len(rows.truth) for rows in found) == 3


def test_entries_picked_by_their_values_are_refused_where_all_nodes_share_them() -> None:
    # How many there are depends on values: the program failed in the middle of a run.
    def picked(x: Tensor) -> Tensor:
        mean = x.mean(dim=0)
        return x + mean[mean > mean.median()].sum()

    torch.manual_seed(0)
    with pytest.raises(UnsupportedError, match=r"by a mask that depends.*values"):
        lowered(_on_rows(picked, torch.randn(6, 5).double()))


def test_multiples_are_added_along_another_axis_than_the_nodes() -> None:
    index = torch.tensor([2, 0])

    def added(x: Tensor, more: Tensor) -> Tensor:
        return x.index_add(1, index, more, alpha=3)

    torch.manual_seed(0)
    found = lowered(_on_rows(added, torch.randn(6, 4).double(), torch.randn(6, 2).double()))
    assert all(rows.same for rows in found)


def test_what_is_drawn_from_a_mean_of_all_nodes_is_refused() -> None:
    def drawn(x: Tensor) -> Tensor:
        return x + (0 * x.mean(dim=0) + 1).bernoulli()  # the same every time, by chance

    with pytest.raises(UnsupportedError, match="draws random numbers"):
        lowered(_on_rows(drawn, torch.rand(6, 2).double()))


@pytest.mark.parametrize("name", ["erf", "special_i1e", "nextafter", "float_power", "ldexp"])
def test_what_torch_tags_as_pointwise_is_followed_row_by_row(name: str) -> None:
    packet = getattr(torch.ops.aten, name)
    overloads = [getattr(packet, one) for one in packet.overloads()]
    assert any(lower_program.is_pointwise(func) for func in overloads)


def test_tags_are_those_of_overloads() -> None:
    aten = torch.ops.aten
    assert lower_program.is_pointwise(aten.max.other)
    assert not lower_program.is_pointwise(aten.max.dim)
    assert not lower_program.is_pointwise(aten.equal.default)
    assert not lower_program.is_pointwise(aten.rrelu.default)
