"""The Cauchy sketch: first-order influence of every node from a few backward passes.

Influence is an L1 norm, and the 1-stable law measures L1 norms by projection: if `c` has independent
standard Cauchy entries, `c·δ` is Cauchy with scale `‖δ‖₁`. One backward pass from the cotangent `c`
gives `c·δ(r)` to first order for *all* removals `r` at once (`nora.engine.estimate.linear`), so that
`samples` passes give every node as many draws, and the maximum-likelihood scale of its draws is its
score. Its relative standard error is `√(2 / samples)`; what first order leaves out comes on top.

No labels, no tuning; with `labels=`, a power law fitted to them corrects what first order overrates
in hubs. It costs about `2 · samples` forward passes whatever the reach of a removal is,
which matters where that is the whole graph: there `exact` has no advantage over `brute`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from typing import Any

import torch
from torch import Tensor

from nora.engine.estimate.linear import Gradients, Linearised
from nora.engine.exec.kernels.choice import FLOATS, BackendName
from nora.engine.ir.op import Tally
from nora.engine.prepared import Prepared
from nora.engine.unsupported import UnsupportedError
from nora.graph.edit_batch import EditBatch
from nora.memory import parse_bytes
from nora.methods import METHODS, MethodFacts, Part
from nora.methods.brute import brute
from nora.model import Problem
from nora.stacklevel import warn

STEPS = 60
# First order bends scores, it does not turn them round: a power law outside of this is noise.
BENDS = (0.2, 2.0)


@METHODS.register(
    "cauchy",
    "first-order sketch: needs no labels and no tuning",
    MethodFacts(
        uses_engine=True, labels="optional", execution_options=("memory", "workers", "backend")
    ),
)
def cauchy(
    problem: Problem,
    prepared: Prepared,
    *,
    samples: int = 64,
    seed: int = 0,
    memory: str | float = "2GB",
    workers: int | None = None,
    backend: BackendName = "auto",
) -> Generator[Part, None, dict[str, Any]]:
    """Yield estimates of `F(r)` chunk by chunk.

    Args:
        problem: The question.
        prepared: What is prepared for the exact engine.
        samples: Projections, one backward pass each; the relative error falls with their root.
        seed: Seed of the projections.
        memory: Memory limit of gradients and chunks together, e.g. `"2GB"`.
        workers: Threads; all cores by default.
        backend: As in `exact`.
    """
    if samples < 2:
        raise ValueError(f"samples must be at least 2, got {samples}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if problem.predict().dtype not in FLOATS:
        raise ValueError(
            f"cauchy needs a model in single or double precision, this one is in {problem.dtype}: use "
            "method='exact', or model.float()"
        )
    budget = parse_bytes(memory)
    start = time.perf_counter()
    try:
        engine = prepared.engine(problem, backend, len(problem.nodes))
        linearised = Linearised(engine)
    except UnsupportedError as reason:
        warn(f"cauchy falls back to brute force: {reason}", RuntimeWarning)
        with torch.no_grad():
            yield from brute(problem)
        return {"followed": "brute", "fallback": str(reason)}
    at_once = max(1, min(samples, budget // 2 // max(1, linearised.bytes_per_projection())))
    asked = problem.nodes if problem.labels is None else _with_labelled(problem)
    draws = torch.zeros(problem.num_nodes, samples, dtype=torch.double)
    generator = torch.Generator().manual_seed(seed)
    for first in range(0, samples, at_once):
        count = min(at_once, samples - first)
        gradients = linearised.gradients(_cotangent(problem, linearised, count, generator))

        def ask(removals: EditBatch, tally: Tally, gradients: Gradients = gradients) -> Tensor:
            return linearised.projections(removals, gradients, tally)

        removals = EditBatch.remove_nodes(asked)
        for which, values in engine.in_chunks(ask, removals, budget // 2, workers):
            nodes = asked[which]
            draws[nodes, first : first + count] = values.cpu()
            if first + count == samples and problem.labels is None:
                yield nodes, cauchy_scale(draws[nodes]).to(engine.before.dtype)
    if problem.labels is not None:
        scores = calibrated(cauchy_scale(draws), problem.labels)
        yield problem.nodes, scores[problem.nodes].to(engine.before.dtype)
    return {
        "followed": "engine",
        "backend": engine.backend.__name__.rpartition(".")[2],
        "relative_standard_error": math.sqrt(2 / samples),
        "sketch_seconds": time.perf_counter() - start,
    }


def _cotangent(
    problem: Problem, linearised: Linearised, count: int, generator: torch.Generator
) -> Tensor:
    """Standard Cauchy numbers `[count, items, …]`, 0 for predictions that do not count."""
    prediction = linearised.prediction
    uniform = torch.rand(count, *prediction.shape, generator=generator, dtype=torch.double)
    drawn = torch.tan(math.pi * (uniform - 0.5)).to(prediction)
    if problem.targets is None:
        return drawn
    return drawn * problem.targets.to(drawn).view(1, -1, *[1] * (prediction.dim() - 1))


def _with_labelled(problem: Problem) -> Tensor:
    assert problem.labels is not None
    labelled = (~problem.labels.isnan()).nonzero().flatten()
    return torch.cat([problem.nodes, labelled.to(problem.nodes.device)]).unique()


def calibrated(scores: Tensor, labels: Tensor) -> Tensor:
    """`a · scores^b` with `a` and `b` fitted to the labels `[N]` (NaN where unknown), in logarithms.

    Example:
        >>> found = calibrated(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([3.0, 6.0, float("nan")]))
        >>> [round(value, 3) for value in found.tolist()]
        [3.0, 6.0, 12.0]
    """
    known = (labels > 0) & (scores > 0)  # NaN is not above 0
    x, y = scores[known].double().log(), labels[known].double().log()
    if len(x) < 2 or float(x.max() - x.min()) < 1e-9:
        raise ValueError(
            f"{len(x)} labelled nodes with influence are too few to calibrate by; label more"
        )
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    slope = slope.clamp(*BENDS)
    level = y.mean() - slope * x.mean()
    found = torch.exp(level + slope * scores.double().clamp(min=1e-300).log())
    return torch.where(scores > 0, found, torch.zeros_like(found)).to(scores.dtype)


def cauchy_scale(draws: Tensor) -> Tensor:
    """Maximum-likelihood scale of Cauchy draws around 0, `[n, k] -> [n]`; 0 where all draws are.

    The scale `s` solves `mean(x² / (x² + s²)) = 1/2`; starting from the median, each step moves it by
    the ratio of the two sides' odds.

    Example:
        >>> draws = 3 * torch.tan(math.pi * (torch.rand(1, 9999, dtype=torch.double) - 0.5))
        >>> bool((cauchy_scale(draws) - 3).abs() < 0.3)
        True
    """
    size = draws.abs()
    scale = size.median(dim=1).values
    # With half of the draws 0 (only possible by chance, on the fewest draws) the mean is a start.
    scale = torch.where(scale > 0, scale, size.mean(dim=1))
    safe = torch.where(scale > 0, scale, torch.ones_like(scale))
    for _ in range(STEPS):
        above = (1 / (1 + (safe.unsqueeze(1) / size.clamp(min=1e-300)).square())).mean(dim=1)
        above = above.clamp(1e-6, 1 - 1e-6)
        safe = safe * (above / (1 - above)).sqrt()
    return torch.where(scale > 0, safe, torch.zeros_like(safe))
