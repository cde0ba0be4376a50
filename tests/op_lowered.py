"""Operations as small models, and the rows that the engine's program gives after edits of the graph.

An argument with a row per node first takes the largest of its own and its neighbours' entries. So a removal
changes the rows of a few nodes, and every entry stays one that the sample held: in the operation's domain.

`lowered` is the one function that knows how a model becomes a program, and how a program is run.
"""

from __future__ import annotations

import warnings
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from by_hand import without
from edge_samples import EdgeSample, flat, graphs, rows_of
from nora.engine.edit_support import unsupported_removed_edges
from nora.engine.engine import Engine
from nora.engine.exec.kernels import vectorised
from nora.engine.ir.changed_rows import ChangedRows
from nora.engine.lower.lowerings import LOWERINGS, load
from nora.engine.unsupported import UnsupportedError
from nora.graph.edit_batch import EditBatch
from nora.model import build_problem
from nora.model.tasks.node_regression import NodeRegression
from op_samples import Case

# A number that no sample holds stands for NaN: the engine asks for numbers.
FOR_NAN = -77.0


class NotApplicableError(Exception):
    """A sample is not a model: it does not run on other graphs, is random, or its result has no rows."""


class Rows(NamedTuple):
    """Rows that are left after an edit, by the program and by the model itself."""

    program: Tensor
    truth: Tensor

    @property
    def same(self) -> bool:
        """Whether they agree up to rounding."""
        if self.program.shape != self.truth.shape:
            return False
        return torch.allclose(self.program, self.truth, rtol=1e-9, atol=1e-10, equal_nan=True)


class Applied(nn.Module):
    """The operation on what nodes and their neighbours hold; gives a row per node.

    Args:
        case: The operation.
        names: The attribute of the graph that holds each argument with a row per node.
        sized: The axes of the result whose size depends on the number of nodes.
        factor: How many entries along the first of them belong to one node.
        inner: Whether the entries of one node lie apart.
        finite: Whether the result is.
    """

    def __init__(
        self,
        case: Case,
        names: dict[int, str],
        sized: list[int],
        factor: int,
        inner: bool,
        finite: bool,
    ) -> None:
        super().__init__()
        self.case, self.names, self.sized = case, names, sized
        self.factor, self.inner, self.finite = factor, inner, finite

    def forward(self, data: Data) -> Tensor:
        rows = {
            at: _with_neighbours(data[name], data.edge_index) for at, name in self.names.items()
        }
        nodes = next(iter(rows.values())).size(0)
        found = self.case.result(rows)
        for axis in reversed(self.sized[1:]):
            found = found.sum(dim=axis)
        if self.sized:
            axis = self.sized[0]
            if self.factor > 1:
                parts = (self.factor, nodes) if self.inner else (nodes, self.factor)
                found = found.unflatten(axis, parts)
                axis += self.inner
            found = found.movedim(axis, 0).flatten(1) if found.dim() > 1 else found.unsqueeze(1)
        else:
            found = found.reshape(1, -1).expand(nodes, found.numel())
        found = found if found.dtype == torch.double else found.to(torch.double)
        return found if self.finite else found.nan_to_num(FOR_NAN, posinf=1e3, neginf=-1e3)


def _with_neighbours(rows: Tensor, edge_index: Tensor) -> Tensor:
    """Every entry the largest of a node's own and its neighbours'."""
    flat = rows.reshape(rows.size(0), -1)
    if rows.dtype == torch.bool:
        flat = flat.long()
    source, target = edge_index
    index = target.unsqueeze(1).expand(target.size(0), flat.size(1))
    found = flat.scatter_reduce(0, index, flat[source], "amax", include_self=True)
    found = found != 0 if rows.dtype == torch.bool else found
    return found.reshape(rows.shape)


def _graph(case: Case, names: dict[int, str]) -> Data:
    """A path with a branch: every removal changes some rows and leaves others."""
    n = case.num_nodes
    path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    edges = torch.cat([path, torch.tensor([[0, n - 1], [2, 0]])], dim=1)
    rows = case.rows()
    given = {name: rows[at].contiguous() for at, name in names.items()}
    return Data(edge_index=edges, num_nodes=n, **given)


