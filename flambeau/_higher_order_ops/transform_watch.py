"""TransformWatch: refuses what a transform computes unseen by a trace.

Below vmap and forward mode private operators run, whose calls a trace does not record. What they
compute would be taken for a constant of the program.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from ..autograd.mode import TRANSFORM_OBSERVERS
from ..tensor.tensor import Tensor

__all__ = ["TransformWatch"]


class TransformWatch:
    """Holds the tensors that exist when the first transform of a trace begins."""

    def __init__(self) -> None:
        self.older: dict[int, Tensor] | None = None  # by id; None before the first transform

    @contextmanager
    def active(self) -> Iterator[None]:
        """Watch for transforms in this context."""
        TRANSFORM_OBSERVERS.append(self.note_transform)
        try:
            yield
        finally:
            TRANSFORM_OBSERVERS.remove(self.note_transform)

    def note_transform(self) -> None:
        """Hold all tensors, at the first transform. Costs some 20 ms: it looks at all objects."""
        if self.older is None:
            self.older = {id(x): x for x in gc.get_objects() if issubclass(type(x), Tensor)}

    def refuse_newer(self, value: Tensor) -> None:
        """Raise NotImplementedError for a tensor that the trace does not know and that came later:
        an operator computed it that the trace did not see."""
        if self.older is not None and id(value) not in self.older:
            raise NotImplementedError("a graph of what an operator without a public name computes "
                                      "within a transform (vmap, grad, jvp, jacrev)")
