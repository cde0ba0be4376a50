"""The tensors that a pass reads: of the graph, of the model, and which of them as node ids.

`G−r` is made of the tensors in `data`. A graph that a model reads from elsewhere (a global `data`, an
`edge_index` in a closure, an adjacency kept on a module) stays as it is, whatever is removed. So do node ids
in an attribute that is not known to hold edges. Influences would be 0, or plausible and wrong. So one pass is
watched: of every tensor it is known which sources it was made of, and which sources its entries come from
unchanged. Entries that pick rows of nodes are node ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.weak import WeakTensorKeyDictionary
from torch_geometric.data import Data, HeteroData

from nora.graph.edge_sets import edge_set_keys, node_counts
from nora.model.lines import Line, current_line

# Operations whose entries are entries of their arguments, as they are: of all, or of the first alone.
_JOINS = {"cat", "stack", "where", "hstack", "vstack"}
_PICKS = {
    "index", "index_select", "gather", "masked_select", "sort", "flip", "roll", "clone", "_to_copy",
    "unique_dim", "_unique2", "unique_consecutive", "contiguous", "repeat", "repeat_interleave", "to_sparse",
    "take_along_dim", "lift_fresh", "detach",
}  # fmt: skip
# Where operations that read rows, and that write to rows, by number have the numbers and the axis.
_READS = {"index_select": (2, 1), "gather": (2, 1), "embedding": (1, None)}
_WRITES = {
    name: (2, 1)
    for name in (
        "index_add", "scatter", "scatter_add", "scatter_reduce", "index_reduce", "index_copy",
        "index_add_", "scatter_", "scatter_add_", "scatter_reduce_", "index_reduce_", "index_copy_",
    )
}  # fmt: skip
REMEDY = (
    "Keep them in data and read them from there, e.g. "
    "forward=lambda model, data: model(data.x, data.edge_index)"
)
# A type of so few nodes says nothing by its size.
SMALL = 16
_PRODUCTS = {"mm", "addmm", "_sparse_mm", "matmul", "sparse_sampled_addmm", "_sparse_addmm", "bmm"}


@dataclass(frozen=True, eq=False)
class PassInput:
    """A tensor that was there before the pass.

    Attributes:
        tensor: The tensor.
        name: `data.x`, or empty for what is not in the graph.
        edges: Whether it is one of the graph's edge sets.
        line: Where it was first read, for what is not in the graph.
    """

    tensor: Tensor
    name: str = ""
    edges: bool = False
    line: Line | None = None


@dataclass(frozen=True)
class Use:
    """A use of a source as node ids.

    Attributes:
        source: The source.
        line: Where.
        writes: Whether rows were summed into nodes, not only read.
    """

    source: PassInput
    line: Line
    writes: bool


class InputWatcher(TorchDispatchMode):
    """Watches a pass.

    Args:
        data: The graph as the model gets it.
        model: The model; its parameters do not matter.

    Attributes:
        sources: Every tensor from before the pass that was read, but parameters.
        uses: Where sources were used as node ids.
        picked: Where rows of nodes are picked by numbers in the code.
        rows: Where it met another tensor from outside of the graph with rows or pairs of nodes.
    """

    def __init__(self, data: Data | HeteroData, model: nn.Module) -> None:
        super().__init__()
        self.sources: list[PassInput] = []
        self.uses: list[Use] = []
        self.picked: list[Line] = []
        self.rows: list[Line] = []
        # With several types, sizes of small ones say little: other things are as many.
        fewest = 1 if isinstance(data, Data) else SMALL
        self._counts = {count for count in node_counts(data).values() if count > fewest}
        # Of every tensor, what it was made of and where its entries come from: bits of sources.
        self._known: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self._storages: dict[int, int] = {}
        # Of memory that was written to, what was written: every view of it is made of that, too.
        self._written: dict[int, int] = {}
        self._output_made_of = 0
        for parameter in model.parameters():
            self._known[parameter] = (0, 0)
        for name, tensor, edges in _tensors(data):
            self._enter(PassInput(tensor, name, edges))
        # Bits of the graph's own tensors.
        self._graph = (1 << len(self.sources)) - 1

    def finish(self, output: Any) -> None:
        """Take note of what the pass has returned."""
        for leaf in tree_iter(output):
            if isinstance(leaf, Tensor):
                self._output_made_of |= self._of(leaf)[0]

    @property
    def behind_output(self) -> list[PassInput]:
        """The sources that the output was computed from."""
        return [one for at, one in enumerate(self.sources) if self._output_made_of >> at & 1]

    @property
    def reads_edges(self) -> bool:
        """Whether the output was made of any of the graph's edge sets."""
        return any(source.edges for source in self.behind_output)

    @property
    def numbers(self) -> list[Line]:
        """The lines where the output uses a foreign tensor that may hold node ids."""
        return [
            source.line
            for source in self.behind_output
            if source.line is not None and _may_hold_ids(source.tensor)
        ]

    def _enter(self, source: PassInput) -> tuple[int, int]:
        bit = 1 << len(self.sources)
        self.sources.append(source)
        self._known[source.tensor] = (bit, bit)
        if source.line is not None:
            self._note_foreign(source.tensor, source.line)
        if memory := _memory_of(source.tensor):
            self._storages.setdefault(memory, bit)
        return bit, bit

    def _of(self, tensor: Tensor) -> tuple[int, int]:
        """The sources of a tensor; an unknown tensor existed before the pass."""
        found = self._known.get(tensor)
        memory = _memory_of(tensor)
        if found is not None:
            return found[0] | self._written.get(memory, 0), found[1]
        if memory:
            bit = self._storages.get(memory)
            if bit is not None:  # another handle on the same tensor
                self._known[tensor] = (bit, bit)
                return bit, bit
        return self._enter(PassInput(tensor, line=current_line()))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[1]
        given = [leaf for leaf in tree_iter((args, kwargs)) if isinstance(leaf, Tensor)]
        known = [self._of(tensor) for tensor in given]
        made = entries = 0
        for mask, _ in known:
            made |= mask
        if known and (func.is_view or name in _PICKS):
            entries = known[0][1]
        elif name in _JOINS:
            for _, mask in known:
                entries |= mask
        self._look_for_ids(name, args)
        out = func(*args, **kwargs)
        if isinstance(out, Tensor) and out.layout != torch.strided:
            for tensor, (_, mask) in zip(given, known, strict=True):
                whole = tensor.layout != torch.strided or not tensor.is_floating_point()
                entries |= mask if whole else 0  # where its entries stand, not what they are
        for at, leaf in enumerate(tree_iter(out)):
            if isinstance(leaf, Tensor):
                # One that was written to is made of what it was, too; sorting gives entries, then places.
                same = entries if at == 0 or func.is_view else 0
                self._known[leaf] = (made | self._known.get(leaf, (0, 0))[0], same)
                self._note_memory(leaf, made, func._schema.is_mutable, given)
            else:
                self._output_made_of |= made  # what Python reads may decide on anything
        return out

    def _note_memory(self, new: Tensor, made: int, mutable: bool, given: list[Tensor]) -> None:
        """Note what was written to the memory of a result, or that it is new memory."""
        memory = _memory_of(new)
        if memory and mutable:
            self._written[memory] = self._written.get(memory, 0) | made
        elif memory and all(_memory_of(one) != memory for one in given):
            self._written.pop(memory, None)

    def _note_foreign(self, tensor: Tensor, line: Line) -> None:
        """Note a tensor from elsewhere with rows or pairs of nodes."""
        if _may_hold_ids(tensor):
            return
        if tensor.layout != torch.strided or any(n in self._counts for n in tensor.shape):
            self.rows.append(line)

    def _picks_by_number(self, tensor: Tensor, dim: int = 0, *numbers: int | None) -> None:
        """Note where rows of nodes are picked by numbers in the code."""
        count = tensor.size(0) if tensor.dim() and not dim % tensor.dim() else 0
        all_of_them = len(numbers) > 1 and not numbers[0] and (numbers[1] or count) >= count
        if count in self._counts and not all_of_them and self._of(tensor)[0] & self._graph:
            self.picked.append(current_line())

    def _look_for_ids(self, name: str, args: tuple[Any, ...]) -> None:
        """Note where entries of a source pick rows of nodes."""
        if name in ("select", "slice", "narrow"):
            self._picks_by_number(*args)
        if name in _PRODUCTS:
            self._look_at_product(args)
            return
        where = _READS.get(name) or _WRITES.get(name)
        if where is not None and len(args) > where[0]:
            dim = 0 if where[1] is None else args[where[1]]
            rows = [args[0], *(a for a in args[3:] if isinstance(a, Tensor))]
            self._note(args[0], dim, args[where[0]], rows, name in _WRITES)
        elif name in ("index", "index_put", "index_put_", "_index_put_impl_"):
            for dim, index in enumerate(args[1]):
                if isinstance(index, Tensor):
                    self._note(args[0], dim, index, [args[0], *args[2:3]], name != "index")

    def _look_at_product(self, args: tuple[Any, ...]) -> None:
        """A matrix of nodes by nodes that was there before, times rows of the graph."""
        matrix, rows = [a for a in args if isinstance(a, Tensor)][-2:]
        square = matrix.dim() == 2 and all(size in self._counts for size in matrix.shape)
        if square and self._of(rows)[0] & self._graph:
            self._note_entries(self._of(matrix)[1], True)

    def _note(self, rows: Any, dim: int, index: Any, of: list[Any], writes: bool) -> None:
        if not isinstance(rows, Tensor) or not isinstance(index, Tensor) or not rows.dim():
            return
        if index.is_floating_point() or index.dtype == torch.bool or index.numel() < 1:
            return
        made_of_graph = any(self._of(one)[0] & self._graph for one in of if isinstance(one, Tensor))
        columns = rows.dim() > 1 and dim % rows.dim() == rows.dim() - 1
        if made_of_graph and not columns and rows.size(dim) in self._counts:
            self._note_entries(self._of(index)[1], writes)

    def _note_entries(self, entries: int, writes: bool) -> None:
        for at, source in enumerate(self.sources):
            if entries >> at & 1 and not source.edges and not source.name.endswith(".batch"):
                self.uses.append(Use(source, current_line(), writes))


