"""Eager functions in a program: a recorded call, repeated on arrays with the same settings.

The arguments are prepared once, with holes for the tensors: mapping them at every call would take
longer than many of the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd import no_grad
from ...ops.core.operator import Operator
from ...tensor.tensor import Tensor, wrap
from ...tensor.tree import collect_leaves, map_leaves
from ..trace.operands import flatten, unbind_call
from ..trace.trace import Event, Value, collect_values, map_values
from .complex_pairs import as_pairs, convert_from_pairs, is_complex


class _Hole:
    """Placeholder of the tensor with this number; filled with its array if `takes_array`."""

    def __init__(self, number: int) -> None:
        self.number, self.takes_array = number, False

    def fill(self, tensors: Sequence[Tensor]) -> Any:
        tensor = tensors[self.number]
        return tensor._array if self.takes_array else tensor


class EagerFunction:
    """Function of a CALL node: an operator or another library function, called on whole arrays.

    A call returns the results, then the new values of the arguments that the function writes.
    """

    def __init__(self, function: Callable, event: Event, targets: Sequence[Value | None]) -> None:
        self.function, self.__name__ = function, event.name
        self.operator: Operator | None = event.operator
        self._results = event.results
        tensors = collect_values((event.args, event.kwargs))
        self._dtypes = [v.dtype for v in tensors]
        self._written = [tensors.index(t) for t in targets if t is not None]
        self._prepares_operands = bool(self._written) or any(map(is_complex, tensors))
        self._returns_complex = any(v is not None and is_complex(v) for v in event.results)
        self._args, self._kwargs = self._prepare(event)
        # Positional arguments that are tensors, and those that contain some.
        self._holes = [(k, x) for k, x in enumerate(self._args) if x.__class__ is _Hole]
        self._nested = [k for k, x in enumerate(self._args)
                        if x.__class__ is not _Hole and collect_leaves(_Hole, x)]
        self._named = bool(collect_leaves(_Hole, self._kwargs))

    def _prepare(self, event: Event) -> tuple[list[Any], dict[str, Any]]:
        number = iter(range(len(self._dtypes)))
        args = map_values(event.args, lambda _: _Hole(next(number)))
        kwargs = map_values(event.kwargs, lambda _: _Hole(next(number)))
        if self.operator is None:
            return list(args), kwargs
        for k, x in enumerate(args):
            if k not in self.operator.tensor_positions:  # an index, for example
                for hole in collect_leaves(_Hole, x):
                    hole.takes_array = True
        args, kwargs = unbind_call(self.operator, args)
        return list(args), kwargs

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        tensors = [
            wrap(convert_from_pairs(a.copy() if i in self._written else a, dtype))
            for i, (a, dtype) in enumerate(zip(arrays, self._dtypes, strict=True))
        ] if self._prepares_operands else [*map(wrap, arrays)]

        def fill(leaf: Any) -> Any:
            return leaf.fill(tensors) if leaf.__class__ is _Hole else leaf

        args = self._args.copy()
        for k, hole in self._holes:
            args[k] = hole.fill(tensors)
        for k in self._nested:
            args[k] = map_leaves(fill, args[k])
        kwargs = map_leaves(fill, self._kwargs) if self._named else self._kwargs
        with no_grad():
            new = self.function(*args, **kwargs)
        new = new if self.operator is not None and isinstance(new, (tuple, list)) else flatten(new)
        outputs = [y._array for y, v in zip(new, self._results, strict=False) if v is not None]
        if not (self._prepares_operands or self._returns_complex):
            return outputs
        return [as_pairs(y) for y in (*outputs, *(tensors[i]._array for i in self._written))]
