"""Answers edits by a program: changed rows, changed predictions, influences."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from nora.engine.compile import compile_model
from nora.engine.cost import bytes_of_removals
from nora.engine.estimate.sampling import Importance, Sampling, importance_of
from nora.engine.exec.chunks import in_chunks
from nora.engine.exec.kernels.backend import Backend
from nora.engine.exec.kernels.choice import FLOATS
from nora.engine.exec.kernels.pages import copied
from nora.engine.ir.changed_rows import ChangedRows, merged, removed_keys
from nora.engine.ir.edges import csr
from nora.engine.ir.op import BLOCK_BYTES, EVERYWHERE, Chunk, Tally
from nora.engine.ir.pointers import owner_of
from nora.engine.program import Program
from nora.engine.store.array_store import ArrayStore
from nora.engine.trace.model import decodes
from nora.engine.trace.trace import Trace
from nora.engine.unsupported import UnsupportedError
from nora.graph.edit_batch import EditBatch
from nora.graph.removal import kept
from nora.machine import usable_cores
from nora.model import Problem
from nora.model.calling import decoder_modules
from nora.model.edited import Changes, run_after
from nora.model.task import Task, item_change
from nora.model.tasks.link_prediction import LinkPrediction
from nora.sparse import expanded

Answer = TypeVar("Answer")
# Full passes are made one at a time: a user's code need not bear several threads.
_PASSES = threading.Lock()


def summed_in(dtype: torch.dtype) -> torch.dtype:
    """The precision of influences: that of the predictions, but at least float32."""
    return dtype if dtype in FLOATS else torch.float32


def output_after(problem: Problem, removals: EditBatch) -> tuple[Tensor, Tensor]:
    """The model's output after one edit, by a full pass: the ids of the remaining rows, and these rows."""
    if len(removals.node) >= problem.num_nodes:
        none = torch.empty(0, dtype=torch.long, device=problem.device)
        return none, problem.output()[:0]
    passed = run_after(problem, removals)
    rows = passed.output
    if decodes(problem):
        assert isinstance(passed.task, LinkPrediction)
        if not problem.direct:
            with problem.passes.state_kept(problem.model, *decoder_modules(passed.task)):
                rows = passed.task.scores_of(rows)
        item = passed.survivors.nonzero().flatten()
        return item, rows[item] if problem.by_id else rows
    item = kept(removals.node.to(rows.device), problem.num_nodes).nonzero().flatten()
    return item, rows[item] if problem.by_id else rows


# What a sure prediction counts, beside one between two classes (0.5).
LEAST_IMPORTANCE = 0.05
# Where one removal in so many is asked for, large pages of memory gain more than they cost.
MANY = 10