def _models(case: Case) -> list[Applied]:
    """The models of a case: where rows are merged with another axis, it may be either way round.

    Raises:
        NotApplicableError: There is none.
    """
    rows, n = case.rows(), case.num_nodes
    try:
        torch.default_generator.manual_seed(0)
        whole = case.result(rows)
        fewer = case.result({at: own[1:] for at, own in rows.items()})
        case.result({at: torch.cat([own, own[1:]]) for at, own in rows.items()})
        torch.default_generator.manual_seed(1)
        again = case.result(rows)
    except Exception as error:  # whatever torch says of these sizes
        raise NotApplicableError(str(error)) from error
    if whole.is_complex() or whole.layout != torch.strided or whole.dim() != fewer.dim():
        raise NotApplicableError(
            "the result is complex, sparse, or has other axes with a row fewer"
        )
    if not whole.numel() or not torch.equal(whole.nan_to_num(), again.nan_to_num()):
        raise NotApplicableError("the result is empty or random")
    sizes = list(zip(whole.shape, fewer.shape, strict=True))
    sized = [axis for axis, (a, b) in enumerate(sizes) if a != b]
    factor = sizes[sized[0]][0] // n if sized else 1
    if any(a % n or b != a // n * (n - 1) for a, b in (sizes[axis] for axis in sized)):
        raise NotApplicableError("the result has no row for every node")
    finite = bool(whole.isfinite().all())
    names = {
        at: "x" if own.isfinite().all() and at == min(rows) else f"node_{at}"
        for at, own in rows.items()
    }
    either = (False, True) if factor > 1 else (False,)
    return [Applied(case, names, sized, factor, inner, finite) for inner in either]


def lowered(case: Case) -> list[Rows]:
    """The rows that are left after each of several edits, by the engine's program and by the model.

    The edits are: none, some nodes removed one by one, two at once, and a node's features replaced.

    Raises:
        UnsupportedError: The engine refuses the operation.
        NotApplicableError: The sample is not a model.
    """
    refused = UnsupportedError("")
    for model in _models(case):
        try:
            return _by_program(model, _graph(case, model.names))
        except UnsupportedError as error:
            refused = error
    raise refused


@torch.no_grad()
def _by_program(model: Applied, data: Data) -> list[Rows]:
    problem = build_problem(model, data, NodeRegression(), forward=lambda model, data: model(data))
    n = problem.num_nodes
    single = range(n) if n <= 6 else (0, 1, 2, n // 2, n - 1)
    groups = [[], *([node] for node in single), *([[0, n - 1]] if n > 4 else [])]
    try:
        truth = [
            problem.run(problem.without(torch.tensor(group, dtype=torch.long))) for group in groups
        ]
    except Exception as error:
        raise NotApplicableError(str(error)) from error
    try:
        engine = Engine.prepare(problem, vectorised)
    except ValueError as error:  # users get it before any engine is prepared
        raise UnsupportedError(str(error)) from error
    ptr = torch.tensor([0, *map(len, groups)]).cumsum(0)
    node = torch.tensor(list(chain.from_iterable(groups)), dtype=torch.long)
    removals = EditBatch(ptr, node, torch.zeros_like(ptr), node[:0])
    broken = engine.program.guards.broken(removals)  # these would be full passes
    if bool(broken[1:].all()):
        raise UnsupportedError("every edit needs a full pass")
    base, found = engine.program.output.base_rows(), []
    changed = _run(engine, removals)
    for at, group in enumerate(groups):
        if not bool(broken[at]):
            left = [node for node in range(n) if node not in group]
            found.append(Rows(_after(base, changed, at)[left], truth[at]))
    return found + _edited_features(engine, model, data)


def _edited_features(engine: Engine, model: Applied, data: Data) -> list[Rows]:
    """The same where node 1 gets the features of the last node."""
    if None not in engine.program.features:
        return []
    edited = data.clone()
    edited.x[1] = data.x[-1]
    try:
        truth = model(edited)
    except Exception as error:
        raise NotApplicableError(str(error)) from error
    batch = EditBatch.of(features={None: (torch.tensor([1]), edited.x[1:2])})
    changed = _run(engine, batch)
    return [Rows(_after(engine.program.output.base_rows(), changed, 0), truth)]


def _run(engine: Engine, removals: EditBatch) -> ChangedRows:
    try:
        return engine.changed_output(removals)
    except UnsupportedError:
        raise
    except Exception as error:  # users get a full pass
        raise UnsupportedError(f"a step does not run ({error})") from error


def _after(base: Tensor, changed: ChangedRows, at: int) -> Tensor:
    """All rows after edit `at`."""
    span = slice(int(changed.ptr[at]), int(changed.ptr[at + 1]))
    rows = base.clone()
    if span.stop > span.start:
        rows[changed.node[span]] = changed.rows[span]
    return rows


class OnEdges(nn.Module):
    """A sample between nodes and edges; gives a row of numbers per node."""

    def __init__(self, sample: EdgeSample) -> None:
        super().__init__()
        self.sample = sample

    def forward(self, data: Data) -> Tensor:
        found = flat(self.sample.function(data.x, data.edge_index))
        return found if found.is_floating_point() else found.double()


@torch.no_grad()
def lowered_on_edges(sample: EdgeSample, graph: str, dim: int, dtype: torch.dtype) -> list[Rows]:
    """The rows after edits by the engine's program, and by the sample's oracle.

    The edits are: none, every node, two nodes, and each of a few edges removed, and features replaced.

    Raises:
        UnsupportedError: The engine refuses the operation, or every removal of a node.
    """
    n, edges = graphs()[graph]
    data = Data(x=rows_of(n, dim, dtype), edge_index=edges)

    def truth(x: Tensor, edges: Tensor) -> Tensor:
        return flat(sample.oracle(x.double(), edges)).double()

    model = OnEdges(sample)
    problem = build_problem(model, data, NodeRegression(), forward=lambda model, data: model(data))
    engine = Engine.prepare(problem, vectorised)
    found = [Rows(engine.program.output.base_rows(), truth(data.x, edges))]
    found.append(Rows(model(data), found[0].truth))  # stand-ins do as the oracle says

    def after(edit: EditBatch, left: list[int], whole: Tensor) -> None:
        changed = _run(engine, edit)
        found.append(Rows(_after(engine.program.output.base_rows(), changed, 0)[left], whole))

    answered = 0
    for group in [*([node] for node in range(n)), [0, n - 1]]:
        edit = EditBatch.of(torch.tensor(group))
        if not bool(engine.program.guards.broken(edit).any()):  # that would be a full pass
            cut, stays = without(data, group)
            after(edit, stays.nonzero().flatten().tolist(), truth(cut.x, cut.edge_index))
            answered += 1
    if not answered:
        raise UnsupportedError("every edit needs a full pass")
    if not unsupported_removed_edges(engine.program):
        for edge in range(min(4, edges.size(1))):
            stay = torch.arange(edges.size(1)) != edge
            edit = EditBatch.remove_edges(torch.tensor([0, 1]), torch.tensor([edge]))
            after(edit, list(range(n)), truth(data.x, edges[:, stay]))
    if None in engine.program.features:
        x = data.x.clone()
        x[1] = x[-1]
        edit = EditBatch.of(features={None: (torch.tensor([1]), x[1:2])})
        after(edit, list(range(n)), truth(x, edges))
    return found


def edge_outcome(sample: EdgeSample, graph: str, dim: int, dtype: torch.dtype) -> str:
    """The letter of `outcome` for a variant of a sample between nodes and edges."""
    close = {torch.double: 1e-9, torch.float: 1e-4, torch.bfloat16: 5e-2}.get(dtype, 0.0)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        try:
            found = lowered_on_edges(sample, graph, dim, dtype)
        except UnsupportedError as reason:
            return "E" if "the lowering of" in str(reason) else "R"
    good = all(
        rows.program.shape == rows.truth.shape
        and torch.allclose(rows.program.double(), rows.truth, rtol=close, atol=close)
        for rows in found
    )
    return "F" if good else "W"


def lowerings() -> set[str]:
    """The ATen operations that have a lowering of their own, by name, and that a pass can come down to."""
    load()
    names = {key for key in LOWERINGS if isinstance(key, str)}
    return {name for name in names if not _decomposed(name)}


def _decomposed(name: str) -> bool:
    """Whether torch itself writes an operation in others before anything is recorded; or there is none."""
    packet = getattr(torch.ops.aten, name, None)
    forms = [] if packet is None else [getattr(packet, one).name() for one in packet.overloads()]
    known = [form for form in forms if torch._C._dispatch_has_kernel(form)]
    key = "CompositeImplicitAutograd"
    return all(torch._C._dispatch_has_kernel_for_dispatch_key(form, key) for form in known)


def outcome(case: Case) -> str:
    """`F` followed, `R` refused, `N` not applicable, `W` wrong, `E` if a lowering raises an exception."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        try:
            return "F" if all(rows.same for rows in lowered(case)) else "W"
        except UnsupportedError as reason:
            return "E" if "the lowering of" in str(reason) else "R"
        except NotApplicableError:
            return "N"
