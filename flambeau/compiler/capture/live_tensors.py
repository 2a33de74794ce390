"""Live tensors: all tensors that exist in the process when a recording starts."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from ...nn.parameter import UninitializedTensorMixin
from ...tensor.sparse import SparseTensor
from ...tensor.tensor import Tensor

_WITHOUT_MEMORY = (UninitializedTensorMixin, SparseTensor)


class _Frozen:
    """Tensors that `gc.freeze()` hides from the collector and so from a scan, held weakly.

    Servers freeze what they loaded before they fork. A scan that misses the sentinel tells that
    somebody froze all that existed then.
    """

    def __init__(self) -> None:
        self.tensors: list[weakref.ref[Any]] = []
        self.sentinel: list[_Frozen] = []
        if not gc.get_freeze_count():
            self.start_watching()

    def start_watching(self) -> None:
        """Create a new object that scans find through its reference to this one."""
        self.sentinel = [self]

    def live(self) -> list[Any]:
        """The tensors that still exist."""
        return [tensor for tensor in (ref() for ref in self.tensors) if tensor is not None]


_FROZEN = _Frozen()


def live_tensors() -> list[Any]:
    """All tensors with memory, found through references to their classes.

    A list of all objects of the process would also hold tuples that other threads are still
    filling, which is a SystemError there. Takes 30 ns for each object that the garbage collector
    tracks and that is not frozen.
    """
    kinds = {cls for cls in _classes(Tensor) if not issubclass(cls, _WITHOUT_MEMORY)}
    referrers = gc.get_referrers(*kinds, _FROZEN)
    if any(o is _FROZEN.sentinel for o in referrers):
        tensors, frozen = _select(kinds, referrers), _FROZEN.live()
        return list({id(t): t for t in (*tensors, *frozen)}.values()) if frozen else tensors
    gc.unfreeze()
    tensors = _select(kinds, gc.get_referrers(*kinds))
    gc.freeze()
    _FROZEN.tensors = [weakref.ref(tensor) for tensor in tensors]
    _FROZEN.start_watching()
    return tensors


def _select(kinds: set[type], objects: list[Any]) -> list[Any]:
    """The tensors among objects. Nested ones are left out: they have no state of their own, and
    their values are tensors that are there themselves."""
    return [o for o in objects if type(o) in kinds and hasattr(o, "_array")
            and hasattr(o, "_requires_grad")]


def _classes(base: type) -> set[type]:
    """A class and all its subclasses, as a set: faster than issubclass."""
    return {base}.union(*map(_classes, type.__subclasses__(base)))
