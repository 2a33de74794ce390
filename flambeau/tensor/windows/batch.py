"""Batch: the examples that a vmap runs over at once, as seen by operators' batching rules.

A rule (`@operator.batch`) receives the batch and the operator's arguments, which are tensors of one
example. It returns the result for all examples, batch axis first, or NotImplemented to loop over
examples.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..size import Size
from ..tensor import Tensor, creation
from .batched_window import BatchedWindow

_next_number = itertools.count().__next__
_new = object.__new__
# Read the slot directly: a subclass may override `_array`, as uninitialized parameters do.
_read_window = vars(Tensor)["_array"].__get__


class Batch:
    """One running vmap. An inner vmap has a higher number than an outer one."""

    __slots__ = ("level", "number", "outer_level", "randomness", "refusal", "size")

    def __init__(
        self, size: int, randomness: str, refusal: str, outer_level: int, level: int
    ) -> None:
        self.number, self.size, self.randomness = _next_number(), size, randomness
        # The last forward-mode level started before: its tangents belong to the tensors below.
        self.outer_level = outer_level
        self.level = level  # the number of transforms around its examples, itself included
        self.refusal = refusal  # error message for draws if randomness is "error"

    def holds(self, x: Any) -> bool:
        """Return whether `x` is a tensor that differs between examples of this batch."""
        if not isinstance(x, Tensor):
            return False
        window: Any = x._array
        return window.__class__ is BatchedWindow and window.batch is self and not window.is_shared

    def holds_any(self, values: Sequence[Any]) -> bool:
        """Return whether any value, or element of a sequence, differs between examples."""
        for value in values:
            if value.__class__ is tuple or value.__class__ is list:
                if self.holds_any(value):
                    return True
            elif self.holds(value):
                return True
        return False

    def lower_all(self, values: Sequence[Any]) -> list[Any]:
        """Apply `lower` to each value, and to the elements of sequences."""
        return [type(v)(self.lower_all(v)) if v.__class__ is tuple or v.__class__ is list
                else self.lower(v) for v in values]

    def lower_shared(self, values: Sequence[Any]) -> list[Any]:
        """Apply `lower` to the values that all examples share, leaving the others unchanged."""
        return [type(v)(self.lower_shared(v)) if v.__class__ is tuple or v.__class__ is list
                else v if self.holds(v) else self.lower(v) for v in values]

    def lower(self, x: Any) -> Any:
        """Return the tensor below: all examples, batch axis first, or `x` if it isn't batched."""
        if isinstance(x, Tensor):
            window: Any = x._array
            if window.__class__ is BatchedWindow and window.batch is self:
                return window.below
        return x

    def expand(self, x: Tensor) -> Tensor:
        """Return all examples, batch axis first, expanding a tensor that they share."""
        below: Tensor = self.lower(x)
        return below if self.holds(x) else below.expand(self.size, *below._array.shape)

    def view(self, x: Tensor, *between: int) -> Tensor:
        """Return all examples, with axes `between` inserted after the batch axis."""
        below: Tensor = self.lower(x)
        return below.reshape(below._array.shape[0], *between, *below._array.shape[1:])

    def plain(self, x: Any) -> Any:
        """Return the tensor without its history inside the vmap, for rules made of operators."""
        return self.wrap(self.lower(x)) if self.holds(x) else self.lower(x)

    def wrap(self, below: Tensor, is_shared: bool = False) -> Tensor:
        """Return a tensor that represents one example; `below` holds all of them."""
        result = _new(Tensor)
        window: Any = BatchedWindow(self, below, is_shared)
        result._array = window
        result._requires_grad = result._tracked = False
        result._node = result._grad = result._counter = result._base = None
        result._stamp = creation.stamp
        return result

    def move(self, x: Any) -> Any:
        """Return the tensor below with its batch axis where it was in the argument of vmap."""
        if isinstance(x, (tuple, list)):
            return x if isinstance(x, Size) else type(x)([self.move(v) for v in x])
        if not self.holds(x) or not x._array.axis:
            return self.lower(x)
        return x._array.below.movedim(0, x._array.axis)

    def share(self, x: Tensor) -> Tensor:
        """Return the tensor as shared by all examples, with a separate history inside the vmap."""
        result = self.wrap(x, is_shared=True)
        result._counter = x._alias()._counter  # a write to one is a write to both
        return result


def get_elements(x: Tensor) -> np.ndarray:
    """Return a tensor's array; for an example, that of all examples, to decide for all at once."""
    window: Any = x._array
    while window.__class__ is BatchedWindow:
        window = window.below._array
    array: np.ndarray = window
    return array


def find_innermost_batch(values: Any) -> Batch | None:
    """Return the innermost batch with an example among the values or in their sequences."""
    best: Batch | None = None
    for value in values:  # hot: runs for every operator in a vmap, so leaves need no call
        if isinstance(value, Tensor):
            window: Any = _read_window(value)
            if window.__class__ is not BatchedWindow:
                continue
            batch = window.batch
        elif value.__class__ is tuple or value.__class__ is list:
            batch = find_innermost_batch(value)
            if batch is None:
                continue
        else:
            continue
        if best is None or batch.number > best.number:
            best = batch
    return best
