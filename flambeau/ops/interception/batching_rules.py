"""How each operator computes all examples of a vmap at once.

A rule declared by the operator (`@op.batch`) takes precedence. Pointwise operators align their
operands behind the batch axis. For others, declarations decide: `leading` operators take the batch
axis as another leading axis, `examples` fold it into their axis of independent examples, and
operators with axis parameters (`dim`) have them shifted by one. All others loop over examples.
"""

from __future__ import annotations

import math
from typing import Any

from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor
from ...tensor.tree import map_leaves
from ...tensor.windows.batch import Batch
from ..core.axes import canonicalize_dim
from ..core.operator import Kind, Operator, Promotion
from .tangent_rules import call_with

_AXES = frozenset(("dim", "dims", "dim0", "dim1", "dim2", "dimension"))


def compute(operator: Operator, batch: Batch, values: list[Any]) -> Any:
    """Return operator(*values) for all examples, batch axis first; NotImplemented if no rule."""
    if operator.batch is not None:
        return operator.batch(batch, *values)
    if operator.kind is Kind.POINTWISE:
        return _align(operator, batch, values)
    if operator.reduces:
        return _reduce_elements(operator, batch, values)
    if operator.leading:
        return _put_in_front(operator, batch, values)
    if operator.examples:
        return _fold(operator, batch, values)
    if _AXES.isdisjoint(operator.names):
        return NotImplemented
    return _shift_axes(operator, batch, values)


def _align(operator: Operator, batch: Batch, values: list[Any]) -> Any:
    """Call the operator on operands aligned behind the batch axis, so they broadcast as usual."""
    tensors = [values[i] for i in operator.tensor_positions if isinstance(values[i], Tensor)]
    rank = max([t._array.ndim for t in tensors])
    kind = None
    if len(tensors) > 1 and operator.promotion is not Promotion.NONE \
            and any(not t._array.ndim and t._array.dtype != tensors[0]._array.dtype
                    or t._array.dtype != tensors[-1]._array.dtype for t in tensors):
        kind = result_dtype([values[i] for i in operator.tensor_positions])
    lowered = list(values)
    for i in operator.tensor_positions:
        value = values[i]
        if not batch.holds(value):
            lowered[i] = batch.lower(value)
            continue
        below, own_rank = batch.lower(value), value._array.ndim
        if kind is not None and not own_rank:  # 0-dim: ranks below tensors with axes in promotion
            below = below.to(kind)
        if own_rank < rank:
            below = below.reshape(batch.size, *[1] * (rank - own_rank), *value._array.shape)
        lowered[i] = below
    return call_with(operator, lowered)


def _reduce_elements(operator: Operator, batch: Batch, values: list[Any]) -> Any:
    """Compute the elements' losses, then each example's mean or sum."""
    position = operator.names.index("reduction")
    elements = _align(operator, batch, [*values[:position], 0, *values[position + 1 :]])
    if not values[position]:
        return elements
    rows = elements.reshape(batch.size, math.prod(elements.shape[1:]))
    return rows.mean(1) if values[position] == 1 else rows.sum(1)


def _put_in_front(operator: Operator, batch: Batch, values: list[Any]) -> Any:
    """Call the operator with the batch axis as another leading axis of all operands."""
    lowered, ranks = list(values), set()
    for i in operator.tensor_positions:
        value = values[i]
        if isinstance(value, Tensor):
            ranks.add(value._array.ndim)
            lowered[i] = batch.expand(value)
    if len(ranks) > 1 or (operator.leading == 2 and min(ranks) < 2):  # an example is no matrix
        return NotImplemented
    return call_with(operator, lowered)


def _fold(operator: Operator, batch: Batch, values: list[Any]) -> Any:
    """Call the operator with the batch axis folded into the axis of independent examples."""
    lowered, count = list(values), None
    for i, name in enumerate(operator.names):
        value = values[i]
        if name == "shape":
            lowered[i] = (batch.size * value[0], *value[1:])
        elif isinstance(value, Tensor) and name in operator.examples:
            lowered[i] = batch.expand(value).flatten(0, 1)
            count = value._array.shape[0]
        elif batch.holds(value):
            return NotImplemented
        else:
            lowered[i] = batch.lower(value)
    result = call_with(operator, lowered)

    def unfold(y: Tensor) -> Tensor:
        return y.reshape(batch.size, count, *y.shape[1:])

    return unfold(result) if isinstance(result, Tensor) else \
        tuple([None if y is None else unfold(y) for y in result])


def _shift_axes(operator: Operator, batch: Batch, values: list[Any]) -> Any:
    """Call the operator with axes shifted past the batch axis, for operands of the first's rank."""
    first = values[operator.tensor_positions[0]]
    if first.__class__ in (tuple, list):
        first = first[0]
    rank = first._array.ndim
    axes = len(values[operator.names.index("shape")]) if "shape" in operator.names else rank
    lowered = list(values)
    for i in operator.tensor_positions:
        value = values[i]
        parts = value if value.__class__ in (tuple, list) else (value,)
        new = []
        for part in parts:
            if isinstance(part, Tensor) and part._array.ndim == rank:
                below = batch.expand(part)
                new.append(below if axes else below.unsqueeze(1))
            elif batch.holds(part):
                return NotImplemented
            else:
                new.append(batch.lower(part))
        lowered[i] = new if parts is value else new[0]
    flat = _shift_parameters(operator, batch, values, lowered, axes)
    result = call_with(operator, lowered)
    if flat and values[operator.names.index("keepdim")]:
        return result.reshape(batch.size, *[1] * rank)
    if axes:
        return result
    return map_leaves(lambda y: y.squeeze(1) if y.dim() == 2 else y, result)


def _shift_parameters(
    operator: Operator, batch: Batch, values: list[Any], lowered: list[Any], rank: int
) -> bool:
    """Shift the axis parameters, and prepend the batch size to shapes.

    Return whether the operand was flattened, because the call reduces all of its axes.
    """
    flat = False
    for i, name in enumerate(operator.names):
        value = values[i]
        if name == "shape":
            lowered[i] = (batch.size, *value)
        elif name in _AXES:
            parameter = operator.parameters[i]
            starred = parameter.kind is parameter.VAR_POSITIONAL
            if value is None or (value == () or value == []) and not starred:
                if starred or "Sequence" in str(parameter.annotation):
                    lowered[i] = tuple(range(1, max(rank, 1) + 1))
                else:
                    flat = "keepdim" in operator.names
                    first = operator.tensor_positions[0]
                    count = math.prod(lowered[first].shape[1:])  # no -1: a batch may be empty
                    lowered[first] = lowered[first].reshape(batch.size, count)
                    lowered[i] = 1
            elif isinstance(value, (tuple, list)):
                lowered[i] = tuple([canonicalize_dim(d, rank) + 1 for d in value])
            else:
                lowered[i] = canonicalize_dim(value, rank) + 1
    return flat
