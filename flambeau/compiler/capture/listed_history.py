"""Record autograd history for results whose operator's function did not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...autograd.mode import MODE
from ...autograd.tape import record, record_binary, record_number, record_unary
from ...ops.core.operator import Kind, Operator
from ...tensor.tensor import Tensor


def attach(operator: Operator, results: Any, bound: tuple) -> None:
    """Record results on the tape. `bound`: the parameters' values, in order."""
    if not MODE.grad or not operator.differentiable:
        return
    for x in bound:
        if isinstance(x, Tensor):
            if x._tracked:
                break
        elif x.__class__ in (tuple, list) and any(t._tracked for t in _iterate_tensors(x)):
            break
    else:
        return
    if is_plain_pointwise(operator, bound):
        _attach_plain(operator, results, bound)
    else:
        record(operator, results, bound)


def is_plain_pointwise(operator: Operator, bound: tuple) -> bool:
    """Whether the tape has a fast path: a pointwise operator with only one or two operands."""
    return (operator.kind is Kind.POINTWISE
            and len(bound) == len(operator.tensor_positions) <= 2
            and all(p.default is p.empty for p in operator.parameters))


def _attach_plain(operator: Operator, result: Any, bound: tuple) -> None:
    if len(bound) == 1:
        record_unary(operator, result, bound[0])
        return
    first, second = isinstance(bound[0], Tensor), isinstance(bound[1], Tensor)
    if first and second:
        record_binary(operator, result, *bound)
    elif first or second:
        record_number(operator, result, bound, 0 if first else 1)


def _iterate_tensors(x: Any) -> Iterator[Tensor]:
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, (tuple, list)):
        for item in x:
            yield from _iterate_tensors(item)
