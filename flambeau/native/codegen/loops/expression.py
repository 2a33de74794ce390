"""Expressions as LLVM values: scalars where nothing depends on the lane, vectors elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ...loop_ir.ir import (
    Accumulator, Apply, Buffer, Constant, Expression, Given, Load, Position, Scalar, Store,
)
from ...loop_ir.ir import operands as operands_of
from . import scalar_ops
from ..llvm import casts
from .reductions import Held
from ..llvm.builder import I8, I16, I64, Builder, constant, iota, lanes_of
from .context import Context, Scope


def evaluate(context: Context, scope: Scope, expression: Expression) -> ir.Value:
    """The value of an expression here; what was computed in the scope before is taken from it."""
    memo = scope.memo
    key = context.key(expression)
    if key in memo:
        return memo[key]
    stack = [expression]
    while stack:
        one = stack[-1]
        key = context.key(one)
        if key in memo:
            stack.pop()
            continue
        missing = [each for each in operands_of(one) if context.key(each) not in memo]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        memo[key] = RULES[type(one)](context, scope, one)
    return memo[key]


def known(context: Context, scope: Scope, expression: Expression) -> ir.Value:
    """The value of an operand, which is computed already."""
    return scope.memo[context.key(expression)]


def _constant(context: Context, scope: Scope, one: Constant) -> ir.Value:
    return constant(one.type, one.value)


def _accumulator(context: Context, scope: Scope, one: Accumulator) -> ir.Value:
    held = context.held[one]
    return held.value(context.builder) if isinstance(held, Held) else held


def _position(context: Context, scope: Scope, one: Position) -> ir.Value:
    b, at = context.builder, one.value
    total = b.integer(at.base)
    for index, stride in at.terms:
        step = context.scaled(scope.bindings[index], stride)
        total = step if _is_zero(total) else b.add(total, step, flags=("nsw",))
    if scope.lane is None or at.stride(scope.lane) == 0:
        return total
    offsets = context.lane_offsets(at.stride(scope.lane), scope.lanes)
    return b.add(b.splat(total, scope.lanes), offsets, flags=("nsw",))


def _given(context: Context, scope: Scope, one: Given) -> ir.Value:
    return context.extent(one.size)


def _is_zero(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and value.constant == 0


# --------------------------------------------------------------------------------- memory


def place(
    context: Context, scope: Scope, one: Load | Store, offsets: list[tuple[ir.Value, ir.Value]]
) -> tuple[ir.Value, object]:
    """The address of an element, and how it moves with the lane.

    `offsets`: values and strides of the computed parts. The step is a stride, or None where the
    address is a vector, one for each lane.
    """
    b = context.builder
    pointer = context.pointer(one.buffer, one.at, scope)
    lanewise = None
    for value, stride in offsets:
        if lanes_of(value) == 1:
            pointer = b.moved(pointer, b.mul(value, stride), one.buffer.type)
        else:
            step = b.mul(value, b.splat(stride, scope.lanes))
            lanewise = step if lanewise is None else b.add(lanewise, step)
    stride = 0 if scope.lane is None else one.at.stride(scope.lane)
    if lanewise is None:
        return pointer, stride
    if stride != 0:
        lanewise = b.add(lanewise, context.lane_offsets(stride, scope.lanes))
    return b.moved(pointer, lanewise, one.buffer.type), None


def _load(context: Context, scope: Scope, one: Load) -> ir.Value:
    offsets = [(known(context, scope, e), context.extent(s)) for e, s in one.indirect]
    mask = None if one.mask is None else known(context, scope, one.mask)
    pointer, stride = place(context, scope, one, offsets)
    return read(context, scope, one.buffer, pointer, stride, mask)


def read(
    context: Context,
    scope: Scope,
    buffer: Buffer,
    pointer: ir.Value,
    stride: object,
    mask: ir.Value | None,
) -> ir.Value:
    """Elements of a buffer at a place and step (see `place`), where the mask is true."""
    b, kind, lanes = context.builder, buffer.type, scope.lanes
    if stride == 0:
        return _read_one(b, buffer, pointer, mask)
    mask = b.both(mask, scope.mask)
    if mask is not None:
        mask = b.splat(mask, lanes)
    if stride == 1:
        return b.read(pointer, kind, lanes, mask)
    if stride == -1:
        low = b.moved(pointer, b.integer(1 - lanes), kind)
        turned = None if mask is None else b.reversed(mask)
        return b.reversed(b.read(low, kind, lanes, turned))
    if stride == 2 and lanes > 1 and (mask is None or b.vector_bytes >= 64):
        return b.read_every_second(pointer, kind, lanes, mask)
    if stride is not None:
        pointer = b.moved(pointer, context.lane_offsets(stride, lanes), kind)  # type: ignore[arg-type]
    return b.gather(pointer, kind, lanes, mask)


def _read_one(b: Builder, buffer: Buffer, pointer: ir.Value, mask: ir.Value | None) -> ir.Value:
    """The one element that all lanes read; lanes out of the mask have 0."""
    if mask is None or lanes_of(mask) == 1:
        return b.read(pointer, buffer.type, 1, mask)
    lanes = lanes_of(mask)
    any_lane = b.reduced("or", (mask,))
    value = b.splat(b.read(pointer, buffer.type, 1, any_lane), lanes)
    return b.select(mask, value, ir.Constant(value.type, None))


def write(
    context: Context,
    scope: Scope,
    buffer: Buffer,
    place: tuple[ir.Value, object],
    value: ir.Value,
    mask: ir.Value | None,
) -> None:
    """Stores a value for each lane at a place and step (see `place`), where the mask is true."""
    b, kind, lanes = context.builder, buffer.type, scope.lanes
    pointer, stride = place
    if lanes > 1 and stride == 0:  # every lane writes the same element: the last one's value stays
        pointer, stride = b.splat(pointer, lanes), None
    if lanes == 1:
        b.write(pointer, value, kind, mask)
        return
    mask = b.both(mask, scope.mask)
    if stride == 1:
        b.write(pointer, b.splat(value, lanes), kind, mask)
    elif stride == -1:
        low = b.moved(pointer, b.integer(1 - lanes), kind)
        turned = None if mask is None else b.reversed(b.splat(mask, lanes))
        b.write(low, b.reversed(b.splat(value, lanes)), kind, turned)
    elif stride == 2 and b.vector_bytes >= 64:
        b.write_every_second(pointer, b.splat(value, lanes), kind, mask)
    else:
        if stride is not None:
            pointer = b.moved(pointer, context.lane_offsets(stride, lanes), kind)  # type: ignore[arg-type]
        b.scatter(pointer, value, kind, mask)


# ----------------------------------------------------------------------------- operations


def _apply(context: Context, scope: Scope, one: Apply) -> ir.Value:
    b = context.builder
    if one.operation in COMPARED:
        found = _position_compared(context, scope, one)
        if found is not None:
            return found
    if one.operation is Scalar.PHILOX_WORD:
        found = _words_in_order(context, scope, one)
        if found is not None:
            return found
    values = [known(context, scope, each) for each in one.operands]
    lanes = max(lanes_of(value) for value in values)
    if lanes > 1:
        values = [b.splat(value, lanes) for value in values]
    kind = one.operands[-1].type
    if one.operation is Scalar.CAST:
        return casts.cast(b, values[0], kind, one.type, lanes)
    if one.operation is Scalar.BITCAST:
        return casts.reinterpreted(b, values[0], kind, one.type, lanes)
    return scalar_ops.apply(b, one.operation, values, kind, lanes)


COMPARED = {
    Scalar.LT: "<", Scalar.LE: "<=", Scalar.GT: ">", Scalar.GE: ">=", Scalar.EQ: "==",
    Scalar.NE: "!=",
}  # fmt: skip
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def _position_compared(context: Context, scope: Scope, one: Apply) -> ir.Value | None:
    """A position that counts up with the lane, against what is the same in all lanes.

    The lane's number is compared with the difference, in bytes: much cheaper than vectors of i64.
    """
    for turned in (False, True):
        position, other = one.operands[::-1] if turned else one.operands
        if not isinstance(position, Position) or scope.lane is None:
            continue
        limit = known(context, scope, other)
        if position.value.stride(scope.lane) != 1 or lanes_of(limit) != 1:
            continue
        b, lanes, sign = context.builder, scope.lanes, COMPARED[one.operation]
        # Among the lanes of the vector: the first lane's position without its lane part.
        start = _first_lane(context, scope, position)
        apart = b.sub(limit, start)
        clamped = b.intrinsic("smax", I64, (b.minimum_of(apart, b.integer(lanes)), b.integer(-1)))
        narrow = I8 if lanes <= 64 else I16
        limits = b.splat(b.trunc(clamped, narrow), lanes)
        return b.icmp_signed(TURNED[sign] if turned else sign, iota(lanes, narrow), limits)
    return None


def _first_lane(context: Context, scope: Scope, position: Position) -> ir.Value:
    """The position of the first lane."""
    start = context.builder.integer(position.value.base)
    for index, stride in position.value.terms:
        step = context.scaled(scope.bindings[index], stride)
        start = context.builder.add(start, step)
    return start


def _words_in_order(context: Context, scope: Scope, one: Apply) -> ir.Value | None:
    """Random words of indices that count up with the lane."""
    from ..math.philox import words_in_order

    place, *others = one.operands
    if isinstance(place, Apply) and place.operation is Scalar.CAST:
        place = place.operands[0]
    stream, key = (known(context, scope, each) for each in others)
    if not isinstance(place, Position) or scope.lane is None or scope.lanes % 16:
        return None
    if place.value.stride(scope.lane) != 1 or lanes_of(stream) > 1 or lanes_of(key) > 1:
        return None
    start = _first_lane(context, scope, place)
    return words_in_order(context.builder, start, stream, key, scope.lanes)


RULES: dict[type, Callable] = {
    Constant: _constant, Accumulator: _accumulator, Position: _position, Given: _given,
    Load: _load, Apply: _apply,
}  # fmt: skip
