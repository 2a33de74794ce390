"""Live tensors: all that exist in the process, as a recorded call meets them."""

from __future__ import annotations

import gc
from typing import Any

from ...nn.parameter import UninitializedTensorMixin
from ...tensor.sparse import SparseTensor
from ...tensor.tensor import Tensor

_WITHOUT_MEMORY = (UninitializedTensorMixin, SparseTensor)


def live_tensors() -> list[Any]:
    """All tensors with memory: not those that are under construction. Each refers to its class.

    A list of all objects would also hold tuples that other threads are about to fill, which would
    be a SystemError there.
    """
    kinds = {cls for cls in _classes(Tensor) if not issubclass(cls, _WITHOUT_MEMORY)}
    return [o for o in gc.get_referrers(*kinds) if type(o) in kinds and hasattr(o, "_array")]


def _classes(base: type) -> set[type]:
    """A class and all that are made of it: looked up faster than issubclass answers."""
    return {base}.union(*map(_classes, type.__subclasses__(base)))
