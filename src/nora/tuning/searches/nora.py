"""NORA's own search: hundreds of settings from one backward pass.

The gradient part is tried for every weighting, norm `p` and `β`, the structural part for every `k₁`,
`k₂`, `k₂'` (any setting is a weighted sum of the same six vectors), each by itself; then `k₃'` joins
the best of both. The objective is the Pearson correlation of a setting's scores with the labels, on the
labelled nodes. Given several problems, the scores are averaged over them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nora.methods.nora import (
    Degrees,
    Weighting,
    combine,
    gradient_part,
    in_and_out_degrees,
    layer_terms,
    norms_of,
    topology_basis,
    topology_part,
    topology_weights,
)
from nora.model import Problem
from nora.results.agreement import pearson_of_rows
from nora.tuning.searches import SEARCHES, Found

WEIGHTINGS: tuple[Weighting, ...] = ("own", "sum")
NORMS = (1.0, 2.0, 5.0)
BETAS = tuple(float(beta) for beta in range(26))
TENTHS = tuple(k / 10 for k in range(11))
K3_PRIMES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 40.0, 100.0)


@dataclass(frozen=True)
class _Labelled:
    """Labels averaged over the problems: node ids `[n]` and influences `[n]`, in float64."""

    nodes: Tensor
    influence: Tensor

    @staticmethod
    def of(problems: Sequence[Problem]) -> _Labelled:
        labels = torch.stack([p.known_influence().double() for p in problems]).mean(dim=0)
        nodes = (~labels.isnan()).nonzero().flatten()
        if len(nodes) < 2 or float(labels[nodes].max()) == float(labels[nodes].min()):
            raise ValueError(
                f"{len(nodes)} labelled nodes with {len(labels[nodes].unique())} different influences "
                "cannot distinguish the settings; label more nodes"
            )
        return _Labelled(nodes, labels[nodes])

    def pearson(self, scores: Tensor) -> Tensor:
        """Correlation of each row of `scores` `[settings, n]` with the labels; 0 for constant rows."""
        return torch.from_numpy(pearson_of_rows(scores, self.influence)).nan_to_num(0.0)


@SEARCHES.register("nora-t1", "the gradient part")
def search_gradient(problems: Sequence[Problem]) -> Found:
    """Best `weighting`, `p` and `beta` for `nora-t1`."""
    return _search_gradient(problems, _Labelled.of(problems))[0]


def _search_gradient(
    problems: Sequence[Problem], labelled: _Labelled
) -> tuple[Found, list[Tensor]]:
    """The best setting, and the gradient part `[N]` of each problem under it."""
    settings = [(w, p, beta) for w in WEIGHTINGS for p in NORMS for beta in BETAS]
    total = labelled.influence.new_zeros(len(settings), len(labelled.nodes))
    norms: list[dict[tuple[str, float], Tensor]] = []
    neighbour_degrees: list[Degrees] = []
    for problem in problems:
        mine: dict[tuple[str, float], Tensor] = {}
        for weighting in WEIGHTINGS:
            terms = layer_terms(problem, weighting)
            mine |= {(weighting, p): norms_of(terms, p, problem.num_nodes) for p in NORMS}
        degree = in_and_out_degrees(problem, terms[0][0][1].dtype)
        for row, (weighting, p, beta) in enumerate(settings):
            part = gradient_part(mine[weighting, p], degree, beta)
            total[row] += part[labelled.nodes].double()
        norms.append(mine)
        neighbour_degrees.append(degree)
    correlation = labelled.pearson(total)
    best = int(correlation.argmax())
    weighting, p, beta = settings[best]
    parts = [
        gradient_part(mine[weighting, p], degree, beta)
        for mine, degree in zip(norms, neighbour_degrees, strict=True)
    ]
    options = {"beta": beta, "p": p, "weighting": weighting}
    return Found(options, float(correlation[best]), len(settings)), parts


@SEARCHES.register("nora-t2", "the structural part")
def search_topology(problems: Sequence[Problem]) -> Found:
    """Best `k1`, `k2` and `k2_prime` for `nora-t2`."""
    return _search_topology(problems, _Labelled.of(problems))


def _search_topology(problems: Sequence[Problem], labelled: _Labelled) -> Found:
    grid = torch.tensor(
        [
            (k1, k2, k2_prime)
            for k1 in TENTHS
            for k2 in TENTHS
            for k2_prime in TENTHS
            if k2 + k2_prime <= 1 + 1e-9
        ],
        dtype=torch.double,
    )
    basis = sum(
        topology_basis(in_and_out_degrees(problem, torch.double))[:, :, labelled.nodes]
        for problem in problems
    )
    assert isinstance(basis, Tensor)
    weights = topology_weights(*grid.to(basis.device).unbind(dim=1))
    correlation = labelled.pearson(torch.einsum("sab,abn->sn", weights, basis))
    best = int(correlation.argmax())
    k1, k2, k2_prime = grid[best].tolist()
    return Found({"k1": k1, "k2": k2, "k2_prime": k2_prime}, float(correlation[best]), len(grid))


@SEARCHES.register("nora", "both parts, then k3'")
def search_nora(problems: Sequence[Problem]) -> Found:
    """Best options for `nora`: both parts by themselves, then `k3_prime`."""
    labelled = _Labelled.of(problems)
    gradient, parts = _search_gradient(problems, labelled)
    topology = _search_topology(problems, labelled)
    structures = [
        topology_part(in_and_out_degrees(problem, part.dtype), **topology.options)
        for problem, part in zip(problems, parts, strict=True)
    ]
    totals = [
        torch.stack(
            [
                combine(part, structure, k3_prime)[labelled.nodes].double()
                for part, structure in zip(parts, structures, strict=True)
            ]
        ).sum(dim=0)
        for k3_prime in K3_PRIMES
    ]
    correlation = labelled.pearson(torch.stack(totals))
    best = int(correlation.argmax())
    return Found(
        {**gradient.options, **topology.options, "k3_prime": K3_PRIMES[best]},
        float(correlation[best]),
        gradient.tried + topology.tried + len(K3_PRIMES),
    )
