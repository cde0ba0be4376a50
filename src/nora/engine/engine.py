"""Runs a plan over many removals: in chunks that fit the memory, on several threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor, nn

from nora.engine.backends.backend import Backend
from nora.engine.backends.choice import FLOATS
from nora.engine.backends.pages import copied
from nora.engine.backends.vectorised import owner_of
from nora.engine.changed import Changed, Removals, merged
from nora.engine.chunks import Chunks
from nora.engine.edges import csr
from nora.engine.items import changes, worth_of_predictions
from nora.engine.ledger import Ledger
from nora.engine.plan import Plan, UnsupportedError, same
from nora.engine.rules import rule_for
from nora.engine.sampling import Sampling, Worth, worth_of
from nora.engine.steps.step import EVERYWHERE, Chunk
from nora.engine.tally import EXACTLY, Tally
from nora.engine.trace import decodes, trace
from nora.machine import usable_cores
from nora.problem import Problem
from nora.problem.calling import decoder_modules
from nora.problem.edit_resolution import Resolved
from nora.problem.edited import run_after
from nora.problem.removal import kept
from nora.problem.task import item_change
from nora.problem.tasks.link_prediction import LinkPrediction
from nora.stacklevel import warn

Answer = TypeVar("Answer")
# Full passes are made one at a time: a user's code need not bear several threads.
_PASSES = threading.Lock()
# Chunks larger than this fall out of the processor's caches and gain nothing.
CHUNK_BYTES = 64 * 2**20


def summed_in(dtype: torch.dtype) -> torch.dtype:
    """The precision of influences: the predictions' own, but never less than single."""
    return dtype if dtype in FLOATS else torch.float32


def _followed(problem: Problem, ledger: Ledger | None) -> Plan:
    """The model's plan, seen to give what the model gives; by rules where they do."""
    output = problem.output()
    if decodes(problem) and not problem.direct:
        assert isinstance(problem.task, LinkPrediction)
        more = () if problem.task.relation is None else (problem.task.relation,)
        output = problem.task.decoder(output, problem.task.pairs, *more)
    for rules in (True, False):
        plan = trace(problem, rules, ledger)
        try:
            plan.finish()
        except Exception as error:  # a step that does not run must not end the user's run
            if rules:
                continue
            told = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnsupportedError(f"a step that was made of it does not run ({told})") from error
        if same(plan.output.whole(), output):
            return plan
        if rules:
            _warn_of_rules(problem.model)
    raise UnsupportedError("what was recorded, done again, does not give what the model gives")


def _warn_of_rules(model: nn.Module) -> None:
    """Say so where a rule of the user's own gives something else than the model."""
    own = {
        type(module).__name__
        for module in model.modules()
        if (rule := rule_for(module)) is not None and not rule.__module__.startswith("nora.")
    }
    if own:
        warn(
            f"what the rule for {', '.join(sorted(own))} makes of this graph is not what the model gives: "
            "the model is followed without rules, operation by operation",
            RuntimeWarning,
        )


def output_after(problem: Problem, removals: Removals) -> tuple[Tensor, Tensor]:
    """What the plan's output is after one edit, by a full pass: which of its rows there are, and these."""
    none = torch.empty(0, dtype=torch.long)
    if len(removals.node) >= problem.num_nodes:
        return none.to(problem.device), problem.output()[:0]
    edges = none if removals.edge is None else removals.edge.cpu().sort().values
    done = Resolved(removals.node.cpu().sort().values, {}, edges, {}, {})
    passed = run_after(problem, done)
    rows = passed.output
    if decodes(problem):
        assert isinstance(passed.task, LinkPrediction)
        if not problem.direct:
            more = () if passed.task.relation is None else (passed.task.relation,)
            with problem.passes.state_kept(problem.model, *decoder_modules(passed.task)):
                rows = passed.task.decoder(rows, passed.task.pairs, *more)
        item = passed.survivors.nonzero().flatten()
        return item, rows[item] if problem.by_id else rows
    item = kept(removals.node.to(rows.device), problem.num_nodes).nonzero().flatten()
    return item, rows[item] if problem.by_id else rows


