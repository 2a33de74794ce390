"""Writes to memory that several values share. ONNX has only values: a write scatters its elements
into the whole, and other values of that memory that are read later are gathered from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..export import ExportedProgram
from ..export.graph_signature import InputKind
from ..fx.node import RANDOM_OPERATORS, Node
from ..tensor.tensor import Tensor
from .graph_builder import DTYPES, GraphBuilder, short

__all__ = ["SharedMemory", "find_fixed_nodes", "find_operator_name"]


def find_operator_name(node: Node) -> str:
    """Return the operator's name without its overload; `operator.name` for Python's module."""
    target: Any = node.target
    if isinstance(target, str):
        return target
    if getattr(target, "__module__", "") == "_operator":
        return f"operator.{target.__name__}"
    name: str = getattr(target, "overloadpacket", target).__name__
    return name


def _writes(node: Node) -> bool:
    name = find_operator_name(node)
    return name == "operator.setitem" or (
        node.op == "call_function" and name.endswith("_") and not name.endswith("__")
        and name != "requires_grad_"
    )


def _value(node: Any) -> Any:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value if isinstance(value, Tensor) and value.numel() else None


def _find_memory(node: Any) -> int | None:
    """Return the address of a value's memory, or None."""
    value = _value(node)
    return None if value is None else int(value.untyped_storage().data_ptr())


def find_fixed_nodes(program: ExportedProgram) -> set[Node]:
    """Return the nodes that depend on no input or state, whose values the export has computed.

    Excludes memory that is written with varying data, or written after a varying node reads it: the
    export has only its final value.
    """
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    varying: set[int] = set()
    while True:
        fixed: set[Node] = set()
        for node in calls:
            if fixed.issuperset(node.all_input_nodes) and _find_memory(node) not in varying and \
                    find_operator_name(node).rstrip("_") not in RANDOM_OPERATORS:
                fixed.add(node)
        writers = {_find_memory(node.args[0]) for node in calls if _writes(node) and node.args
                   and (node not in fixed
                        or _is_read_before(node, calls, fixed))} - varying - {None}
        if not writers:
            return fixed
        varying |= writers  # type: ignore[arg-type]


def _is_read_before(write: Node, calls: list[Node], fixed: set[Node]) -> bool:
    """Return whether a varying node reads the memory before a write."""
    memory = _find_memory(write.args[0])
    return any(node < write and node not in fixed
               and any(_find_memory(x) == memory for x in node.all_input_nodes) for node in calls)


