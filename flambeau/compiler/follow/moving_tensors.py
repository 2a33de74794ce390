"""Tensors that calls of a followed function give other memory (`ema.data = 0.9 * ema.data + ...`).

A segment takes the memory of a parameter for the same in every call; theirs is an input, like that
of a batch.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

from ...tensor.tensor import Tensor


class MovingTensors:
    """A set of tensors that does not keep them alive."""

    def __init__(self) -> None:
        self.references: dict[int, weakref.ref[Tensor]] = {}

    def add(self, tensor: Tensor) -> None:
        """Add a tensor."""
        key = id(tensor)
        if key not in self.references:
            references = self.references
            references[key] = weakref.ref(tensor, lambda _: references.pop(key, None))

    def iterate(self) -> Iterator[Tensor]:
        """Iterate over those that are alive."""
        for reference in list(self.references.values()):
            tensor = reference()
            if tensor is not None:
                yield tensor
