"""Packing: strided elements of a contraction's `b` become panels, a few vectors per step.

Elements contiguous along the depth rather than the columns are transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from ...loop_ir.ir import Type
from ...target.cost_model import MIN_TRANSPOSED_RUN_STEPS
from ..llvm.address import add, constant, multiply, offset_bytes
from ..llvm.builder import I1, I32, I64, POINTER, Builder, lane_numbers, vector
from ..llvm.constants import lane_indices
from ..llvm.loop import declare_internal
from ..llvm.types import Number
from ..llvm.vectors import load_vector, store_vector

_PackFunction = Callable[..., None]


@dataclass(frozen=True)
class StridedBlock:
    """A block of `b`: (extent, stride in elements) along each axis of the depth, and along the
    columns. `order` is how the panel's steps follow one another: as the axes are given."""

    depth: Sequence[tuple[int, int]]
    column: int
    type: Type
    lanes: int
    width: int
    square: ir.Value  # scratch for lanes x lanes elements

    @property
    def places(self) -> list[int]:
        """Panel steps that a round of each depth axis moves."""
        out: list[int] = []
        step = 1
        for extent, _ in reversed(self.depth):
            out.insert(0, step)
            step *= extent
        return out


def transpose_square(b: Builder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors, as vectors: log2(lanes) rounds of two-way shuffles."""
    rows, lanes = list(rows), len(rows)
    half = lanes // 2
    while half:
        out = list(rows)
        for i in range(lanes):
            if i & half:
                continue
            x, y = rows[i], rows[i + half]
            low = [k if not k & half else lanes + k - half for k in range(lanes)]
            high = [k + half if not k & half else lanes + k for k in range(lanes)]
            out[i], out[i + half] = _shuffle(b, x, y, low), _shuffle(b, x, y, high)
        rows, half = out, half // 2
    return rows


def _shuffle(b: Builder, x: ir.Value, y: ir.Value, lanes: Sequence[int]) -> ir.Value:
    return b.shuffle_vector(x, y, lane_indices(tuple(lanes)))


def transpose_into(
    b: Builder, type: Type, lanes: int, source: ir.Value, stride: Number, rows: Number,
    count: Number, square: ir.Value,
) -> None:
    """Transpose a square of vectors into `square`: rows are `stride` bytes apart in the source.

    Only the first `rows` rows and the first `count` elements of each are read, others are zeros.
    Emitted as a separate function, so that its many shuffles are compiled once.
    """
    function = b.module.globals.get(f"turn{type.value}") or _declare_transposer(b, type, lanes)
    b.call(function, [source, constant(stride), constant(rows), constant(count), square])


def _declare_transposer(b: Builder, type: Type, lanes: int) -> ir.Function:
    kinds = [POINTER, I64, I64, I64, POINTER]
    function = declare_internal(
        b.module, f"turn{type.value}", ir.FunctionType(ir.VoidType(), kinds)
    )
    inner = Builder(function.append_basic_block("entry"))
    source, stride, rows, count, square = function.args
    vectors = []
    for i in range(lanes):
        here = inner.icmp_signed(">", rows, constant(i))
        mask = inner.first_lanes(inner.select(here, count, constant(0)), lanes)
        place = offset_bytes(inner, source, multiply(inner, stride, i))
        vectors.append(load_vector(inner, place, type, lanes, mask))
    for i, value in enumerate(transpose_square(inner, vectors)):
        store_vector(inner, value, offset_bytes(inner, square, i * lanes * type.size), type.size)
    inner.ret_void()
    return function


def pack_block(
    b: Builder, block: StridedBlock, source: ir.Value, target: ir.Value, valid: int
) -> None:
    """Write a panel of `valid` columns, padded with zeros to whole vectors."""
    if block.column == 1:
        _copy_contiguous(b, block, source, target, valid)
        return
    run = _find_contiguous_depth_axes(block)
    if run:
        _pack_transposed(b, block, run, source, target, valid)
    else:
        _gather_strided(b, block, source, target, valid)


def emit_loop_nest(
    b: Builder,
    axes: Sequence[tuple[int, Sequence[int]]],
    pointers: Sequence[ir.Value],
    body: _PackFunction,
) -> None:
    """Loop over (extent, bytes that each pointer moves a round); body(*pointers)."""
    if not axes:
        body(*pointers)
        return
    extent, strides = axes[0]
    with b.counted_loop(0, extent) as i:
        inner = [
            offset_bytes(b, p, multiply(b, i, s)) for p, s in zip(pointers, strides, strict=True)
        ]
        emit_loop_nest(b, axes[1:], inner, body)


def _copy_contiguous(
    b: Builder, block: StridedBlock, source: ir.Value, target: ir.Value, valid: int
) -> None:
    """Copy a block whose columns are contiguous."""
    size, lanes = block.type.size, block.lanes

    def row(x: ir.Value, y: ir.Value) -> None:
        for j in range(-(-valid // lanes)):
            remaining = valid - j * lanes
            mask = None if remaining >= lanes else b.first_lanes(remaining, lanes)
            read = load_vector(b, offset_bytes(b, x, j * lanes * size), block.type, lanes, mask)
            store_vector(b, read, offset_bytes(b, y, j * lanes * size), size)

    axes = [(n, (s * size, p * block.width * size))
            for (n, s), p in zip(block.depth, block.places, strict=True)]
    emit_loop_nest(b, axes, (source, target), row)


def _find_contiguous_depth_axes(block: StridedBlock) -> list[int]:
    """The depth axes that make one contiguous run in memory, innermost first."""
    run: list[int] = []
    step = 1
    remaining = [k for k in range(len(block.depth)) if block.depth[k][0] > 1]
    while True:
        next_axes = [k for k in remaining if block.depth[k][1] == step]
        if not next_axes:
            break
        run.append(next_axes[0])
        remaining.remove(next_axes[0])
        step *= block.depth[next_axes[0]][0]
    return run if step >= MIN_TRANSPOSED_RUN_STEPS or (run and not remaining) else []


def _pack_transposed(
    b: Builder,
    block: StridedBlock,
    run: Sequence[int],
    source: ir.Value,
    target: ir.Value,
    valid: int,
) -> None:
    """Pack a block contiguous along the depth by transposing squares of columns by run."""
    size, lanes, row = block.type.size, block.lanes, block.width * block.type.size
    length = 1
    for k in run:
        length *= block.depth[k][0]
    order = [0]
    for k in run:
        order = [q + i * block.places[k] for i in range(block.depth[k][0]) for q in order]
    table = None if order == list(range(length)) else _declare_step_table(b, order, lanes)

    def square(x: ir.Value, y: ir.Value, first: Number, count: int) -> None:
        x = offset_bytes(b, x, multiply(b, first, size))
        with b.counted_loop(0, -(-valid // lanes)) as j:
            start = offset_bytes(b, x, multiply(b, j, lanes * block.column * size))
            remaining = b.sub(constant(valid), multiply(b, j, lanes))
            transpose_into(
                b, block.type, lanes, start, block.column * size, remaining, count, block.square
            )
            into = offset_bytes(b, y, multiply(b, j, lanes * size))
            with b.counted_loop(0, count) as q:
                step = constant(add(b, first, q))
                if table is not None:
                    step = _load_step(b, table, step)
                value = load_vector(b, offset_bytes(b, block.square, multiply(b, q, lanes * size)),
                                    block.type, lanes)
                store_vector(b, value, offset_bytes(b, into, multiply(b, step, row)), size)

    def strip(x: ir.Value, y: ir.Value) -> None:
        full = length // lanes * lanes
        if full:
            with b.counted_loop(0, full, lanes) as first:
                square(x, y, first, lanes)
        if length > full:
            square(x, y, full, length - full)

    axes = [(n, (s * size, p * row)) for k, ((n, s), p) in
            enumerate(zip(block.depth, block.places, strict=True)) if k not in run]
    emit_loop_nest(b, axes, (source, target), strip)


def _declare_step_table(b: Builder, order: Sequence[int], lanes: int) -> ir.Value:
    """A constant array of panel steps."""
    padded_order = [*order, *[0] * (-len(order) % lanes)]
    kind = ir.ArrayType(I32, len(padded_order))
    name = b.module.get_unique_name("order")
    table = ir.GlobalVariable(b.module, kind, name)
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(kind, padded_order)
    table.type = POINTER
    return table


def _load_step(b: Builder, table: ir.Value, step: ir.Value | int) -> ir.Value:
    place = b.gep(table, [constant(step)], source_etype=I32)
    return b.zext(b.load(place, typ=I32, align=4), I64)


def _gather_strided(
    b: Builder, block: StridedBlock, source: ir.Value, target: ir.Value, valid: int
) -> None:
    """Pack a block with neither contiguous columns nor contiguous depth."""
    size, lanes = block.type.size, block.lanes
    strides = lane_numbers(lanes, I64, block.column * size)

    def row(x: ir.Value, y: ir.Value) -> None:
        for j in range(-(-valid // lanes)):
            remaining = valid - j * lanes
            pointers = b.gep(offset_bytes(b, x, j * lanes * block.column * size), [strides],
                             source_etype=ir.IntType(8))
            pointers.type = vector(POINTER, lanes)
            mask = b.splat(ir.Constant(I1, 1), lanes) if remaining >= lanes \
                else b.first_lanes(remaining, lanes)
            value = b.gather(pointers, block.type, lanes, mask)
            store_vector(b, value, offset_bytes(b, y, j * lanes * size), size)

    axes = [(n, (s * size, p * block.width * size))
            for (n, s), p in zip(block.depth, block.places, strict=True)]
    # the axis that moves least in memory goes innermost: neighbors share cache lines
    axes.sort(key=lambda axis: -abs(axis[1][0]))
    emit_loop_nest(b, axes, (source, target), row)
