"""Ways to score every node: one file per method.

A method is a function `(problem, *, options…)` that returns either the scores of all nodes
`[num_nodes]`, or an iterator of finished parts `(node ids, scores)`, for methods that work node by
node. An iterator may return a dictionary of facts about the run, kept as `Influence.details`.

Facts given on registration:
    chooses: True when the function returns the choice of another method instead.
    uses_model: False for structure-only yardsticks, which never run the model.
    runs_again: True when it runs the model on `G` once more and compares, so that nobody else need do so.
    uses_targets: False when the method cannot restrict itself to target predictions.
    exact: True when the scores equal the definition.
    labels: "required" when the method learns from known influences, "optional" when it can.
    space: Values to try for its options when it is tuned, `{option: (values…)}`.
    search: A search of its own, in place of trying the space: see `nora.tuning.tune`.
    execution_options: Options that change how the work is done, not the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from nora.registry import Registry

Part = tuple[Tensor, Tensor]
Method = Callable[..., Any]

METHODS: Registry[Method] = Registry("method", __name__)
