"""Bindings: for every tensor of a trace, which rows of the program it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from torch import Tensor

from nora.engine.guards import Guard
from nora.engine.ir.op import Value
from nora.engine.ir.space import Space, whole_graph
from nora.engine.lower.known import Dense, Known, Layout, Matrix, Picked, Pointers, Tracked, Uniform
from nora.engine.trace.align import AlignedOp, AlignedProgram, CoincidenceError
from nora.engine.trace.trace import Ref, leaves
from nora.engine.unsupported import UnsupportedError

# For each axis, its size on every graph.
Shape = tuple[tuple[int, ...], ...]


@dataclass
class Notes:
    """What is noted while a model is compiled, for `nora.explain_engine`.

    Attributes:
        collect: Whether lowering continues after an unsupported operation; else the first one raises.
        traced: Operations of one pass.
        layers: Layers that are lowered as one.
        failures: Lowerings of layers that raised an exception of their own.
        all_rows: Operations that are done on all rows again for every edit, by what they make.
        blockers: Operations that cannot be lowered, each with its line and what to do.
        passes: How many operations there are after each pass.
    """

    collect: bool = False
    traced: int = 0
    layers: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    all_rows: dict[Value, str] = field(default_factory=dict)
    blockers: list[str] = field(default_factory=list)
    passes: list[tuple[str, int]] = field(default_factory=list)

    def begin(self, traced: AlignedProgram) -> None:
        """Note the operations of a pass, and forget earlier attempts on other graphs."""
        self.traced, self.layers, self.failures = len(traced.ops), [], []
        self.all_rows, self.blockers = {}, []


class Bindings:
    """The bindings of a traced program's tensors, by their numbers.

    Args:
        traced: The operations.
        given: The bindings of the program's inputs, by name.
        all_nodes: The nodes of all types.
        nodes: The nodes of every type.
        spaces: The other spaces of the graph: edges by set, pairs.
        num_nodes: Number of nodes of all types.
        notes: Takes note of what becomes of the operations.

    Attributes:
        known: The binding of every tensor.
        shapes: The size of every axis on every graph, of every tensor.
        unknown: For tensors that cannot be used, the reason.
        named: Cached values of lowerings, by keys of their own.
        structure: What rows or edges were picked by: where these values change, others would be picked.
        guards: Comparisons of sizes in the model's Python code.
        counted: Guards on how many rows a mask selects, by the value that holds the comparison.
        unsure_of_edges: The reason why single edges cannot be removed or added.
        at: The operation that is being lowered.
        result_shape: Shape of the result of the call that is being lowered.
    """

    result_shape: Shape

    def __init__(
        self,
        traced: AlignedProgram,
        given: Mapping[str, Known],
        all_nodes: Space,
        nodes: Sequence[Space],
        spaces: Sequence[Space],
        num_nodes: int,
        notes: Notes | None = None,
    ) -> None:
        self.traced, self.notes = traced, Notes() if notes is None else notes
        self.all_nodes, self.nodes, self.spaces = all_nodes, list(nodes), list(spaces)
        self.num_nodes = num_nodes
        self.graph = whole_graph(num_nodes)
        self.slots: dict[int, Space] = {1: self.graph}
        self.known: dict[int, Known] = {}
        self.shapes: dict[int, Shape] = {}
        self.unknown: dict[int, str] = {}
        self.named: dict[tuple[Any, ...], Any] = {}
        self.structure: list[Value] = []
        self.guards: list[Guard] = []
        self.counted: dict[Value, tuple[str, tuple[Any, ...]]] = {}
        self.unsure_of_edges = ""
        self.at: AlignedOp | None = None
        # For operations that repeat others: the results of the first, by what was computed and by tensor.
        self.done: dict[tuple[Any, ...], tuple[int | None, ...]] = {}
        self.first: dict[int, int] = {}
        self.parts: dict[Space, list[Space]] = {}
        for space in (*nodes, *spaces):
            self.varies(space)
        for number, tensor in traced.consts.items():
            self.known[number] = tensor
            self.shapes[number] = tuple((n,) * traced.graphs for n in tensor.shape)
        for name, number in traced.inputs.items():
            found = given[name]
            self.known[number] = found
            self.shapes[number] = self.shape_of(found)

    def shape_of(self, found: Known) -> tuple[tuple[int, ...], ...]:
        """The size of every axis on every graph."""
        if isinstance(found, Tensor):
            return tuple((n,) * self.traced.graphs for n in found.shape)
        if isinstance(found, Matrix):
            return found.rows.sizes, found.columns.sizes
        assert not isinstance(found, Picked | Pointers), "it has no rows of a space"
        rows = found.value.none if isinstance(found, Tracked) else found.rows
        shape = list(found.layout.tensor(rows).shape)
        sizes = found.space.sizes if isinstance(found, Tracked) else found.sizes
        return tuple(
            tuple(n * found.layout.factor for n in sizes)
            if axis == found.layout.axis
            else (n,) * self.traced.graphs
            for axis, n in enumerate(shape)
        )

    def unsupported(self, why: str) -> NoReturn:
        """Reject the model; the message names the operation and its source line."""
        assert self.at is not None
        raise UnsupportedError(f"{self.at.name} at {self.at.line} {why}")

    def unsure(self, why: str) -> None:
        """Support the model, but no edits of single edges; the reason names the line."""
        where = f"{self.at.name} at {self.at.line} " if self.at is not None else ""
        self.unsure_of_edges = self.unsure_of_edges or f"{where}{why}"

    def unsupported_result(self, number: int, why: str) -> None:
        """Reject the model if this result is ever used."""
        assert self.at is not None
        self.unknown[number] = f"{self.at.name} at {self.at.line} {why}"

    def unsupported_later(self, op: AlignedOp, why: str) -> None:
        """Reject the model if any of the results is ever used."""
        for number in op.outs:
            if number is not None:
                self.unsupported_result(number, why)

    def __getitem__(self, ref: Any) -> Dense:
        found = self.known[ref.id]
        if isinstance(found, Matrix):
            self.unsupported("uses a sparse matrix in a way that is not supported")
        if isinstance(found, Picked):
            self.unsupported("computes with rows selected by a mask that depends on values")
        if isinstance(found, Pointers):
            self.unsupported(
                "reads the pointers of a compressed sparse matrix, which is not supported (pass edge_index "
                "to the layer, or the matrix as adj_t.to_sparse_coo())"
            )
        return found

    def matrix(self, ref: Any) -> Matrix:
        """The binding of a sparse matrix."""
        found = self.known[ref.id]
        if not isinstance(found, Matrix):
            self.unsupported("needs a sparse matrix here")
        return found

    def set(self, known: Known, place: int = 0) -> None:
        """Set the binding of a result of the current operation."""
        assert self.at is not None
        number = self.at.outs[place]
        if number is not None:
            self.known[number] = known

    def operands(self, args: Any) -> list[Known]:
        """The bindings of all tensors among arguments."""
        return [self.known[a.id] for a in leaves(args) if isinstance(a, Ref)]

    def layout(self, ref: Ref) -> Layout:
        """The layout of a tensor's rows."""
        return self.rowed(ref).layout

    def rowed(self, ref: Ref) -> Tracked | Uniform:
        """The binding of a tensor that has rows."""
        found = self[ref]
        if isinstance(found, Tensor):
            self.unsupported("uses a constant tensor where rows of the graph are expected")
        return found

    def ndim(self, ref: Ref) -> int:
        """Number of axes of a tensor."""
        return len(self.shapes[ref.id])

    def ndim_of(self, found: Tracked) -> int:
        """Number of axes of a tracked tensor."""
        return found.value.none.dim() - (found.layout.axis is None)

    def is_mask(self, found: Known) -> bool:
        """Whether it is a mask that depends on the graph."""
        return isinstance(found, Tracked) and found.value.none.dtype == torch.bool

    def space_of_size(self, sizes: tuple[int, ...]) -> Space | None:
        """The space with these numbers of rows on the traced graphs; nodes come first."""
        found = [space for space in [*self.nodes, *self.spaces] if space.sizes == sizes]
        for other in found[1:]:
            if not found[0].removed_equally(other):
                raise CoincidenceError(
                    f"{found[0].label} and {other.label} are equally many on every traced graph"
                )
            if not found[0].same_edges(other):
                self.unsure(f"uses a size that may be that of {found[0].label} or of {other.label}")
        return found[0] if found else None

    def entered(self, space: Space) -> Space:
        """Register a space that the model derived from others."""
        self.varies(space)
        self.spaces.append(space)
        return space

    def varies(self, space: Space) -> None:
        """Reject a space that has the same size on every graph, as Python code may have read this number."""
        if space.size and len(set(space.sizes)) == 1 and not space.everlasting:
            where = "" if self.at is None else f" that {self.at.name} makes at {self.at.line}"
            raise CoincidenceError(
                f"the {space.label}{where} are equally many on every traced graph"
            )

    def temporary(self, found: Known) -> Ref:
        """A new tensor number for a binding that is not in the trace."""
        number = self.traced.count + len(self.named) + len(self.known)
        while number in self.known:
            number += 1
        self.known[number] = found
        self.shapes[number] = (
            () if isinstance(found, Tracked) and found.layout.axis is None else self.shape_of(found)
        )
        return Ref(number)

    def parts_of(self, space: Space) -> list[Space]:
        """The spaces whose rows were joined into this one."""
        return self.parts.get(space, [space])

    def static_index(self, found: Known, what: str = "an index") -> Tracked:
        """A tracked tensor of row ids that no removal changes."""
        if not isinstance(found, Tracked) or not found.value.static:
            help_ = " (multiply rows by it instead of selecting them)" if what == "a mask" else ""
            self.unsupported(
                f"selects rows by {what} that depends on values, not only on the graph's edges{help_}"
            )
        self.structure.append(found.value)
        return found
