"""NORA: every node's influence from one forward and one backward pass.

    F(r) ≈ Σ_{i=0}^{L−1} d̂_r^(L−1−i) · ĥ_r^(i)  +  k₃' · Topo_r

    d̂_r     = 1 − d_r / ((N−1)(d+β))
    ĥ_r^(i) = d_r/(d_r+β) · ‖(wᵀ ∂f/∂h_r^(i)) ∘ h_r^(i)‖_p
    Topo_r  = Σ_{i∈N(r)} Σ_{j∈N(i)} δα_ji
    δα_ji   = [k₁(1/√(d_i−1) − 1/√d_i) + (1−k₁)(1/(d_i−1) − 1/d_i)] · [k₂/√d_j + k₂'/d_j + (1−k₂−k₂')]

with `h_r^(i)` the input of message-passing layer `i` at node `r`, `f` the predictions summed over
all nodes, `d` the mean degree. The first part is what the others lose of `r`'s own message, to first
order; the second is how the weights of the remaining messages shift. Both are brought to the same
mean before `k₃'` weighs them.

Where the formula is silent: `1/(d_i−1)` at `d_i = 1` makes its bracket 1; isolated nodes score 0;
on directed graphs `d_r` counts the edges out of `r`, `d_i` and `d_j` the edges into `i` and `j`
(at least 1), and `N(r)` are the nodes that receive messages from `r`. Self-loops do not count. Nodes
that a model looks up by number have one-hot features.

Weighting `w`: `"sum"` takes the summed prediction for all nodes (as the paper writes), `"own"` each
node's own prediction (as the paper's experiments do). The default is `"own"`: without
tuning its mean Pearson over Cora and CiteSeer and four models is 0.81 against 0.76
(`benchmarks/methods.py`).

Reference: Fast Inference of Removal-Based Node Influence, WWW 2024.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nora.graph.node_index import Graph
from nora.methods import METHODS, MethodFacts
from nora.model import Problem
from nora.model.message_passing import LayerInputs, message_edges
from nora.options import option

Weighting = Literal["sum", "own"]


@dataclass(frozen=True)
class Degrees:
    """Degrees without self-loops: `out` and `into` `[N]`, and the edges themselves `[2, E]`."""

    out: Tensor
    into: Tensor
    edges: Tensor


def in_and_out_degrees(problem: Problem, dtype: torch.dtype) -> Degrees:
    """Count edges out of and into every node, self-loops left out."""
    # The paper's d_r, by direction and counted on the messages; what users call a node's
    # degree is `nora.graph.degrees`.
    edges = message_edges(problem)
    edges = edges[:, edges[0] != edges[1]]
    ones = torch.ones(edges.size(1), dtype=dtype, device=edges.device)
    zeros = torch.zeros(problem.num_nodes, dtype=dtype, device=edges.device)
    return Degrees(zeros.index_add(0, edges[0], ones), zeros.index_add(0, edges[1], ones), edges)


# A layer's values at some global ids; with several node types, one part for each.
LayerParts = list[tuple[slice, Tensor]]


class _LayerInputs:
    """The node inputs of every layer, in order; one input of several calls is recorded once.

    With several node types, the i-th input that is about a type belongs to layer `i`.
    """

    def __init__(self) -> None:
        self.layers: list[LayerParts] = []
        self._seen: list[tuple[Tensor, Tensor]] = []
        self._count: dict[int, int] = {}

    def __call__(self, value: Tensor, span: slice) -> Tensor:
        for given, known in self._seen:
            if value is given or value is known:
                return known
        used = value if value.requires_grad else value.detach().requires_grad_()
        self._seen.append((value, used))
        layer = self._count.get(span.start, 0)
        self._count[span.start] = layer + 1
        if layer == len(self.layers):
            self.layers.append([])
        self.layers[layer].append((span, used))
        return used


def _differentiable(data: Graph) -> Graph:
    """The graph with features that require gradients, so that everything computed from them does too.

    Otherwise the paths of the gradient would depend on the model's `requires_grad` flags.
    """
    data = copy.copy(data)
    for store in data.node_stores:
        x = store.get("x")
        if isinstance(x, Tensor) and x.is_floating_point() and x.layout == torch.strided:
            store.x = x.detach().requires_grad_()
    return data


def layer_terms(problem: Problem, weighting: Weighting) -> list[LayerParts]:
    """`(wᵀ ∂f/∂h^(i)) ∘ h^(i)` for every layer `i`, `[n, F_i]`: one forward, one backward."""
    recorder = _LayerInputs()
    with torch.enable_grad(), LayerInputs(problem, recorder):
        output = problem.run(_differentiable(problem.data))
        prediction = problem.task.predict(output)
    inputs = [h for parts in recorder.layers for _, h in parts]
    if not inputs:
        raise ValueError(
            f"the model {type(problem.model).__name__} ran no torch_geometric MessagePassing "
            f"layer, which nora needs; use {option('method', 'brute')}"
        )
    with torch.enable_grad():
        if problem.targets is not None:
            counted = problem.targets.to(prediction.dtype)
            prediction = prediction * counted.reshape(-1, *[1] * (prediction.dim() - 1))
        own = problem.task.credit(prediction, problem.num_nodes)
        weight = own.detach()
        if weighting == "sum":
            weight = weight.sum(dim=0, keepdim=True)
        gradients = torch.autograd.grad((weight * own).sum(), inputs, allow_unused=True)
    found = iter(gradients)
    terms = [
        [
            (span, torch.zeros_like(h) if gradient is None else gradient * h.detach())
            for (span, h), gradient in zip(parts, found, strict=False)
        ]
        for parts in recorder.layers
    ]
    numbered = _numbered(problem)
    terms[0] = [
        (span, term.flatten(1).sum(dim=1, keepdim=True) if span.start in numbered else term)
        for span, term in terms[0]
    ]
    return terms


def _numbered(problem: Problem) -> set[int]:
    """The first global ids of node types whose features are ids that the model looks up.

    Such features are one-hot: of `∂f/∂h ∘ h` only the entry of the node itself is not 0, and it is the
    product of the looked-up row with its gradient, one number per node.
    """
    starts = problem.node_index.starts.values() if problem.node_index.types else (0,)
    return {
        start
        for start, store in zip(starts, problem.data.node_stores, strict=True)
        if isinstance(x := store.get("x"), Tensor)
        and not x.is_floating_point()
        and x.numel() == len(x)
    }


def gradient_part(norms: Tensor, degree: Degrees, beta: float) -> Tensor:
    """`Σ_i d̂_r^(L−1−i) ĥ_r^(i)` from the layers' p-norms `[L, N]`."""
    d, num_nodes = degree.out, degree.out.numel()
    share = torch.where(d > 0, d / (d + beta).clamp(min=1e-12), torch.zeros_like(d))
    spread = (max(num_nodes - 1, 1) * (d.mean() + beta)).clamp(min=1e-12)
    d_hat = 1 - d / spread
    exponents = torch.arange(len(norms) - 1, -1, -1, device=d.device).unsqueeze(1)
    return (d_hat.unsqueeze(0) ** exponents * norms).sum(dim=0) * share


