"""Emits expressions: scalars if they are equal in all lanes, vectors otherwise."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ...loop_ir.ir import (
    Accumulator, Apply, Buffer, Constant, Expression, IndexValue, Load, Scalar, SizeValue, Store,
)
from ...loop_ir.ir import get_operands as operands_of
from ..llvm import casts
from ..llvm.builder import I16, I64, I8, Builder, constant, lane_numbers, lanes_of
from . import scalar_ops
from .context import Context, Scope
from .reductions import ReductionState


def evaluate(context: Context, scope: Scope, expression: Expression) -> ir.Value:
    """Return the value of an expression in a scope, reusing values the scope already has."""
    memo = scope.memo
    key = context.key(expression)
    if key in memo:
        return memo[key]
    stack = [expression]
    while stack:
        current = stack[-1]
        key = context.key(current)
        if key in memo:
            stack.pop()
            continue
        missing = [operand for operand in operands_of(current) if context.key(operand) not in memo]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        memo[key] = EVALUATORS[type(current)](context, scope, current)
    return memo[key]


def read_memo(context: Context, scope: Scope, expression: Expression) -> ir.Value:
    """The value of an operand that is already in the scope's memo."""
    return scope.memo[context.key(expression)]


def _emit_constant(context: Context, scope: Scope, literal: Constant) -> ir.Value:
    return constant(literal.type, literal.value)


def _read_accumulator(context: Context, scope: Scope, accumulator: Accumulator) -> ir.Value:
    state = context.accumulators[accumulator]
    return state.value(context.builder) if isinstance(state, ReductionState) else state


def _emit_index_value(context: Context, scope: Scope, index_value: IndexValue) -> ir.Value:
    b, affine = context.builder, index_value.value
    total = b.integer(affine.base)
    for index, stride in affine.terms:
        step = context.scale(scope.bindings[index], stride)
        total = step if _is_zero(total) else b.add(total, step, flags=("nsw",))
    if scope.lane is None or affine.stride(scope.lane) == 0:
        return total
    offsets = context.lane_offsets(affine.stride(scope.lane), scope.lanes)
    return b.add(b.splat(total, scope.lanes), offsets, flags=("nsw",))


def _emit_size_value(context: Context, scope: Scope, size_value: SizeValue) -> ir.Value:
    return context.extent(size_value.size)


