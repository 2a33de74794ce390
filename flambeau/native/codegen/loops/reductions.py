"""Accumulators in generated code: stack slots, which LLVM promotes to registers.

A vectorized loop that updates an outer accumulator keeps a vector of partial results, which is
reduced when the accumulator is read.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from ...loop_ir.ir import NO_POSITION, Accumulator, ReduceOp, Type
from ..llvm.builder import I64, REGISTER, Builder, constant, lanes_in, lanes_of, vector
from .vectorization import VectorizationPlan

ARG_REDUCTIONS = (ReduceOp.ARGMAX, ReduceOp.ARGMIN)


def get_neutral_element(fold: ReduceOp, type: Type) -> Any:
    """The neutral element of a reduction, as a Python number."""
    if fold in (ReduceOp.SUM, ReduceOp.ANY, ReduceOp.LAST):
        return 0
    if fold in (ReduceOp.PRODUCT, ReduceOp.ALL):
        return 1
    lowest = fold in (ReduceOp.MAXIMUM, ReduceOp.ARGMAX)
    if type.floating:
        return -math.inf if lowest else math.inf
    bits = 1 if type is Type.BOOL else 8 * type.size
    if type.signed:
        return -(1 << (bits - 1)) if lowest else (1 << (bits - 1)) - 1
    return 0 if lowest else (1 << bits) - 1


def combine(b: Builder, fold: ReduceOp, type: Type, current: ir.Value, value: ir.Value) -> ir.Value:
    """Return one step of a reduction other than ARGMAX and ARGMIN."""
    if fold is ReduceOp.LAST:
        return value
    if fold is ReduceOp.ANY:
        return b.or_(current, value)
    if fold is ReduceOp.ALL:
        return b.and_(current, value)
    if fold is ReduceOp.SUM:
        return b.fadd(current, value, flags=b.contract) if type.floating else b.add(current, value)
    if fold is ReduceOp.PRODUCT:
        return b.fmul(current, value, flags=b.contract) if type.floating else b.mul(current, value)
    greater = fold is ReduceOp.MAXIMUM
    if type.floating:
        # Not LLVM's intrinsics: for them the processor decides between zeros, or it costs more.
        passed = b.fcmp_ordered("<" if greater else ">", current, value)
        extreme = b.select(passed, value, current)
        return b.select(b.fcmp_unordered("uno", value, value), value, extreme)
    name = ("s" if type.signed else "u") + ("max" if greater else "min")
    return b.intrinsic(name, current.type, (current, value))


def is_better(b: Builder, fold: ReduceOp, type: Type, current: Any, value: Any) -> ir.Value:
    """Whether a new (value, position) replaces the current pair: greater, or equal and earlier."""
    (old, old_at), (new, new_at) = current[:2], value[:2]
    sign = ">" if fold is ReduceOp.ARGMAX else "<"
    before = b.icmp_signed("<", new_at, old_at)
    if not type.floating:
        compare = b.icmp_signed if type.signed else b.icmp_unsigned
        return b.or_(compare(sign, new, old), b.and_(compare("==", new, old), before))
    old_nan, new_nan = b.fcmp_unordered("uno", old, old), b.fcmp_unordered("uno", new, new)
    ordered = b.fcmp_ordered(sign, new, old)
    same = b.or_(b.fcmp_ordered("==", new, old), b.and_(old_nan, new_nan))
    first = b.or_(ordered, b.and_(new_nan, b.not_(old_nan)))
    return b.or_(first, b.and_(same, before))


def is_greater(b: Builder, fold: ReduceOp, type: Type, old: ir.Value, new: ir.Value) -> ir.Value:
    """Whether a new value replaces the current, earlier one."""
    sign = ">" if fold is ReduceOp.ARGMAX else "<"
    if not type.floating:
        return (b.icmp_signed if type.signed else b.icmp_unsigned)(sign, new, old)
    return b.and_(b.fcmp_unordered(sign, new, old), b.fcmp_ordered("ord", old, old))


class ReductionState:
    """An accumulator after its Begin.

    `lanes`: vector lanes of the statement that began it; `widths`: lanes of the inner loops that
    update it. A `long` sum is kept in F64 and fed by F32 sums of blocks of iterations, which bounds
    rounding errors. An ARGMAX of `ascending` positions compares values alone; it remembers the
    first position for the case that no value exceeds the neutral one.
    """

    def __init__(
        self, accumulator: Accumulator, lanes: int, widths: set[int], plan: VectorizationPlan
    ) -> None:
        self.accumulator, self.fold = accumulator, accumulator.fold
        self.value_type = plan.types.get(accumulator, accumulator.type)
        self.lanes, self.widths = lanes, sorted({lanes, *widths})
        self.ascending = accumulator in plan.ascending
        # The type of the slots; within a block, that of the accumulator.
        self.type = Type.F64 if accumulator in plan.long_sums else self.value_type
        self.parts: dict[int, tuple[Any, ...]] = {}  # slots, by number of lanes
        self.outer: list[tuple[dict[int, tuple[Any, ...]], Type]] = []  # of enclosing blocks

    def _list_slot_types(self, lanes: int) -> tuple[ir.Type, ...]:
        """The slot types: the value, and for ARGMAX its position and the first position seen."""
        kind, index_type = vector(REGISTER[self.type], lanes), vector(I64, lanes)
        return (
            (kind, index_type, index_type if lanes == self.lanes else I64)
            if self.fold in ARG_REDUCTIONS
            else (kind,)
        )

    def _allocate_slots(self, b: Builder) -> dict[int, tuple[Any, ...]]:
        widths = [self.lanes] if self.type is not self.value_type else self.widths
        return {
            lanes: tuple(b.entry_slot(kind) for kind in self._list_slot_types(lanes))
            for lanes in widths
        }

    def _create_neutral(self, b: Builder, lanes: int) -> tuple[ir.Value, ...]:
        start = b.splat(constant(self.type, get_neutral_element(self.fold, self.type)), lanes)
        if self.fold not in ARG_REDUCTIONS:
            return (start,)
        return (
            start,
            *(b.splat(b.integer(NO_POSITION), lanes_in(k))
              for k in self._list_slot_types(lanes)[1:]),
        )

    def begin(self, b: Builder, start: ir.Value | None = None) -> None:
        """Reset everything to neutral, then reduce `start` into it."""
        self.parts = self._allocate_slots(b)
        for lanes in self.parts:
            values = self._create_neutral(b, lanes)
            if start is not None and lanes == self.lanes:
                first = self._convert(b, b.splat(start, lanes), self.value_type, self.type)
                values = (first, *values[1:])
            self._set(b, lanes, values)

    def _convert(self, b: Builder, value: ir.Value, source: Type, target: Type) -> ir.Value:
        if source is target:
            return value
        kind = vector(REGISTER[target], lanes_of(value))
        return b.fpext(value, kind) if target is Type.F64 else b.fptrunc(value, kind)

    def _get(self, b: Builder, lanes: int) -> tuple[ir.Value, ...]:
        slots = zip(self.parts[lanes], self._list_slot_types(lanes), strict=True)
        return tuple(b.load(slot, typ=kind) for slot, kind in slots)

    def _set(self, b: Builder, lanes: int, values: tuple[ir.Value, ...]) -> None:
        for slot, value in zip(self.parts[lanes], values, strict=True):
            b.store(value, slot)

    def update(
        self, b: Builder, values: tuple[ir.Value, ...], lanes: int, mask: ir.Value | None
    ) -> None:
        """Reduce in one value (and position) per lane, ignoring masked-off lanes."""
        values = tuple(b.splat(value, lanes) for value in values)
        if mask is not None and self.fold is ReduceOp.LAST:
            values = (b.select(mask, values[0], self._get(b, lanes)[0]),)
        elif mask is not None:
            none = constant(self.value_type, get_neutral_element(self.fold, self.value_type))
            others = (none, b.integer(NO_POSITION))[: len(values)]
            values = tuple(
                b.select(mask, v, b.splat(n, lanes)) for v, n in zip(values, others, strict=True)
            )
        if self.ascending:
            old, index, first = self._get(b, lanes)
            take = is_greater(b, self.fold, self.type, old, values[0])
            seen = values[1] if lanes == self.lanes else b.slice_lanes(values[1], 0, 1)
            first = b.intrinsic("smin", seen.type, (first, seen))
            chosen = b.select(take, values[0], old), b.select(take, values[1], index), first
            self._set(b, lanes, chosen)
            return
        self._fold_in(b, values, lanes, self.value_type)

    def _fold_in(
        self, b: Builder, values: tuple[ir.Value, ...], lanes: int, type: Type
    ) -> None:
        if lanes not in self.parts:
            values, lanes = self._reduce_lanes(b, values, type), 1
        values = (self._convert(b, values[0], type, self.type), *values[1:])
        self._set(b, lanes, self._merge(b, self._get(b, lanes), values))

    def _merge(self, b: Builder, old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.fold not in ARG_REDUCTIONS:
            return (combine(b, self.fold, self.type, old[0], new[0]),)
        take = is_better(b, self.fold, self.type, old, new)
        chosen = [b.select(take, n, o) for n, o in zip(new[:2], old[:2], strict=True)]
        first = old[2:] if len(new) == 2 else (b.intrinsic("smin", I64, (old[2], new[2])),)
        return (*chosen, *first)

    def value(self, b: Builder) -> ir.Value:
        """The current value; the position for ARGMAX and ARGMIN."""
        values = self._get(b, self.lanes)
        for lanes in self.parts:
            if lanes != self.lanes:
                partial = self._reduce_lanes(b, self._get(b, lanes), self.type)
                values = self._merge(b, values, partial)
        if self.fold in ARG_REDUCTIONS:
            if not self.ascending:
                return values[1]
            nowhere = b.icmp_signed("==", values[1], b.splat(b.integer(NO_POSITION), self.lanes))
            return b.select(nowhere, values[2], values[1])
        return self._convert(b, values[0], self.type, self.value_type)

    def _reduce_lanes(
        self, b: Builder, values: tuple[ir.Value, ...], type: Type
    ) -> tuple[ir.Value, ...]:
        """Reduce vectors of partial results to a scalar (and its position)."""
        if self.fold not in ARG_REDUCTIONS:
            return (b.reduce(self.fold, type, values[0]),)
        while (lanes := lanes_of(values[0])) > 1:
            low = tuple(b.slice_lanes(value, 0, lanes // 2) for value in values[:2])
            high = tuple(b.slice_lanes(value, lanes // 2, lanes // 2) for value in values[:2])
            values = (*self._merge(b, (*low, *values[2:]), high),)
        return values

    def open_block(self, b: Builder) -> None:
        """Start a partial sum that takes the following updates."""
        self.outer.append((self.parts, self.type))
        self.type = self.value_type
        self.begin(b)

    def close_block(self, b: Builder) -> None:
        """Add the partial sum to the outer sum."""
        inner = {lanes: self._get(b, lanes) for lanes in self.parts}
        self.parts, self.type = self.outer.pop()
        for lanes, values in inner.items():
            self._fold_in(b, values, lanes, self.value_type)
