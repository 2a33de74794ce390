"""torch._C._functorch: batched tensors and the levels of running vmaps, for libraries (tensordict)
that add and remove batch axes themselves.

The batch axis of a batched tensor is always its first one, and levels count from 1.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ..ops.interception.batching import STATE, batch_of
from ..tensor import Tensor
from ..tensor.absent import Lacking
from ..tensor.windows.batch import Batch
from ..tensor.windows.batched_window import is_example
from .vmap import _DRAWN, wrap_example

_entered: list[AbstractContextManager[Batch]] = []  # by `_vmap_increment_nesting`


def _vmap_increment_nesting(batch_size: int, randomness: str) -> int:
    """Start a vmap over `batch_size` examples; return its level."""
    context = batch_of(batch_size, randomness, _DRAWN)
    context.__enter__()
    _entered.append(context)
    return len(STATE.batches)


def _vmap_decrement_nesting() -> int:
    """End the vmap that was started last; return its level."""
    level = len(STATE.batches)
    _entered.pop().__exit__(None, None, None)
    return level


def _add_batch_dim(tensor: Tensor, in_dim: int, level: int) -> Tensor:
    """Return one example of a tensor whose axis `in_dim` counts the examples of a level."""
    return wrap_example(STATE.batches[level - 1], tensor, in_dim)


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """Return all examples of a level, their axis at `out_dim`."""
    return STATE.batches[level - 1].expand(tensor).movedim(0, out_dim)


def is_batchedtensor(tensor: Any) -> bool:
    """Return whether a tensor stands for one example of a running vmap."""
    return isinstance(tensor, Tensor) and is_example(tensor._array)


def maybe_get_bdim(tensor: Tensor) -> int:
    """Return the axis of the examples, -1 for a tensor without one."""
    return 0 if is_batchedtensor(tensor) else -1


def maybe_get_level(tensor: Tensor) -> int:
    """Return the level of a batched tensor, -1 for another tensor."""
    window: Any = tensor._array
    return STATE.batches.index(window.batch) + 1 if is_example(window) else -1


def get_unwrapped(tensor: Tensor) -> Tensor:
    """Return the tensor that holds all examples of a batched one."""
    window: Any = tensor._array
    if not is_example(window):
        raise RuntimeError("No wrappers present!")
    below: Tensor = window.below
    return below


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Lacking(f"torch._C._functorch.{name}")
