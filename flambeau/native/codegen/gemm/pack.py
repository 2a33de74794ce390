"""Packing: copies a strided block of a matrix so that a tile reads it sequentially.

An operand is seen as depth x width; the copy has `width` elements for each step of the depth, in
the type of the sums. Where memory runs along the depth, square blocks are transposed in registers.
bfloat16 numbers may be packed in pairs: two depth steps in a 32-bit lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from ...loop_ir.ir import Type
from ...target.cache_sizes import LINE_BYTES
from ...target.cost_model import MIN_PACK_PREFETCH_BYTES, PACK_STEPS_AT_ONCE
from ..llvm.address import add, ceil_divide, constant, multiply, offset_bytes
from ..llvm.builder import VectorBuilder
from ..llvm.loop import declare_internal
from ..llvm.transpose import transpose_block
from ..llvm.types import I32, I64, POINTER, Number, memory_type
from ..llvm.vectors import first_lanes, load_vector, store_vector, widen
from ..loops.epilogue_prefetch import L2_LOCALITY, emit_prefetch
from .bf16_pairs import count_pair_steps, emit_if, pack_consecutive, pack_pair, split_depth


@dataclass(frozen=True)
class PackedPanel:
    """A panel to pack: `width` by `depth` elements, of which `valid` along the width exist.

    Strides are in bytes; `lanes` is the number of elements of `type` in a vector. `pairs`: two
    depth steps form one element of `type`, with a zero upper half after an odd depth.
    """

    pointer: ir.Value
    width_stride: Number
    depth_stride: Number
    stored: Type
    type: Type
    width: int
    valid: Number
    depth: Number
    lanes: int
    pairs: bool = False

    @property
    def each(self) -> int:
        """Steps of the depth that make one element of the copy."""
        return 2 if self.pairs else 1

    @property
    def step(self) -> int:
        """Bytes from one step of the depth to the next in the copy."""
        return self.width * self.type.size


def emit_min(b: ir.IRBuilder, x: Number, y: Number) -> Number:
    """Return the smaller of two numbers."""
    if isinstance(x, int) and isinstance(y, int):
        return min(x, y)
    return b.select(b.icmp_signed("<", constant(x), constant(y)), constant(x), constant(y))


def pack_panel(b: VectorBuilder, panel: PackedPanel, into: ir.Value) -> None:
    """Copy a panel; elements beyond `valid` are zero or repeat the last one."""
    size = panel.stored.size
    if panel.width_stride == size:
        _pack_along_width(b, panel, into)
    elif panel.depth_stride == size:
        _pack_along_depth(b, panel, into)
    else:
        _pack_elements(b, panel, into)


def pack_groups(
    b: VectorBuilder, panel: PackedPanel, into: ir.Value, groups: Number, stride: Number
) -> None:
    """Pack panels that lie side by side along the width, each `stride` bytes after the last.

    If memory runs along the width, pack a few depth steps of all panels at a time, so that it is
    read in long runs, and prefetch as many steps ahead, since the hardware does not predict such
    distant lines. `valid` counts the elements of all panels together.
    """
    if panel.width_stride != panel.stored.size:
        _pack_each_group(b, panel, into, groups, stride)
        return
    over = multiply(b, panel.depth, panel.depth_stride)
    ahead = 0 if isinstance(over, int) and over < MIN_PACK_PREFETCH_BYTES else PACK_STEPS_AT_ONCE
    full_groups = b.udiv(constant(panel.valid), constant(panel.width))
    rest = b.urem(constant(panel.valid), constant(panel.width))
    with b.counted_loop(0, ceil_divide(b, panel.depth, PACK_STEPS_AT_ONCE)) as i:
        start = multiply(b, i, PACK_STEPS_AT_ONCE)
        here = replace(
            panel, pointer=offset_bytes(b, panel.pointer, multiply(b, start, panel.depth_stride)),
            depth=emit_min(b, PACK_STEPS_AT_ONCE, b.sub(constant(panel.depth), constant(start))),
        )
        target = offset_bytes(
            b, into, multiply(b, count_pair_steps(b, start, panel.pairs), panel.step)
        )

        def group(g: ir.Value, valid: Number) -> None:
            pointer = offset_bytes(b, here.pointer, multiply(b, g, panel.width * panel.stored.size))
            alone = replace(here, pointer=pointer, valid=valid)
            _pack_along_width(b, alone, offset_bytes(b, target, multiply(b, g, stride)), ahead)

        with b.counted_loop(0, full_groups) as g:
            group(g, panel.width)
        with b.if_then(b.icmp_signed(">", rest, constant(0))):
            group(full_groups, rest)


def _pack_each_group(
    b: VectorBuilder, panel: PackedPanel, into: ir.Value, groups: Number, stride: Number
) -> None:
    """Pack the panels one after another."""
    with b.counted_loop(0, groups) as g:
        done = multiply(b, g, panel.width)
        remaining = b.sub(constant(panel.valid), constant(done))
        pointer = offset_bytes(b, panel.pointer, multiply(b, done, panel.width_stride))
        valid = emit_min(b, remaining, panel.width)
        pack_panel(
            b, replace(panel, pointer=pointer, valid=valid),
            offset_bytes(b, into, multiply(b, g, stride))
        )


def _pack_along_width(
    b: VectorBuilder, panel: PackedPanel, into: ir.Value, ahead: int = 0
) -> None:
    """Pack one depth step at a time; `ahead`: how many steps ahead to prefetch."""
    masks: list[tuple[int, int, ir.Value | None]] = []
    for start in range(0, panel.width, panel.lanes):
        count = min(panel.lanes, panel.width - start)
        remaining = add(b, panel.valid, -start)
        masks.append((start, count, first_lanes(b, remaining, count)))

    def step(target: ir.Value, sources: Sequence[ir.Value]) -> None:
        for source in sources if ahead else ():
            for start in range(0, panel.width * panel.stored.size, LINE_BYTES):
                ahead_row = offset_bytes(b, source, multiply(b, panel.depth_stride, ahead))
                emit_prefetch(b, offset_bytes(b, ahead_row, start), False, L2_LOCALITY)
        for start, count, mask in masks:
            read = [load_vector(b, offset_bytes(b, source, start * panel.stored.size), panel.stored,
                                count, mask) for source in sources]
            value = _convert_for_panel(b, panel, read)
            store_vector(
                b, value, offset_bytes(b, target, start * panel.type.size), panel.type.size
            )

    _emit_steps(b, panel, into, step)


def _emit_steps(
    b: VectorBuilder, panel: PackedPanel, into: ir.Value,
    body: Callable[[ir.Value, Sequence[ir.Value]], None],
) -> None:
    """body(target, sources) for the steps of a panel: of one row of the source, or of two."""
    stride = multiply(b, panel.depth_stride, panel.each)
    even_depth, odd_depth = split_depth(b, panel.depth) if panel.pairs else (panel.depth, False)
    with b.counted_loop(0, even_depth) as k:
        first = offset_bytes(b, panel.pointer, multiply(b, k, stride))
        sources = [
            offset_bytes(b, first, multiply(b, panel.depth_stride, i)) for i in range(panel.each)
        ]
        body(offset_bytes(b, into, multiply(b, k, panel.step)), sources)
    emit_if(
        b,
        odd_depth,
        lambda: body(
            offset_bytes(b, into, multiply(b, even_depth, panel.step)),
            [offset_bytes(b, panel.pointer, multiply(b, even_depth, stride))],
        ),
    )


def _convert_for_panel(b: ir.IRBuilder, panel: PackedPanel, read: Sequence[ir.Value]) -> ir.Value:
    """What a panel holds of the elements, or vectors of them, of one step: as they were read."""
    if panel.pairs:
        return pack_pair(b, read, panel.stored)
    return widen(b, read[0], panel.stored, panel.type)


def _pack_elements(b: VectorBuilder, panel: PackedPanel, into: ir.Value) -> None:
    """Pack one element at a time, for any strides."""

    def step(target: ir.Value, sources: Sequence[ir.Value]) -> None:
        with b.counted_loop(0, emit_min(b, panel.valid, panel.width)) as r:
            read = []
            for source in sources:
                pointer = offset_bytes(b, source, multiply(b, r, panel.width_stride))
                read.append(b.load(pointer, typ=memory_type(panel.stored), align=panel.stored.size))
            value = _convert_for_panel(b, panel, read)
            b.store(
                value,
                offset_bytes(b, target, multiply(b, r, panel.type.size)),
                align=panel.type.size,
            )

    _emit_steps(b, panel, into, step)


def _pack_along_depth(b: VectorBuilder, panel: PackedPanel, into: ir.Value) -> None:
    """Transpose squares of vectors; pack the rest of the depth element by element."""
    lanes, elements = panel.lanes, panel.lanes * panel.each
    if isinstance(panel.depth, int):
        blocks, rest = divmod(panel.depth, elements)
    else:
        blocks = b.sdiv(panel.depth, constant(elements))
        rest = b.srem(panel.depth, constant(elements))
    for start in range(0, panel.width, lanes):
        count = min(lanes, panel.width - start)
        if isinstance(panel.valid, int) and panel.valid <= start:
            break
        _transpose_columns(b, panel, into, start, count, blocks)
    if isinstance(rest, int) and rest == 0:
        return
    done = offset_bytes(
        b, panel.pointer, multiply(b, multiply(b, blocks, elements), panel.depth_stride)
    )
    tail = replace(panel, pointer=done, depth=rest)
    _pack_elements(
        b, tail, offset_bytes(b, into, multiply(b, multiply(b, blocks, lanes), panel.step))
    )


def _transpose_columns(
    b: ir.IRBuilder, panel: PackedPanel, into: ir.Value, start: int, count: int, blocks: Number
) -> None:
    """Pack whole blocks of `lanes` steps for `count` elements of the width from `start` on."""
    last = add(b, panel.valid, -1 - start)
    pointer = offset_bytes(b, panel.pointer, multiply(b, start, panel.width_stride))
    target = offset_bytes(b, into, start * panel.type.size)
    arguments = [pointer, constant(panel.width_stride), constant(last), constant(blocks), target]
    b.call(_declare_transposer(b.module, panel, count), arguments)


def _declare_transposer(module: ir.Module, panel: PackedPanel, count: int) -> ir.Function:
    """void(source, stride, last, blocks, target): one for all panels of the same form."""
    kinds = f"{panel.stored.value}_{panel.type.value}{'_pairs' if panel.pairs else ''}"
    name = f"pack_{kinds}_{panel.lanes}_{panel.width}_{count}"
    if name in module.globals:
        return module.globals[name]
    kind = ir.FunctionType(ir.VoidType(), [POINTER, I64, I64, I64, POINTER])
    function = declare_internal(module, name, kind)
    source, stride, last, blocks, target = function.args
    for pointer in (source, target):
        pointer.add_attribute("noalias")
    b = VectorBuilder(function.append_basic_block("entry"))
    sources = []
    for r in range(count):
        row = emit_min(b, r, last)
        # A vector entirely out of range repeats the last element before it.
        sources.append(offset_bytes(b, source, multiply(b, row, stride)))
    with b.counted_loop(0, blocks) as block:
        elements = panel.lanes * panel.each
        offset = multiply(b, block, elements * panel.stored.size)
        vectors = []
        for source in sources:
            read = load_vector(b, offset_bytes(b, source, offset), panel.stored, elements)
            vectors.append(pack_consecutive(b, read, panel.stored) if panel.pairs else
                           widen(b, read, panel.stored, panel.type))
        vectors += [vectors[-1]] * ((1 << (count - 1).bit_length()) - count)
        here = offset_bytes(b, target, multiply(b, block, panel.lanes * panel.step))
        _store_steps(b, panel, transpose_block(b, vectors), count, here)
    b.ret_void()
    return function


def _store_steps(
    b: ir.IRBuilder, panel: PackedPanel, vectors: list[ir.Value], count: int, target: ir.Value
) -> None:
    """Write transposed vectors, each step of the depth `count` elements, a step apart."""
    lanes, size = panel.lanes, panel.type.size
    padded = len(vectors)
    if padded == count and (count == panel.width or count == lanes):
        stride = lanes * size if count == panel.width else panel.step
        for i, vector in enumerate(vectors):
            store_vector(b, vector, offset_bytes(b, target, i * stride), size)
        return
    elements = min(padded, lanes)  # elements of one step in one vector
    for i, vector in enumerate(vectors):
        for piece in range(lanes // elements):
            position = i * lanes + piece * elements
            k, first = divmod(position, padded)
            keep = min(elements, count - first)
            if keep <= 0:
                continue
            pick = range(piece * elements, piece * elements + keep)
            selected_lanes = ir.Constant(ir.VectorType(I32, keep), list(pick))
            part = b.shuffle_vector(vector, vector, selected_lanes)
            store_vector(b, part, offset_bytes(b, target, k * panel.step + first * size), size)
