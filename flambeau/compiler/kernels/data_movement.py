"""Kernels that are neither loops over a domain nor contractions.

Concatenations, slice updates, scans, row scatters and copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ...native.loop_ir.ir import (
    Accumulator, Apply, Begin, Constant, Expression, Index, Kernel, LoopKind, Loop, Scalar,
    Statement, Store, Type, Update,
)
from ...native.target.graph_costs import COLUMN_BLOCK_SIZES
from ..fusion.buffer_assignment import BufferAssignment
from ..fusion.fusion import Fusion
from ..fusion.fusion_group import get_row_shapes, reshape_chain
from ..fusion.placement import Allocation, Place
from ..ir.graph import Node, Op
from ..ir.strided_view import StridedView
from .expressions import ExpressionBuilder
from .index_maps import FIXED, Coordinate, map_index, split, wrap_in_loops

KernelWithMemory = tuple[Kernel, list[Allocation]]


def build_special_kernels(node: Node, fusion: Fusion,
                          layout: BufferAssignment) -> list[KernelWithMemory]:
    """Build the kernels of a special node, in running order."""
    return _RULES[node.op](node, fusion, layout)


def copy_kernel(source: Place, target: Place) -> KernelWithMemory:
    """Build a kernel that copies one place to another of the same shape."""
    values = ExpressionBuilder(lambda node: None)

    def body(point: Sequence[Coordinate]) -> list[Statement]:
        values.enter(point)
        return [values.store(target, values.load(source, ()))]

    return _finish_kernel("copy", values, _loop_over(target.window.shape, body))


def _loop_over(
    shape: Sequence[int], body: Callable[[Sequence[Coordinate]], list[Statement]]
) -> list[Statement]:
    """Loop over a shape, vectorized along its last axis."""
    loops = [(Index(f"i{i}"), n) for i, n in enumerate(shape)]
    result = body([map_index(index) if n != 1 else FIXED for index, n in loops])
    loops = [(index, n) for index, n in loops if n != 1]
    result = wrap_in_loops(result, loops[-1:], LoopKind.VECTORIZED)
    return wrap_in_loops(result, loops[:-1], LoopKind.PARALLEL)


def _finish_kernel(name: str, values: ExpressionBuilder, body: list[Statement]) -> KernelWithMemory:
    buffers = [values.buffers[id(m)] for m in values.memories]
    return Kernel(name, buffers, body), values.memories


def _create_builder(fusion: Fusion, layout: BufferAssignment) -> ExpressionBuilder:
    return ExpressionBuilder(
        lambda node: layout.place(node) if id(node) in fusion.materialized else None
    )


def _copy_parts(node: Node, fusion: Fusion, layout: BufferAssignment) -> list[KernelWithMemory]:
    """Copy the parts that were not computed in place."""
    result = []
    for target in layout.targets(node):
        start = 0
        for part in node.inputs:
            starts = tuple(start if i == node.axis else 0 for i in range(len(node.shape)))
            start += part.shape[node.axis]
            window = target.window.slice(starts, (1,) * len(starts), part.shape)
            reshaped = part.op is Op.RESHAPE and id(part) not in fusion.materialized
            inner = part.inputs[0] if reshaped else part
            is_copied = id(inner) in fusion.materialized and any(
                p.memory is target.memory and p.window == window.reshape(inner.shape)
                for p in layout.targets(inner)
            )
            if not is_copied:
                result.append(_store(part, Place(target.memory, window), fusion, layout))
    return result


def _store(node: Node, target: Place, fusion: Fusion, layout: BufferAssignment) -> KernelWithMemory:
    values = _create_builder(fusion, layout)

    def body(point: Sequence[Coordinate]) -> list[Statement]:
        values.enter(point)
        return [values.store(target, values.value(node))]

    return _finish_kernel("copy", values, _loop_over(node.shape, body))


def _update(node: Node, fusion: Fusion, layout: BufferAssignment) -> list[KernelWithMemory]:
    result = []
    for target in layout.targets(node):
        base, part = node.inputs
        window = target.window.slice(node.starts, node.steps, part.shape)
        result.append(_store(base, target, fusion, layout))
        result.append(_store(part, Place(target.memory, window), fusion, layout))
    return result


def _scan(node: Node, fusion: Fusion, layout: BufferAssignment) -> list[KernelWithMemory]:
    values = _create_builder(fusion, layout)
    shape, axis = node.shape, node.axis
    step = Index("step")
    total = Accumulator(node.fold, node.type)
    rest = tuple(1 if i == axis else n for i, n in enumerate(shape))

    def body(point: Sequence[Coordinate]) -> list[Statement]:
        inside = [map_index(step) if i == axis else item for i, item in enumerate(point)]
        values.enter(inside)
        value = values.value(node.inputs[0])
        stores = [values.store(place, total) for place in layout.targets(node)]
        return [Begin(total), Loop(step, shape[axis], [Update(total, value), *stores])]

    loops = _loop_over(rest, body)
    if axis == len(shape) - 1:  # scanning rows: one running value per row
        loops = _make_parallel(loops)
    return [_finish_kernel("scan", values, loops)]


def _make_parallel(body: list[Statement]) -> list[Statement]:
    """Share a vectorized loop, possibly inside parallel ones, among threads instead."""
    for statement in body:
        if isinstance(statement, Loop) and statement.kind is LoopKind.VECTORIZED:
            statement.kind = LoopKind.PARALLEL
        elif isinstance(statement, Loop) and statement.kind is LoopKind.PARALLEL:
            _make_parallel(statement.body)
    return body


def _add_rows(node: Node, fusion: Fusion, layout: BufferAssignment) -> list[KernelWithMemory]:
    """Clear the result, then add each row of values to the row that its index names."""
    width = prod(node.shape[1:])
    block = next((b for b in COLUMN_BLOCK_SIZES if width % b == 0), width)
    values = _create_builder(fusion, layout)
    chunk, lane, row, i = Index("chunk"), Index("lane"), Index("row"), Index("i")
    column: Coordinate = split(chunk, block, lane)
    body: list[Statement] = []
    for target in layout.targets(node):
        flat = target.window.reshape((node.shape[0], width))
        assert flat is not None, node
        buffer = values.buffer(target.memory)
        clear = Store(buffer, values.affine(flat, [map_index(row), column]), Constant(node.type, 0))
        body.append(Loop(row, node.shape[0], [Loop(lane, block, [clear], LoopKind.VECTORIZED)]))
        body.append(_emit_scatter_loop(node, values, flat, (i, chunk, lane), block, target))
    loop = Loop(chunk, width // block, body, LoopKind.PARALLEL)
    return [_finish_kernel("add_rows", values, [loop])]


def _emit_scatter_loop(
    node: Node, values: ExpressionBuilder, flat: StridedView,
    indices: tuple[Index, Index, Index], block: int, target: Place,
) -> Loop:
    """Add row i of the values to the row that index[i] names, for all i."""
    index, rows = node.inputs
    i, chunk, lane = indices
    by_number, by_row = get_row_shapes(node)
    count = prod(by_number)
    column: Coordinate = split(chunk, block, lane)
    values.enter([map_index(i)])
    position: Expression = values.value(index, reshape_chain(index, by_number))
    if position.type is not Type.I64:
        position = Apply(Scalar.CAST, (position,), Type.I64)
    values.enter([map_index(i), column])
    value = values.value(rows, reshape_chain(rows, by_row))
    point = values.affine(flat, [FIXED, column])
    add = Store(values.buffer(target.memory), point, value, ((position, flat.strides[0]),),
                add=True)
    return Loop(i, count, [Loop(lane, block, [add], LoopKind.VECTORIZED)])


_RULES = {Op.CONCAT: _copy_parts, Op.UPDATE: _update, Op.SCAN: _scan, Op.ADD_ROWS: _add_rows}
