"""The caller's model, graph and random state are left exactly as found, whatever happens."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import SGConv

import by_hand
import nora
from graphs import bridge, double, some_pairs
from networks import Patchwork, patchwork
from nora import LinkPrediction
from nora.methods import METHODS
from nora.model.preserve import evaluating, random_state_kept, seeded
from nora.model.tasks.link_prediction import dot_product

HOOKS = [
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_propagate_forward_hooks",
    "_propagate_forward_pre_hooks",
    "_message_forward_hooks",
    "_message_forward_pre_hooks",
    "_aggregate_forward_hooks",
    "_aggregate_forward_pre_hooks",
]


def used_model() -> tuple[Patchwork, Data]:
    """A model in the middle of a user's work: mixed modes, frozen parts, gradients, a hook."""
    model, data = patchwork(cached=True), double(bridge())
    model(data.x, data.edge_index).sum().backward()  # fills the cache and the gradients
    model.train()
    model.norm.eval()
    model.first.requires_grad_(False)
    model.shared.register_forward_hook(lambda *_: None)
    return model, data


def state(model: nn.Module, data: Data) -> dict[str, Any]:
    """All of what a caller could notice."""
    found: dict[str, Any] = {
        "modes": {name: module.training for name, module in model.named_modules()},
        "requires_grad": {name: p.requires_grad for name, p in model.named_parameters()},
        "gradients": {
            name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()
        },
        "weights": {key: value.clone() for key, value in model.state_dict().items()},
        "hooks": {
            (name, kind): list(getattr(module, kind).items())
            for name, module in model.named_modules()
            for kind in HOOKS
            if hasattr(module, kind)
        },
        "attributes": {
            name: sorted(key for key in vars(module)) for name, module in model.named_modules()
        },
        "cached": model.shared.cached,
        "cache": model.shared._cached_edge_index,
        "cache values": tuple(part.clone() for part in model.shared._cached_edge_index),
        "graph keys": sorted(data.keys()),
        "graph tensors": {key: id(value) for key, value in data.to_dict().items()},
        "graph values": {key: value.clone() for key, value in data.to_dict().items()},
        "x.requires_grad": data.x.requires_grad,
        "python": random.getstate(),
        "numpy": [str(part) for part in np.random.get_state()],
        "torch": torch.get_rng_state(),
        "dtype": torch.get_default_dtype(),
        "gradients enabled": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
    }
    return found


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def assert_as_found(before: dict[str, Any], model: nn.Module, data: Data) -> None:
    after = state(model, data)
    assert [key for key in before if not same(before[key], after[key])] == []
    assert before["cache"] is after["cache"]


@pytest.mark.parametrize("task", ["node", "link"])
@pytest.mark.parametrize("method", [entry.name for entry in METHODS])
def test_every_method_leaves_everything_as_found(method: str, task: str) -> None:
    model, data = used_model()
    posed = LinkPrediction(some_pairs(data)) if task == "link" else None
    before = state(model, data)
    learns = METHODS[method].facts.labels == "required"
    labels = torch.arange(float(data.num_nodes)) if learns else None
    nora.influence(model, data, method, posed, labels=labels, progress=False)
    assert_as_found(before, model, data)


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("method", [entry.name for entry in METHODS if entry.facts.uses_model])
def test_every_method_leaves_everything_as_found_when_it_breaks_off(
    method: str, kind: type[BaseException]
) -> None:
    model, data = used_model()
    calls = 0

    def breaks_later(z: Tensor, pairs: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls > 1:  # the first call is the check before the work
            raise kind("the power went out")
        return dot_product(z, pairs)

    task = LinkPrediction(some_pairs(data), breaks_later)
    before = state(model, data)
    with pytest.raises(kind, match="the power went out"):
        nora.influence(model, data, method, task, progress=False)
    assert_as_found(before, model, data)


def test_a_question_about_a_group_leaves_everything_as_found() -> None:
    model, data = used_model()
    before = state(model, data)
    nora.what_if(model, data, [1, 3])
    assert_as_found(before, model, data)


def test_a_refused_question_leaves_everything_as_found() -> None:
    model, data = used_model()
    before = state(model, data)
    with pytest.raises(ValueError, match="could not be run"):
        nora.influence(model, Data(x=data.x[:, :2], edge_index=data.edge_index), "brute")
    assert_as_found(before, model, data)


def test_a_model_in_train_mode_is_scored_in_eval_mode() -> None:
    data = double(bridge())
    evaluated = nora.influence(patchwork(), data, "brute", progress=False).scores
    training = patchwork().train()
    assert torch.equal(nora.influence(training, data, "brute", progress=False).scores, evaluated)
    assert training.training
    assert training.norm.training


def test_a_stale_cache_is_not_used() -> None:
    data, model = double(bridge()), patchwork(cached=True)
    other = copy.copy(data)
    other.edge_index = data.edge_index[:, ::2]
    model(other.x, other.edge_index)
    expected = nora.influence(patchwork(), data, "brute", progress=False).scores
    assert torch.equal(nora.influence(model, data, "brute", progress=False).scores, expected)


@pytest.mark.parametrize("method", ["brute", "exact"])
def test_what_a_layer_keeps_within_a_pass_counts(method: str) -> None:
    """`SGConv(cached=True)` keeps the rows it has propagated: called twice, it gives the same twice."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = SGConv(3, 3, K=2, cached=True)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.shared(self.shared(x, edge_index).tanh(), edge_index)

    torch.manual_seed(0)
    model = Twice().double().eval()
    data = double(Data(x=torch.randn(9, 3), edge_index=torch.randint(9, (2, 25))))
    found = nora.influence(model, data, method, progress=False)

    def fresh(model: nn.Module, data: Data) -> Tensor:
        return copy.deepcopy(model)(data.x, data.edge_index)

    truth = by_hand.influence(model, data, range(9), fresh)
    torch.testing.assert_close(found.scores, truth)


def test_evaluating_switches_modes_and_caches_only_inside() -> None:
    model, _ = used_model()
    cache = model.shared._cached_edge_index
    with evaluating(model):
        assert not any(module.training for module in model.modules())
        assert model.shared._cached_edge_index is None
    assert model.training
    assert not model.norm.training
    assert model.shared.cached is True
    assert model.shared._cached_edge_index is cache


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(1))


def test_random_state_is_kept_also_after_an_exception() -> None:
    with seeded(3):
        expected = draws()
    with seeded(3):
        with pytest.raises(KeyError), random_state_kept():
            draws()
            raise KeyError
        assert draws() == expected


def test_the_same_seed_draws_the_same_and_another_seed_something_else() -> None:
    drawn = []
    for seed in (1, 1, 2):
        with seeded(seed):
            drawn.append(draws())
    assert drawn[0] == drawn[1]
    assert all(a != b for a, b in zip(drawn[0], drawn[2], strict=True))