@dataclass
class Engine:
    """A plan with what is needed to score removals.

    Attributes:
        problem: The question.
        plan: The traced model.
        before: Predictions on `G`.
        backend: The compiled or the vectorised functions.
        sampling: How rows are drawn, where not all of those that change are to be computed.
        tally: What all chunks so far took.
    """

    problem: Problem
    plan: Plan
    before: Tensor
    backend: Backend
    sampling: Sampling | None = None
    tally: Tally = field(default_factory=Tally)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @staticmethod
    def prepare(problem: Problem, backend: Backend, ledger: Ledger | None = None) -> Engine:
        """Trace the model and compute what all removals share; a ledger takes note of it."""
        with torch.no_grad():
            plan = _followed(problem, ledger)
            if ledger is None:  # else rows may lie in files
                plan.settle()
            before = problem.predict()
        return Engine(problem, plan, before, backend)

    def asked(self, problem: Problem, backend: Backend) -> Engine:
        """The same engine for another question about the same model and graph."""
        if problem is self.problem and backend is self.backend:
            return self
        with torch.no_grad():
            other = Engine(problem, self.plan, problem.predict(), backend)
        return self._sharing_cost(other)

    def with_tolerance(self, tolerance: float, seed: int = 0) -> Engine:
        """The same engine, in estimates; what was prepared is shared.

        Args:
            tolerance: The relative error that is aimed at, by rows that are sampled; 0 for none.
            seed: Seed of the sampling.
        """
        other = Engine(self.problem, self.plan, self.before, self.backend)
        if tolerance > 0:
            other.sampling = Sampling(tolerance, seed, self.worth)
        return self._sharing_cost(other)

    @cached_property
    def worth(self) -> Worth:
        """How much rows matter for the predictions that count: what draws go by."""
        task, n = self.problem.task, self.plan.num_nodes
        per_node = not isinstance(task, LinkPrediction) and self.plan.output.space.size == n
        worth = worth_of_predictions(self.problem, self.before, n)
        return worth_of(self.plan.steps, self.plan.output, worth, per_node)

    def _sharing_cost(self, other: Engine) -> Engine:
        """The other engine, with the costs that are known here: they are those of the plan."""
        if "cost" in self.__dict__:
            other.__dict__["cost"] = self.cost
        if "worth" in self.__dict__ and other.problem is self.problem:
            other.__dict__["worth"] = self.worth
        return other

    def changed_output(
        self, removals: Removals, tally: Tally | None = None, exactly: bool = False
    ) -> Changed:
        """The model's output rows that change; all of them if `exactly`."""
        tally = Tally() if tally is None else tally
        broken = self.plan.guards.broken(removals)
        if bool(broken.any()):
            return self._partly_by_passes(removals, broken, tally, exactly)
        draws = None if exactly or self.sampling is None else self.sampling.of(removals)
        tally.sampled = None if draws is None else draws.sampled
        chunk = Chunk(removals, self.plan.num_nodes, self.backend, tally, draws=draws)
        with torch.no_grad():
            if len(removals.node) < self.plan.num_nodes * len(removals):
                changed = self.plan.run(chunk)
            else:  # nobody is left
                changed = Changed(
                    torch.zeros_like(removals.ptr), removals.node[:0], self.before[:0]
                )
            if self.problem.by_id and len(changed):
                changed = self._of_others(removals, changed)
        return changed

    def _partly_by_passes(
        self, removals: Removals, broken: Tensor, tally: Tally, exactly: bool
    ) -> Changed:
        """The same where some edits break a guard: each of these by a full pass on its graph."""
        if removals.gained or removals.features:
            raise UnsupportedError(self.plan.guards.why(removals))
        device = self.before.device
        kept_ = (~broken).nonzero().flatten().to(device)
        parts = [(kept_, self.changed_output(removals.picked(kept_), tally, exactly))]
        if tally.sampled is not None:  # full passes sample nothing
            sampled = tally.sampled.new_full((len(removals),), EXACTLY)
            sampled[kept_] = tally.sampled
            tally.sampled = sampled
        for at in broken.nonzero().flatten().to(device).split(1):
            with _PASSES, torch.no_grad():
                item, rows = output_after(self.problem, removals.picked(at))
            tally.full_passes += 1
            tally.bytes += rows.nbytes
            parts.append((at, Changed(torch.tensor([0, len(item)], device=device), item, rows)))
        with self._lock:
            self.tally.full_passes += len(parts) - 1
        return merged(len(removals), parts)

    def _of_others(self, removals: Removals, changed: Changed) -> Changed:
        """Without the rows of removed nodes, and of pairs with one: they are there, but do not count."""
        n = self.plan.num_nodes
        gone = owner_of(removals.ptr) * n + removals.node
        ends = changed.node.unsqueeze(0)
        if decodes(self.problem):
            assert isinstance(self.problem.task, LinkPrediction)
            ends = self.problem.task.pairs[:, changed.node]
        keep = ~torch.isin(ends + changed.removal * n, gone).any(dim=0)
        ptr = torch.zeros_like(removals.ptr)
        ptr[1:] = torch.bincount(changed.removal[keep], minlength=len(removals)).cumsum(0)
        weight = None if changed.weight is None else changed.weight[keep]
        return Changed(ptr, changed.node[keep], changed.rows[keep], weight)

    def changed_items(
        self, removals: Removals, changed: Changed, tally: Tally | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Predictions that change: `removal [Q]`, `item [Q]`, new prediction `[Q, …]`."""
        task = self.problem.task
        if not len(changed):
            empty = removals.node[:0]
            return empty, empty, self.before[:0]
        if not isinstance(task, LinkPrediction):
            return changed.removal, changed.node, task.predict(changed.rows)
        if decodes(self.problem):
            return changed.removal, changed.node, task.from_scores(changed.rows)
        if self.plan.output.depth >= EVERYWHERE:
            return self._all_pairs(task, removals, changed, tally)
        ptr, pair, ends = self.backend.touched_pairs(self.incident, task.pairs, removals, changed)
        if tally is not None:
            tally.bytes += 6 * pair.nbytes
        z = self.plan.output.whole()
        after = task.from_scores(self.backend.dots(pair, task.pairs, ends, z, changed.rows))
        counts = ptr[1:] - ptr[:-1]
        return torch.arange(len(counts), device=z.device).repeat_interleave(counts), pair, after

    def _all_pairs(
        self, task: LinkPrediction, removals: Removals, changed: Changed, tally: Tally | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Where every node changes, every surviving pair does: decoded all at once, per removal."""
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for at in range(len(removals)):
            span = slice(int(changed.ptr[at]), int(changed.ptr[at + 1]))
            z = self.plan.output.whole().clone()
            z[changed.node[span]] = changed.rows[span]
            gone = removals.node[int(removals.ptr[at]) : int(removals.ptr[at + 1])]
            _, alive = task.survivors(kept(gone, self.plan.num_nodes))
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
        indptr, _, end = csr(task.pairs.flatten(), task.pairs.flatten(), self.plan.num_nodes)
        return indptr, end % max(task.pairs.size(1), 1)

    def influences(self, removals: Removals, tally: Tally | None = None) -> Tensor:
        """`F` of every removal `[c]`."""
        return self._totals(removals, tally)[0].to(summed_in(self.before.dtype))

    def estimates(self, removals: Removals, tally: Tally | None = None) -> Tensor:
        """`F` of every removal, its standard error by the last draws, `Tally.sampled` `[c, 3]`, float64."""
        tally = Tally() if tally is None else tally
        total, variance = self._totals(removals, tally)
        sampled = torch.zeros_like(total) if tally.sampled is None else tally.sampled.to(total)
        return torch.stack([total, variance.sqrt(), sampled], dim=1)

    def _totals(self, removals: Removals, tally: Tally | None) -> tuple[Tensor, Tensor]:
        """`F` of every removal `[c]`, and the variance of its last draws."""
        tally = Tally() if tally is None else tally
        with torch.no_grad():
            changed = self.changed_output(removals, tally)
            if isinstance(self.problem.task, LinkPrediction):
                removal, item, after = self.changed_items(removals, changed, tally)
                change = item_change(self.before[item], after).double()
            else:
                removal, item = changed.removal, changed.node
                change = changes(self.backend, self.problem.task, self.before, changed).double()
            if self.problem.targets is not None:
                # Not a product: what does not count may be no number.
                change = torch.where(self.problem.targets[item], change, 0)
            zeros = torch.zeros(len(removals), dtype=torch.double, device=change.device)
            if changed.weight is None:
                return zeros.index_add(0, removal, change), zeros
            change = change * changed.weight
            spread = change.square() * (1 - 1 / changed.weight)
            return zeros.index_add(0, removal, change), zeros.index_add(0, removal, spread)

    def effect(self, removed: Tensor, edges: Tensor | None = None) -> Tensor:
        """Predictions after removing nodes and edges together, `[items, …]`; gone items keep theirs."""
        return self.effect_of(Removals.group(removed, edges))

    def effect_of(self, removals: Removals) -> Tensor:
        """Predictions after one removal, or any other edit, `[items, …]`; gone items keep theirs."""
        with torch.no_grad():
            changed = self.changed_output(removals, exactly=True)
            _, item, after = self.changed_items(removals, changed)
        result = copied(self.before)
        result[item] = after
        return result

    @cached_property
    def cost(self) -> Tensor:
        """Generous estimate of the bytes each node's removal takes on its way through the plan `[N]`."""
        n = self.plan.num_nodes
        source, target = self.plan.hops()
        other = source != target
        source, target = source[other], target[other]
        near = [step.output.depth for step in self.plan.steps if step.output.depth < EVERYWHERE]
        deepest = max(near, default=0) + 1
        walks = torch.ones(n, dtype=torch.double, device=source.device)
        ball = [walks.clone()]
        for _ in range(deepest + 1):
            walks = torch.zeros_like(walks).index_add(0, source, walks[target])
            ball.append(ball[-1] + walks)
        size = self.before.element_size()
        bytes_ = torch.zeros_like(walks)
        degree = (len(source) + n) / max(n, 1)
        for step in self.plan.steps:
            depth, space = step.output.depth, step.output.space
            if depth < 0:
                continue
            most = float(max(space.size, n))
            width = size * step.output.width + 32
            if depth >= EVERYWHERE:
                bytes_ += most * width
                continue
            per_node = max(1.0, space.size / max(n, 1))
            bytes_ += (ball[depth] * per_node).clamp(max=most) * width
            bytes_ += ball[depth + 1].clamp(max=degree * n) * 32
        if isinstance(self.problem.task, LinkPrediction) and not decodes(self.problem):
            pairs = self.problem.task.pairs.size(1)
            density = 2 * pairs / max(n, 1)
            reached = torch.full_like(walks, float(n))
            if self.plan.output.depth < EVERYWHERE:
                reached = ball[-2].clamp(max=n)
            bytes_ += (reached * density).clamp(max=pairs) * 96
        return bytes_

    def scores(
        self, nodes: Tensor, memory: int, workers: int | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield `(nodes, influences)` chunk by chunk, as they finish."""
        return self.by_chunks(self.influences, nodes, memory, workers)

    def cost_of(self, removals: Removals) -> Tensor:
        """The same for any removals `[c]`: what an edge changes is near one of its ends."""
        cost = self.cost.cpu()
        count = len(removals)
        found = torch.zeros(count, dtype=torch.double)
        found.index_add_(0, owner_of(removals.ptr.cpu()), cost[removals.node.cpu()])
        if removals.edge_ptr is not None and removals.edge is not None:
            ends = cost[self.problem.edge_index.cpu()[:, removals.edge.cpu()]].sum(dim=0)
            found.index_add_(0, owner_of(removals.edge_ptr.cpu()), ends)
        return found

    def by_chunks(
        self,
        ask: Callable[[Removals, Tally], Tensor],
        nodes: Tensor,
        memory: int,
        workers: int | None = None,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield `(nodes, ask(their removals))` chunk by chunk, as they finish, on several threads."""
        for which, values in self.in_chunks(ask, Removals.single(nodes), memory, workers):
            yield nodes[which], values

    def in_chunks(
        self,
        ask: Callable[[Removals, Tally], Answer],
        removals: Removals,
        memory: int,
        workers: int | None = None,
    ) -> Iterator[tuple[Tensor, Answer]]:
        """Yield `(which, ask(these removals))` chunk by chunk, as they finish, on several threads."""
        workers = workers or usable_cores()
        device = self.before.device
        cost = self.cost_of(removals)
        order = cost.argsort(descending=True, stable=True)
        chunks = Chunks(order, cost[order], min(memory // (2 * workers), CHUNK_BYTES))

        def work(which: Tensor, bound: float) -> tuple[Tensor, Answer]:
            tally = Tally()
            values = ask(removals.picked(which).to(device), tally)
            chunks.learn(tally.bytes / max(bound, 1.0))
            return which, values

        if workers == 1 or device.type != "cpu":
            yield from (work(*chunk) for chunk in chunks)
            return
        threads = torch.get_num_threads()
        running: deque[Future[tuple[Tensor, Answer]]] = deque()
        pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
        try:
            for chunk in chunks:
                running.append(pool.submit(work, *chunk))
                if len(running) > workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            try:
                pool.shutdown(wait=True, cancel_futures=True)
            finally:
                torch.set_num_threads(threads)
