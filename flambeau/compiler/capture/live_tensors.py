"""Live tensors: all tensors that exist in the process when a recording starts."""

from __future__ import annotations

import gc
from typing import Any

from ...native.foundation.own_reference import OwnReference
from ...nn.parameter import UninitializedTensorMixin
from ...tensor.sparse import SparseTensor
from ...tensor.tensor import Tensor

_WITHOUT_MEMORY = (UninitializedTensorMixin, SparseTensor)


class _Frozen:
    """Weak references to tensors that `gc.freeze()` hides from the collector, and so from scans.

    Servers freeze loaded objects before they fork. If a scan misses the sentinel, a freeze has
    happened since.
    """

    def __init__(self) -> None:
        self.tensors: list[OwnReference] = []
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


def find_live_tensors() -> list[Any]:
    """Return all tensors with memory, found as referrers of their classes.

    A list of all objects would include tuples that other threads are still filling, which raises
    SystemError. Takes 30 ns per unfrozen object that the garbage collector tracks.
    """
    kinds = {cls for cls in _list_classes(Tensor) if not issubclass(cls, _WITHOUT_MEMORY)}
    referrers = gc.get_referrers(*kinds, _FROZEN)
    if any(o is _FROZEN.sentinel for o in referrers):
        tensors, frozen = _select(kinds, referrers), _FROZEN.live()
        return list({id(t): t for t in (*tensors, *frozen)}.values()) if frozen else tensors
    gc.unfreeze()
    gc.collect()  # frozen, the cycles of earlier recordings would hold their tensors for good
    tensors = _select(kinds, gc.get_referrers(*kinds))
    gc.freeze()
    _FROZEN.tensors = [*map(OwnReference, tensors)]
    _FROZEN.start_watching()
    return tensors


def _select(kinds: set[type], objects: list[Any]) -> list[Any]:
    """Select the tensors with memory of their own. Nested ones have none, nor strides: the tensors
    that hold their values are listed themselves. A tensor without its last slot is unfinished: an
    interrupt struck while it was created, or another thread is creating it."""
    return [o for o in objects if type(o) in kinds and hasattr(o, "_array")
            and hasattr(o._array, "strides") and hasattr(o, "_stamp")]


def _list_classes(base: type) -> set[type]:
    """Return a class and all its subclasses; set lookup is faster than issubclass."""
    return {base}.union(*map(_list_classes, type.__subclasses__(base)))
