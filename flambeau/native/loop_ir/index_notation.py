"""Index notation: elements at sums of index * stride, as Values, in nests of loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .expression_builder import Value
from .ir import (
    Accumulator, Affine, Buffer, Expression, Extent, Index, IndexValue, Load, Loop, LoopKind, Size,
    SizeValue, Statement, Store, Update,
)

Place = Affine | Index | int
Offset = tuple[Value, Extent]  # a computed number of strides


def create_sizes(fields: Any, bounds: Mapping[str, int] | None = None) -> Any:
    """Return a NamedTuple's fields as size arguments, some with an upper bound."""
    return fields(*[Size(name, (bounds or {}).get(name)) for name in fields._fields])


def create_indices(names: str) -> list[Index]:
    """Return a loop variable for each name."""
    return [Index(name) for name in names.split()]


def value_of(number: Affine | Index | Size) -> Value:
    """Return a position or a size as an I64."""
    return Value(SizeValue(number) if isinstance(number, Size) else IndexValue(_place(number)))


def load(buffer: Buffer, at: Place = 0, *offsets: Offset, mask: Value | None = None) -> Value:
    """Return the element at a position plus offsets; 0 where the mask does not hold."""
    return Value(Load(buffer, _place(at), _unwrap_offsets(offsets), _unwrap(mask)))


def store(buffer: Buffer, at: Place, value: Value, *offsets: Offset, mask: Value | None = None,
          add: bool = False) -> Store:
    """Store a value at a position plus offsets, or `add` it to what is there."""
    return Store(buffer, _place(at), value.expression, _unwrap_offsets(offsets), _unwrap(mask), add)


def update(accumulator: Accumulator, value: Value) -> Update:
    """Reduce a value into an accumulator."""
    return Update(accumulator, value.expression)


def nest(body: Sequence[Statement], *loops: tuple[Index, Extent],
         kind: LoopKind = LoopKind.PARALLEL) -> Loop:
    """Return loops around a body, the outermost first."""
    inner = list(body)
    for index, extent in reversed(loops):
        inner = [Loop(index, extent, inner, kind)]
    result = inner[0]
    assert isinstance(result, Loop)
    return result


def vectorize(index: Index, extent: Extent, *body: Statement) -> Loop:
    """Return a loop whose iterations are lanes."""
    return nest(body, (index, extent), kind=LoopKind.VECTORIZED)


def repeat(index: Index, extent: Extent, *body: Statement) -> Loop:
    """Return a loop that runs in order."""
    return nest(body, (index, extent), kind=LoopKind.SERIAL)


def _place(at: Place) -> Affine:
    return Affine(at) if isinstance(at, int) else at.as_affine()


def _unwrap(value: Value | None) -> Expression | None:
    return None if value is None else value.expression


def _unwrap_offsets(offsets: Sequence[Offset]) -> tuple[tuple[Expression, Extent], ...]:
    return tuple([(value.expression, stride) for value, stride in offsets])
