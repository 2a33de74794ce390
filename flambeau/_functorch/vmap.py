"""torch._functorch.vmap: torch.func.vmap, and parts of it that libraries import."""

import sys
from types import ModuleType
from typing import Any

from ..func import vmap
from ..func.functorch_bindings import _add_batch_dim as _add_batch_dim
from ..func.functorch_bindings import _remove_batch_dim
from ..func.vmap import PARTS
from ..func.vmap import _create_batched_inputs as _create_batched_inputs
from ..func.vmap import _process_batched_inputs as _process_batched_inputs
from ..func.vmap import _unwrap_batched as _unwrap_batched
from ..tensor import Tensor
from ..utils._pytree import _broadcast_to_and_flatten as _broadcast_to_and_flatten
from ..utils._pytree import tree_flatten as tree_flatten
from ..utils._pytree import tree_unflatten as tree_unflatten
from .apis import chunk_vmap

__all__ = ["chunk_vmap", "vmap"]

# The parts of vmap that an assignment to this module replaces.
_REPLACEABLE = {"_process_batched_inputs": "process", "_create_batched_inputs": "create",
                "_unwrap_batched": "unwrap"}


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
