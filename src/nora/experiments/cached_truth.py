"""True influences that outlive the code that computed them.

A truth depends on the weights, the graph, the task and the definition of influence alone: it is cached under
a digest of these. When the code of `exact` has changed since, a sample of the nodes is computed again and
compared. A difference is an error, because the old or the new code must be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nora.experiments.cache import read_numbers, write_numbers
from nora.results.influence import Influence
from nora.seeds import shuffled
from nora.training.run_folder import SPLIT, WEIGHTS, read_facts

DEFINITION = "F(r) = sum over all other predictions of |p(G) - p(G-r)|, eval mode"
# How many nodes are compared, and how far they may differ: brute force in float32 has noise of its own.
SAMPLE, TOLERANCE = 8, 5e-3


def truth_facts(run: Path, task: str) -> dict[str, Any] | None:
    """The facts that the truth of a saved run depends on; None if the run is not trained yet.

    Args:
        run: The run's folder.
        task: `node` or `link`.
    """
    if not run.exists():
        return None
    facts, files = read_facts(run)
    return {
        "definition": DEFINITION,
        "task": task,
        "pairs": files[SPLIT] if task == "link" else None,
        "graph": facts["graph"],
        "architecture": facts["architecture"],
        "weights": files[WEIGHTS],
    }


def save_truth(found: Influence, path: Path, code: str) -> None:
    """Write a truth and the digest of the code that computed it."""
    found.save(path)
    write_numbers([code], _record(path))


def load_truth(path: Path, code: str, compute: Callable[[Tensor], Influence]) -> Influence:
    """Read a truth; a sample is compared first when neither computed nor compared by this code.

    Args:
        path: What `save_truth` wrote.
        code: Digest of the code of `exact` as it is now.
        compute: The influence of some nodes by this code.
    """
    found = Influence.load(path)
    known = read_numbers(_record(path)) or []
    if code in known:
        return found
    nodes = _sample(found.scores)
    then, now = found.scores[nodes].double(), compute(nodes).scores[nodes].double()
    if not torch.allclose(now, then, rtol=TOLERANCE, atol=TOLERANCE * float(then.mean())):
        worst = int((now - then).abs().argmax())
        raise ValueError(
            f"node {int(nodes[worst])} has influence {then[worst]:.6g} in {path} and {now[worst]:.6g} by "
            "the code as it is now: one of the two is wrong. If it is the file, remove the cache folder"
        )
    write_numbers([*known, code], _record(path))
    return found


def _sample(scores: Tensor) -> Tensor:
    """The most influential nodes and as many random others, of those whose truth is known."""
    known = scores.isfinite().nonzero().flatten()
    order = known[scores[known].argsort(descending=True)]
    top = order[: SAMPLE // 2]
    others = order[SAMPLE // 2 :]
    return torch.cat([top, others[shuffled(len(others), 0)[: SAMPLE // 2]]]).sort().values


def _record(path: Path) -> Path:
    return path.with_suffix(".checked.json")
