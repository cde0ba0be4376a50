"""The first-order effect of every removal, in random projections, from a linearised program.

A removal changes each message-passing op in two ways: *directly*, because messages are missing and
weights are normalised again, and through rows that earlier ops have changed. The direct change of
each op is computed exactly by its own rule, and carried exactly through the row-wise functions after it
(activations, linear maps, the softmax of the last layer). Where changed rows enter the next message-passing
op, a gradient takes over:

    c·δ(r) ≈ Σ_steps [ c·(direct change of the predictions)
                       + Σ_inputs of later ops ⟨∂(c·p)/∂input, direct change of the input⟩ ]

The gradients come from one backward pass per projection `c`, for all removals at once. The part that would
return to `r` in the next op is subtracted, because `r` is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nora.engine.engine import Engine
from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.ir.op import Chunk, Op, Tally, Value
from nora.engine.rounding import same
from nora.engine.trace.model import decodes
from nora.engine.unsupported import UnsupportedError
from nora.graph.edit_batch import EditBatch
from nora.model.tasks.link_prediction import LinkPrediction
from nora.sparse import csr_matrix

Place = tuple[int, int]
# Where at least one row in so many has changed, a dense product is faster than a sparse one.
DENSE_ABOVE = 8


@dataclass(frozen=True)
class Gradients:
    """Gradients of some projections.

    The projections stand last, so that one sparse product serves all of them.

    Attributes:
        cotangent: The projections themselves, `[items · C, k]`.
        inputs: For each input of a message-passing op `(op, input)`, `[N · F, k]`.
        outputs: For each message-passing op, `[N · F, k]`.
    """

    cotangent: Tensor
    inputs: dict[Place, Tensor]
    outputs: dict[int, Tensor]


class Linearised:
    """An engine's program with gradients in place of propagation.

    Args:
        engine: The prepared engine.

    Raises:
        UnsupportedError: When the program cannot be differentiated.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ops = engine.program.ops
        self._inputs: dict[Place, Tensor] = {}
        self._outputs: dict[int, Tensor] = {}
        self._run()
        if not same(self.prediction.detach(), engine.before):
            raise UnsupportedError(
                "the output of the program on the whole graph differs from the model's"
            )
        # Only inputs behind another message-passing op are ever reached by a change.
        reached: set[Value] = set()
        for at, op in enumerate(self.ops):
            behind = any(value in reached for value in op.inputs)
            if not op.rowwise:
                for place, value in enumerate(op.inputs):
                    if value not in reached:
                        self._inputs.pop((at, place), None)
            if behind or not op.rowwise:
                reached.add(op.output)
        sent = {at for at, place in self._inputs if place == 0}
        self._outputs = {at: t for at, t in self._outputs.items() if at in sent}

    def _run(self) -> None:
        """Run the program with gradients, and store the tensors to differentiate by."""
        engine, rows = self.engine, dict[Value, Tensor]()
        with torch.enable_grad():
            for at, op in enumerate(self.ops):
                given = [rows[v] if v in rows else v.base_rows() for v in op.inputs]
                if not op.rowwise:
                    # A view of its own per use: its gradient then is that of this use alone.
                    given = [_leaf(g) for g in given]
                    self._inputs |= {
                        (at, place): g for place, g in enumerate(given) if g.requires_grad
                    }
                rows[op.output] = _differentiable(op, given)
                if not op.rowwise and rows[op.output].requires_grad:
                    self._outputs[at] = rows[op.output]
            output = rows.get(engine.program.output)
            if output is None or not output.requires_grad:
                raise UnsupportedError("the model's output does not depend on any message")
            task = engine.problem.task
            if decodes(engine.problem):
                assert isinstance(task, LinkPrediction)
                self.prediction = task.from_scores(output)
            else:
                self.prediction = task.predict(output)

    def bytes_per_projection(self) -> int:
        """Memory of one projection's gradients."""
        kept = [*self._inputs.values(), *self._outputs.values(), self.prediction]
        return sum(t.numel() * t.element_size() for t in kept)

    def gradients(self, cotangent: Tensor) -> Gradients:
        """Gradients of the projections `c·p` for `cotangent` `[k, items, …]`: `k` backward passes."""
        wanted = [*self._inputs.values(), *self._outputs.values()]
        found = [w.new_empty(w.numel(), len(cotangent)) for w in wanted]
        for k, c in enumerate(cotangent if wanted else ()):
            gradients = torch.autograd.grad(
                self.prediction, wanted, c, retain_graph=True, allow_unused=True
            )
            for kept, gradient in zip(found, gradients, strict=True):
                kept[:, k] = 0.0 if gradient is None else gradient.flatten()
        stacked = iter(found)
        return Gradients(
            cotangent.flatten(1).T.contiguous(),
            {place: next(stacked) for place in self._inputs},
            {at: next(stacked) for at in self._outputs},
        )

    def projections(self, edits: EditBatch, gradients: Gradients, tally: Tally) -> Tensor:
        """First-order `c·δ(r)` of every removal and projection, `[c, k]`, float64."""
        count = gradients.cotangent.size(1)
        total = torch.zeros(len(edits), count, dtype=torch.double, device=self.prediction.device)
        chunk = Chunk(edits, self.engine.program.num_nodes, self.engine.backend, tally=tally)
        with torch.no_grad():
            for at, op in enumerate(self.ops):
                if not op.rowwise and not op.output.static:
                    for terms in self._terms(at, op, chunk, gradients):
                        total += terms
        return total

    def _terms(self, at: int, op: Op, chunk: Chunk, gradients: Gradients) -> Iterator[Tensor]:
        """The contributions of the direct change of one op, `[c, k]` each."""
        edits = chunk.edits
        nothing = chunk.nothing()
        direct = op.changed(chunk, [nothing] * len(op.inputs))
        chunk.tally.bytes += direct.rows.nbytes + 4 * direct.node.nbytes
        rows = {op.output: direct}
        for later, after in enumerate(self.ops[at + 1 :], start=at + 1):
            changed = [rows.get(value, nothing) for value in after.inputs]
            if after.output.static or not any(len(c) for c in changed):
                continue
            if after.rowwise:
                rows[after.output] = made = after.changed(chunk, changed)
                chunk.tally.bytes += made.rows.nbytes
                continue
            for place, (value, c) in enumerate(zip(after.inputs, changed, strict=True)):
                if len(c) and (later, place) in gradients.inputs:
                    delta = c.rows - value.base_rows()[c.node]
                    chunk.tally.bytes += delta.nbytes + 16 * delta.numel()  # and as a sparse matrix
                    gradient = gradients.inputs[later, place]
                    yield _dots(gradient, c.edit, c.node, delta, len(edits))
                    if place == 0:
                        yield from self._returning(later, after, edits, c, delta, gradients)
        if self.engine.program.output in rows:
            engine = self.engine
            edit, item, new = engine.changed_items(edits, rows[engine.program.output], chunk.tally)
            change = new - engine.before[item]
            yield _dots(gradients.cotangent, edit, item, change, len(edits))

    def _returning(
        self,
        at: int,
        op: Op,
        edits: EditBatch,
        changed: ChangedRows,
        delta: Tensor,
        gradients: Gradients,
    ) -> Iterator[Tensor]:
        """Take back what would return to the removed node itself (single removals)."""
        if at not in gradients.outputs or not edits.one_node_each:
            return
        removed = edits.node[changed.edit]
        share = op.row_share(changed.node, removed)
        if share is None:
            return
        back = share.flatten(1).any(dim=1) if share.dim() > 1 else share != 0
        back = back.nonzero().flatten()
        if len(back):
            weight = share[back].to(delta.dtype)
            weight = weight.view(*weight.shape, *[1] * (delta.dim() - weight.dim()))
            edit, lost = changed.edit[back], delta[back] * weight
            yield -_dots(gradients.outputs[at], edit, removed[back], lost, len(edits))


