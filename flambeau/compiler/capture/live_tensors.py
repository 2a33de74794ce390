"""Live tensors: all tensors that exist in the process when a recording starts."""

from __future__ import annotations

import gc
from typing import Any

from ...nn.parameter import UninitializedTensorMixin
from ...tensor.sparse import SparseTensor
from ...tensor.tensor import Tensor

_WITHOUT_MEMORY = (UninitializedTensorMixin, SparseTensor)


def live_tensors() -> list[Any]:
    """All tensors with memory, found through references to their classes.

    A list of all objects of the process would also hold tuples that other threads are still
    filling, which is a SystemError there.
    """
    kinds = {cls for cls in _classes(Tensor) if not issubclass(cls, _WITHOUT_MEMORY)}
    return [o for o in gc.get_referrers(*kinds) if type(o) in kinds and hasattr(o, "_array")]


def _classes(base: type) -> set[type]:
    """A class and all its subclasses, as a set: faster than issubclass."""
    return {base}.union(*map(_classes, type.__subclasses__(base)))
