"""A plan linearised: what every removal does to first order, seen through random projections.

A removal changes each message-passing step in two ways: *directly*, because messages are missing and
weights are normalised anew, and through rows that earlier steps have changed. The direct change of
each step is computed exactly by its own rule, and so is what the row-wise maps after it (activations,
linear maps, the softmax of the last layer) make of it. Only then, where changed rows enter the next
message-passing step, a gradient takes over:

    c·δ(r) ≈ Σ_steps [ c·(direct change of the predictions)
                       + Σ_inputs of later steps ⟨∂(c·p)/∂input, direct change of the input⟩ ]

The gradients come from one backward pass per projection `c`, for all removals at once. A change that
would return to `r` in the next step does not count: `r` is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nora.incremental.changed import Changed, Removals
from nora.incremental.engine import Engine
from nora.incremental.plan import UnsupportedError, same
from nora.incremental.steps import Chunk, Rows, Step, Tally

Place = tuple[int, int]


@dataclass(frozen=True)
class Gradients:
    """Gradients of some projections.

    Attributes:
        cotangent: The projections themselves, `[k, items, …]`.
        inputs: For each input of a message-passing step `(step, input)`, `[k, N, F]`.
        outputs: For each message-passing step, `[k, N, F]`.
    """

    cotangent: Tensor
    inputs: dict[Place, Tensor]
    outputs: dict[int, Tensor]


class Linearised:
    """An engine's plan with gradients in place of propagation.

    Args:
        engine: The prepared engine.

    Raises:
        UnsupportedError: When the plan cannot be differentiated.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.steps = engine.plan.steps
        self._inputs: dict[Place, Tensor] = {}
        self._outputs: dict[int, Tensor] = {}
        rows: dict[int, Tensor] = {}
        with torch.enable_grad():
            for at, step in enumerate(self.steps):
                given = [rows[id(v)] if id(v) in rows else v.whole() for v in step.inputs]
                if not isinstance(step, Rows):
                    # A view of its own per use: its gradient then is that of this use alone.
                    given = [g if g.requires_grad else g.detach().requires_grad_() for g in given]
                    given = [g.view_as(g) for g in given]
                    self._inputs |= {(at, place): g for place, g in enumerate(given)}
                rows[id(step.output)] = step.whole(*given)
                if not isinstance(step, Rows):
                    self._outputs[at] = rows[id(step.output)]
            output = rows.get(id(engine.plan.output))
            if output is None or not output.requires_grad:
                raise UnsupportedError("the model's output does not depend on any message")
            self.prediction = engine.problem.task.predict(output)
        if not same(self.prediction.detach(), engine.before):
            raise UnsupportedError("the plan, run as a whole, does not give what the model gives")
        # Only inputs behind another message-passing step are ever reached by a change.
        reached: set[int] = set()
        for at, step in enumerate(self.steps):
            behind = any(id(value) in reached for value in step.inputs)
            if not isinstance(step, Rows):
                for place, value in enumerate(step.inputs):
                    if id(value) not in reached:
                        del self._inputs[at, place]
            if behind or not isinstance(step, Rows):
                reached.add(id(step.output))
        sent = {at for at, place in self._inputs if place == 0}
        self._outputs = {at: t for at, t in self._outputs.items() if at in sent}

    def bytes_per_projection(self) -> int:
        """Memory of one projection's gradients."""
        kept = [*self._inputs.values(), *self._outputs.values(), self.prediction]
        return sum(t.numel() * t.element_size() for t in kept)

    def gradients(self, cotangent: Tensor) -> Gradients:
        """Gradients of the projections `c·p` for `cotangent` `[k, items, …]`: `k` backward passes."""
        wanted = [*self._inputs.values(), *self._outputs.values()]
        found: list[list[Tensor]] = [[] for _ in wanted]
        for c in cotangent if wanted else ():
            gradients = torch.autograd.grad(
                self.prediction, wanted, c, retain_graph=True, allow_unused=True
            )
            for kept, gradient, like in zip(found, gradients, wanted, strict=True):
                kept.append(torch.zeros_like(like) if gradient is None else gradient)
        stacked = iter([torch.stack(kept) for kept in found])
        return Gradients(
            cotangent,
            {place: next(stacked) for place in self._inputs},
            {at: next(stacked) for at in self._outputs},
        )

    def projections(self, removals: Removals, gradients: Gradients, tally: Tally) -> Tensor:
        """First-order `c·δ(r)` of every removal and projection, `[c, k]`, float64."""
        count = gradients.cotangent.size(0)
        total = torch.zeros(len(removals), count, dtype=torch.double, device=self.prediction.device)
        chunk = Chunk(removals, self.engine.plan.num_nodes, self.engine.backend, tally=tally)
        with torch.no_grad():
            for at, step in enumerate(self.steps):
                if not isinstance(step, Rows):
                    for removal, terms in self._terms(at, step, chunk, gradients):
                        total.index_add_(0, removal, terms.double().T)
        return total

    def _terms(
        self, at: int, step: Step, chunk: Chunk, gradients: Gradients
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """What the direct change of one step contributes: removals `[M]` and values `[k, M]`."""
        removals = chunk.removals
        nothing = Changed(torch.zeros_like(removals.ptr), removals.node[:0], torch.empty(0))
        direct = step.changed(chunk, [nothing] * len(step.inputs))
        rows = {id(step.output): direct}
        for later, after in enumerate(self.steps[at + 1 :], start=at + 1):
            changed = [rows.get(id(value), nothing) for value in after.inputs]
            if not any(len(c) for c in changed):
                continue
            if isinstance(after, Rows):
                rows[id(after.output)] = after.changed(chunk, changed)
                continue
            for place, (value, c) in enumerate(zip(after.inputs, changed, strict=True)):
                if len(c):
                    delta = c.rows - value.whole()[c.node]
                    yield c.removal, _dots(gradients.inputs[later, place], c.node, delta)
                    if place == 0:
                        yield from self._returning(later, after, removals, c, delta, gradients)
        if id(self.engine.plan.output) in rows:
            engine = self.engine
            removal, item, new = engine.changed_items(
                removals, rows[id(engine.plan.output)], chunk.tally
            )
            yield removal, _dots(gradients.cotangent, item, new - engine.before[item])

    def _returning(
        self,
        at: int,
        step: Step,
        removals: Removals,
        changed: Changed,
        delta: Tensor,
        gradients: Gradients,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Take back what would return to the removed node itself (single removals)."""
        if at not in gradients.outputs or len(removals.node) != len(removals):
            return
        gone = removals.node[changed.removal]
        share = step.share(changed.node, gone)
        if share is None:
            return
        back = share.flatten(1).any(dim=1) if share.dim() > 1 else share != 0
        back = back.nonzero().flatten()
        if len(back):
            weight = share[back].to(delta.dtype)
            weight = weight.view(*weight.shape, *[1] * (delta.dim() - weight.dim()))
            dots = _dots(gradients.outputs[at], gone[back], delta[back] * weight)
            yield changed.removal[back], -dots


def _dots(gradient: Tensor, rows: Tensor, delta: Tensor) -> Tensor:
    """`⟨gradient[k, rows], delta⟩` for every projection, `[k, M]`."""
    delta = delta.flatten(1) if delta.dim() > 1 else delta.unsqueeze(1)
    # One projection at a time: `[k, M, F]` at once would not fit.
    return torch.stack(
        [(g.reshape(g.size(0), -1)[rows] * delta).sum(dim=1) for g in gradient.unbind()]
    )