def _differentiable(op: Op, inputs: list[Tensor]) -> Tensor:
    """All output rows of an operation, with a derivative by its inputs."""
    try:
        return op.compute(*inputs)
    except RuntimeError as error:  # an operation without a derivative
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnsupportedError(
            f"the model cannot be differentiated: {type(op).__name__}: {message}"
        ) from error


def _leaf(rows: Tensor) -> Tensor:
    """Rows whose gradient can be asked for, where they are numbers that have one."""
    if not rows.is_floating_point():
        return rows
    rows = rows if rows.requires_grad else rows.detach().requires_grad_()
    return rows.view_as(rows)


def _dots(gradient: Tensor, edit: Tensor, rows: Tensor, delta: Tensor, count: int) -> Tensor:
    """`Σ ⟨gradient at the row, delta⟩` over the rows of each removal, `[count, k]`.

    Args:
        gradient: `[N · F, k]`.
        removal: The removal each row belongs to `[M]`, sorted.
        rows: Which of the `N` rows each is `[M]`.
        delta: Its change `[M, …]`, `F` numbers each.
        count: Number of removals.
    """
    if not len(rows):
        return gradient.new_zeros(count, gradient.size(1))
    delta = delta.reshape(len(rows), -1)
    width = delta.size(1)
    nodes = gradient.size(0) // width
    if len(rows) * DENSE_ABOVE >= count * nodes:
        dense = delta.new_zeros(count, nodes, width)
        dense.index_put_((edit, rows), delta, accumulate=True)  # rows may repeat
        return dense.flatten(1) @ gradient
    column = rows.unsqueeze(1) * width + torch.arange(width, device=rows.device)
    ptr = torch.zeros(count + 1, dtype=torch.long, device=rows.device)
    ptr[1:] = width * torch.bincount(edit, minlength=count).cumsum(0)
    return csr_matrix(ptr, column.flatten(), delta.flatten(), gradient.size(0)) @ gradient