def topology_basis(degree: Degrees) -> Tensor:
    """The six sums `[2, 3, N]` that `Topo_r` is made of for any `k₁`, `k₂`, `k₂'`.

    The first index is the bracket of `i` (root, plain), the second the term of `j` (root, plain, 1).
    """
    d = degree.into
    less, full = (d - 1).clamp(min=1), d.clamp(min=1)
    bracket = torch.stack([1 / less.sqrt() - 1 / full.sqrt(), 1 / less - 1 / full])
    bracket = torch.where(d > 1, bracket, torch.ones_like(bracket))
    term = torch.stack([1 / full.sqrt(), 1 / full, torch.ones_like(full)])
    source, target = degree.edges
    neighbour_sum = torch.zeros_like(term).index_add(1, target, term[:, source])
    shifted = bracket.unsqueeze(1) * neighbour_sum
    return torch.zeros_like(shifted).index_add(2, source, shifted[:, :, target])


def topology_weights(k1: Tensor, k2: Tensor, k2_prime: Tensor) -> Tensor:
    """Weights `[…, 2, 3]` of the basis for settings of shape `[…]`."""
    bracket = torch.stack([k1, 1 - k1], dim=-1)
    term = torch.stack([k2, k2_prime, 1 - k2 - k2_prime], dim=-1)
    return bracket.unsqueeze(-1) * term.unsqueeze(-2)