class SharedMemory:
    """Tracks which values of a program share memory, and converts writes to them."""

    def __init__(self, program: ExportedProgram) -> None:
        self.nodes: dict[int, list[Node]] = {}
        for node in program.graph.nodes:
            memory = _find_memory(node)
            if memory is not None:
                self.nodes.setdefault(memory, []).append(node)
        self.labels = [label for label, bounds in program._bounds.items()
                       if any(n is None for n, *_ in bounds)]
        specs = program.graph_signature.input_specs
        self.dynamic = {s.arg.name for s in specs if s.kind is InputKind.USER_INPUT} \
            if self.labels else set()

    def needs(self, node: Node) -> bool:
        """Return whether a node writes to memory whose other parts are read later."""
        if find_operator_name(node) == "operator.setitem":
            return True
        return _writes(node) and len(self._find_later_reads(node)) > len(self.find_aliases(node))

    def find_aliases(self, write: Node) -> list[Node]:
        """Return the values that a write to all of their elements replaces, if read later."""
        if not _writes(write) or _value(write.args[0]) is None:
            return []
        layout = _describe_layout(write.args[0])
        return [node for node in self._find_later_reads(write) if _describe_layout(node) == layout]

    def _find_later_reads(self, write: Node) -> list[Node]:
        """Return the values of the memory that exist before a write and are read after it."""
        sharing = self.nodes.get(_find_memory(write.args[0]) or -1, [])
        return [node for node in sharing
                if node < write and any(user > write for user in node.users)]

    def refusal(self, node: Node) -> str | None:
        """Return why a write cannot be converted, or None."""
        target = node.args[0]
        if self._varies(target):
            return "it writes into a part of a value whose sizes vary"
        sharing = self.nodes.get(_find_memory(target) or -1, [])
        if not sharing or len({n.meta["val"].dtype for n in sharing}) > 1:
            return "it writes into memory that values of several dtypes share"
        if _find_whole(sharing) is None:
            return "it writes into a part of memory that no value covers"
        if find_operator_name(node) == "operator.setitem" and _find_region(node) is None:
            return "it writes to places that are computed"
        return None

    def _varies(self, target: Any) -> bool:
        """Return whether a value's sizes may depend on a dynamic input."""
        seen, open_nodes = set(), [target]
        while open_nodes and self.dynamic:
            node = open_nodes.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.name in self.dynamic:
                return True
            open_nodes += node.all_input_nodes
        return False

    def write(self, b: GraphBuilder, node: Node, value: str | None) -> None:
        """Update the names of a memory's values after a write of `value`, or a setitem (None)."""
        target: Any = node.args[0]
        sharing = self.nodes[_find_memory(target) or -1]
        region = _find_whole(sharing)
        assert region is not None
        offsets = _find_offsets(target.meta["val"])
        if value is None:
            offsets = offsets[_find_region(node)]
            value = _spread(b, node.args[2], offsets.shape, target.meta["val"].dtype)
        # from the place in memory to the index in `region`
        order = np.argsort(_find_offsets(region.meta["val"]), axis=None)

        def format_list(chosen: Any) -> str:
            return b.constant(order[chosen.ravel()], "int64")

        row = b.constant([-1], "int64")
        flat = b.op("ScatterElements", b.op("Reshape", b.name(region), row), format_list(offsets),
                    b.op("Reshape", value, row), axis=0)
        for other in {region, target, *self._find_later_reads(node)}:
            positions = _find_offsets(other.meta["val"])
            part = flat if other is region else b.op("Gather", flat, format_list(positions), axis=0)
            b.names[other] = b.op("Reshape", part, b.sizes(positions.shape))


def _describe_layout(node: Any) -> tuple:
    """Return which elements of its memory a value has, in which order."""
    value = node.meta["val"]
    return value.dtype, tuple(value.shape), value.stride(), value.storage_offset()


def _find_whole(sharing: list[Node]) -> Node | None:
    """Return a value that contains each element of the memory once, or None."""
    for node in sharing:
        value = node.meta["val"]
        offsets = np.sort(_find_offsets(value), axis=None)
        length = value.untyped_storage().nbytes() // value.element_size()
        if len(offsets) == length and np.array_equal(offsets, np.arange(length)):
            return node
    return None


def _find_offsets(value: Tensor) -> Any:
    """Return the memory offsets of a tensor's elements, in its shape."""
    offsets: Any = np.full(tuple(value.shape), int(value.storage_offset()))
    for dim, (length, stride) in enumerate(zip(value.shape, value.stride(), strict=True)):
        along = [1] * value.ndim
        along[dim] = int(length)
        offsets = offsets + (np.arange(int(length)) * int(stride)).reshape(along)
    return offsets


def _find_region(node: Node) -> Any:
    """Return the NumPy index that a setitem writes to, or None if it is computed."""
    index = node.args[1]
    parts = index if isinstance(index, tuple) else (index,)
    for part in parts:
        bounds = (part.start, part.stop, part.step) if isinstance(part, slice) else (part,)
        if not all(x is None or x is Ellipsis or type(x) is int for x in bounds):
            return None
    return tuple(parts)


def _spread(b: GraphBuilder, value: Any, shape: Any, dtype: Any) -> str:
    """Cast and expand a value."""
    name = b.cast(value, dtype) if isinstance(value, Node) else b.constant(value, short(dtype))
    if isinstance(value, Node) and not isinstance(value.meta.get("val"), Tensor):
        name = b.op("Cast", b.name(value), to=DTYPES[short(dtype)])
    return b.op("Expand", name, b.constant(list(shape), "int64"))