def prediction_changes(
    backend: Backend, task: Task, before: Tensor, changed: ChangedRows
) -> Tensor:
    """L1 change of the prediction that each changed row is `[T]`.

    Args:
        backend: What compares them.
        task: Any but link prediction.
        before: Predictions on `G`, `[items, …]`.
        changed: Changed rows of the output, one for each item that changes.
    """
    rows, node = changed.rows, changed.node
    if not len(rows):
        return item_change(before[:0], before[:0])
    # Block by block, while rows and predictions are in cache.
    block = max(64, BLOCK_BYTES // max(rows[:1].nbytes, 1))
    parts = [
        backend.item_changes(before, some, task.predict(new))
        for some, new in zip(node.split(block), rows.split(block), strict=True)
    ]
    return torch.cat(parts)


def importance_of_predictions(problem: Problem, before: Tensor, num_nodes: int) -> Tensor:
    """How much a change of each node's output matters for the predictions that count `[N]`, float64."""
    task, targets = problem.task, problem.targets
    if isinstance(task, LinkPrediction):
        pairs = task.pairs if targets is None else task.pairs[:, targets]
        return torch.bincount(pairs.flatten(), minlength=num_nodes).double()
    importance = torch.ones(num_nodes, dtype=torch.double, device=before.device)
    if task.predicts in ("classes", "labels") and before.dim() == 2:
        # A sure prediction moves less than an unsure one; but a large change may still turn it.
        sure = before.double()
        importance = (sure * (1 - sure)).sum(dim=1) + LEAST_IMPORTANCE
    return importance if targets is None else importance * targets


@dataclass
class Engine:
    """A program, and everything else that scoring removals needs.

    Attributes:
        problem: The question.
        program: The traced model.
        before: Predictions on `G`.
        backend: The compiled or the vectorised functions.
        sampling: How changed rows are sampled; None to compute all.
        tally: Costs of all chunks so far.
    """

    problem: Problem
    program: Program
    before: Tensor
    backend: Backend
    sampling: Sampling | None = None
    tally: Tally = field(default_factory=Tally)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @staticmethod
    def prepare(
        problem: Problem,
        backend: Backend,
        array_store: ArrayStore | None = None,
        first: Trace | None = None,
        removals: int = 1,
    ) -> Engine:
        """Trace the model and compute what all removals share.

        Args:
            problem: The question.
            backend: The compiled or the vectorised functions.
            array_store: Collects arrays, to save them.
            first: The trace of a pass over `G`, if there is one.
            removals: How many will be asked for.
        """
        with torch.no_grad():
            program = compile_model(problem, array_store, first)
            # With a store, rows may lie in files.
            if array_store is None and removals >= problem.num_nodes / MANY:
                program.into_large_pages()
            before = problem.predict()
        return Engine(problem, program, before, backend)

    def asked(self, problem: Problem, backend: Backend) -> Engine:
        """The same engine for another question about the same model and graph."""
        if problem is self.problem and backend is self.backend:
            return self
        with torch.no_grad():
            other = Engine(problem, self.program, problem.predict(), backend)
        return self._sharing_cost(other)

    def with_tolerance(self, tolerance: float, seed: int = 0) -> Engine:
        """The same engine for estimates; prepared values are shared.

        Args:
            tolerance: The relative error that is aimed at, by rows that are sampled; 0 for none.
            seed: Seed of the sampling.
        """
        other = Engine(self.problem, self.program, self.before, self.backend)
        if tolerance > 0:
            other.sampling = Sampling(tolerance, seed, self.importance)
        return self._sharing_cost(other)

    @cached_property
    def importance(self) -> Importance:
        """Importance of rows for the predictions that count, by which rows are sampled."""
        task, n = self.problem.task, self.program.num_nodes
        per_node = not isinstance(task, LinkPrediction) and self.program.output.space.size == n
        importance = importance_of_predictions(self.problem, self.before, n)
        return importance_of(self.program.ops, self.program.output, importance, per_node)

    def _sharing_cost(self, other: Engine) -> Engine:
        """The other engine, with those cached values of this one that hold for it too."""
        mine, its = self.problem, other.problem
        shared = {"cost": mine.task is its.task or not isinstance(its.task, LinkPrediction)}
        shared["incident"] = mine.task is its.task
        shared["importance"] = other.before is self.before and its.targets is mine.targets
        for name, same in shared.items():
            if same and name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    def changed_output(
        self, removals: EditBatch, tally: Tally | None = None, exactly: bool = False
    ) -> ChangedRows:
        """The model's output rows that change; all of them if `exactly`."""
        tally = Tally() if tally is None else tally
        broken = self.program.guards.broken(removals)
        if bool(broken.any()):
            return self._partly_by_passes(removals, broken, tally, exactly)
        sampling = None if exactly or self.sampling is None else self.sampling.of(removals)
        tally.planned = None if sampling is None else sampling.planned
        chunk = Chunk(removals, self.program.num_nodes, self.backend, tally, sampling=sampling)
        with torch.no_grad():
            if len(removals.node) < self.program.num_nodes * len(removals):
                changed = self.program.run(chunk)
            else:  # no node remains
                changed = ChangedRows(
                    torch.zeros_like(removals.ptr), removals.node[:0], self.before[:0]
                )
            if self.problem.by_id and len(changed):
                changed = self._of_others(removals, changed)
        return changed

    def _partly_by_passes(
        self, removals: EditBatch, broken: Tensor, tally: Tally, exactly: bool
    ) -> ChangedRows:
        """The same if some edits break a guard: each of these takes a full pass."""
        if not removals.only_removes:
            raise UnsupportedError(self.program.guards.why(removals))
        device = self.before.device
        kept_ = (~broken).nonzero().flatten().to(device)
        parts = [(kept_, self.changed_output(removals.pick(kept_), tally, exactly))]
        if tally.planned is not None:  # full passes sample nothing
            planned = tally.planned.new_zeros(len(removals))
            planned[kept_] = tally.planned
            tally.planned = planned
        for at in broken.nonzero().flatten().to(device).split(1):
            with _PASSES, torch.no_grad():
                item, rows = output_after(self.problem, removals.pick(at))
            tally.full_passes += 1
            tally.bytes += rows.nbytes
            parts.append((at, ChangedRows(torch.tensor([0, len(item)], device=device), item, rows)))
        with self._lock:
            self.tally.full_passes += len(parts) - 1
        return merged(len(removals), parts)

    def _of_others(self, removals: EditBatch, changed: ChangedRows) -> ChangedRows:
        """Without the rows of removed nodes and of their pairs, which do not count."""
        n = self.program.num_nodes
        gone = removed_keys(removals, n)
        ends = changed.node.unsqueeze(0)
        if decodes(self.problem):
            assert isinstance(self.problem.task, LinkPrediction)
            ends = self.problem.task.pairs[:, changed.node]
        keep = ~torch.isin(ends + changed.edit * n, gone).any(dim=0)
        ptr = torch.zeros_like(removals.ptr)
        ptr[1:] = torch.bincount(changed.edit[keep], minlength=len(removals)).cumsum(0)
        weight = None if changed.weight is None else changed.weight[keep]
        return ChangedRows(ptr, changed.node[keep], changed.rows[keep], weight)

    def changed_items(
        self, removals: EditBatch, changed: ChangedRows, tally: Tally | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Predictions that change: `removal [Q]`, `item [Q]`, new prediction `[Q, …]`."""
        task = self.problem.task
        if not len(changed):
            empty = removals.node[:0]
            return empty, empty, self.before[:0]
        if not isinstance(task, LinkPrediction):
            return changed.edit, changed.node, task.predict(changed.rows)
        if decodes(self.problem):
            return changed.edit, changed.node, task.from_scores(changed.rows)
        if self.program.output.depth >= EVERYWHERE:
            return self._all_pairs(task, removals, changed, tally)
        z = self.program.output.base_rows()
        ptr, pair, dots = self.backend.pair_dots(self.incident, task.pairs, removals, changed, z)
        if tally is not None:
            tally.bytes += 6 * pair.nbytes
        return owner_of(ptr), pair, task.from_scores(dots)

    def _all_pairs(
        self, task: LinkPrediction, removals: EditBatch, changed: ChangedRows, tally: Tally | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """If every node changes, every remaining pair does: all are decoded at once, per removal."""
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for at in range(len(removals)):
            span = slice(int(changed.ptr[at]), int(changed.ptr[at + 1]))
            z = self.program.output.base_rows().clone()
            z[changed.node[span]] = changed.rows[span]
            gone = removals.node[int(removals.ptr[at]) : int(removals.ptr[at + 1])]
            _, alive = task.survivors(kept(gone, self.program.num_nodes))
            pair = alive.nonzero().flatten()
            parts.append((torch.full_like(pair, at), pair, task.predict(z)[pair]))
        removal, pair, after = (torch.cat(column) for column in zip(*parts, strict=True))
        if tally is not None:
            tally.bytes += 3 * pair.nbytes + 3 * after.nbytes
        return removal, pair, after

    @cached_property
    def incident(self) -> tuple[Tensor, Tensor]:
        """The pairs at every node in CSR form: `indptr [N+1]`, `pair`."""
        task = self.problem.task
        assert isinstance(task, LinkPrediction)
        indptr, _, end = csr(task.pairs.flatten(), task.pairs.flatten(), self.program.num_nodes)
        return indptr, end % max(task.pairs.size(1), 1)

    def influences(self, removals: EditBatch, tally: Tally | None = None) -> Tensor:
        """`F` of every removal `[c]`."""
        return self._totals(removals, tally)[0].to(summed_in(self.before.dtype))

    def estimates(self, removals: EditBatch, tally: Tally | None = None) -> Tensor:
        """`F` of every removal, its standard error by the last draws, and the one that was planned `[c, 3]`.

        The second is in units of `F` and found by what was drawn, the third in units of importance and known
        before: the root of `Tally.planned`, 0 where all rows were computed. All are float64.
        """
        tally = Tally() if tally is None else tally
        total, variance = self._totals(removals, tally)
        planned = torch.zeros_like(total) if tally.planned is None else tally.planned.to(total)
        return torch.stack([total, variance.sqrt(), planned.sqrt()], dim=1)

    def _totals(self, removals: EditBatch, tally: Tally | None) -> tuple[Tensor, Tensor]:
        """`F` of every removal `[c]`, and the variance of its last sample."""
        tally = Tally() if tally is None else tally
        with torch.no_grad():
            changed = self.changed_output(removals, tally)
            if isinstance(self.problem.task, LinkPrediction):
                removal, item, after = self.changed_items(removals, changed, tally)
                change = item_change(self.before[item], after).double()
            else:
                removal, item = changed.edit, changed.node
                change = prediction_changes(
                    self.backend, self.problem.task, self.before, changed
                ).double()
            if self.problem.targets is not None:
                # Not a product: what does not count may be no number.
                change = torch.where(self.problem.targets[item], change, 0)
            zeros = torch.zeros(len(removals), dtype=torch.double, device=change.device)
            if changed.weight is None:
                return zeros.index_add(0, removal, change), zeros
            change = change * changed.weight
            spread = change.square() * (1 - 1 / changed.weight)
            return zeros.index_add(0, removal, change), zeros.index_add(0, removal, spread)

    def effect_of(self, removals: EditBatch) -> Tensor:
        """Predictions after one edit, `[items, …]`; removed items keep theirs."""
        changes = self.changes_of(removals)
        result = copied(self.before)
        result[changes.item] = changes.after
        return result

    def changes_of(self, removals: EditBatch) -> Changes:
        """The predictions that one edit changes; allocates nothing of the size of the graph."""
        with torch.no_grad():
            changed = self.changed_output(removals, exactly=True)
            _, item, after = self.changed_items(removals, changed)
            item, order = item.sort()
        removed = removals.node
        if isinstance(self.problem.task, LinkPrediction):
            indptr, pair = self.incident
            removed = pair[expanded(indptr, removed)[1]].unique()
        return Changes(item, after[order], removed)

    @cached_property
    def cost(self) -> Tensor:
        """Generous estimate of the bytes each node's removal takes on its way through the program `[N]`."""
        task = self.problem.task
        pairs = 0
        if isinstance(task, LinkPrediction) and not decodes(self.problem):
            pairs = task.pairs.size(1)
        return bytes_of_removals(self.program, self.before.element_size(), pairs)

    def cost_of(self, removals: EditBatch) -> Tensor:
        """The same for any edits `[c]`; an edge costs as much as its two ends."""
        cost = self.cost.cpu()
        count = len(removals)
        found = torch.zeros(count, dtype=torch.double)
        found.index_add_(0, owner_of(removals.ptr.cpu()), cost[removals.node.cpu()])
        if len(removals.edge):
            ends = cost[self.problem.edge_index.cpu()[:, removals.edge.cpu()]].sum(dim=0)
            found.index_add_(0, owner_of(removals.edge_ptr.cpu()), ends)
        for key, added in removals.added_edges.items():
            ends = cost[added.edge_index.cpu() + self.program.templates.shift(key)].sum(dim=0)
            found.index_add_(0, owner_of(added.ptr.cpu()), ends)
        for kind, changed in removals.features.items():
            start = 0 if kind is None else self.program.templates.starts[kind]
            found.index_add_(0, owner_of(changed.ptr.cpu()), cost[changed.node.cpu() + start])
        return found

    def in_chunks(
        self,
        ask: Callable[[EditBatch, Tally], Answer],
        removals: EditBatch,
        memory: int,
        workers: int | None = None,
    ) -> Iterator[tuple[Tensor, Answer]]:
        """Yield `(which, ask(these removals))` chunk by chunk, as they finish, on several threads."""

        def work(which: Tensor) -> tuple[Answer, int]:
            tally = Tally()
            return ask(removals.pick(which), tally), tally.bytes

        yield from in_chunks(work, self.cost_of(removals), memory, workers or usable_cores())
