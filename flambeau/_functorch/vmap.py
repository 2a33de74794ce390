"""torch._functorch.vmap: torch.func.vmap, and parts of it that libraries import."""

import sys
from types import ModuleType
from typing import Any

from ..func import vmap
from ..func.functorch_bindings import _add_batch_dim, _remove_batch_dim
from ..func.vmap import (
    PARTS,
    _create_batched_inputs,
    _process_batched_inputs,
    _unwrap_batched,
)
from ..tensor import Tensor
from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten
from .apis import chunk_vmap

__all__ = ["chunk_vmap", "vmap"]
_PARTS = (_add_batch_dim, _broadcast_to_and_flatten, Tensor, tree_flatten, tree_unflatten)
_REPLACEABLE = {"_process_batched_inputs": "process", "_create_batched_inputs": "create",
                "_unwrap_batched": "unwrap"}
_DEFAULTS = (_process_batched_inputs, _create_batched_inputs, _unwrap_batched)


class _Module(ModuleType):
    """The module: vmap calls the functions that are assigned to it in place of its own."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _REPLACEABLE:
            setattr(PARTS, _REPLACEABLE[name], value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Module


def _get_name(func: Any) -> str:
    return getattr(func, "__name__", repr(func))


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """Return all examples of a result; a result that is no tensor passes if `out_dim` is None."""
    if out_dim is None:
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type "
                         f"{type(batched_output)}. Did you mean to set out_dims= to None for "
                         "output?")
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)