def _is_zero(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and value.constant == 0


# --------------------------------------------------------------------------------- memory


def address_of(
    context: Context, scope: Scope, access: Load | Store, offsets: list[tuple[ir.Value, ir.Value]]
) -> tuple[ir.Value, object]:
    """The address of an element, and its stride along the lanes.

    `offsets` are values and strides of the computed offsets. The stride is None if the address is a
    vector with one element per lane.
    """
    b = context.builder
    pointer = context.pointer(access.buffer, access.at, scope)
    lanewise = None
    for value, stride in offsets:
        if lanes_of(value) == 1:
            pointer = b.offset_elements(pointer, b.mul(value, stride), access.buffer.type)
        else:
            step = b.mul(value, b.splat(stride, scope.lanes))
            lanewise = step if lanewise is None else b.add(lanewise, step)
    stride = 0 if scope.lane is None else access.at.stride(scope.lane)
    if lanewise is None:
        return pointer, stride
    if stride != 0:
        lanewise = b.add(lanewise, context.lane_offsets(stride, scope.lanes))
    return b.offset_elements(pointer, lanewise, access.buffer.type), None


def _load(context: Context, scope: Scope, load: Load) -> ir.Value:
    offsets = [(read_memo(context, scope, e), context.extent(s)) for e, s in load.indirect]
    mask = None if load.mask is None else read_memo(context, scope, load.mask)
    pointer, stride = address_of(context, scope, load, offsets)
    return load_elements(context, scope, load.buffer, pointer, stride, mask)


def load_elements(
    context: Context,
    scope: Scope,
    buffer: Buffer,
    pointer: ir.Value,
    stride: object,
    mask: ir.Value | None,
) -> ir.Value:
    """Load elements at an address and stride (see `address_of`) where the mask is true."""
    b, kind, lanes = context.builder, buffer.type, scope.lanes
    if stride == 0:
        return _load_uniform(b, buffer, pointer, mask)
    mask = b.and_masks(mask, scope.mask)
    if mask is not None:
        mask = b.splat(mask, lanes)
    if stride == 1:
        return b.read(pointer, kind, lanes, mask)
    if stride == -1:
        low = b.offset_elements(pointer, b.integer(1 - lanes), kind)
        turned = None if mask is None else b.reverse_lanes(mask)
        return b.reverse_lanes(b.read(low, kind, lanes, turned))
    if stride == 2 and lanes > 1 and (mask is None or b.vector_bytes >= 64):
        return b.read_every_second(pointer, kind, lanes, mask)
    if stride is not None:
        offsets = context.lane_offsets(stride, lanes)  # type: ignore[arg-type]
        pointer = b.offset_elements(pointer, offsets, kind)
    return b.gather(pointer, kind, lanes, mask)


def _load_uniform(b: Builder, buffer: Buffer, pointer: ir.Value, mask: ir.Value | None) -> ir.Value:
    """Load the one element that all lanes read; masked-off lanes get 0."""
    if mask is None or lanes_of(mask) == 1:
        return b.read(pointer, buffer.type, 1, mask)
    lanes = lanes_of(mask)
    any_lane = b.reduce_with("or", (mask,))
    value = b.splat(b.read(pointer, buffer.type, 1, any_lane), lanes)
    return b.select(mask, value, ir.Constant(value.type, None))


def store_elements(
    context: Context,
    scope: Scope,
    buffer: Buffer,
    place: tuple[ir.Value, object],
    value: ir.Value,
    mask: ir.Value | None,
) -> None:
    """Store one value per lane at an address and stride (see `address_of`) where the mask is true.
    """
    b, kind, lanes = context.builder, buffer.type, scope.lanes
    pointer, stride = place
    if lanes > 1 and stride == 0:  # every lane writes the same element: the last lane wins
        pointer, stride = b.splat(pointer, lanes), None
    if lanes == 1:
        b.write(pointer, value, kind, mask)
        return
    mask = b.and_masks(mask, scope.mask)
    if stride == 1:
        b.write(pointer, b.splat(value, lanes), kind, mask)
    elif stride == -1:
        low = b.offset_elements(pointer, b.integer(1 - lanes), kind)
        turned = None if mask is None else b.reverse_lanes(b.splat(mask, lanes))
        b.write(low, b.reverse_lanes(b.splat(value, lanes)), kind, turned)
    elif stride == 2 and b.vector_bytes >= 64:
        b.write_every_second(pointer, b.splat(value, lanes), kind, mask)
    else:
        if stride is not None:
            offsets = context.lane_offsets(stride, lanes)  # type: ignore[arg-type]
            pointer = b.offset_elements(pointer, offsets, kind)
        b.scatter(pointer, value, kind, mask)


# ----------------------------------------------------------------------------- operations


def _apply(context: Context, scope: Scope, apply: Apply) -> ir.Value:
    b = context.builder
    if apply.operation in COMPARISON_SIGNS:
        value = _compare_index(context, scope, apply)
        if value is not None:
            return value
    if apply.operation is Scalar.PHILOX_WORD:
        value = _emit_philox_block(context, scope, apply)
        if value is not None:
            return value
    values = [read_memo(context, scope, operand) for operand in apply.operands]
    lanes = max(lanes_of(value) for value in values)
    if lanes > 1:
        values = [b.splat(value, lanes) for value in values]
    kind = apply.operands[-1].type
    if apply.operation is Scalar.CAST:
        return casts.cast(b, values[0], kind, apply.type, lanes)
    if apply.operation is Scalar.BITCAST:
        return casts.bitcast(b, values[0], kind, apply.type, lanes)
    return scalar_ops.emit_operation(b, apply.operation, values, kind, lanes)


COMPARISON_SIGNS = {
    Scalar.LT: "<", Scalar.LE: "<=", Scalar.GT: ">", Scalar.GE: ">=", Scalar.EQ: "==",
    Scalar.NE: "!=",
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def _compare_index(context: Context, scope: Scope, apply: Apply) -> ir.Value | None:
    """Compare an index that counts up with the lanes against a lane-invariant value.

    Compares byte-sized lane numbers with the difference, which is far cheaper than vectors of i64.
    None if the operands do not have this form.
    """
    for turned in (False, True):
        position, other = apply.operands[::-1] if turned else apply.operands
        if not isinstance(position, IndexValue) or scope.lane is None:
            continue
        limit = read_memo(context, scope, other)
        if position.value.stride(scope.lane) != 1 or lanes_of(limit) != 1:
            continue
        b, lanes, sign = context.builder, scope.lanes, COMPARISON_SIGNS[apply.operation]
        # Relative to the vector: the first lane's position without its lane term.
        start = _emit_first_lane(context, scope, position)
        remaining = b.sub(limit, start)
        clamped = b.intrinsic("smax", I64,
                              (b.minimum_of(remaining, b.integer(lanes)), b.integer(-1)))
        narrow = I8 if lanes <= 64 else I16
        limits = b.splat(b.trunc(clamped, narrow), lanes)
        return b.icmp_signed(
            MIRRORED[sign] if turned else sign, lane_numbers(lanes, narrow), limits
        )
    return None


def _emit_first_lane(context: Context, scope: Scope, position: IndexValue) -> ir.Value:
    """The index value of the first lane."""
    start = context.builder.integer(position.value.base)
    for index, stride in position.value.terms:
        step = context.scale(scope.bindings[index], stride)
        start = context.builder.add(start, step)
    return start


def _emit_philox_block(context: Context, scope: Scope, apply: Apply) -> ir.Value | None:
    """Philox words of consecutive indices, generated four counters at a time; None for others."""
    from ..math.philox import consecutive_words

    place, *others = apply.operands
    if isinstance(place, Apply) and place.operation is Scalar.CAST:
        place = place.operands[0]
    stream, key = (read_memo(context, scope, operand) for operand in others)
    if not isinstance(place, IndexValue) or scope.lane is None or scope.lanes % 16:
        return None
    if place.value.stride(scope.lane) != 1 or lanes_of(stream) > 1 or lanes_of(key) > 1:
        return None
    start = _emit_first_lane(context, scope, place)
    return consecutive_words(context.builder, start, stream, key, scope.lanes)


EVALUATORS: dict[type, Callable] = {
    Constant: _emit_constant,
    Accumulator: _read_accumulator,
    IndexValue: _emit_index_value,
    SizeValue: _emit_size_value,
    Load: _load,
    Apply: _apply,
}