def _may_hold_ids(tensor: Tensor) -> bool:
    """Whether a tensor holds whole numbers."""
    whole = not (tensor.is_floating_point() or tensor.is_complex()) and tensor.dtype != torch.bool
    return whole and tensor.dim() > 0 and tensor.layout == torch.strided and bool(tensor.numel())


def _memory_of(tensor: Tensor) -> int:
    """An id of a tensor's memory, which its views share; 0 without memory."""
    strided = tensor.layout == torch.strided and tensor.numel()
    return int(tensor.untyped_storage()._cdata) if strided else 0


class Unwatched(InputWatcher):
    """Of a pass that could not be watched: nothing is known, and nothing is held against the model."""

    @property
    def reads_edges(self) -> bool:
        """Taken for granted."""
        return True


def _tensors(data: Data | HeteroData) -> Iterator[tuple[str, Tensor, bool]]:
    """Every tensor of a graph with its name, those in lists and dictionaries too; whether it holds edges."""
    for store in data.stores:
        key = getattr(store, "_key", None)
        prefix = "data" if key is None else f"data[{key!r}]"
        edges = set(edge_set_keys(store))
        for name, value in store.items():
            for path, tensor in tensors_in(f"{prefix}.{name}", value):
                yield path, tensor, name in edges


def tensors_in(path: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor that a value is, or holds in lists and dictionaries, with its path."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from tensors_in(f"{path}[{key!r}]", part)
    elif isinstance(value, list | tuple):
        for at, part in enumerate(value):
            yield from tensors_in(f"{path}[{at}]", part)


def holder_of(tensor: Tensor, model: nn.Module) -> tuple[nn.Module, str, str] | None:
    """The module that holds a tensor, the attribute it is in, and that attribute's full name."""
    for prefix, module in model.named_modules():
        held = {**vars(module), **module._buffers}
        for name, value in held.items():
            if name in ("_parameters", "_buffers", "_modules"):
                continue
            if any(_same_memory(one, tensor) for _, one in tensors_in(name, value)):
                return module, name, f"{prefix}.{name}".removeprefix(".")
    return None


def _same_memory(a: Tensor, b: Tensor) -> bool:
    if a is b:
        return True
    if torch.strided not in (a.layout, b.layout) or a.layout != b.layout or not a.numel():
        return False
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata
