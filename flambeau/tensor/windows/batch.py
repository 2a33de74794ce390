"""Batch: the examples that one vmap runs over at once, as operators' rules see them.

A rule (`@operator.batch`) gets the batch and the operator's arguments, tensors of one example; it
gives the result for all examples, batch axis first, or NotImplemented for a loop over examples.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tensor import Tensor, creation
from .batched_window import BatchedWindow

_next_number = itertools.count().__next__
_new = object.__new__
# The slot itself: a class may refuse to show its window, as uninitialized parameters do.
_read_window = vars(Tensor)["_array"].__get__


class Batch:
    """One vmap at work. A vmap inside of another has the higher number."""

    __slots__ = ("number", "outer_level", "randomness", "refusal", "size")

    def __init__(
        self, size: int, randomness: str, refusal: str, outer_level: int
    ) -> None:
        self.number, self.size, self.randomness = _next_number(), size, randomness
        # The last level of forward mode that began before: its tangents belong to what is below.
        self.outer_level = outer_level
        self.refusal = refusal  # what a draw raises where randomness is "error"

    def holds(self, x: Any) -> bool:
        """Whether `x` is a tensor that differs from example to example of this batch."""
        if not isinstance(x, Tensor):
            return False
        window: Any = x._array
        return window.__class__ is BatchedWindow and window.batch is self and not window.is_shared

    def holds_any(self, values: Sequence[Any]) -> bool:
        """Whether one of the values, or of a sequence among them, differs between examples."""
        for value in values:
            if value.__class__ is tuple or value.__class__ is list:
                if self.holds_any(value):
                    return True
            elif self.holds(value):
                return True
        return False

    def lower_all(self, values: Sequence[Any]) -> list[Any]:
        """Each value, or a sequence among them, as it is below."""
        return [type(v)(self.lower_all(v)) if v.__class__ is tuple or v.__class__ is list
                else self.lower(v) for v in values]

    def lower_shared(self, values: Sequence[Any]) -> list[Any]:
        """Each value, what all examples share as it is below."""
        return [type(v)(self.lower_shared(v)) if v.__class__ is tuple or v.__class__ is list
                else v if self.holds(v) else self.lower(v) for v in values]

    def lower(self, x: Any) -> Any:
        """What lies below: all examples, batch axis first, or `x` itself if it is no example's."""
        if isinstance(x, Tensor):
            window: Any = x._array
            if window.__class__ is BatchedWindow and window.batch is self:
                return window.below
        return x

    def expand(self, x: Tensor) -> Tensor:
        """All examples, batch axis first, also of a tensor that they share."""
        below: Tensor = self.lower(x)
        return below if self.holds(x) else below.expand(self.size, *below._array.shape)

    def view(self, x: Tensor, *between: int) -> Tensor:
        """All examples, with axes of length one between the batch's axis and their own."""
        below: Tensor = self.lower(x)
        return below.reshape(below._array.shape[0], *between, *below._array.shape[1:])

    def plain(self, x: Any) -> Any:
        """The tensor without its history inside of the vmap, for rules made of operators."""
        return self.wrap(self.lower(x)) if self.holds(x) else self.lower(x)

    def wrap(self, below: Tensor, is_shared: bool = False) -> Tensor:
        """A tensor of one example; `below` has them all."""
        result = _new(Tensor)
        window: Any = BatchedWindow(self, below, is_shared)
        result._array = window
        result._requires_grad = result._tracked = False
        result._node = result._grad = result._counter = result._base = None
        result._stamp = creation.stamp
        return result

    def share(self, x: Tensor) -> Tensor:
        """The tensor, the same for all examples, with a history of its own inside of the vmap."""
        result = self.wrap(x, is_shared=True)
        result._counter = x._alias()._counter  # a write to one is a write to both
        return result


def elements(x: Tensor) -> np.ndarray:
    """The array of a tensor, for an example that of all examples: for decisions on all at once."""
    window: Any = x._array
    while window.__class__ is BatchedWindow:
        window = window.below._array
    array: np.ndarray = window
    return array


def innermost_batch(values: Any) -> Batch | None:
    """The innermost batch that has an example among the values, or in a sequence among them."""
    best: Batch | None = None
    for value in values:  # every operator in a vmap asks, so this walk calls no function for a leaf
        if isinstance(value, Tensor):
            window: Any = _read_window(value)
            if window.__class__ is not BatchedWindow:
                continue
            batch = window.batch
        elif value.__class__ is tuple or value.__class__ is list:
            batch = innermost_batch(value)
            if batch is None:
                continue
        else:
            continue
        if best is None or batch.number > best.number:
            best = batch
    return best