def topology_part(degree: Degrees, k1: float, k2: float, k2_prime: float) -> Tensor:
    """`Topo_r` for every node, `[N]`."""
    basis = topology_basis(degree)
    weights = topology_weights(*basis.new_tensor([k1, k2, k2_prime]))
    return torch.einsum("ab,abn->n", weights, basis)


def combine(gradient: Tensor, topology: Tensor, k3_prime: float) -> Tensor:
    """Scale the structural part to the gradient part's mean, multiply it by `k₃'`, and add both."""
    scale = gradient.mean() / topology.mean().clamp(min=torch.finfo(topology.dtype).tiny)
    return gradient + k3_prime * scale * topology


def _check(**values: float) -> None:
    for name, value in values.items():
        high = {"beta": float("inf"), "k3_prime": float("inf"), "p": float("inf")}.get(name, 1.0)
        if not 0 <= value <= high:
            raise ValueError(f"{name}={value} is out of range: it must lie in [0, {high:g}]")


def norms_of(terms: list[LayerParts], p: float, num_nodes: int) -> Tensor:
    """The layers' p-norms `[L, N]`, 0 where a layer has no input of a node's type."""
    like = terms[0][0][1]
    norms = like.new_zeros(len(terms), num_nodes)
    for layer, parts in enumerate(terms):
        for span, term in parts:
            norms[layer, span] = term.flatten(1).norm(p=p, dim=1)
    return norms


def _norms(problem: Problem, p: float, weighting: Weighting) -> Tensor:
    if weighting not in ("sum", "own"):
        raise ValueError(f"weighting is {weighting!r}; it must be 'sum' or 'own'")
    return norms_of(layer_terms(problem, weighting), p, problem.num_nodes)


@METHODS.register(
    "nora",
    "the paper's approximation: one forward + one backward pass",
    MethodFacts(own_search=True),
)
def nora(
    problem: Problem,
    *,
    beta: float = 8.0,
    p: float = 1.0,
    k1: float = 1.0,
    k2: float = 0.5,
    k2_prime: float = 0.0,
    k3_prime: float = 1.0,
    weighting: Weighting = "own",
) -> Tensor:
    """Scores `[N]`; see the module for the formula and the meaning of its parameters."""
    _check(beta=beta, p=p, k1=k1, k2=k2, k2_prime=k2_prime, k3_prime=k3_prime)
    norms = _norms(problem, p, weighting)
    degree = in_and_out_degrees(problem, norms.dtype)
    return combine(
        gradient_part(norms, degree, beta), topology_part(degree, k1, k2, k2_prime), k3_prime
    )


@METHODS.register(
    "nora-t1",
    "NORA's gradient part alone (k3' = 0)",
    MethodFacts(own_search=True),
)
def nora_t1(
    problem: Problem, *, beta: float = 8.0, p: float = 1.0, weighting: Weighting = "own"
) -> Tensor:
    """Scores `[N]` without the structural part."""
    _check(beta=beta, p=p)
    norms = _norms(problem, p, weighting)
    return gradient_part(norms, in_and_out_degrees(problem, norms.dtype), beta)


@METHODS.register(
    "nora-t2",
    "NORA's structural part alone",
    MethodFacts(uses_model=False, uses_targets=False, own_search=True),
)
def nora_t2(problem: Problem, *, k1: float = 1.0, k2: float = 0.5, k2_prime: float = 0.0) -> Tensor:
    """Scores `[N]` from the degrees alone."""
    _check(k1=k1, k2=k2, k2_prime=k2_prime)
    return topology_part(in_and_out_degrees(problem, torch.get_default_dtype()), k1, k2, k2_prime)
